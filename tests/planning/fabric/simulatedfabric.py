"""The real `ibnetdiscover` on the real ibsim, for a fabric cabled as a site describes."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from pathlib import Path

from weft.model.site import Site
from weftlab.fabric.files import library, net_text


def discover(site: Site, folder: Path, fabric: str = "ib") -> str:
    """What `ibnetdiscover` prints on that fabric; ibsim is started for it and stopped again."""
    folder.mkdir(exist_ok=True)
    net = folder / "net"
    net.write_text(net_text(site, fabric))
    environment = os.environ | {"IBSIM_SOCKNAME": f"weft-test-{uuid.uuid4().hex[:12]}"}
    # its standard input stays open: at the end of the file ibsim would loop
    simulator = subprocess.Popen(
        ["ibsim", "-s", str(net)],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        return _ask(environment, folder, simulator)
    finally:
        simulator.kill()
        simulator.wait()


def _ask(environment: dict[str, str], folder: Path, simulator: subprocess.Popen[bytes]) -> str:
    client = environment | {"LD_PRELOAD": str(library()), "SIM_HOST": "sm1 mlx5_0"}
    deadline = time.monotonic() + 60
    # a client that starts before the socket is bound sleeps for seconds
    while environment["IBSIM_SOCKNAME"] not in Path("/proc/net/unix").read_text():
        assert simulator.poll() is None, "ibsim ended, so the net file is invalid"
        assert time.monotonic() < deadline, "ibsim opened no socket"
        time.sleep(0.02)
    answer = subprocess.run(
        ["ibnetdiscover"], cwd=folder, env=client, capture_output=True, text=True, timeout=60, check=True
    )
    return answer.stdout
