"""An Ethernet fabric of switches: a segment is a VLAN on the switches that its members need."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from weft.drivers.segments import OneByOne, segment_of
from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.capabilities import capabilities_of
from weft.drivers.switches.counters import Counted, CounterReading
from weft.drivers.switches.evidence import check, clean, observe
from weft.drivers.switches.generic import Generic
from weft.drivers.switches.hostports import missing_ports, parking_notes, port_troubles
from weft.drivers.switches.interface import SwitchDriver
from weft.drivers.switches.linkstates import links_of, states_of
from weft.drivers.switches.looks import HeardNeighbours, QosReading, listen, qos_check
from weft.drivers.switches.names import read_name, vlan_name
from weft.drivers.switches.own import Own
from weft.drivers.switches.ownevidence import check_own, clean_own, observe_own
from weft.drivers.switches.ownsegments import OwnSegments, own_of
from weft.drivers.switches.possible import SOON, SwitchRates, possible_routes
from weft.drivers.switches.sessions import Edits, SwitchSessions
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import Batch, SwitchState
from weft.drivers.switches.wanted import WantedSegment, edit_for, refusal, removal_for
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabric import (
    Clean,
    Configured,
    FabricStatus,
    ManagerState,
    ManagerStatus,
    SegmentCheck,
    Snapshot,
    Usage,
)
from weft.model.linkreading import RouteReading, TimedRates, TimedRoutes
from weft.model.linkstates import LinkStates
from weft.model.livecheck import LiveCheck
from weft.model.mark import Mark
from weft.model.observedfabric import ObservedFabric
from weft.model.resources import Kind, Marked, Observed, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.existing import Existing
from weft.ports.fences import Fence, unfenced
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Ids, Observations, Outcomes, Scope

STATUS_SECONDS = 5.0
"""Maximum age, in seconds, of the reading that a status is made from."""


class EthernetFabric(OneByOne[EthernetSnapshot]):
    """`FabricDriver` of one Ethernet fabric. Thread-safe; opens no connection yet.

    Args:
        switches: sessions of the fabric's switches.
        ledger: weft's own records, which say who owns a VLAN on switches that store no names.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        cabling: Cabling,
        switches: Sequence[SwitchDriver],
        ledger: SegmentLedger,
    ) -> None:
        super().__init__(site, fabric, ledger, EthernetSnapshot, "the switches")
        self.cabling, self._sessions = cabling, SwitchSessions(fabric, switches)
        self.capabilities = capabilities_of(site, fabric)
        self._nameless = any(not s.keeps_names for s in switches)
        self._write_only = {s.name: s for s in switches if isinstance(s, Generic)}
        self._counters = CounterReading(fabric, {s.name: s for s in switches if not isinstance(s, Generic)})
        self._rates = SwitchRates(lambda: self._counters.timed(SOON))
        self._settings = QosReading(tuple(switches), self._sessions.readers)
        self._sites = OwnSegments(site.name, fabric, cabling, ledger, self.snapshot, self._change_own)

    def close(self) -> None:
        self._counters.close()
        self._sessions.close()

    def session(self, switch: str) -> SwitchDriver:
        """The session of one switch, for tools and tests."""
        return self._sessions.by_name[switch]

    def heard(self) -> HeardNeighbours:
        """The fabric's cables, as its switches report them by LLDP."""
        sessions = self._sessions
        return listen(self._site, self._fabric, self.cabling, sessions.by_name, sessions.readers)

    def port_counters(self) -> Counted:
        """Counters of all switches that can be read."""
        return self._counters.get()

    @cached_property
    def _possible(self) -> RouteReading:
        return possible_routes(self._site, self._fabric, self.cabling)

    def routes(self, max_age: float) -> TimedRoutes:
        """`weft.ports.fabric.FollowsRoutes`: possible paths, worked out from the site alone, so that they are never
        outdated."""
        return TimedRoutes(self._possible, 0.0)

    def rates(self, max_age: float) -> TimedRates:
        """`weft.ports.fabric.FollowsRoutes`."""
        return self._rates.get(self._possible, max_age)

    def links(self) -> LinkStates:
        sessions = self._sessions
        found = sessions.readers.map(links_of, sessions.by_name.values())
        return states_of(self.cabling, dict(zip(sessions.by_name, found, strict=True)))

    # -- FabricDriver ------------------------------------------------------------------------------------------

    def status(self) -> FabricStatus:
        """Each switch is its own manager; one that can't be read has a state that says so."""
        try:
            snapshot = self.snapshot(STATUS_SECONDS)
        except UnknownError as error:
            return FabricStatus(
                fabric=self._fabric,
                managers=tuple(
                    ManagerStatus(name=s, state=ManagerState.UNKNOWN) for s in sorted(self._sessions.by_name)
                ),
                problems=(str(error),),
            )
        managers = [
            ManagerStatus(name=s, state=ManagerState.UNKNOWN, problems=(snapshot.unread[s],))
            if s in snapshot.unread
            else ManagerStatus(name=s, state=ManagerState.MASTER, problems=tuple(port_troubles(s, snapshot)))
            for s in sorted(self._sessions.by_name)
        ]
        return FabricStatus(fabric=self._fabric, managers=tuple(managers))

    def configured(self) -> Configured:
        return self.snapshot().configured

    def usage(self) -> Usage:
        """Only hosts' ports are counted: a link may carry every VLAN until a pod has one that the link doesn't need."""
        snapshot = self.snapshot()
        return Usage(snapshot.configured.numbers | snapshot.chosen)

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        if segment.shared:
            return observe_own(Own(segment, vlan_name(mark), ours=True), self._own(snapshot), leaving=False)
        return observe(mark, segment, self._own(snapshot))

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> SegmentCheck:
        if segment.shared:
            return check_own(segment, self._own(snapshot))
        return check(segment, self._own(snapshot))

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        if segment.shared:
            return clean_own(segment, self._own(snapshot))
        return clean(segment, self._own(snapshot), self._accepted_without)

    def _accepted_without(self, number: int, end: str) -> bool:
        switch, _, port = end.partition("/")
        return self._write_only[switch].accepted_without(number, port)

    def topology(self) -> ObservedFabric:
        raise PermanentError("discover", f"fabric {self._fabric}", "its cables aren't read", "describe them")

    def live_check(self) -> LiveCheck:
        """Each switch must have the ports that the site names, with the desired settings, and see the
        neighbours that the site describes by LLDP.
        """
        settings, heard = self._qos_check(), self.heard()
        problems, notes = list[str](), list[str]()
        with suppress(UnknownError):  # the status says so
            seen = self.snapshot(STATUS_SECONDS)
            problems, notes = [*missing_ports(seen)], [*parking_notes(seen)]
        return LiveCheck(
            managers=len(self._sessions.by_name),
            problems=(*problems, *settings.problems, *heard.problems),
            notes=(*notes, *settings.notes, *heard.notes),
            differences=heard.differences,
        )

    def _qos_check(self) -> LiveCheck:
        """Compare the switches' settings for RoCE; a switch that can't report them is a note."""
        if self._site.fabrics[self._fabric].qos is None:
            return LiveCheck()
        return qos_check(self._site, self._fabric, self.cabling, self._settings.get(0.0))

    # -- ResourceDriver ----------------------------------------------------------------------------------------

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """VLANs with weft's names, and VLANs of its range that ports are in although no switch defines them.
        A number can occur twice if a switch has booted with an old configuration.
        """
        snapshot = self.snapshot()
        found: list[Marked] = []
        numbers = snapshot.segments.keys() | {n for n in snapshot.ports_in if n in self._range}
        names = [(n, name) for n in sorted(numbers) for name in sorted(snapshot.given(n)) or [""]]
        for number, text in names:
            named = read_name(text, site)
            if (named is None and text) or (named is not None and not named.ours):
                continue  # someone else's VLAN
            if named is None and number not in self._range:
                continue
            owner = named.owner if named else None
            name = f"weft-{owner.id[:8]}-vlan" if owner else ""
            facts = {"number": number, "members": sorted(snapshot.ports_in.get(number, ()))}
            found.append(Marked(Kind.SEGMENT, self._fabric, str(number), name, owner, None, facts))
        return found

    # -- the site's own networks -------------------------------------------------------------------------------

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        own, others = _parted(scope, wanted, ids)
        found = dict(super().find(scope, others, ids))
        return (
            {**found, **self._sites.find(scope, own, self.snapshot(patient=scope.patient))} if own else found
        )

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        own, others = _parted(scope, wanted, ids)
        return {**super().create(scope, others, ids), **self._sites.put(scope, own)}

    update = create

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        own, others = _parted(scope, wanted, ids)
        return {**super().delete(scope, others, ids), **self._sites.take(scope, own)}

    def alike(self, wanted: Sequence[Resource], ids: Ids) -> Mapping[str, Sequence[Existing]]:
        return self._sites.alike(wanted, ids)

    def beside(self, wanted: Sequence[Resource]) -> Sequence[str]:
        return self._sites.beside(wanted)

    def places(self, segment: SegmentSpec) -> Collection[str]:
        return self._sites.places(segment)

    def _change_own(
        self,
        edits: Edits,
        only: Collection[str],
        own: Sequence[SegmentSpec],
        save: Collection[str] = (),
        fence: Fence = unfenced,
    ) -> None:
        try:
            self._sessions.change(edits, only, own=own, save=save, fence=fence)
        finally:
            self._reading.changed()  # also without an answer: it may have been done

    # -- inside ------------------------------------------------------------------------------------------------

    def _put(self, scope: Scope, resource: Resource) -> None:
        spec, mark = segment_of(resource), scope.mark(resource.key)
        self._check_possible(spec)
        seen, name = self.snapshot(), vlan_name(mark)
        over = self._over(spec.number, name, seen)
        order = WantedSegment(spec, name, self.cabling.spread(spec.ports), self._range, over)
        if why := refusal(order, seen, self._site.name):
            raise self._taken(spec.number, why)
        self._sessions.change(
            lambda s, state: edit_for(s, state, order, self.cabling),
            self._concerned(spec.number, seen, spec.ports),
            spec,
            recent=True,
            fence=scope.fence,
        )

    def _over(self, number: int, name: str, seen: EthernetSnapshot) -> frozenset[str]:
        """Names of this site's other pods that switches have for a number that weft's records assign
        differently: these switches have booted with an old configuration."""
        found = {n: read_name(n, self._site.name) for n in seen.given(number) - {name}}
        pods = {n for n, named in found.items() if named and named.ours and named.owner.kind != "site"}
        return frozenset(pods) if pods and self._names().get(number) == name else frozenset()

    def _check_possible(self, spec: SegmentSpec) -> None:
        """Raises `PermanentError` for a VLAN or a port that weft could never change."""
        if error := self._outside_range(spec.number):
            raise error
        for member in spec.members:
            if member.port not in self.cabling.hosts:
                said, then = f"{member.port} is no port of a node of this fabric", "correct the site"
                raise PermanentError(f"set {spec.named}", f"fabric {self._fabric}", said, then)

    def _take(self, scope: Scope, resource: Resource) -> None:
        spec, name = segment_of(resource), vlan_name(scope.mark(resource.key))
        # Also remove what someone else has just added; this is not retried soon.
        number, seen = spec.number, self.snapshot()
        if error := self._outside_range(number):
            raise error
        # A switch without names can't say who owns a VLAN; weft's records can.
        mine = not self._nameless or self._names().get(number, name) == name
        ends = {switch_of(end) for port in spec.ports for end in self.cabling.ends(port)}
        self._sessions.change(
            lambda s, state: removal_for(s, state, number, {name}, self.cabling, mine),
            # A change of unknown outcome may restore it on a switch that can't be read.
            self._concerned(number, seen, spec.ports) | seen.unread.keys(),
            spec,
            recent=True,
            save=self.cabling.spread(spec.ports),
            fence=scope.fence,
            # Switches without a port of the pod delay its release no longer than a reading does (`clean`).
            silent=seen.unread.keys() - ends,
        )

    def _take_marked(self, thing: Marked) -> None:
        """Remove a VLAN that the audit found, except on switches where it has another owner's name now."""
        number, seen = int(thing.id), self.snapshot()
        given = seen.given(number)
        names = frozenset(n for n in given if self._is_of(n, thing))
        if given and not names:
            raise self._taken(number, "it is someone else's by now")
        if thing.owner is not None and thing.owner.kind == "site":
            for name in sorted(names):
                self._sites.take_left(thing, name)
            return
        alone = names == given

        def edit(switch: str, state: SwitchState) -> Batch:
            # This may have waited: where switches have no names, the number may be another pod's by now.
            nameless = alone and self._names().get(number, "") in {"", *names}
            return removal_for(switch, state, number, names, self.cabling, nameless)

        self._sessions.change(
            edit,
            self._concerned(number, seen) | seen.unread.keys(),
        )

    def _is_of(self, name: str, thing: Marked) -> bool:
        named = read_name(name, self._site.name)
        return named is not None and named.ours and named.owner == thing.owner

    def _concerned(self, number: int, seen: EthernetSnapshot, ports: Collection[str] = ()) -> frozenset[str]:
        """Switches that a VLAN's members need, that have it, or that can't be read back: silence or slowness
        of other switches doesn't delay its change.
        """
        having = {s for s, vlans in seen.configured.read.items() if number in vlans}
        inside = {e for port in seen.ports_in.get(number, ()) for e in self.cabling.ends(port)}
        carrying = seen.carriers.get(number, frozenset())
        needed = self.cabling.spread(frozenset(ports)).keys()
        return frozenset({*needed, *having, *map(switch_of, inside | carrying), *self._write_only})

    def _names(self) -> Mapping[int, str]:
        """VLAN -> its name by weft's records."""
        return {spec.number: vlan_name(mark) for mark, spec in self._ledger.wanted().items()}

    def _read(self, began: float) -> EthernetSnapshot:
        states, unread = self._sessions.read(began)
        # The worker that changed it may have ended, having reported an unknown outcome.
        self._sessions.save({s for s, state in states.items() if state.unsaved})
        if not states:
            why = "; ".join(f"{s}: {said}" for s, said in unread.items()) or "it has none"
            raise UnknownError("read the fabric", f"switches of {self._fabric}", f"none can be read: {why}")
        names = self._names() if self._nameless else {}
        write_only = frozenset(self._write_only)
        settings = self._settings.get() if self._site.fabrics[self._fabric].qos is not None else None
        return EthernetSnapshot(
            self._site, self._fabric, began, self.cabling, states, unread, names, write_only, settings
        )


def _parted(
    scope: Scope, wanted: Sequence[Resource], ids: Ids
) -> tuple[Mapping[str, Own], Sequence[Resource]]:
    """Splits resources into the site's own, by key, and pods'."""
    own = {r.key: one for r in wanted if (one := own_of(scope, r, ids)) is not None}
    return own, [r for r in wanted if r.key not in own]
