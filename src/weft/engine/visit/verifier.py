"""Reads everything of an owner, on every plane, and reports differences from the desired state. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ParamSpec, TypeVar

from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.hold.lane import ALONE, VisitLane
from weft.engine.hold.settings import LoopSettings
from weft.engine.proof.intruders import intruders
from weft.engine.proof.seen import observed_change, seen_of
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import Change, PodRecord, ResourceRecord, RowState
from weft.model.errors import WeftError
from weft.model.fabric import SegmentCheck
from weft.model.kindrow import Home
from weft.model.pod import PodState
from weft.model.problem import Problem, ProblemKind, render, unread
from weft.model.resources import AnyKind, Observed
from weft.model.specs import SegmentSpec
from weft.ports.listings import SharedListings
from weft.ports.resources import Scope

P = ParamSpec("P")
T = TypeVar("T")
_Looks = dict[AnyKind, "tuple[Mapping[str, Observed], SegmentCheck] | WeftError"]
"""Kind of resources in one place -> what was observed of them and of their fabric, or why nothing was."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a verification.

    Attributes:
        problems: none means: as wanted, on every plane.
        changes: what the rows should say now; none for what could not be read.
        looked_at: plane -> how many things were read.
        notes: deviations that keep no pod from being READY.
    """

    problems: tuple[Problem, ...]
    changes: tuple[Change, ...] = ()
    looked_at: dict[str, int] = field(default_factory=dict)
    notes: tuple[Problem, ...] = ()

    @property
    def fine(self) -> bool:
        """Whether nothing differs and all could be read."""
        return not self.problems

    def reason(self) -> str:
        """The problems as one sentence, the first three in full."""
        return render(self.problems, most=3)

    def noted(self) -> str:
        """The notes as one sentence, the first three in full."""
        return render(self.notes, most=3)


def reading_age(held: Held, settings: LoopSettings) -> float:
    """Greatest age in seconds of the reading of a fabric by which an owner is judged: the reading is from after its
    last change."""
    if held.status.state is not PodState.READY or held.owner.repair:
        return 0.0
    # This process's driver doesn't know another process's change; the segment's row does.
    changed = (r.since for r in held.resources() if r.kind.row.home is Home.FABRIC and r.since)
    since = max(held.status.since, held.owner.ready_at or held.status.since, *changed)
    return min(settings.fabric_age, max(0.0, (held.at - since).total_seconds()))


SIGHT = 10.0
"""Seconds for which what a visit saw of servers at rest counts for its verdict: hosts are read in between."""


def just_seen(held: Held) -> dict[str, Observed]:
    """What this visit saw at rest at most `SIGHT` ago, and since its last request for a change."""
    now = time.monotonic()
    return {key: seen for key, (at, seen) in held.sights.items() if now - at <= SIGHT}


def verify(
    owner: OwnerRecord,
    records: Sequence[ResourceRecord],
    world: World,
    pool: Executor | None,
    max_age: float = 0.0,
    lane: VisitLane = ALONE,
    only: Container[str] | None = None,
    others: bool = True,
    known: Mapping[str, Observed] | None = None,
) -> Verdict:
    """Verify servers on their hosts, ports bound on their segments, and the fabric's own evidence.

    What the newest generation doesn't want still belongs to the owner, and isn't missed.

    Args:
        records: all of its resources: anything else belongs to someone else.
        pool: for readings that can run at the same time; None: nothing waits for the verdict, read one after the other.
        max_age: how many seconds ago the reading of a fabric may have begun; 0: it begins now.
        lane: the visit's, which waits for fabric and cloud.
        only: keys of those to verify; None: all.
        others: whether to look for other projects' things on a pod's networks, too.
        known: observations that the same visit made a moment ago (`just_seen`), which aren't repeated.
    """
    places: dict[str, dict[AnyKind, list[ResourceRecord]]] = {}
    for record in (r for r in records if r.wanted and (only is None or r.key in only)):
        places.setdefault(record.resource.where, {}).setdefault(record.kind, []).append(record)
    ids = {r.key: r.outside_id for r in records if r.outside_id}
    # Other projects may use the site's networks and tenants' own.
    pod = owner if others and isinstance(owner, PodRecord) else None
    listings = SharedListings(len(records))
    there = None if pod is None else _begin(pool, intruders, pod, records, world, listings)
    found: dict[str, Callable[[], _Looks]] = {}
    # Waiting for a fabric takes no place: visits that wait together share a reading.
    fabrics = [where for where, kinds in places.items() if _of_fabric(kinds)]
    with lane.outside():
        for where, kinds in places.items():
            if where in fabrics:
                found[where] = _begin(pool, _look_at_fabric, owner, kinds, world, max_age)
            else:
                alone = len(places) - len(found) == 1  # the last one runs in this thread
                scope = replace(owner.scope, listings=listings)
                found[where] = _begin(None if alone else pool, _look, scope, kinds, world, ids, known or {})
        looks = {where: look() for where, look in found.items() if where not in fabrics}
    if fabrics:
        with lane.aside():
            looks |= {where: found[where]() for where in fabrics}
    verdict = _judged(places, looks)
    if pod is None or there is None:
        return verdict
    try:
        # Not a difference of a row: recreating the pod's own resources wouldn't remove what someone else put there.
        more = tuple(i.problem() for i in there() if i.improper)
    except WeftError as error:
        more = (unread(pod.plan.cloud, error),)
    return replace(verdict, problems=(*verdict.problems, *more))


def _judged(
    places: Mapping[str, Mapping[AnyKind, Sequence[ResourceRecord]]], looks: Mapping[str, _Looks]
) -> Verdict:
    """Compare what was observed in each place with what is wanted there."""
    problems: list[Problem] = []
    notes: list[Problem] = []
    changes: list[Change] = []
    looked_at: dict[str, int] = {}
    for where in places:
        for kind, look in looks[where].items():
            if isinstance(look, WeftError):
                problems.append(unread(where, look))
                continue
            seen, check = look
            looked_at |= {f"{kind}s in {where}": sum(o.there for o in seen.values()), **check.looked_at}
            problems += check.problems
            notes += check.notes
            for record in (r for r in places[where][kind] if r.key in seen):
                changes.append(observed_change(record, seen[record.key]))
                problems += _problems(record, changes[-1], seen[record.key])
    return Verdict(tuple(problems), tuple(changes), looked_at, tuple(notes))


def _of_fabric(kinds: Collection[AnyKind]) -> bool:
    return any(kind.row.home is Home.FABRIC for kind in kinds)


def _begin(pool: Executor | None, look: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
    """Begin a look, in the pool if there is one; returns a function that waits for its result."""
    if pool is None:
        return partial(look, *args, **kwargs)
    return pool.submit(look, *args, **kwargs).result


def _look_at_fabric(
    owner: OwnerRecord, kinds: Mapping[AnyKind, list[ResourceRecord]], world: World, max_age: float
) -> _Looks:
    """Observe resources and evidence of a fabric by one and the same reading."""
    seen: dict[str, Observed] = {}
    problems: list[Problem] = []
    notes: list[Problem] = []
    looked_at: dict[str, int] = {}
    (kind, group), *_ = kinds.items()
    try:
        fabric = world.fabric(group[0].resource.where)
        snapshot = fabric.snapshot(max_age, patient=True)
    except WeftError as error:
        return {kind: error}
    for record in group:
        segment = record.resource.spec
        assert isinstance(segment, SegmentSpec)
        try:
            one, check = (
                fabric.observe(owner.scope.mark(record.key), segment, snapshot),
                fabric.check(segment, snapshot),
            )
        except WeftError as error:
            problems.append(unread(record.resource.where, error))
            continue
        seen[record.key] = one
        problems += check.problems
        notes += check.notes
        looked_at |= check.looked_at
    return {kind: (seen, SegmentCheck(tuple(problems), looked_at, tuple(notes)))}


def _look(
    scope: Scope,
    kinds: Mapping[AnyKind, list[ResourceRecord]],
    world: World,
    ids: Mapping[str, str],
    known: Mapping[str, Observed],
) -> _Looks:
    """Observe all kinds by one call; if that fails, each by its own, to observe what can be observed."""
    records = [r for group in kinds.values() for r in group]
    try:
        seen = {r.key: known[r.key] for r in records if r.key in known}
        if rest := [r for r in records if r.key not in known]:
            driver = world.driver(rest[0].resource.where)
            seen |= seen_of(driver.find(scope, [r.resource for r in rest], ids), rest)
    except WeftError as error:
        if len(kinds) == 1:
            return dict.fromkeys(kinds, error)
        each = [_look(scope, {kind: group}, world, ids, known) for kind, group in kinds.items()]
        return {kind: look for one in each for kind, look in one.items()}
    return {kind: ({r.key: seen[r.key] for r in group}, SegmentCheck(())) for kind, group in kinds.items()}


def _problems(record: ResourceRecord, change: Change, seen: Observed) -> list[Problem]:
    def problem(kind: ProblemKind, **detail: str) -> Problem:
        return of_resource(record, kind, detail)

    if not seen.there:
        return [problem(ProblemKind.MISSING)]
    if seen.differences:
        return [
            problem(ProblemKind.DIFFERENT, field=d.field, observed=d.observed, wanted=d.wanted)
            for d in seen.differences
        ]
    if change.state is not RowState.SETTLED:
        why = change.reason or "no reason given"
        return [problem(ProblemKind.UNSETTLED, state=str(change.state), why=why)]
    return []


def of_resource(record: ResourceRecord, kind: ProblemKind, detail: Mapping[str, str]) -> Problem:
    """A problem of one of the owner's own resources, with its ids and its node."""
    node = record.resource.node
    return Problem(
        kind,
        f"{record.kind} {record.resource.name}",
        record.resource.where,
        record.key,
        record.outside_id or "",
        (node,) if node else (),
        detail=detail,
    )
