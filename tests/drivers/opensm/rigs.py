"""One interface to the fake fabric and the real one, so that the same tests run on both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.helpers.waiting import wait_for
from weft.drivers.opensm import OpenSmDriver
from weft.model.errors import UnknownError
from weft.model.fabric import ManagerState
from weft.model.ids import parse_guid
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger, SegmentLedger
from weft.ports.resources import Scope
from weft.testing.fabric import FakeFabric, segment
from weftlab.fabric import Faults, fabric_jobs
from weftlab.layout import Layout, free_ports
from weftlab.site import FABRIC, make_site, settings
from weftlab.supervisor import Supervisor

FOREIGN = "# the operator's own\nStorage=0x2001, ipoib : 0x{0:016x}=full, 0x{1:016x}=limited ;\n"


class Rig(Protocol):
    """A fabric with its driver, and external changes to it."""

    site: Site
    driver: OpenSmDriver

    def text(self, agent: str) -> str | None: ...

    def edit(self, agent: str, text: str | None) -> None: ...

    def hup(self, agent: str) -> None: ...

    def cut(self, guid: int) -> None: ...

    def repair(self, guid: int) -> None: ...

    def write_key(self, guid: int, index: int, key: int, leaf: bool = False) -> None: ...

    def stop(self, name: str) -> None: ...

    def start(self, name: str) -> None: ...

    def switch_off(self, guid: int) -> None: ...

    def another_driver(
        self, ledger: SegmentLedger | None = None, site: Site | None = None
    ) -> OpenSmDriver: ...


def scope(pod: int = 1) -> Scope:
    return Scope("lab", Owner.pod(f"{pod:08x}-0000-4000-8000-000000000001"), f"pod{pod}", "project-a")


def partition(pkey: int, members: Sequence[int], key: str = "partition") -> Resource:
    return Resource(
        key=key,
        name=f"weft-{key}",
        where=FABRIC,
        spec=segment(pkey, members),
    )


def parsed(resource: Resource) -> set[int]:
    """Port GUIDs of the partition's members."""
    assert isinstance(resource.spec, SegmentSpec)
    return {parse_guid(port) for port in resource.spec.ports}


def host_ports(site: Site) -> list[int]:
    """Port GUIDs of the nodes that pods get, in order."""
    return [h.port_guid for n in site.nodes if n.role == "compute" for h in n.hcas]


def seen(rig: Rig, resource: Resource, pod: int = 1) -> Observed | None:
    """The observed partition; None if it is proved absent."""
    found = rig.driver.find(scope(pod), [resource], {})[resource.key]
    return found if found.there else None


def until(what: str, check: Callable[[], object]) -> None:
    """Wait until the answer is true; unknown counts as not yet."""

    def known() -> bool:
        try:
            return bool(check())
        except UnknownError:
            return False

    wait_for(known, what, pause=0.05)


class FakeRig:
    """The shipped fake."""

    def __init__(self) -> None:
        layout = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
        self.site = make_site(settings(nodes=8, leaves=2, hcas=1), layout)
        self.driver: OpenSmDriver = FakeFabric(self.site, FABRIC)

    @property
    def _fake(self) -> FakeFabric:
        assert isinstance(self.driver, FakeFabric)
        return self.driver

    def text(self, agent: str) -> str | None:
        return self._fake.manager(agent).text

    def edit(self, agent: str, text: str | None) -> None:
        self._fake.manager(agent).text = text

    def hup(self, agent: str) -> None:
        self._fake.manager(agent).sweep()

    def cut(self, guid: int) -> None:
        self._fake.cut(guid)

    def repair(self, guid: int) -> None:
        self._fake.repair(guid)

    def write_key(self, guid: int, index: int, key: int, leaf: bool = False) -> None:
        self._fake.write_key(guid, key, leaf)

    def stop(self, name: str) -> None:
        what, _, agent = name.partition("-")
        if what == "opensm":
            self._fake.manager(agent).stop()
        else:
            self._fake.manager(agent).reachable = False

    def start(self, name: str) -> None:
        what, _, agent = name.partition("-")
        if what == "opensm":
            self._fake.manager(agent).start()
        else:
            self._fake.manager(agent).reachable = True

    def switch_off(self, guid: int) -> None:
        self._fake.switch_off(guid)

    def another_driver(self, ledger: SegmentLedger | None = None, site: Site | None = None) -> OpenSmDriver:
        return OpenSmDriver(site or self.site, FABRIC, ledger or NoLedger(), agents=self._fake.managers)


