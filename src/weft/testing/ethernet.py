"""An Ethernet fabric in memory behind the fabric port: switches, ports by vendor names, VLANs, access and trunk.

    fabric = FakeEthernet(site, "eth0")
    fabric.switches["leaf01"].reachable = False                  # it can't be read: unknown, not fine
    fabric.put("leaf01/Ethernet9", 101)                          # a foreign hand puts a port into a VLAN
    fabric.switches["leaf01"].freeze()                           # a proxy goes on answering with what it was
    fabric.lose_answer = True                                    # the next change is made, its answer is lost

No word of it is OpenSM's: it shows that engine, app and doors know nothing of InfiniBand. A VLAN's name is weft's mark.
Ports between switches carry every VLAN and are nobody's members.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from weft.drivers.reading import SharedReading
from weft.model.errors import OutsideError, PermanentError, UnknownError, WeftError
from weft.model.fabric import (
    Capabilities,
    Check,
    Clean,
    FabricStatus,
    ManagerState,
    ManagerStatus,
    Membership,
    ObservedFabric,
    Snapshot,
    Told,
    Usage,
)
from weft.model.fabrictypes import Mode
from weft.model.mark import Mark
from weft.model.resources import AnyKind, Kind, Marked, Observed, Outcome, Resource, SegmentSpec
from weft.model.site import Site
from weft.ports.resources import Scope
from weft.testing.ethernet_evidence import EthernetSnapshot, check, clean, observe


@dataclass
class PortConfig:
    """What a switch has configured on one port."""

    access: int | None = None
    trunk: set[int] = field(default_factory=set[int])

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.trunk | ({self.access} if self.access is not None else set()))


@dataclass
class Config:
    """A switch's configuration. `revision` grows with every change."""

    vlans: dict[int, str]
    ports: dict[str, PortConfig]
    revision: int = 0


class FakeSwitch:
    """One switch."""

    def __init__(self, name: str, ports: Iterable[str]) -> None:
        self.name, self.reachable = name, True
        self.config = Config({}, {p: PortConfig() for p in ports})
        self._frozen: Config | None = None
        self.reads = 0

    def freeze(self) -> None:
        self._frozen = deepcopy(self.config)

    def thaw(self) -> None:
        self._frozen = None

    def read(self) -> Config:
        self.reads += 1
        if not self.reachable:
            raise UnknownError("read the configuration", f"switch {self.name}", "no answer")
        return deepcopy(self._frozen or self.config)

    def put(self, port: str, member: Membership | None, number: int) -> None:
        """`port` is in the VLAN as the membership says, and not at all without one."""
        config = self.config.ports[port]
        if config.access == number:
            config.access = None
        config.trunk.discard(number)
        if member is not None and member.mode is Mode.TRUNK:
            config.trunk.add(number)
        elif member is not None:
            config.access = number


