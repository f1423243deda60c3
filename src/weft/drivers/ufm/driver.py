"""UFM as weft's fabric manager: reads the fabric, and owns its segments, which are partitions.

UFM's partitions have no marks. Who owns a P_Key of weft's range is in weft's own database: which numbers are desired,
and by whom. A P_Key outside of the range is someone else's and never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast
from urllib.parse import urlsplit

from weft.drivers.reading import SharedReading
from weft.drivers.segments import OneByOne, segment_of
from weft.drivers.ufm.besides import besides
from weft.drivers.ufm.capabilities import CAPABILITIES
from weft.drivers.ufm.change import PROOF_SECONDS, UfmChanger
from weft.drivers.ufm.credentials import credentials_problems
from weft.drivers.ufm.evidence import clean_items, default_problem, problems
from weft.drivers.ufm.eyes import Eyes
from weft.drivers.ufm.functions import function_problems
from weft.drivers.ufm.inventory import QUIET_SECONDS, UfmInventory, UfmPort, by_guid
from weft.drivers.ufm.observe import observe
from weft.drivers.ufm.partitions import PartitionListing, members_of
from weft.drivers.ufm.rest import Rest, Transport
from weft.drivers.ufm.settings import Settings, read_settings, ufm_weaknesses
from weft.drivers.ufm.snapshot import MANAGER, Later, UfmSnapshot
from weft.drivers.ufm.usage import tight_ports
from weft.drivers.ufm.versions import troubles
from weft.drivers.wire.agents import HttpAgent, RemoteFabricAgent, certificate_problems
from weft.drivers.wire.routes import RateKeeper, RouteKeeper
from weft.model.errors import ConflictError, PermanentError, WeftError
from weft.model.fabric import (
    Capabilities,
    Clean,
    Configured,
    FabricStatus,
    ManagerState,
    ManagerStatus,
    SegmentCheck,
    Snapshot,
    Usage,
)
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid, format_pkey, parse_pkey
from weft.model.linkreading import TimedRates, TimedRoutes
from weft.model.livecheck import LiveCheck
from weft.model.mark import Mark
from weft.model.messages import links as messages
from weft.model.observedfabric import ObservedFabric
from weft.model.resources import Difference, Kind, Marked, Observed, Resource, Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.check import check_paths, probe_pairs
from weft.ports.fences import Fence, unfenced
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Ids, Observations, Scope

TAKES_SECONDS = 5.0
"""Seconds that UFM has for bringing its partitions into effect on the ports; what differs after that is repaired."""
COMPLAINTS = 20
"""Most alarms and unhealthy ports that the status reports."""


class Ufm(OneByOne[UfmSnapshot]):
    """`FabricDriver` of one fabric of the site. Opens no connection yet.

    Args:
        ledger: weft's own records of this fabric's partitions.
        agents: instead of the site's agents, for tests; `transport`: see `Rest`.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        ledger: SegmentLedger,
        agents: Sequence[RemoteFabricAgent] | None = None,
        transport: Transport = lambda _: None,
        takes: float = TAKES_SECONDS,
        proof_seconds: float = PROOF_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        super().__init__(site, fabric, ledger, UfmSnapshot, "UFM")
        self._manager = site.fabrics[fabric].manager
        chosen = (
            [HttpAgent(a, self._manager) for a in self._manager.agents] if agents is None else list(agents)
        )
        self.rest = Rest(fabric, self._manager, transport)
        self._eyes, self._inventory = Eyes(site, fabric, chosen), UfmInventory(self.rest, quiet_seconds)
        self._routes, self._rates = RouteKeeper(self._eyes.first), RateKeeper(self._eyes.first)
        self._changer, self._takes = UfmChanger(self.rest, proof_seconds), takes

    def close(self) -> None:
        self.rest.close()
        self._eyes.close()

    # -- FabricDriver ----------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def status(self) -> FabricStatus:
        """One row per address. A standby doesn't answer REST: it is shown as standby without being asked.

        Agents only add problems of the fabric; whether it is managed, UFM alone says.
        """
        said: list[str] = []
        try:
            version = self._changer.version()
            state = ManagerState.MASTER
            said += troubles(version)
            said += self._complaints()
        except WeftError as error:
            state, said = ManagerState.UNKNOWN, [str(error)]
        managers = [
            ManagerStatus(name=_host(a), state=state, problems=tuple(said))
            if a == self.rest.active
            else ManagerStatus(
                name=_host(a),
                state=ManagerState.STANDBY if state is ManagerState.MASTER else ManagerState.UNKNOWN,
            )
            for a in self._manager.addresses
        ]
        own = [
            *certificate_problems(self._manager, datetime.now(UTC)),
            *credentials_problems(self._manager),
        ]
        try:
            own += self._ledger.waiting()
        except WeftError as error:
            own.append(f"weft's records can't be read: {error}")
        agents = besides(self._eyes.status())
        return FabricStatus(
            fabric=self._fabric,
            managers=tuple(managers),
            problems=(*own, *agents.problems),
            port_errors=agents.port_errors,
            bad_ports=agents.bad_ports,
            unread_ports=agents.unread_ports,
        )

    def configured(self) -> Configured:
        listing = self._changer.listing()
        return Configured(MANAGER, {MANAGER: {n: p.name for n, p in listing.partitions.items()}})

    def routes(self, max_age: float) -> TimedRoutes:
        """`weft.ports.fabric.FollowsRoutes`: as an agent beside UFM's OpenSM reads them; UFM has no tables to give."""
        self._need_agents()
        return self._routes.read(max_age)

    def rates(self, max_age: float) -> TimedRates:
        """`weft.ports.fabric.FollowsRoutes`."""
        self._need_agents()
        return self._rates.read(max_age)

    def _need_agents(self) -> None:
        if not self._eyes:
            raise ConflictError(messages.LINKS_NOT_READ(fabric=self._fabric))

    def usage(self) -> Usage:
        listing = self._changer.listing()
        return Usage(
            frozenset(listing.partitions), tight_ports(self._site, self._fabric, listing, self._eyes.tables)
        )

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        """A partition that isn't recorded as created, and has undesired members, is someone else's."""
        found = self._glanced(scope, wanted)
        left = [r for r in wanted if r.key not in found]
        if not left:
            return found
        seen = self._reading_for(scope)
        for resource in left:
            spec, mark = segment_of(resource), scope.mark(resource.key)
            strange = None if resource.key in ids else self._strange(spec, seen)
            found[resource.key] = (
                self._observed(mark, spec, seen, scope.leaving)
                if strange is None
                else Observed.absent(
                    f"{spec.text} is defined by someone else, with member {format_guid(strange)}"
                )
            )
        return found

    def _glance(self, scope: Scope, wanted: Sequence[Resource]) -> Mapping[str, Observed]:
        if not self._eyes:
            return {}
        listing, wants, found = self._changer.listing(), self._ledger.wanted(), dict[str, Observed]()
        owners = {spec.number: mark for mark, spec in wants.items()}
        for resource in wanted:
            spec, mark = segment_of(resource), scope.mark(resource.key)
            members, there = members_of(spec), listing.partitions.get(spec.number)
            as_wanted = there is None if scope.leaving else there is not None and there.members == members
            if as_wanted and owners.get(spec.number, mark) == mark:
                inside, outside = ({}, members) if scope.leaving else (members, ())
                late = self._drifted(spec.number, inside, outside)
                observed = "with it" if scope.leaving else "not as UFM has it"
                differences = tuple(
                    Difference(field=f"port {format_guid(g)}", wanted=spec.named, observed=observed)
                    for g in late
                )
                why = f"{spec.named} isn't in effect yet at {len(late)} of {len(members)} ports"
                waits = self._takes if late else 0.0
                found[resource.key] = Observed(spec.text, Status.PENDING, why, differences, on_its_way=waits)
        return found

    def _strange(self, spec: SegmentSpec, seen: UfmSnapshot) -> int | None:
        """An undesired member of a partition that isn't recorded."""
        there, members = seen.listing.partitions.get(spec.number), members_of(spec)
        if there is None or spec.number in seen.wanted:
            return None
        return next((g for g in sorted(there.members) if g not in members), None)

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        return self._observed(mark, segment, self._own(snapshot), leaving=False)

    def _observed(self, mark: Mark, segment: SegmentSpec, seen: UfmSnapshot, leaving: bool) -> Observed:
        found = observe(segment.number, members_of(segment), mark, seen, leaving, self._takes)
        found = self._eyes.explain(found)
        taken = seen.wanted.get(segment.number, mark) != mark
        if found.there or taken or self._changer.one(segment.number) is None:
            return found
        why = f"can't be proved absent: UFM doesn't list {segment.named}, and has it when asked for it alone"
        return Observed(segment.text, Status.PENDING, why)

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> SegmentCheck:
        mine, members = self._own(snapshot), members_of(segment)
        found = [*problems(segment.number, members, mine), *function_problems(segment, mine)]
        if mine.looked:
            full = [g for g, mode in members.items() if mode is Mode.FULL and mine.physical(g)]
            inside, outside = probe_pairs(full, mine.outsiders)
            probes = self._eyes.paths([*inside, *outside])
            cut = len(inside)
            found += check_paths(self._site, self._fabric, segment.number, probes[:cut], probes[cut:])
        what = "host ports" if mine.looked else "UFM's host ports"
        return SegmentCheck(tuple(found), {f"{what} of {self._fabric}": mine.ports_read})

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        alone = "not there" if self._changer.one(segment.number) is None else "it is there"
        return Clean(tuple(clean_items(segment, self._own(snapshot), alone)))

    def topology(self) -> ObservedFabric:
        return self._inventory.topology()

    def live_check(self) -> LiveCheck:
        settings = self.settings()
        weak = tuple(ufm_weaknesses(self._fabric, settings))
        return LiveCheck(managers=1, weaknesses=weak, problems=settings.problems)

    def settings(self) -> Settings:
        """UFM's hardening, as far as it can be read."""
        return read_settings(self.rest, self._changer, self._eyes)

    # -- ResourceDriver --------------------------------------------------------------------------------------

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Everything in weft's range: with its owner if it is desired by the database, otherwise without."""
        if site != self._site.name:
            return []
        seen, out = self.snapshot(), list[Marked]()
        wire = seen.looked.wire.on_wire if seen.looked else {}
        for number in sorted({*seen.listing.partitions, *wire}):
            if number not in self._range:
                continue
            mark, partition = seen.wanted.get(number), seen.listing.partitions.get(number)
            ports = partition.members if partition else wire[number]
            facts: dict[str, object] = {"number": number, "members": [format_guid(g) for g in sorted(ports)]}
            facts["manager" if partition else "where"] = MANAGER if partition else "only on the wire"
            name, owner = (mark.name(), mark.owner) if mark else ("", None)
            out.append(Marked(Kind.SEGMENT, self._fabric, format_pkey(number), name, owner, None, facts))
        return out

    # -- inside ----------------------------------------------------------------------------------------------

    def _read(self, began: float) -> UfmSnapshot:
        listing = self._changer.listing()
        wanted = self._ledger.wanted()
        looked = self._eyes.look() if self._eyes else None
        ports = {} if looked else self._host_ports()
        # One answer, or one error, for all callers that use the snapshot.
        virtual = SharedReading(lambda _: self._inventory.virtual())
        hosts = SharedReading(lambda _: self._host_ports())
        later = Later(lambda: virtual.get(math.inf), lambda: hosts.get(math.inf))
        return UfmSnapshot(self._site, self._fabric, began, listing, looked, ports, later, wanted)

    def _host_ports(self) -> Mapping[int, UfmPort]:
        return by_guid(p for p in self._inventory.ports(hosts=True) if p.host)

    def _put(self, scope: Scope, resource: Resource) -> None:
        spec, mark = segment_of(resource), scope.mark(resource.key)
        try:
            members = members_of(spec)
        except ValueError as error:
            asked, then = f"set {spec.named}", "correct the site"
            raise PermanentError(asked, "UFM", f"a member that isn't a GUID: {error}", then) from error

        def allowed(listing: PartitionListing) -> PermanentError | None:
            return self._refusal(spec.number, members, mark, listing)

        changed = self._changer.put(spec.number, members, allowed, scope.fence)
        if not changed or not members:
            inside = {} if changed else members
            self._repair(spec.number, inside, (), scope.fence, vacate=not members)

    def _take(self, scope: Scope, resource: Resource) -> None:
        mark, spec = scope.mark(resource.key), segment_of(resource)
        try:
            self._remove_number(
                spec.number, lambda owner: owner not in (None, mark), scope.fence, members_of(spec)
            )
        except _OthersError:
            return  # the P_Key has another owner by now: nothing of ours is left to remove

    def _take_marked(self, thing: Marked) -> None:
        self._remove_number(
            parse_pkey(thing.id), lambda mark: mark is not None, unfenced, anywhere=True, seen=thing
        )

    def _remove_number(
        self,
        number: int,
        others: Callable[[Mark | None], bool],
        fence: Fence,
        former: Collection[int] = (),
        anywhere: bool = False,
        seen: Marked | None = None,
    ) -> None:
        """Delete a P_Key's partition, if that is still allowed.

        Args:
            former: its members, as far as they are known.
            anywhere: also repair ports that have it only in their own tables.
            seen: the partition as listed: it must not have other members by now.
        """
        before: list[int] = []

        def allowed(listing: PartitionListing) -> PermanentError | None:
            before.extend(p.members if (p := listing.partitions.get(number)) else ())
            known = seen.facts.get("members") if seen else None
            if isinstance(known, list) and {format_guid(g) for g in before}.difference(
                cast("list[str]", known)
            ):
                return _OthersError(number, "it has members by now that weren't seen in it")
            if error := self._outside_range(number):
                return error
            owner = self._owner(number)
            return _OthersError(number, f"{owner} is still desired") if others(owner) else None

        def still() -> None:
            fence()
            if others(owner := self._owner(number)):
                raise _OthersError(number, f"{owner} is desired by now")

        if self._changer.remove(number, allowed, still):
            self._repair(number, {}, (), fence, vacate=True)
            return
        if anywhere and self._eyes:
            before += self._eyes.look().wire.on_wire.get(number, ())
        self._repair(number, {}, [*former, *before], fence, vacate=True)

    def _repair(
        self,
        number: int,
        members: Mapping[int, Mode],
        outside: Collection[int],
        fence: Fence,
        vacate: bool = False,
    ) -> None:
        """Repair ports whose own tables differ although UFM has it as wanted: where its manager wrongly believes a
        table to be correct, its own sweeps repair nothing. If the tables can't be read, `find` says so.

        Args:
            vacate: also remove it from leaf ports without a cable.
        """
        if not self._eyes:
            return
        try:
            self._eyes.repair(self._drifted(number, members, outside), number if vacate else None, fence)
        except WeftError:
            return

    def _drifted(self, number: int, members: Mapping[int, Mode], outside: Collection[int]) -> tuple[int, ...]:
        """The site's ports whose own tables aren't as UFM has them. Raises `UnknownError`."""
        known = {h.port_guid for n in self._site.nodes for h in n.hcas_on(self._fabric)}
        inside = {g: m for g, m in members.items() if g in known}
        out = {g for g in outside if g in known and g not in members}
        return self._eyes.drifted(number, inside, out)

    def _owner(self, number: int) -> Mark | None:
        return next((m for m, spec in self._ledger.wanted().items() if spec.number == number), None)

    def _refusal(
        self, number: int, members: Mapping[int, Mode], mark: Mark, listing: PartitionListing
    ) -> PermanentError | None:
        """Why a partition can't be set: a number belongs to one owner, and weft stays within its range."""
        if error := self._outside_range(number):
            return error
        owner, there = self._owner(number), listing.partitions.get(number)
        if owner is not None and owner != mark:
            return self._taken(number, f"taken: {owner.text()}")
        # Not yet recorded as created: what is there may be our own, from a change whose answer was lost.
        if owner is None and there is not None and not there.members.keys() <= members.keys():
            strange = format_guid(next(g for g in sorted(there.members) if g not in members))
            said, then = (
                f"defined by someone else, with member {strange}",
                "remove that member, or the P_Key, in UFM",
            )
            return PermanentError(f"set P_Key {format_pkey(number)}", "UFM", said, then)
        return None

    def _complaints(self) -> list[str]:
        try:
            default = default_problem(self._changer.listing().default_membership)
            return [*([default] if default else []), *self._inventory.complaints(COMPLAINTS)]
        except WeftError as error:
            return [str(error)]


class _OthersError(PermanentError):
    """A P_Key must not be removed, since another owner has it by now."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"remove P_Key {format_pkey(number)}", "weft's own records", why, "release the pod")


def _host(address: str) -> str:
    return urlsplit(address).netloc
