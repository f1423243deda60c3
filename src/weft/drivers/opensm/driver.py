"""OpenSM as weft's fabric manager: reads the fabric, and owns its segments, which are partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from weft.drivers.opensm.agents import FabricAgents, Files
from weft.drivers.opensm.capabilities import CAPABILITIES
from weft.drivers.opensm.change import Changed, OpenSmChanger, lost
from weft.drivers.opensm.evidence import OpenSmSnapshot, clean, configured
from weft.drivers.opensm.looks import Looks
from weft.drivers.opensm.marked import marked_segments
from weft.drivers.opensm.observe import IndexedReading, observe
from weft.drivers.opensm.section import Base, DesiredPartition, Section
from weft.drivers.opensm.status import fabric_status
from weft.drivers.segments import SegmentDriver, segment_of
from weft.drivers.wire.agents import HttpAgent, RemoteFabricAgent, certificate_problems
from weft.drivers.wire.items import port_table
from weft.drivers.wire.places import machine_places
from weft.drivers.wire.readingjudge import ReadingJudge
from weft.drivers.wire.repairs import RepairQueue
from weft.drivers.wire.routes import RateKeeper, RouteKeeper
from weft.model.agentapi import (
    PathsQuery,
    TablesQuery,
    WeftPartitionDocument,
)
from weft.model.errors import WeftError
from weft.model.fabric import Capabilities, Clean, Configured, FabricStatus, SegmentCheck, Snapshot, Usage
from weft.model.ids import parse_guid, parse_pkey
from weft.model.linkreading import TimedRates, TimedRoutes
from weft.model.livecheck import LiveCheck
from weft.model.mark import Mark
from weft.model.observedfabric import ObservedFabric
from weft.model.resources import Kind, Marked, Observed, Outcome, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.model.subnet import Partition, PathProbe, PortTable
from weft.planning.fabric.check import check_paths, check_tables, probe_pairs
from weft.planning.fabric.hardening import weaknesses
from weft.planning.fabric.portkeys import crowded
from weft.ports.fences import Fence, unfenced
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Ids, Outcomes, Scope

TAKES_SECONDS = 5.0
"""Seconds that a manager has for bringing its file into effect; what differs after that is repaired."""

GLANCES = 256
"""Most pods whose own ports are read at a time, in one reading."""

ENTRIES_SECONDS = 3600.0
"""Seconds for which the size of a port's table is cached: it only changes with the adapter's firmware."""


class OpenSmDriver(SegmentDriver[OpenSmSnapshot]):
    """`FabricDriver` of one fabric of the site. Opens no connection yet.

    Args:
        ledger: weft's records of this fabric's partitions.
        agents: instead of the site's agents, for tests.
    """

    glances = GLANCES

    def __init__(
        self,
        site: Site,
        fabric: str,
        ledger: SegmentLedger,
        agents: Sequence[RemoteFabricAgent] | None = None,
        takes: float = TAKES_SECONDS,
    ) -> None:
        manager = site.fabrics[fabric].manager
        super().__init__(site, fabric, ledger, OpenSmSnapshot, "the subnet managers' files")
        self._ports = site.ports_on(fabric)
        chosen = [HttpAgent(a, manager) for a in manager.agents] if agents is None else list(agents)
        self._certificates = manager if agents is None else None
        self._agents = FabricAgents(fabric, chosen)
        self._judge = ReadingJudge(fabric, self._ports)
        self._changer = OpenSmChanger(site.name, self._agents, ledger, self._reading.changed, takes)
        self._repairs = {
            a.name: RepairQueue(lambda query, a=a: a.repair(query), a.name, self._reading.changed)
            for a in chosen
        }
        self._looks = Looks(fabric, self._look)
        self._routes, self._rates = RouteKeeper(self._agents.of_master), RateKeeper(self._agents.of_master)
        self._takes = takes
        self._entries: dict[int, tuple[float, int]] = {}

    def close(self) -> None:
        """Close the connections to the agents."""
        self._changer.close()
        self._looks.close()
        for repairs in self._repairs.values():
            repairs.close()
        self._agents.close()

    # -- FabricDriver ----------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def status(self) -> FabricStatus:
        status = fabric_status(self._fabric, self._agents.each(lambda agent: agent.status()))
        if self._certificates is not None:
            own = certificate_problems(self._certificates, datetime.now(UTC))
            status = status.model_copy(update={"problems": (*status.problems, *own)})
        if not status.known:
            return status
        try:
            files = self._agents.files()
            master = self._agents.master(files).name
            more = (*lost(master, self._changer.base(files, master)), *self._ledger.waiting())
        except WeftError as error:
            more = (f"weft's section can't be compared with weft's records: {error}",)
        return status.model_copy(update={"problems": (*status.problems, *more)})

    def configured(self) -> Configured:
        files = self._agents.files()
        return configured(files.read, files.unread, self._agents.master(files).name)

    def usage(self) -> Usage:
        files = self._agents.files()
        master = self._agents.master(files).name
        suspects = crowded(self._site, self._fabric, _partitions(files, master))
        entries = self.entries([parse_guid(p.port) for p in suspects]) if suspects else {}
        tight = [
            replace(p, entries=entries[guid]) for p in suspects if (guid := parse_guid(p.port)) in entries
        ]
        return Usage(configured(files.read, files.unread, master).numbers, tuple(tight))

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        seen = self._own(snapshot).seen
        return self._repairs[seen.master].explain(observe(DesiredPartition.of(segment), mark, seen))

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> SegmentCheck:
        """Problems of a manager concern the audit and the operator; a pod is judged by the fabric itself."""
        mine, site, name = self._own(snapshot), self._site, self._fabric
        wanted = DesiredPartition.of(segment)
        holders = mine.seen.on_wire.get(wanted.pkey, frozenset())
        problems = check_tables(site, name, wanted.pkey, wanted.members, mine.tables, holders)
        inside, outside = probe_pairs(wanted.members, mine.outsiders)
        probes = self._paths(mine.configured.active, [*inside, *outside])
        problems += check_paths(site, name, wanted.pkey, probes[: len(inside)], probes[len(inside) :])
        return SegmentCheck(tuple(problems), {f"host ports of {name}": mine.seen.ports_read})

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        return clean(DesiredPartition.of(segment), self._own(snapshot))

    def live_check(self) -> LiveCheck:
        settings = self._agents.each(lambda agent: agent.options())
        found = LiveCheck(managers=len(settings))
        for manager, options in settings.items():
            if isinstance(options, WeftError):
                found += LiveCheck(problems=(f"the settings of {manager} can't be read: {options}",))
                continue
            found += LiveCheck(
                problems=tuple(f"{manager}: {p}" for p in options.problems),
                weaknesses=weaknesses(self._fabric, manager, options.options),
            )
        return found

    def level(self) -> Configured:
        self._changer.level()
        self._reading.changed()
        return self.configured()

    def topology(self) -> ObservedFabric:
        return self._agents.master(self._agents.files()).topology()

    def routes(self, max_age: float) -> TimedRoutes:
        """`weft.ports.fabric.FollowsRoutes`."""
        return self._routes.read(max_age)

    def rates(self, max_age: float) -> TimedRates:
        """`weft.ports.fabric.FollowsRoutes`."""
        return self._rates.read(max_age)

    # -- also read by tools and tests -----------------------------------------------------------------------

    def partitions(self) -> Mapping[int, Partition]:
        """P_Key (15 bits) -> partition configured on the master, weft's and foreign ones, including the default."""
        files = self._agents.files()
        return _partitions(files, self._agents.master(files).name)

    def tables(self, port_guids: Sequence[int] | None = None) -> Mapping[int, PortTable]:
        """Port GUID -> tables read from the wire; None: every host port of the fabric."""
        master = self._agents.master(self._agents.files())
        if port_guids is None:
            tables = self._judge.all(master.tables(TablesQuery()), master.name)
        else:
            asked = tuple(sorted(set(port_guids)))
            tables = self._judge.some(master.tables(TablesQuery(port_guids=asked)), asked, master.name)
        return {p.port_guid: port_table(p) for p in tables.ports}

    def entries(self, port_guids: Sequence[int]) -> Mapping[int, int]:
        """Port GUID -> size of its table; without unreadable ports. Cached."""
        now = time.monotonic()
        missing = [
            g for g in port_guids if now - self._entries.get(g, (-ENTRIES_SECONDS, 0))[0] >= ENTRIES_SECONDS
        ]
        for guid, table in self.tables(missing).items() if missing else ():
            if not table.unreachable:
                self._entries[guid] = (now, table.capacity)
        return {g: self._entries[g][1] for g in port_guids if g in self._entries}

    def paths(self, pairs: Sequence[tuple[int, int]]) -> Sequence[PathProbe]:
        """The subnet administrator's response for each (source, destination) pair of port GUIDs."""
        return self._paths(self._agents.master(self._agents.files()).name, pairs)

    def _paths(self, master: str, pairs: Sequence[tuple[int, int]]) -> Sequence[PathProbe]:
        if not pairs:
            return ()
        agent = self._agents.named(master)
        return self._judge.paths(agent.paths(PathsQuery(pairs=tuple(pairs))), pairs, master).paths

    # -- ResourceDriver --------------------------------------------------------------------------------------

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """Idempotent: the section is a set of partitions, and this adds some."""
        return self._put(scope, wanted)

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """As `create`; also removes keys from vacant leaf ports, since a cable may have been moved."""
        return self._put(scope, wanted, frozenset(segment_of(r).number for r in wanted))

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        marks = {scope.mark(r.key).text() for r in wanted}
        if not wanted:
            return {}

        def edit(section: Section, base: Base) -> None:
            for mark in marks:
                base.drop(section, mark)

        keys = frozenset(segment_of(r).number for r in wanted)
        self._repair(self._changer.change(edit, keys, scope.fence), keys, scope.fence)
        return {r.key: Outcome(id=segment_of(r).text) for r in wanted}

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Everything in weft's section of any manager, and keys in weft's range without a partition."""
        if site != self._site.name:
            return []
        return marked_segments(self._fabric, self._range, self.snapshot().seen)

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        keys = {parse_pkey(t.id): t for t in things if t.kind is Kind.SEGMENT and t.where == self._fabric}
        if not keys:
            return {}
        kept: set[int] = set()

        def edit(section: Section, base: Base) -> None:
            kept.clear()
            for pkey, thing in keys.items():
                mark = Mark.parse(section[pkey].mark) if pkey in section else None
                others = mark is not None and (mark.site, mark.owner) != (self._site.name, thing.owner)
                if others or (pkey in section and section[pkey].mark in base.wanted):
                    kept.add(pkey)  # it has another owner by now, or it is desired after all
                else:
                    section.pop(pkey, None)

        try:
            # The audit removes what no worker holds; the edit itself checks whether each partition may still be
            # removed.
            changed = self._changer.change(edit, keys.keys(), unfenced, once=True)
            self._repair(changed, frozenset(keys), unfenced)
        except WeftError as error:
            return {t.id: Outcome(error=error) for t in keys.values()}
        return {
            t.id: Outcome(error=self._taken(k, t.id)) if k in kept else Outcome(id=t.id)
            for k, t in keys.items()
        }

    # -- inside ----------------------------------------------------------------------------------------------

    def _read(self, began: float) -> OpenSmSnapshot:
        files = self._agents.files()
        master = self._agents.master(files)
        tables = self._judge.all(master.tables(TablesQuery()), master.name)
        seen = IndexedReading(
            master.name,
            files.read,
            files.unread,
            tables,
            self._ports,
            machine_places(self._site, self._fabric),
        )
        return OpenSmSnapshot(self._site, self._fabric, began, seen)

    def _seen(self, scope: Scope, resource: Resource, snapshot: OpenSmSnapshot) -> Observed:
        spec, mark = DesiredPartition.of(segment_of(resource)), scope.mark(resource.key)
        return self._observed(spec, mark, snapshot.seen, scope.leaving)

    def _glance(self, scope: Scope, wanted: Sequence[Resource]) -> Mapping[str, Observed]:
        ports = tuple(sorted({g for r in wanted for g in DesiredPartition.of(segment_of(r)).members}))
        if not ports:
            return {}
        seen = self._looks.look(ports, scope.patient)
        partitions = {r.key: (DesiredPartition.of(segment_of(r)), scope.mark(r.key)) for r in wanted}
        return {
            key: self._observed(spec, mark, seen, scope.leaving) for key, (spec, mark) in partitions.items()
        }

    def _observed(self, spec: DesiredPartition, mark: Mark, seen: IndexedReading, leaving: bool) -> Observed:
        return self._repairs[seen.master].explain(observe(spec, mark, seen, leaving, self._takes))

    def _look(self, ports: tuple[int, ...]) -> IndexedReading:
        files = self._agents.files()
        master = self._agents.master(files)
        tables = self._judge.some(master.tables(TablesQuery(port_guids=ports)), ports, master.name)
        return IndexedReading(master.name, files.read, files.unread, tables, self._ports)

    def _put(
        self, scope: Scope, wanted: Sequence[Resource], vacate: frozenset[int] = frozenset()
    ) -> Mapping[str, Outcome]:
        if not wanted:
            return {}
        refused: dict[str, Outcome] = {}

        def edit(section: Section, base: Base) -> None:
            refused.clear()
            for resource in wanted:
                spec, mark = DesiredPartition.of(segment_of(resource)), scope.mark(resource.key)
                error = self._refusal(spec, mark, section, base)
                if error is not None:
                    refused[resource.key] = Outcome(error=error)
                    continue
                base.drop(section, mark.text())
                section[spec.pkey] = WeftPartitionDocument(
                    pkey=spec.pkey, mark=mark.text(), members=spec.members
                )

        keys = {segment_of(r).number for r in wanted}
        changed = self._changer.change(edit, keys, scope.fence, patient=not vacate)
        self._repair(changed, vacate if changed.made else frozenset(), scope.fence)
        return {r.key: refused.get(r.key, Outcome(id=segment_of(r).text)) for r in wanted}

    def _refusal(self, spec: DesiredPartition, mark: Mark, section: Section, base: Base) -> WeftError | None:
        """Why a partition can't be added to the section; a key belongs to one pod, and must be within weft's range."""
        if error := self._outside_range(spec.pkey):
            return error
        other = section.get(spec.pkey)
        if other is not None and other.mark != mark.text():
            return self._taken(spec.pkey, f"taken: {other.mark}")
        if name := base.foreign.get(spec.pkey):
            return self._taken(spec.pkey, f"defined by someone else in the file of {name}")
        return None

    def _repair(self, changed: Changed, vacate: frozenset[int], fence: Fence) -> None:
        """Repair drift: ports that differ from an unchanged file although the manager believes that they are correct.
        Earlier readings aren't used after that."""
        self._repairs[changed.master].repair(changed.drifted, fence, vacate, changed.strays)


def _partitions(files: Files, master: str) -> Mapping[int, Partition]:
    return {p.pkey: p.partition() for p in files.read[master].configured}
