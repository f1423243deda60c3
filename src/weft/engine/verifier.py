"""Looks at everything of a pod, on every plane, and says what isn't as wanted. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from weft.engine.intruders import intruders
from weft.engine.moves import observed_change, seen_of
from weft.engine.records import Change, PodRecord, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.problem import Problem, ProblemKind, render, unread
from weft.model.resources import AnyKind, Observed, PartitionSpec
from weft.model.site import Site
from weft.planning.fabric.check import check_paths, check_tables, manager_ports, probe_pairs


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
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, site: Site, pool: Executor
) -> Verdict:
    """Servers on their hosts, ports bound on their segments, exact tables on the wire, paths for members only."""
    groups: dict[tuple[str, AnyKind], list[ResourceRecord]] = {}
    for record in records:
        groups.setdefault((record.resource.where, record.kind), []).append(record)
    ids = {r.key: r.outside_id for r in records if r.outside_id}
    looks = {place: pool.submit(_look, pod, group, world, ids) for place, group in groups.items()}
    partition = next((r.resource.spec for r in records if isinstance(r.resource.spec, PartitionSpec)), None)
    fabric = pool.submit(check_fabric, pod.plan.fabric, partition, world, site) if partition else None
    others = pool.submit(intruders, pod, records, world)
    problems: list[Problem] = []
    changes: list[Change] = []
    looked_at: dict[str, int] = {}
    for (where, kind), look in looks.items():
        try:
            seen = look.result()
        except WeftError as error:
            problems.append(unread(where, error))
            continue
        looked_at[f"{kind}s in {where}"] = sum(o.there for o in seen.values())
        for record in groups[where, kind]:
            changes.append(observed_change(record, seen[record.key]))
            problems += _problems(record, changes[-1], seen[record.key])
    if fabric is not None:
        try:
            found, ports = fabric.result()
            problems += found
            looked_at[f"host ports of {pod.plan.fabric}"] = ports
        except WeftError as error:
            problems.append(unread(pod.plan.fabric, error))
    try:
        # No row's difference: what somebody else has put there isn't made right by making the pod's own anew.
        problems += [i.problem() for i in others.result() if i.improper]
    except WeftError as error:
        problems.append(unread(pod.plan.cloud, error))
    return Verdict(tuple(problems), tuple(changes), looked_at)


def check_fabric(name: str, partition: PartitionSpec, world: World, site: Site) -> tuple[list[Problem], int]:
    """Problems of a partition on its fabric, and how many host ports were read.

    What is wrong with a manager is the audit's and the operator's; a pod is judged by the wire.
    """
    reader = world.fabric(name)
    tables = reader.tables()
    problems = check_tables(site, name, partition.pkey, partition.members, tables)
    wanted, unwanted = probe_pairs(
        partition.members, tables, site.fabrics[name].segments, manager_ports(site, name)
    )
    probes = reader.paths([*wanted, *unwanted])
    problems += check_paths(site, name, partition.pkey, probes[: len(wanted)], probes[len(wanted) :])
    return problems, sum(not t.unreachable for t in tables.values())


def _look(
    pod: PodRecord, group: list[ResourceRecord], world: World, ids: dict[str, str]
) -> Mapping[str, Observed]:
    driver = world.driver(group[0].resource.where)
    return seen_of(driver.find(pod.scope, [r.resource for r in group], ids), group)


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