class FakeEthernet:
    """`FabricDriver` of one fabric of a site. Thread-safe."""

    capabilities = Capabilities(
        virtual_functions=False, why_no_virtual_functions="the switches' driver puts whole ports into VLANs"
    )

    def __init__(self, site: Site, fabric: str) -> None:
        self._site, self._fabric = site, fabric
        self._range = site.fabrics[fabric].segments
        ports: dict[str, list[str]] = {s.name: [] for s in site.switches if s.fabric == fabric}
        for hca in (h for n in site.nodes for h in n.hcas_on(fabric)):
            switch, _, port = hca.port_id.partition("/")
            ports[switch].append(port)
        self.switches = {name: FakeSwitch(name, mine) for name, mine in ports.items()}
        self.lose_answer = False
        self._lock = threading.RLock()
        self._revisions: dict[str, int] = {}
        self._reading = SharedReading(self._read)

    def put(self, port: str, number: int | None, mode: Mode = Mode.ACCESS) -> None:
        """Another hand puts a port into a VLAN, or (None) out of all."""
        switch, _, name = port.partition("/")
        with self._lock:
            ports = self.switches[switch].config.ports
            ports[name] = PortConfig()
            if number is not None:
                self.switches[switch].put(name, Membership(port=port, mode=mode), number)

    # -- FabricDriver ------------------------------------------------------------------------------------------

    def status(self) -> FabricStatus:
        states = {True: ManagerState.MASTER, False: ManagerState.UNKNOWN}
        managers = (ManagerStatus(name=s.name, state=states[s.reachable]) for s in self.switches.values())
        return FabricStatus(fabric=self._fabric, managers=tuple(managers))

    def told(self) -> Told:
        return self.snapshot().told

    def usage(self) -> Usage:
        return Usage(self.told().numbers)

    def snapshot(self, max_age: float = 0.0) -> EthernetSnapshot:
        return self._reading.get(max_age)

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        assert isinstance(snapshot, EthernetSnapshot)
        return observe(mark, segment, snapshot)

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> Check:
        assert isinstance(snapshot, EthernetSnapshot)
        return check(segment, snapshot)

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        assert isinstance(snapshot, EthernetSnapshot)
        return clean(segment, snapshot)

    def topology(self) -> ObservedFabric:
        raise PermanentError("discover", f"fabric {self._fabric}", "its cables aren't read", "describe them")

    # -- ResourceDriver ----------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return frozenset({Kind.SEGMENT})

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        snapshot = self.snapshot()
        return {r.key: observe(scope.mark(r.key), _spec(r), snapshot) for r in wanted}

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        return {
            r.key: self._outcome(_spec(r), lambda r=r: self._put(scope.mark(r.key), _spec(r))) for r in wanted
        }

    update = create

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        return {
            r.key: self._outcome(_spec(r), lambda r=r: self._take(scope.mark(r.key).text(), _spec(r).number))
            for r in wanted
        }

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        snapshot = self.snapshot()
        names = {n: name for told in snapshot.told.read.values() for n, name in told.items()}
        found: list[Marked] = []
        for number in sorted(names.keys() | {n for n in snapshot.ports_in if n in self._range}):
            mark = Mark.parse(names.get(number, ""))
            if (mark is None and number in names) or (mark is not None and mark.site != site):
                continue  # somebody else's VLAN
            name, owner = (mark.name(), mark.owner) if mark else ("", None)
            facts = {"number": number}
            found.append(Marked(Kind.SEGMENT, self._fabric, str(number), name, owner, None, facts))
        return found

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for thing in things:
            number = int(thing.id)
            names = {s.config.vlans[number] for s in self.switches.values() if number in s.config.vlans}
            mine = all((m := Mark.parse(n)) and m.owner == thing.owner for n in names)
            if not mine:
                outcomes[thing.id] = Outcome(error=_taken(number, "it is somebody else's by now"))
                continue
            try:
                self._take(next(iter(names), ""), number)
                outcomes[thing.id] = Outcome(thing.id)
            except WeftError as error:
                outcomes[thing.id] = Outcome(error=error)
        return outcomes

    # -- inside ------------------------------------------------------------------------------------------------

    def _outcome(self, spec: SegmentSpec, change: object) -> Outcome:
        assert callable(change)
        try:
            change()
        except PermanentError as error:
            return Outcome(error=error)
        return Outcome(spec.text)

    def _put(self, mark: Mark, spec: SegmentSpec) -> None:
        if spec.number not in self._range:
            raise _taken(spec.number, f"outside of weft's range {self._range.first} to {self._range.last}")
        members = {m.port: m for m in spec.members}

        def edit(switch: FakeSwitch) -> None:
            switch.config.vlans[spec.number] = mark.text()
            for port in switch.config.ports:
                switch.put(port, members.get(f"{switch.name}/{port}"), spec.number)

        with self._lock:
            for switch in self.switches.values():
                other = switch.config.vlans.get(spec.number, mark.text())
                if other != mark.text():
                    whose = f"taken: {other}" if Mark.parse(other) else "defined by somebody else"
                    raise _taken(spec.number, whose)
            self._change(edit)

    def _take(self, mark: str, number: int) -> None:
        def edit(switch: FakeSwitch) -> None:
            if switch.config.vlans.get(number, mark) == mark:
                switch.config.vlans.pop(number, None)
                for port in switch.config.ports:
                    switch.put(port, None, number)

        self._change(edit)

    def _change(self, edit: object) -> None:
        """On every switch that answers; one that doesn't makes the outcome unknown."""
        assert callable(edit)
        try:
            with self._lock:
                for switch in self.switches.values():
                    if switch.reachable:
                        edit(switch)
                        switch.config.revision += 1
                        self._revisions[switch.name] = switch.config.revision
                silent = sorted(s.name for s in self.switches.values() if not s.reachable)
                if self.lose_answer:
                    self.lose_answer = False
                    raise UnknownError("change a VLAN", f"fabric {self._fabric}", "no answer")
        finally:
            self._reading.changed()
        if silent:
            raise UnknownError("change a VLAN", f"switches {', '.join(silent)}", "no answer")

    def _read(self, began: float) -> EthernetSnapshot:
        read: dict[str, Config] = {}
        unread: dict[str, str] = {}
        with self._lock:
            for switch in self.switches.values():
                try:
                    config = switch.read()
                    if config.revision < self._revisions.get(switch.name, 0):
                        asked, of = "read the configuration", f"switch {switch.name}"
                        raise UnknownError(asked, of, "it is older than weft's last change")
                    read[switch.name] = config
                except OutsideError as error:
                    unread[switch.name] = error.answer
        if not read:
            raise UnknownError("read the fabric", f"switches of {self._fabric}", "none of them answers")
        vlans = {name: config.vlans for name, config in read.items()}
        ports = {f"{s}/{p}": c for s, config in read.items() for p, c in config.ports.items()}
        numbers = {port: config.numbers for port, config in ports.items()}
        trunks = {port: frozenset(config.trunk) for port, config in ports.items()}
        return EthernetSnapshot(self._site, self._fabric, began, vlans, numbers, trunks, unread)


def _spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def _taken(number: int, why: str) -> PermanentError:
    return PermanentError(f"set VLAN {number}", "the switches", why, "give the pod another VLAN")
