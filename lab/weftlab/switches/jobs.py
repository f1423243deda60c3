"""A fabric of switches as jobs of the lab's supervisor: namespaces, database, vswitchd, then bridges and cables."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from weftlab.service import Job, Service, Step
from weftlab.switches.openvswitch import SWITCHES, Ovs
from weftlab.switches.plan import FabricPlan
from weftlab.switches.wiring import is_wired, wire

PACKAGES = {
    "ovs-vswitchd": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
    "ip": "iproute2",
}
"""Program -> Debian package, for `weftlab.environment.install_packages`."""


def switch_jobs(ovs: Ovs, plan: FabricPlan, logs: Path) -> tuple[Job, ...]:
    """`switch-files`, `namespaces`, `ovsdb`, `vswitchd`, `wiring`; they need root.

    Everything ends with its process: nothing is left in the kernel after `Supervisor.stop`, also after a crash.
    """
    names = [SWITCHES, *(h.name for h in plan.hosts)]
    return (
        Step("switch-files", run=ovs.make),
        Service(
            name="namespaces",
            argv=(sys.executable, "-m", "weftlab.switches.holder", str(ovs.spaces), *names),
            log=logs / "namespaces.log",
            cwd=ovs.folder,
            env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            ready=lambda: _held(ovs, names),
            after=("switch-files",),
            last=True,
        ),
        Service(
            name="ovsdb",
            argv=ovs.server(),
            log=logs / "ovsdb.log",
            cwd=ovs.folder,
            env=ovs.environment,
            ready=lambda: None if ovs.socket.exists() else "its socket isn't there yet",
            after=("switch-files",),
            last=True,
        ),
        Step("ovs-init", run=lambda: _initialise(ovs), after=("ovsdb",)),
        Service(
            name="vswitchd",
            argv=ovs.switch(),
            log=logs / "vswitchd.log",
            cwd=ovs.folder,
            env=ovs.environment,
            ready=ovs.why_not,
            after=("ovs-init", "namespaces"),
        ),
        Step("wiring", run=lambda: wire(ovs, plan), done=lambda: is_wired(ovs, plan), after=("vswitchd",)),
    )


def _initialise(ovs: Ovs) -> None:
    ovs.vsctl("--no-wait", "init")


def _held(ovs: Ovs, names: list[str]) -> str | None:
    try:
        told = json.loads(ovs.spaces.read_text())
    except (OSError, ValueError):
        return "its namespaces aren't there yet"
    # After a crash the file may be an older holder's.
    return (
        None
        if set(told) == set(names) and all(Path(p).exists() for p in told.values())
        else "not all are there"
    )
