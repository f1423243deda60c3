"""`weft probe-agent` in a lab: one agent for all adapters, each of which is an interface in a namespace of its own."""

from __future__ import annotations

import sys

import yaml

from weftlab import checks
from weftlab.layout import Layout
from weftlab.service import Job, Service, Step
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import FabricPlan

PROBE = "probe"
"""Name of the agent that sends frames from adapters."""


def probe_jobs(layout: Layout, ovs: Ovs, plan: FabricPlan) -> tuple[Job, ...]:
    """`probe-files`, `probe`; certificates are the switches'."""
    folder = layout.data / "switches"
    file, port = folder / "probe.yaml", layout.port(PROBE)

    def write() -> None:
        names = {h.name: "/".join(h.name.rsplit("-", 1)) for h in plan.hosts if "-mlx5_" in h.name}
        settings = {
            "name": PROBE,
            "listen": {"host": "127.0.0.1", "port": port},
            "tls": {"ca": "ca.pem", "certificate": f"agent-{PROBE}.pem", "key": f"agent-{PROBE}.key"},
            "adapters": {
                adapter: {"interface": "eth0", "namespace": ovs.space(space)}
                for space, adapter in names.items()
            },
        }
        file.write_text(yaml.safe_dump(settings))

    return (
        Step("probe-files", run=write, after=("wiring", "switches")),
        Service(
            name="probe",
            argv=(sys.executable, "-m", "weft.probeagent", "--config", str(file)),
            log=layout.log("probe"),
            cwd=layout.work / "probe",
            ready=checks.answers_tcp("127.0.0.1", port),
            after=("probe-files",),
        ),
    )
