"""The comparison of an audit: external objects that no live owner has, resources of owners that are missing or
different, and foreign use of weft's ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from weft.engine.audit.auditaddresses import audit_pairs
from weft.engine.audit.auditmachines import audit_machines
from weft.engine.audit.auditnetworks import audit_networks
from weft.engine.audit.auditsite import audit_site
from weft.engine.audit.auditwire import WireAudit
from weft.engine.audit.findings import Findings, about
from weft.engine.audit.outside import Outside, OutsideFabric
from weft.engine.base.unreadable import UnreadableError
from weft.engine.base.world import World
from weft.engine.book.checkstate import checks_said
from weft.engine.book.occupancy import strangers
from weft.engine.hold.ownerstore import live_owners, read_owner
from weft.engine.nodes.nodetests import tests_said
from weft.engine.proof.othersports import held_by_others
from weft.engine.proof.owners import Claim, Owners
from weft.engine.proof.takeback import Confirmed, Stray, why_not
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.engine.rows.released import released_owners, released_pods
from weft.engine.rows.tenantviews import servers_of_tenants
from weft.engine.rows.traces import Traces
from weft.engine.store.store import Store
from weft.engine.visit.verifier import Verdict, verify
from weft.model.errors import NotFoundError, WeftError
from weft.model.fabric import Capabilities
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.problem import Problem, ProblemKind
from weft.model.site import Site
from weft.model.spaces import SEGMENT
from weft.model.specs import SegmentSpec
from weft.model.views import AuditReport
from weft.ports.clock import Clock
from weft.ports.resources import PartlyListedError

AT_REST = frozenset({PodState.READY, PodState.DEGRADED, PodState.VERIFYING, PodState.FAILED})
"""States in which all resources of a pod should exist; in others the loop is working on it."""
AT_ONCE = 8
"""Owners that are verified at the same time."""
READ_AGAIN = 10.0
"""Seconds: a difference counts once a reading of the fabric of at most this age shows it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found.

    Attributes:
        strays: marked things outside that no live owner has.
        kept: id of a stray that can't be removed, because of others -> why.
        live: live owners by id, each with its rows.
        sick: ids of owners that lack something, or have something that differs from what is wanted.
        intruders: pod -> ids of other projects' things on its resources.
    """

    report: AuditReport
    strays: Sequence[Stray]
    kept: Mapping[str, str]
    live: Mapping[UUID, tuple[OwnerRecord, list[ResourceRecord]]]
    sick: Set[UUID]
    intruders: Mapping[UUID, Set[str]]


class Comparison:
    """One comparison of what exists outside with what live owners have.

    Args:
        outside: what was listed, before this is made.
        confirmed: owners unknown to the database that the operator has confirmed as ended.
    """

    def __init__(
        self, store: Store, world: World, site: Site, clock: Clock, outside: Outside, confirmed: Confirmed
    ) -> None:
        self._store, self._world, self._site, self._clock = store, world, site, clock
        self._outside, self._confirmed = outside, confirmed
        self._found = Findings()
        self._strays: list[Stray] = []
        self._live: dict[UUID, tuple[OwnerRecord, list[ResourceRecord]]] = {}
        self._sick: set[UUID] = set()
        self._intruders: dict[UUID, set[str]] = {}
        self._kept: Mapping[str, str] = {}
        self._read_at = 0.0
        self._just_released: dict[str, frozenset[int]] = {}
        self._unread: dict[str, set[int]] = {}

    def run(self) -> Compared:
        """Compare everything; once for each comparison."""
        report = self._report()
        return Compared(report, self._strays, self._kept, self._live, self._sick, self._intruders)

    def _report(self) -> AuditReport:
        outside, confirmed = self._outside, self._confirmed
        if (closed := self._store.database.gate.closed()) is not None:
            self._found.add("unknown", "database", self._site.name, "weft's database", str(closed))
        self._read_live(outside)
        self._check_live()
        for owner, records in self._live.values():
            if owner.kind == "site" and owner.wanted == "present":
                audit_site(owner, records, self._world, self._site, self._found)
        self._check_nodes()
        audit_machines(self._world, self._site, self._found)
        self._check_marked(outside, confirmed)
        self._check_traces()
        for name, wire in outside.wires.items():
            if isinstance(wire, WeftError):
                self._found.add("unknown", "fabric", name, name, str(wire))
            else:
                self._check_wire(name, wire)
        found, capacity = self._found, self._store.capacity()
        return AuditReport(
            at=self._clock.now(),
            site=self._site.name,
            checked=found.checked,
            limits=(
                *(f"{name}: {said}" for name, can in self._abilities() for said in can.limits),
                *checks_said(capacity.stops, self._site, capacity.at),
                *tests_said(capacity.stops),
            ),
            findings=tuple(found.rows),
        )

    def _abilities(self) -> list[tuple[str, Capabilities]]:
        return [(name, fabric.capabilities) for name, fabric in sorted(self._world.fabrics.items())]

    def _read_live(self, outside: Outside) -> None:
        """Read pods and other owners with their rows, and report those that can't be read, which aren't checked."""
        pods, unreadable = self._store.pods.every_live()
        others, unread = live_owners(self._store.database)
        self._found.checked["pods"] = len(pods)
        self._found.checked |= {"other owners": len(others)} if others else {}
        live: dict[UUID, OwnerRecord] = {owner.id: owner for owner in (*pods, *others)}
        for owner_id, records in self._store.pods.resources_of_each(live):
            if isinstance(records, UnreadableError):
                (unreadable if isinstance(live[owner_id], PodRecord) else unread)[owner_id] = str(records)
            else:
                self._live[owner_id] = (live[owner_id], records)
        for pod_id, why in unreadable.items():
            text = f"nothing of pod {pod_id} is checked: {why}"
            self._found.add("unknown", "pod", "database", str(pod_id), text, pod_id=str(pod_id))
        for owner_id, why in unread.items():
            text = f"nothing of owner {owner_id} is checked: {why}"
            self._found.add("unknown", "owner", "database", str(owner_id), text, owner=str(owner_id))
        with self._store.database.transaction() as tx:
            for owner_id in (*unreadable, *unread):
                for row in tx.rows("numbers_of", owner_id=owner_id):
                    self._unread.setdefault(row["space"], set()).add(row["number"])
        self._read_at = self._clock.monotonic()
        just: dict[str, set[int]] = {}
        for fabric, number in self._released_since(outside.began_at):
            just.setdefault(fabric, set()).add(number)
        self._just_released = {fabric: frozenset(numbers) for fabric, numbers in just.items()}

    def _released_since(self, since: datetime) -> Iterator[tuple[str, int]]:
        """Fabrics and numbers of released segments that the listing may still show."""
        for pod in released_pods(self._store.database, since):
            for resource in pod.plan.graph.resources:
                if isinstance(resource.spec, SegmentSpec):
                    yield resource.where, resource.spec.number
        for owner in released_owners(self._store.database, since):
            for record in self._store.pods.resources(owner.id):
                if isinstance(record.resource.spec, SegmentSpec):
                    yield record.resource.where, record.resource.spec.number

    # -- owners' own --------------------------------------------------------------------------------------------

    def _check_live(self) -> None:
        """Verify owners, several at a time, by one reading of each fabric, which began after their rows were read."""
        resting = [o for o in self._live.values() if o[0].state in AT_REST and o[0].wanted == "present"]
        with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="audit") as pool:
            for (owner, records), verdict in zip(resting, pool.map(self._verdict, resting), strict=True):
                for plane, number in verdict.looked_at.items():
                    self._found.checked[plane] = self._found.checked.get(plane, 0) + number
                if verdict.problems and self._has_moved_on(owner):
                    continue
                by_key = {r.key: r for r in records}
                for problem in verdict.problems:
                    self._find_problem(owner, problem, by_key.get(problem.key or ""))
                for note in verdict.notes:
                    self._find_note(owner, note)
        pods = [(pod, rows) for pod, rows in self._live.values() if isinstance(pod, PodRecord)]
        self._intruders |= audit_networks(self._found, pods, self._world)
        audit_pairs(self._found, pods, self._world)

    def _verdict(self, live: tuple[OwnerRecord, list[ResourceRecord]]) -> Verdict:
        """The verdict on an owner; differences count only if a reading that is hardly older shows them, too."""
        owner, records = live
        # A failed pod may lack resources; those that exist still belong to it.
        made = [r for r in records if r.outside_id] if owner.state is PodState.FAILED else records
        expected, since = _expected(owner, records), self._clock.monotonic() - self._read_at
        # Other projects' things on its networks are read for all pods together.
        verdict = verify(owner, made, self._world, None, since, only=expected, others=False)
        if verdict.fine or since < READ_AGAIN:
            return verdict
        return verify(owner, made, self._world, None, READ_AGAIN, only=expected, others=False)

    def _check_nodes(self) -> None:
        """Occupants of nodes that aren't servers of the pod that holds them. weft doesn't remove them.

        A tenant's own server in a network of its own is fine on a node that no pod holds.
        """
        own: dict[str, frozenset[str]] = {}
        pods: dict[str, str] = {}
        for owner, records in self._live.values():
            for record in records:
                if record.kind.row.on_host and record.outside_id:
                    node = record.resource.node
                    own[node] = own.get(node, frozenset()) | {record.outside_id}
                    pods[record.outside_id] = owner.name
        held = self._store.capacity().held
        for node, servers in servers_of_tenants(self._store.database, self._site, held).items():
            own[node] = own.get(node, frozenset()) | servers
        for cloud, facts in sorted(self._world.clouds.items()):
            try:
                found, unknown = strangers(facts, self._site, cloud, own, pods)
            except WeftError as error:
                self._found.add("unknown", "node", cloud, cloud, str(error))
                continue
            for node, why in unknown.items():
                self._found.add("unknown", "node", cloud, node, why)
            capacity = self._store.capacity()
            holders_of: dict[str, list[UUID]] = {}
            for hold in (*capacity.holds.values(), *capacity.shared) if found else ():
                holders_of.setdefault(hold.node, []).append(hold.pod.id)
            for node, who in found.items():
                holders = [self._live.get(pod_id) for pod_id in holders_of.get(node, ())]
                if any(holder is None or self._has_moved_on(holder[0]) for holder in holders):
                    continue  # ordered, released or processed since: its servers may be changing
                self._found.add("foreign", "node", cloud, node, who, repair=_BY_HAND)

    def _has_moved_on(self, owner: OwnerRecord) -> bool:
        """Whether it was released or processed since its row was read, which explains missing resources."""
        try:
            with self._store.database.transaction() as tx:
                now = read_owner(tx, owner.id)
        except NotFoundError:
            return True
        return now.wanted != "present" or now.state not in AT_REST

    def _find_problem(self, owner: OwnerRecord, problem: Problem, record: ResourceRecord | None) -> None:
        if problem.kind is ProblemKind.FOREIGN_ON_NETWORK:
            return  # reported by `audit_networks`, also for pods that are being released
        missing = problem.kind is ProblemKind.MISSING
        self._sick |= set() if problem.unknown else {owner.id}
        self._found.add(
            "unknown" if problem.unknown else "missing" if missing else "different",
            record.kind if record else "fabric" if problem.place in self._site.fabrics else "cloud",
            problem.place,
            problem.key or problem.subject,
            problem.text(),
            id=problem.id,
            **about(owner.owner, owner.name),
            repair="" if problem.unknown else _ITS_LOOP if is_repaired(owner) else _ITS_OWNER,
            repairable=not problem.unknown and is_repaired(owner),
        )

    def _find_note(self, owner: OwnerRecord, note: Problem) -> None:
        """Report a problem that doesn't keep the owner from being READY; weft doesn't repair it either."""
        self._found.add(
            "unknown" if note.unknown else "different",
            "fabric",
            note.place,
            note.subject,
            note.text(),
            id=note.id,
            repair="" if note.unknown else _NOTED,
            **about(owner.owner, owner.name),
        )

    # -- strays -------------------------------------------------------------------------------------------------

    def _check_marked(self, outside: Outside, confirmed: Confirmed) -> None:
        for where, found in outside.marked.items():
            if isinstance(found, PartlyListedError):
                for what, why in found.unread.items():
                    self._found.add("unknown", "listing", where, what, str(why))
            elif isinstance(found, WeftError):
                self._found.add("unknown", "listing", where, where, str(found))
            else:
                self._found.checked[f"things with weft's mark in {where}"] = len(found)
        things = outside.things()
        with self._store.database.transaction() as tx:
            owners = Owners.read(tx, things, outside.began_at)
        known = [Stray(thing, owners.of(thing)) for thing in things]
        self._strays = [s for s in known if s.ownership.claim is not Claim.OWNED]
        self._kept = self._kept_by_others()
        for stray in self._strays:
            thing, whose = stray.thing, stray.ownership
            refused = why_not(stray, self._clock.now(), confirmed) or self._kept.get(thing.id)
            self._found.add(
                "foreign" if whose.claim is Claim.COPIED else "orphan",
                thing.kind,
                thing.where,
                f"{thing.name} {thing.id}".strip(),
                whose.why,
                id=thing.id,
                **about(whose.owner, whose.name),
                repair=refused or "it is removed after another check",
                repairable=not refused,
            )

    def _kept_by_others(self) -> Mapping[str, str]:
        why, unread = held_by_others(self._world, self._strays)
        for cloud, error in unread.items():
            self._found.add("unknown", "port", cloud, "networks of the site", str(error))
        return why

    def _check_traces(self) -> None:
        """Report traces found by the sweep: what still exists, and what disappeared within the last day."""
        for trace in Traces(self._store.database).lately():
            gone = trace.gone_at
            ended = f"; gone at {gone:%Y-%m-%dT%H:%M:%SZ}" if gone else "; still there"
            self._found.add(
                "late",
                trace.kind,
                trace.place,
                trace.subject,
                f"{trace.what} (found at {trace.found_at:%Y-%m-%dT%H:%M:%SZ}{ended})",
                id=f"trace {trace.id}",
                **about(Owner(trace.owner_kind, str(trace.owner_id)), trace.pod),
                repair="the sweep removes it"
                if gone is None
                else "none is needed: it was removed, or has another owner",
                repaired=True if gone else None,
            )

    # -- the wire -----------------------------------------------------------------------------------------------

    def _check_wire(self, name: str, wire: OutsideFabric) -> None:
        owned = {spec.number: (owner, spec.ports) for owner, spec in self._segments(name)}
        strays = {s.thing.facts.get("number") for s in self._strays if s.thing.where == name}
        released = self._just_released.get(name, frozenset[int]())
        repairs = self._world.fabrics[name].capabilities.configures
        unread = self._unread.get(SEGMENT + name, ())
        audit = WireAudit(self._site, name, owned, released, strays, self._found, repairs, unread)
        self._sick |= audit.check(wire)

    def _segments(self, fabric: str) -> list[tuple[OwnerRecord, SegmentSpec]]:
        """Segments on a fabric that live owners have, or are about to gain or lose."""
        return [
            (owner, r.resource.spec)
            for owner, records in self._live.values()
            for r in records
            if isinstance(r.resource.spec, SegmentSpec)
            and r.resource.where == fabric
            and r.state is not RowState.ABSENT
        ]


_BY_HAND = "none by weft, whose database has no creation of it: move the server away, or delete it by hand"
_NOTED = "none by weft: operators do what it says, and the pod serves meanwhile"
_ITS_LOOP = "its loop repairs it, servers included"
_ITS_OWNER = "nothing: the pod FAILED; fix what its reason says, then retry or release it"


def is_repaired(owner: OwnerRecord) -> bool:
    """Whether the loop repairs its differences: not for a failed pod, which waits for a person."""
    return owner.state is not PodState.FAILED


def _expected(owner: OwnerRecord, records: Sequence[ResourceRecord]) -> set[str]:
    """Keys of resources that should exist; during a change only those that were observed to be settled."""
    ready = owner.ready_generation
    return {r.key for r in records if r.generation <= ready or r.state is RowState.SETTLED or not ready}
