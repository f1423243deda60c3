"""Reads everything of an owner, on every plane, and reports differences from the desired state. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from weft.engine.intruders import intruders
from weft.engine.moves import observed_change, seen_of
from weft.engine.ownerrecord import OwnerRecord
from weft.engine.records import Change, PodRecord, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import Check
from weft.model.kinds import Home
from weft.model.problem import Problem, ProblemKind, render, unread
from weft.model.resources import AnyKind, Observed, SegmentSpec


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was seen.

    Attributes:
        problems: none means: as wanted, on every plane.
        changes: what the rows should say now; of what could not be read there are none.
        looked_at: plane -> how many things were read.
    """

    problems: tuple[Problem, ...]
    changes: tuple[Change, ...] = ()
    looked_at: dict[str, int] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        return not self.problems

    def reason(self) -> str:
        """The problems as one sentence, the first three in full."""
        return render(self.problems, most=3)


def verify(
    owner: OwnerRecord,
    records: Sequence[ResourceRecord],
    world: World,
    pool: Executor,
    max_age: float = 0.0,
) -> Verdict:
    """Servers on their hosts, ports bound on their segments, the fabric's own evidence.

    What the newest generation doesn't want is the owner's still, and isn't missed.

    Args:
        max_age: how many seconds ago the reading of a fabric may have begun; 0: it begins now.
    """
    groups: dict[tuple[str, AnyKind], list[ResourceRecord]] = {}
    for record in (r for r in records if r.wanted):
        groups.setdefault((record.resource.where, record.kind), []).append(record)
    ids = {r.key: r.outside_id for r in records if r.outside_id}
    looks = {
        place: pool.submit(_look_at_fabric, owner, group, world, max_age)
        if place[1].row.home is Home.FABRIC
        else pool.submit(_look, owner, group, world, ids)
        for place, group in groups.items()
    }
    # Networks of the site, and of a tenant's own making, are there for others to be on.
    others = pool.submit(intruders, owner, records, world) if isinstance(owner, PodRecord) else None
    problems: list[Problem] = []
    changes: list[Change] = []
    looked_at: dict[str, int] = {}
    for (where, kind), look in looks.items():
        try:
            seen, check = look.result()
        except WeftError as error:
            problems.append(unread(where, error))
            continue
        looked_at |= {f"{kind}s in {where}": sum(o.there for o in seen.values()), **check.looked_at}
        problems += check.problems
        for record in groups[where, kind]:
            changes.append(observed_change(record, seen[record.key]))
            problems += _problems(record, changes[-1], seen[record.key])
    if isinstance(owner, PodRecord) and others is not None:
        try:
            # No row's difference: what somebody else has put there isn't made right by making the pod's own again.
            problems += [i.problem() for i in others.result() if i.improper]
        except WeftError as error:
            problems.append(unread(owner.plan.cloud, error))
    return Verdict(tuple(problems), tuple(changes), looked_at)


def _look_at_fabric(
    owner: OwnerRecord, group: list[ResourceRecord], world: World, max_age: float
) -> tuple[Mapping[str, Observed], Check]:
    """Rows and evidence by one and the same reading."""
    fabric = world.fabric(group[0].resource.where)
    snapshot = fabric.snapshot(max_age)
    seen: dict[str, Observed] = {}
    problems: list[Problem] = []
    looked_at: dict[str, int] = {}
    for record in group:
        segment = record.resource.spec
        assert isinstance(segment, SegmentSpec)
        seen[record.key] = fabric.observe(owner.scope.mark(record.key), segment, snapshot)
        check = fabric.check(segment, snapshot)
        problems += check.problems
        looked_at |= check.looked_at
    return seen, Check(tuple(problems), looked_at)


def _look(
    owner: OwnerRecord, group: list[ResourceRecord], world: World, ids: dict[str, str]
) -> tuple[Mapping[str, Observed], Check]:
    driver = world.driver(group[0].resource.where)
    return seen_of(driver.find(owner.scope, [r.resource for r in group], ids), group), Check(())


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
    """A problem of one of the pod's own resources, with its ids and its node."""
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
