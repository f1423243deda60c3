"""The fake's subnet managers with their agents, and the tables that they manage. See `weft.testing.fabric`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.generate.partitions_conf import WeftPartition, rewrite
from weft.model.agentapi import (
    AgentOptions,
    AgentPartitions,
    AgentStatus,
    ChangeResult,
    PartitionsChange,
    Paths,
    PathsQuery,
    PortMismatch,
    PortReading,
    RepairQuery,
    RepairResult,
    Tables,
    TablesQuery,
    VacantPort,
    WeftPartitionDocument,
)
from weft.model.agentlinks import Counters, CountersQuery, Routes, RoutesQuery
from weft.model.errors import ConflictError, InputError, PermanentError, UnknownError
from weft.model.fabric import ManagerState, PortErrors
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid
from weft.model.mark import Mark
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.model.subnet import PathProbe
from weft.testing.fabric_routes import FakeRoutes
from weft.testing.fabric_wire import NOWHERE, FakeWire, PartitionFile, digest


class FakeManager:
    """One subnet manager and its agent. `text` is its partition file (None: there is none)."""

    def __init__(
        self,
        name: str,
        port_guid: int,
        site: str,
        wire: FakeWire,
        managers: Sequence[int],
        pause: Callable[[], None],
    ) -> None:
        self.name, self.port_guid, self.site = name, port_guid, site
        self.reachable, self.running, self.rules = True, True, False
        self.settings: dict[str, str] = {}
        """opensm's options; those that are missing have their defaults."""
        self.writable = True
        """False: its disk is full, or the file is immutable."""
        self.eyes: Callable[[Tables], Tables] = lambda tables: tables
        self.port_errors: tuple[PortErrors, ...] = ()
        """Errors of ports that its agent reports."""
        self.unread_ports = 0
        members = ", ".join(f"{format_guid(g)}=full" for g in managers)
        self.text: str | None = f"Default=0x7fff, ipoib : ALL=limited, {members};\n"
        self.forwarding = FakeRoutes(wire)
        self._wire, self._pause = wire, pause
        self._readings: dict[int, PortReading] = {}

    # -- what happens to it ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the manager; a standby takes over."""
        with self._wire.lock:
            self.running = self.rules = False
            self._wire.elect()

    def start(self) -> None:
        """Start the manager; it becomes master if there is none."""
        with self._wire.lock:
            self.running = True
            self._wire.elect()

    def sweep(self) -> None:
        """Do what SIGHUP does."""
        with self._wire.lock:
            if self.rules:
                self._wire.sweep()

    # -- the agent -------------------------------------------------------------------------------------------

    @property
    def _state(self) -> ManagerState:
        if not self.running:
            return ManagerState.DOWN
        return ManagerState.MASTER if self.rules else ManagerState.STANDBY

    def _asked(self, what: str) -> None:
        self._pause()
        if not self.reachable:
            raise UnknownError(what, f"fabric agent {self.name}", "no answer")

    def _digests(self) -> tuple[str, str]:
        if self.text is None:
            return "", ""
        return self._file().digests

    def status(self) -> AgentStatus:
        self._asked("status")
        with self._wire.lock:
            problems = self._problems()
            if not self.running:
                problems.append("opensm does not run on this host: start it")
            master = self._wire.master()
            digest, foreign = self._digests()
            return AgentStatus(
                name=self.name,
                state=self._state,
                port_guid=self.port_guid,
                master_guid=master.port_guid if master else None,
                process=1000 if self.running else None,
                problems=tuple(problems),
                digest=digest,
                foreign_digest=foreign,
                port_errors=self.port_errors[:50] if self._state is ManagerState.MASTER else None,
                bad_ports=sum(bool(p.over) for p in self.port_errors)
                if self._state is ManagerState.MASTER
                else None,
                unread_ports=self.unread_ports if self._state is ManagerState.MASTER else None,
            )

    def _file(self) -> PartitionFile:
        return self._wire.file(self.text or "", self.site)

    def _problems(self) -> list[str]:
        if self.text is None:
            return ["partitions.conf is missing: OpenSM gives every port full membership; restore it"]
        problems = [f"partitions.conf, {p}" for p in self._file().conf.problems]
        problems += [f"a discovery was partial: {said}" for said in self._partial()]
        return problems + ([f"opensm's log: {line}" for line in self._wire.log] if self.rules else [])

    def partitions(self) -> AgentPartitions:
        self._asked("partitions")
        with self._wire.lock:
            file = self._file()
            digest, foreign = self._digests()
            return AgentPartitions(
                state=self._state,
                digest=digest,
                foreign_digest=foreign,
                weft=file.weft,
                configured=file.configured,
                problems=tuple(self._problems()),
            )

    def change(self, change: PartitionsChange) -> ChangeResult:
        self._asked("change partitions")
        with self._wire.lock:
            if self._digests()[0] != change.expected_digest:
                raise ConflictError(f"the partition file of {self.name} has changed: read it again")
            if not self.writable:
                raise UnknownError(
                    "change partitions", f"fabric agent {self.name}", "no space left on device"
                )
            new = rewrite(self.text, self.site, [_partition(d) for d in change.weft])
            fatal = self._wire.file(new, self.site).conf.fatal
            if fatal:
                detail = f"nothing was written: {'; '.join(map(str, fatal))}"
                raise PermanentError(
                    "change partitions", f"fabric agent {self.name}", detail, "repair the file"
                )
            self.text = new
            fault = self._wire.faults.pop(0) if self.rules and self._wire.faults else ""
            if fault == "stopped":
                for manager in self._wire.managers:
                    manager.stop()
            if not self.running:
                return ChangeResult(digest=digest(new), process=None)
            if fault == "slow":
                self._wire.reads_until_sweep = 3
            else:
                self.sweep()
            if fault == "lost answer":
                raise UnknownError("change partitions", f"fabric agent {self.name}", "ReadTimeout")
            mismatches = self._mismatches() if change.wait_seconds and fault != "slow" else []
            return ChangeResult(
                digest=digest(new),
                process=1000,
                settled=not mismatches,
                mismatches=tuple(mismatches),
                problems=tuple(self._wire.log),
            )

    def _mismatches(self) -> list[PortMismatch]:
        expected = self._file().expected(self._wire.hosts, self.port_guid)
        return [
            PortMismatch(
                port_guid=g, where=where, missing=tuple(expected[g] - t[g]), extra=tuple(t[g] - expected[g])
            )
            for where, t in (("host", self._wire.hosts), ("leaf", self._wire.leaves))
            for g in expected
            if t[g] ^ expected[g]
        ]

    def tables(self, query: TablesQuery) -> Tables:
        self._asked("read tables")
        wire = self._wire
        with wire.lock:
            if wire.reads_until_sweep:
                wire.reads_until_sweep -= 1
                if not wire.reads_until_sweep:
                    wire.sweep()
            if query.port_guids is not None:
                return self.eyes(
                    Tables(own_port=self.port_guid, ports=tuple(map(self._reading, sorted(query.port_guids))))
                )
            shown = sorted(wire.hosts.keys() - wire.off - wire.overlooked)
            ports = tuple(self._reading(g) for g in shown)
            return self.eyes(
                Tables(own_port=self.port_guid, ports=ports, partial=self._partial(), **self._idle())
            )

    def _partial(self) -> tuple[str, ...]:
        said = "src/query_smp.c:197; umad (DR path slid 0; dlid 0; 0,1,2 Attr 0x11:0) Connection timed out"
        return (said,) if self._wire.overlooked else ()

    def _idle(self) -> dict[str, Any]:
        """Ports of leaves whose hosts are off."""
        wire, idle = self._wire, dict[str, tuple[int, ...]]()
        vacant: list[VacantPort] = []
        for guid in sorted(wire.off):
            place = wire.places.get(guid)
            if place is None or place.guid is None:
                continue
            leaf = format_guid(place.guid)
            idle[leaf] = (*idle.get(leaf, ()), place.port)
            if keys := tuple(k for k in sorted(wire.leaves[guid]) if k & ~FULL_MEMBER != DEFAULT_PKEY):
                vacant.append(VacantPort(switch_guid=place.guid, port=place.port, keys=keys))
        return {"idle": idle, "vacant": tuple(vacant)}

    def _reading(self, guid: int) -> PortReading:
        wire = self._wire
        if guid in wire.cut | wire.off or guid not in wire.hosts:
            return PortReading(port_guid=guid, unreachable="not seen on the fabric")
        keys, leaf_keys = tuple(sorted(wire.hosts[guid])), tuple(sorted(wire.leaves[guid]))
        known, place = self._readings.get(guid), wire.places.get(guid, NOWHERE)
        now = (keys, leaf_keys, place.leaf, place.port)
        if known is None or (known.keys, known.leaf_keys, known.leaf, known.leaf_port) != now:
            # An equal document is returned again, so that the fake costs little in benchmarks.
            known = self._readings[guid] = PortReading(
                port_guid=guid,
                keys=keys,
                leaf_keys=leaf_keys,
                capacity=wire.capacity,
                leaf=place.leaf,
                leaf_guid=place.guid,
                leaf_port=place.port,
            )
        return known

    def paths(self, query: PathsQuery) -> Paths:
        self._asked("ask for paths")
        with self._wire.lock:
            return Paths(paths=tuple(self._path(a, b) for a, b in query.pairs))

    def _path(self, source: int, destination: int) -> PathProbe:
        """The path of a pair: a key that both ports have, at least one as full member, as the subnet administrator
        requires.
        """
        tables = [self._wire.believed.get(g, frozenset[int]()) for g in (source, destination)]
        if not (self._wire.cut | self._wire.off) & {source, destination}:
            for key in sorted({k & ~FULL_MEMBER for k in tables[0]} & {k & ~FULL_MEMBER for k in tables[1]}):
                if key | FULL_MEMBER in tables[0] | tables[1]:
                    return PathProbe(source=source, destination=destination, path=True, pkey=key)
        return PathProbe(source=source, destination=destination, path=False)

    def repair(self, query: RepairQuery) -> RepairResult:
        self._asked("repair")
        wire, written = self._wire, 0
        with wire.lock:
            for guid in query.port_guids:
                if guid not in wire.cut | wire.off and guid in wire.believed:
                    wire.hosts[guid], wire.leaves[guid] = set(wire.believed[guid]), set(wire.believed[guid])
                    written += 1
            vacated = {k | bit for k in query.vacant_keys for bit in (0, FULL_MEMBER)}
            for guid in wire.off:
                written += len(wire.leaves[guid] & vacated)
                wire.leaves[guid] -= vacated
        return RepairResult(written=written)

    def options(self) -> AgentOptions:
        self._asked("read the options")
        return AgentOptions(path="opensm.conf", options=dict(self.settings))

    def routes(self, query: RoutesQuery) -> Routes:
        self._asked("read the forwarding tables")
        with self._wire.lock:
            return self.forwarding.answer(query)

    def counters(self, query: CountersQuery) -> Counters:
        self._asked("read the counters of ports")
        with self._wire.lock:
            return self.forwarding.counters()

    def topology(self) -> ObservedFabric:
        """The site as described, without the ports whose cable is cut."""
        self._asked("discover")
        site, fabric = self._wire.site, self._wire.fabric
        nodes = [
            ObservedNode(guid=s.guid or 0, kind="switch", name=s.name, ports=s.ports)
            for s in site.switches
            if s.fabric == fabric
        ]
        ends = {n.name: n.guid for n in nodes}
        for node in site.nodes:
            gone = self._wire.cut | self._wire.off | self._wire.overlooked
            for hca in [h for h in node.hcas_on(fabric) if h.port_guid not in gone]:
                name = f"{node.name} {hca.name}"
                nodes.append(
                    ObservedNode(guid=hca.guid, kind="ca", name=name, ports=1, port_guids=(hca.port_guid,))
                )
                ends[f"{node.name}/{hca.name}"] = hca.guid
        links = [
            tuple(
                sorted((_end(ends[k.a], k.a_port, k.a), _end(ends[k.b], k.b_port, k.b)), key=lambda e: e.guid)
            )
            for k in site.links
            if k.a in ends and k.b in ends
        ]
        return ObservedFabric(
            partial=self._partial(),
            nodes=tuple(sorted(nodes, key=lambda n: n.guid)),
            links=tuple((a, b) for a, b in links),
        )


def _end(guid: int, port: int, name: str) -> End:
    return End(guid=guid, port=port, name=name.replace("/", " "))


def _partition(document: WeftPartitionDocument) -> WeftPartition:
    mark = Mark.parse(document.mark)
    if mark is None:
        raise InputError("mark", document.mark, "the text of a mark")
    return WeftPartition(document.pkey, mark, document.members)
