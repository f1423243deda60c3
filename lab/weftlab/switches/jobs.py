"""A fabric of switches as jobs of the lab's supervisor: namespaces, database, vswitchd, then bridges and cables."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from weftlab import checks
from weftlab.layout import Layout
from weftlab.service import Job, Service, Step
from weftlab.switches.labsite import lab_ovs, ports_of, switches_folder
from weftlab.switches.openvswitch import SWITCHES, Ovs
from weftlab.switches.plan import FabricPlan
from weftlab.switches.probejob import probe_jobs
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


def switch_jobs(ovs: Ovs, plan: FabricPlan, logs: Path, more: tuple[str, ...] = ()) -> tuple[Job, ...]:
    """`ovs_jobs`, then `wiring`. Args: more: namespaces beside those of the hosts."""
    return (
        *ovs_jobs(ovs, [*(h.name for h in plan.hosts), *more], logs),
        Step("wiring", run=lambda: wire(ovs, plan), done=lambda: is_wired(ovs, plan), after=("vswitchd",)),
    )


def ovs_jobs(ovs: Ovs, spaces: Sequence[str], logs: Path) -> tuple[Job, ...]:
    """`switch-files`, `namespaces`, `ovsdb`, `vswitchd`; they need root.

    Everything ends with its process: nothing is left in the kernel after `Supervisor.stop`, also after a crash.

    Args:
        spaces: names of network namespaces beside that of the switches.
    """
    names = [SWITCHES, *spaces]
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
    )


def lab_switch_jobs(
    layout: Layout, plan: FabricPlan, cloud: bool, more: tuple[str, ...] = (), probes: bool = False
) -> tuple[Job, ...]:
    """`switch_jobs`, then the switches' management interfaces (`switches`), and with a cloud the servers' `nics`.

    Args:
        probes: with an agent that sends frames from the adapters.
    """
    folder, ports = switches_folder(layout), ports_of(layout, plan)
    arguments = (str(layout.state), str(layout.cache), str(layout.ports))
    jobs: list[Job] = [
        *switch_jobs(lab_ovs(layout), plan, layout.log("switches").parent, more),
        Service(
            name="switches",
            argv=(sys.executable, "-m", "weftlab.switches", *arguments),
            log=layout.log("switches"),
            cwd=layout.work / "switches",
            ready=checks.all_of(
                [
                    checks.file_is_there(folder / "switches.json", "their credentials aren't there yet"),
                    *(checks.answers_tcp("127.0.0.1", port) for port in ports.values()),
                ]
            ),
            after=("wiring",),
        ),
    ]
    if probes:
        jobs += probe_jobs(layout, lab_ovs(layout), plan)
    if cloud:
        jobs.append(
            Service(
                name="nics",
                argv=(sys.executable, "-m", "weftlab.switches.nics", *arguments),
                env={"OS_CLIENT_CONFIG_FILE": str(layout.clouds_yaml), "OS_CLOUD": "operator"},
                log=layout.log("nics"),
                cwd=layout.work / "nics",
                after=("wiring", "keystone", "neutron"),
            )
        )
    return tuple(jobs)


def _initialise(ovs: Ovs) -> None:
    ovs.vsctl("--no-wait", "init")


def _held(ovs: Ovs, names: list[str]) -> str | None:
    try:
        listed = json.loads(ovs.spaces.read_text())
    except (OSError, ValueError):
        return "its namespaces aren't there yet"
    # After a crash the file may be an older holder's.
    return (
        None
        if set(listed) == set(names) and all(Path(p).exists() for p in listed.values())
        else "not all are there"
    )