class RealRig:
    """Two OpenSMs over ibsim, with an agent beside each."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weft-fabric-")
        state = Path(self._folder.name)
        layout = Layout(state, state / "cache", free_ports())
        self.site = make_site(settings(nodes=8, leaves=2, hcas=1), layout)
        self._supervisor = Supervisor(layout.run)
        self._jobs = fabric_jobs(layout, self.site)
        self.faults = Faults(layout, self.site, self._supervisor)
        self.agents = [a.name for a in self.site.fabrics[FABRIC].manager.agents]
        try:
            self._supervisor.run(self._jobs)
        except BaseException:
            self.close()
            raise
        self._first = {a: self.text(a) for a in self.agents}
        self._ends = {h.port_guid: f"{n.name}/{h.name}" for n in self.site.nodes for h in n.hcas}
        self._cut: set[int] = set()
        self.driver = self.another_driver()

    def switch_off(self, guid: int) -> None:
        self.cut(guid)

    def another_driver(self, ledger: SegmentLedger | None = None, site: Site | None = None) -> OpenSmDriver:
        return OpenSmDriver(site or self.site, FABRIC, ledger or NoLedger())

    def close(self) -> None:
        self._supervisor.stop()
        self._folder.cleanup()

    def clean(self) -> None:
        """Start everything, plug in every cable, restore every file, and wait until the ports' tables show it."""
        try:
            self._clean()
        except AssertionError:
            # a manager whose datagram the simulator lost waits without end, which must not fail other tests
            self._supervisor.stop()
            self._clean()

    def _clean(self) -> None:
        self._supervisor.run(self._jobs)
        assert self._rules(self.agents[0]), "the standby took over, as happens on a busy machine"
        for guid in tuple(self._cut):
            self.repair(guid)
        for agent in self.agents:
            self.edit(agent, self._first[agent])
        self.driver = self.another_driver()
        until("one manager rules", lambda: self.driver.status().known)
        things = self.driver.marked("lab", [])
        self.driver.remove_marked(things)
        for agent in self.agents:
            self.hup(agent)
        until("the fabric is clean", self._is_clean)

    def _rules(self, agent: str) -> bool:
        """Whether this agent's manager is the master, which tests expect of the first."""
        until("one manager rules", lambda: self.another_driver().status().known)
        states = {m.name: m.state for m in self.another_driver().status().managers}
        return states[agent] is ManagerState.MASTER

    def _is_clean(self) -> bool:
        self.driver.remove_marked(self.driver.marked("lab", []))
        for agent in self.agents:
            if self.text(agent) != self._first[agent]:  # a heading is left after a removal
                self.edit(agent, self._first[agent])
                self.hup(agent)
        tables = self.driver.tables()
        hosts = [tables[g] for g in host_ports(self.site)]
        return all(t.keys == t.leaf_keys == {0x7FFF} for t in hosts)

    def text(self, agent: str) -> str | None:
        path = self.faults.partitions_file(agent)
        return path.read_bytes().decode("latin-1") if path.exists() else None

    def edit(self, agent: str, text: str | None) -> None:
        path = self.faults.partitions_file(agent)
        if text is None:
            path.unlink()
            return
        new = path.with_name("by-hand")
        new.write_bytes(text.encode("latin-1"))
        new.replace(path)

    def hup(self, agent: str) -> None:
        self.faults.hup(agent)

    def cut(self, guid: int) -> None:
        self._cut.add(guid)
        self.faults.unlink(self._ends[guid])
        until("the port is gone", lambda: self.driver.tables([guid])[guid].unreachable)

    def repair(self, guid: int) -> None:
        self._cut.discard(guid)
        self.faults.relink(self._ends[guid])
        until("the port is back", lambda: not self.another_driver().tables([guid])[guid].unreachable)

    def write_key(self, guid: int, index: int, key: int, leaf: bool = False) -> None:
        self.faults.write_key(guid, index, key, leaf)

    def stop(self, name: str) -> None:
        self.faults.stop(name)

    def start(self, name: str) -> None:
        self.faults.start(name)
