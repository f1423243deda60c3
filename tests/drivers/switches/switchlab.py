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
    """Started by its constructor, which raises where Open vSwitch can't be started."""

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
        """End a service as a crash does; when this returns it is gone, and not just about to go."""
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
        """Every port in no VLAN, every cable in."""
        for bridge in self.bridges.values():
            bridge.forget()
            bridge.apply({n: Vlans() for n in self._cabled(bridge.plan.name)})

    def put(self, host: str, vlan: int | None) -> None:
        """An access port, or (None) a port in no VLAN."""
        for end in self.hosts.by_name[host].ends:
            self.bridges[end.switch].apply({end.number: Vlans(vlan)})

    def carry(self, vlans: set[int]) -> None:
        """Every cable between switches carries so many."""
        for cable in self.plan.cables:
            for end in (cable.a, cable.b):
                self.bridges[end.switch].apply({end.number: Vlans(None, frozenset(vlans))})

    def port(self, host: str) -> End:
        return self.hosts.by_name[host].ends[0]
