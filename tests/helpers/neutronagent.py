"""A real Neutron agent beside a lab, with an interface driver of the tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Mapping
from pathlib import Path
from typing import Any

from weftlab.environment import environment_path
from weftlab.lab import Lab

SPACES = Path("/run/netns")
Options = Mapping[str, Mapping[str, object]]


@contextlib.contextmanager
def neutron_agent(
    lab: Lab,
    program: str,
    host: str,
    plug: str,
    options: Options,
    mine: Callable[[], Collection[str]],
    **env: str,
) -> Generator[None]:
    """Runs an agent for the block; agent, children and namespaces are removed at the end.

    Args:
        host: the name that it reports.
        plug: source of a module with a class `Plug`, its interface driver.
        options: added to the lab's neutron.conf.
        mine: names of the namespaces that it may have created.
    """
    before = set(SPACES.glob("*"))
    with tempfile.TemporaryDirectory(prefix="weft-agent-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # dnsmasq reads its files again as the user nobody
        process = _begun(lab, folder, program, host, plug, options, env)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Other labs on this machine may have created namespaces meanwhile.
            _remove({SPACES / name for name in mine()} & set(SPACES.glob("*")) - before)


def agent_at(cloud: Any, host: str) -> Any:
    """Neutron's record of the agent once that is alive; None before."""
    return next((a for a in cloud.network.agents(host=host) if a.is_alive), None)


def _begun(
    lab: Lab, folder: Path, program: str, host: str, plug: str, options: Options, more: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    env = environment_path(lab.layout.cache)
    (folder / "weft_plug.py").write_text(plug)
    known: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "interface_driver": "weft_plug.Plug",
            "host": host,
            "state_path": folder,
            "use_stderr": False,
        },
        "AGENT": {"root_helper": "env", "report_interval": 5},
        "oslo_concurrency": {"lock_path": folder / "locks"},
    }
    for section, rows in options.items():
        known[section] = {**known.get(section, {}), **rows}
    lines = [f"[{s}]\n" + "\n".join(f"{k} = {v}" for k, v in rows.items()) for s, rows in known.items()]
    (folder / "agent.ini").write_text("\n".join(lines) + "\n")
    argv = [str(env / "bin" / program)]
    argv += ["--config-file", str(lab.layout.etc / "neutron" / "neutron.conf")]
    argv += ["--config-file", str(folder / "agent.ini"), "--log-file", str(lab.layout.log(program))]
    paths = {"PATH": f"{env / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin", "PYTHONPATH": str(folder)}
    with (folder / "out").open("wb") as out:
        return subprocess.Popen(
            argv,
            env={**os.environ, **paths, **more},
            cwd=folder,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def _remove(spaces: Collection[Path]) -> None:
    for space in spaces:
        pids = subprocess.run(
            ["ip", "netns", "pids", space.name], capture_output=True, text=True, check=False
        )
        for pid in pids.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(20):
            if subprocess.run(["ip", "netns", "delete", space.name], check=False).returncode == 0:
                break
            time.sleep(0.1)
