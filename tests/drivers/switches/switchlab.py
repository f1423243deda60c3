"""Switches by Open vSwitch in a folder of their own, for tests."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

from weftlab.processes import leader
from weftlab.supervisor import Supervisor
from weftlab.switches import FabricPlan, Ovs, switch_jobs
from weftlab.switches.bridge import Bridge, Vlans
from weftlab.switches.hosts import Hosts
from weftlab.switches.plan import End


class SwitchLab:
    """The constructor starts it, and raises if Open vSwitch can't be started."""

    def __init__(self, plan: FabricPlan) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weft-sw-")
        state = Path(self._folder.name)
        self.plan, self.ovs = plan, Ovs(state / "ovs")
        self.supervisor = Supervisor(state / "run")
        self.jobs = switch_jobs(self.ovs, plan, state / "log")
        self.hosts = Hosts(self.ovs, plan)
        try:
            self.supervisor.run(self.jobs)
        except BaseException:
            self.close()
            raise
        self.bridges = {s.name: Bridge(self.ovs, s, self._cabled(s.name)) for s in plan.switches}

    def _cabled(self, switch: str) -> frozenset[int]:
        return frozenset(e.number for e in self.plan.ends() if e.switch == switch)

    def kill(self, name: str) -> None:
        """Kill a service and wait until it is gone."""
        record = self.supervisor.record(name)
        process = leader(record) if record else None
        assert record is not None and process is not None
        os.kill(process.pid, signal.SIGKILL)
        while leader(record) is not None:
            time.sleep(0.01)

    def close(self) -> None:
        self.supervisor.stop()
        self._folder.cleanup()

    def clear(self) -> None:
        """Put every port in no VLAN and plug in every cable."""
        for bridge in self.bridges.values():
            bridge.forget()
            bridge.apply({n: Vlans() for n in self._cabled(bridge.plan.name)})

    def put(self, host: str, vlan: int | None) -> None:
        """Make it an access port, or (None) a port in no VLAN."""
        for end in self.hosts.by_name[host].ends:
            self.bridges[end.switch].apply({end.number: Vlans(vlan)})

    def carry(self, vlans: set[int]) -> None:
        """Let every cable between switches carry these VLANs."""
        for cable in self.plan.cables:
            for end in (cable.a, cable.b):
                self.bridges[end.switch].apply({end.number: Vlans(None, frozenset(vlans))})

    def port(self, host: str) -> End:
        return self.hosts.by_name[host].ends[0]
