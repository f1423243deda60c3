"""Where a pod would continue without some of its nodes, by the rules for a change of its order. Pure.

Its spares come first, then nodes near those that stay; if none stays, the whole pod is placed again. With slices, whole
slices move unless a single node has a replacement within its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from weft.model.change import Replacement
from weft.model.placement import Occupancy, PlacedNode, Placement, Refusal
from weft.model.plan import Plan
from weft.planning.place.placement import place
from weft.planning.shapes.gpu.reassign import reassign
from weft.planning.shapes.gpu.reassignparts import reassign_parts
from weft.planning.shapes.gpu.replacing import replace_node
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.shape import Assignment, Elsewhere, Resolved


def elsewhere(
    plan: Plan, resolved: Resolved, occupancy: Occupancy, lost: Collection[str]
) -> Elsewhere | Refusal:
    """The pod's placement without these nodes, which the occupancy has as out of service.

    Idle spares that are lost are placed again only if no server is.

    Returns a `Refusal` if there is no room. Raises `InputError` and `ConflictError` as `reassign`.
    """
    gone = frozenset(lost).intersection(plan.placement.held)
    working = [n for n in plan.placement.nodes if n.node in gone]
    if resolved.order.locality.slice > 1 and len(gone) == len(working) == 1:
        found = replace_node(plan, resolved, occupancy, (), Replacement(node=working[0].node))
        if isinstance(found, Assignment):
            return _result(plan, found.placement, gone, gone)
    away = _whole_slices(plan, resolved, gone)
    kept = plan.placement.model_copy(
        update={
            "nodes": tuple(n for n in plan.placement.nodes if n.node not in away),
            "spares": tuple(n for n in plan.placement.spares if n.node not in away),
        }
    )
    more = len(plan.placement.nodes) - len(kept.nodes)
    spare = max(0, len(kept.spares) - more) if more else len(plan.placement.spares)
    spare -= spare % resolved.order.locality.slice
    nodes = resolved.order.nodes.model_copy(update={"count": len(plan.placement.nodes), "spare": spare})
    wanted = replace(resolved, order=resolved.order.model_copy(update={"nodes": nodes}))
    found = _again(plan.model_copy(update={"placement": kept}), wanted, occupancy)
    return found if isinstance(found, Refusal) else _result(plan, found, gone, away)


def _again(kept: Plan, wanted: Resolved, occupancy: Occupancy) -> Placement | Refusal:
    """The rest of a pod, with nodes added until it has as many as its order wants."""
    if not kept.placement.held:
        return place(request_of(wanted), wanted.site, occupancy)
    shared = wanted.order.nodes.sharing == "shared"
    made = (reassign_parts if shared else reassign)(kept, wanted, occupancy, (), ())
    return made if isinstance(made, Refusal) else made.placement


def _whole_slices(plan: Plan, resolved: Resolved, gone: Collection[str]) -> frozenset[str]:
    """The lost nodes, and as many others of their domains, by name, as make up whole slices to be placed again."""
    size = resolved.order.locality.slice
    found = set(gone)
    if size == 1:
        return frozenset(found)
    for nodes in (plan.placement.nodes, plan.placement.spares):
        count = Counter(_domain(resolved, n) for n in nodes if n.node in gone)
        for domain, number in count.items():
            stay = [n.node for n in nodes if _domain(resolved, n) == domain and n.node not in gone]
            found.update(stay[: -number % size])
    return frozenset(found)


def _domain(resolved: Resolved, node: PlacedNode) -> str | None:
    return node.leaf if resolved.order.locality.slice_within == "leaf" else node.nvlink_domain


def _result(plan: Plan, placement: Placement, gone: Collection[str], away: Collection[str]) -> Elsewhere:
    there = {n.node for n in (*plan.placement.nodes, *plan.placement.spares) if n.node not in away}
    before = Counter(n.node for n in plan.placement.nodes if n.node in there)
    added: list[PlacedNode] = []
    for one in (*placement.nodes, *placement.spares):
        if one.part is not None and before[one.node]:
            before[one.node] -= 1
        elif one.part is not None or one.node not in there:
            added.append(one)
    moves = tuple(n for n in plan.placement.held if n in away and n not in gone)
    working = {n.node for n in placement.nodes}
    used = tuple(n.node for n in plan.placement.spares if n.node in working)
    return Elsewhere(placement, tuple(added), spares=used, moves=moves)
