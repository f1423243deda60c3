"""A nova-compute with Nova's ironic driver beside the lab's, for machines of another Ironic and another Neutron."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.drivers.openstack.real_ironic import RealIronic
from tests.e2e.people import wait_for
from weft.model.site import Site
from weftlab import config, environment
from weftlab.bootstrap import connect
from weftlab.lab import Lab
from weftlab.metal import config as metal
from weftlab.metal import enroll
from weftlab.metal.machines import FLAVOR

HOST = "machines-of-a-test"
QUIET = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true", "PYTHONWARNINGS": "ignore"}


def _configured(lab: Lab, neutron: str, ironic: RealIronic, folder: Path) -> list[str]:
    """Arguments of a nova-compute, whose configuration is the lab's but for what is another's here."""
    sections = metal.compute(lab.layout)
    own = {"host": HOST, "state_path": folder, "instances_path": folder / "instances"}
    sections["DEFAULT"] |= {**own, "log_dir": folder, "log_file": "nova-compute.log"}
    sections["oslo_concurrency"] = {"lock_path": folder / "lock"}
    sections["ironic"] |= {"endpoint_override": ironic.url}
    sections["neutron"] = {"endpoint_override": neutron.removesuffix("/v2.0")}
    for name in ("instances", "lock"):
        (folder / name).mkdir()
    file = folder / "machines.conf"
    file.write_text(config.render(sections))
    etc = lab.layout.etc / "nova"
    return ["--config-file", str(etc / "nova-compute.conf"), "--config-file", str(file)]


@contextmanager
def nova_with_machines(lab: Lab, neutron: str, ironic: RealIronic, folder: Path) -> Generator[None]:
    """While it lasts, Nova has these machines, once they are enrolled, and a flavor of them."""
    programs = environment.environment_path(lab.layout.cache) / "bin"
    argv = [str(programs / "nova-compute"), *_configured(lab, neutron, ironic, folder)]
    compute: Any = connect(lab.layout).compute
    enroll.flavor(lab.layout)
    with (folder / "out").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, **QUIET}, stdout=log, stderr=log, cwd=folder)
    try:
        wait_for(lambda: process.poll() is not None or any(_services(compute)), 180)
        assert process.poll() is None, (folder / "out").read_text()[-3000:]
        nova = ["--config-file", str(lab.layout.etc / "nova" / "nova.conf")]
        command = [str(programs / "nova-manage"), *nova, "cell_v2", "discover_hosts", "--by-service"]
        subprocess.run(command, env={**os.environ, **QUIET}, check=True, capture_output=True, timeout=300)
        yield
    finally:
        process.terminate()
        process.wait(60)
        for service in _services(compute):
            compute.delete_service(service)  # and what Placement has of its machines
        compute.delete_flavor(compute.find_flavor(FLAVOR))


def _services(compute: Any) -> list[Any]:
    return [s for s in compute.services() if s.host == HOST]


def offered(lab: Lab, site: Site) -> None:
    """Wait until Placement offers the machines: before that no order finds a valid host."""
    check = enroll.offered(lab.layout, site)
    wait_for(lambda: check() is None, 180)
