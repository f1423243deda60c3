"""The difference between a pod and a changed order as text: +, − and ~. Equal plans give equal text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from weft.model.change import PodChange
from weft.model.placement import PlacedNode
from weft.model.plan import Plan
from weft.planning.shapes.plantext import counts, notes, table
from weft.planning.shapes.resolve import shape_of

MOST_ROWS = 40
"""Resources that are listed individually; more are counted."""


def change_text(plan: Plan) -> str:
    """The difference of a plan that has one."""
    change = plan.change
    assert change is not None
    name = plan.order.name
    if change.nothing:
        return f"Pod {name} already matches the order (generation {change.generation}). Nothing to change.\n"
    head = (
        f"Change of pod {name} (project {plan.project}) on site {plan.site} to generation {change.generation}"
    )
    sections = [
        [f"{head}. Nothing was changed."],
        list(_fields(change)),
        list(_impossible(change)),
        list(_nodes(plan, change)),
        list(_resources(plan, change)),
        [f"Note: {said}" for said in notes(plan)],
        list(_sums(plan, change)),
    ]
    return "\n\n".join("\n".join(s) for s in sections if s) + "\n"


def _fields(change: PodChange) -> Iterator[str]:
    if change.fields:
        yield "Order:"
        yield from table([["~", f.field, f"{f.was} → {f.becomes}"] for f in change.fields])


def _impossible(change: PodChange) -> Iterator[str]:
    if change.impossible:
        yield "Can't be changed in place, so this order would be refused as it stands:"
        yield from (f"  {i.field}: {i.was} stays, not {i.value}: {i.allowed}" for i in change.impossible)


def _nodes(plan: Plan, change: PodChange) -> Iterator[str]:
    rows: list[list[str]] = []
    rows += [["−", node, "", "", ""] for node in change.nodes_removed]
    rows += [_row("~", n) for n in plan.placement.nodes if n.node in change.spares_used]
    rows += [_row("+", n) for n in _last(plan.placement.nodes, change.nodes_added)]
    rows += [_row("+ spare", n) for n in plan.placement.spares if n.node in change.nodes_added]
    if rows:
        come = Counter((*change.nodes_added, *change.spares_used))
        stay = len(plan.placement.nodes) - len(_last(plan.placement.nodes, come.elements()))
        shared = shape_of(plan.order).shares_nodes
        who = f"Servers: {stay} stay, with their" if shared else f"Nodes: {stay} stay, with their servers and"
        yield f"{who} addresses; all within one {plan.placement.level}."
        yield from table([["", "node", "rack", "leaf", "block"], *rows])
        yield f"Why: {plan.placement.explanation.chosen}"


def _last(nodes: Sequence[PlacedNode], names: Iterable[str]) -> list[PlacedNode]:
    """The last nodes of each name, as many as it occurs in `names`: those that stay come before."""
    left, found = Counter(names), list[PlacedNode]()
    for node in reversed(nodes):
        if left[node.node]:
            left[node.node] -= 1
            found.append(node)
    return found[::-1]


def _row(mark: str, node: PlacedNode) -> list[str]:
    return [mark, node.node, node.rack or "-", node.leaf, node.block]


def _resources(plan: Plan, change: PodChange) -> Iterator[str]:
    there = plan.graph.by_key()
    rows = [["−", r.key, r.name, r.where, r.spec.summary()] for r in change.removed]
    rows += [
        ["~", c.key, there[c.key].name, there[c.key].where, f"{c.field}: {c.was} → {c.becomes}"]
        for c in change.changed
    ]
    rows += [["+", r.key, r.name, r.where, r.spec.summary()] for r in (there[key] for key in change.added)]
    if rows:
        yield "Resources:"
        yield from table([["", "key", "name", "where", "what"], *rows[:MOST_ROWS]])
        if len(rows) > MOST_ROWS:
            yield f"  … and {len(rows) - MOST_ROWS} more. Each by name: --json."


def _sums(plan: Plan, change: PodChange) -> Iterator[str]:
    there = plan.graph.by_key()
    changed = {c.key: there[c.key] for c in change.changed}
    for resources, done in (
        (change.removed, "removed"),
        (changed.values(), "changed in place"),
        ([there[key] for key in change.added], "created"),
    ):
        if said := counts(resources):
            yield f"Would be {done}: {said}."
