"""The pod's next plan for a changed order, with the difference. Pure.

The graph is computed again by the same function; existing resources stay as created, except for fields that can be
changed in place. So neither a new version nor a changed site rebuilds what the order doesn't change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set, Sized
from typing import Any

from weft.model.change import PodChange, Replacement, SpecChange
from weft.model.offer import NewPodOffer, fields_of
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal, by_server
from weft.model.plan import Plan
from weft.model.resources import Graph, Resource
from weft.model.site import Site
from weft.planning.shapes.graph import in_order
from weft.planning.shapes.orderdiff import order_change
from weft.planning.shapes.resolve import as_placed, shape_of
from weft.planning.shapes.shape import Assignment, ChangedPod
from weft.planning.words import some


def make_change(
    plan: Plan,
    order: Order,
    site: Site,
    occupancy: Occupancy,
    leaving: Collection[str] = (),
    remove: Collection[str] = (),
    replaces: Replacement | None = None,
) -> Plan | Refusal:
    """The plan of the next generation, with the difference in `change`; the plan itself, if nothing is different.

    What can't be changed is in `change.impossible` and unchanged in the plan; such a change is refused when applied.

    Args:
        plan: the plan in force.
        occupancy, leaving, remove: as for `weft.planning.shapes.gpu.reassign.reassign`; for servers on shared nodes
            as for `weft.planning.shapes.gpu.reassignparts.reassign_parts`.
        replaces: another node in the place of one, of the order as it is: `remove` is empty then.

    Returns a `Refusal` if there is no room for more nodes.
    Raises `InputError` for an invalid order, `ConflictError` if a node that stays isn't in the site any more.
    """
    asked = order_change(plan, order, site)
    shape = shape_of(plan.order)
    pod = ChangedPod(plan, as_placed(asked.order, plan), site, occupancy, leaving)
    assignment = shape.reassign(pod, remove) if replaces is None else shape.replace(pod, replaces)
    if isinstance(assignment, Refusal):
        return _with_possible(assignment, shape.changeable)
    if replaces is not None:
        asked = order_change(plan, _without_used(order, assignment), site)
    now = {"order": asked.order, "placement": assignment.placement, "allotment": assignment.allotment}
    graph = _merged(plan, shape.graph(plan.model_copy(update=now), site), assignment)
    change = PodChange(
        generation=plan.generation,
        fields=asked.fields,
        impossible=asked.impossible,
        **_nodes(plan, assignment),
        **_resources(plan.graph, graph),
    )
    if change.nothing:
        return plan.model_copy(update={"change": change})
    generation = plan.generation + 1
    change = change.model_copy(update={"generation": generation})
    return plan.model_copy(update={**now, "generation": generation, "graph": graph, "change": change})


def _without_used(order: Order, assignment: Assignment) -> Order:
    """The order without the spare that took a node's place: nothing looks for another one unless it is ordered."""
    nodes = order.nodes.model_copy(update={"spare": len(assignment.placement.spares)})
    return order.model_copy(update={"nodes": nodes})


def _with_possible(refusal: Refusal, changeable: Set[str]) -> Refusal:
    """The refusal without offers that only a new pod could use: a pod's other fields can't be changed."""
    offers = [x for x in refusal.would_fit if isinstance(x, NewPodOffer) or changeable >= {*fields_of(x)}]
    return refusal.model_copy(update={"would_fit": tuple(offers)})


def _merged(plan: Plan, wanted: Graph, assignment: Assignment) -> Graph:
    """The desired graph, with existing resources as created except for in-place changes."""
    old, there = plan.graph.by_key(), {r.key for r in wanted.resources}
    stay = by_server(assignment.placement.nodes).keys() & by_server(plan.placement.nodes).keys()

    def detached(key: str) -> bool:
        return key in old and old[key].kind.row.detachable

    found: list[Resource] = []
    for resource in wanted.resources:
        before = old.get(resource.key)
        if before is None:
            if not _stays(resource, stay):
                found.append(resource)
            continue
        new = {name: getattr(resource.spec, name) for name in resource.kind.row.in_place}
        # A resource that follows the nodes in place, such as a segment's members, also needs what they need.
        needs = resource.needs if new else tuple(n for n in before.needs if n in there or not detached(n))
        update = {"spec": before.spec.model_copy(update=new), "needs": needs}
        found.append(before.model_copy(update=update))
    gone = {r.key: r for r in plan.graph.resources if r.key not in there}
    found += [r for r in gone.values() if _stays(r, stay)]
    needed = {n for r in found for n in r.needs}
    found += [r for key, r in gone.items() if key in needed and not _stays(r, stay)]
    return Graph(resources=in_order(found))


def _stays(resource: Resource, servers: Collection[str]) -> bool:
    """Whether it belongs to the lifetime of one of these servers or machines. Keys on a shared node have the server's
    name after the kind."""
    named = "/".join(resource.key.split("/")[1:3])
    return resource.kind.row.keeps_node and (resource.node in servers or named in servers)


def _nodes(plan: Plan, assignment: Assignment) -> dict[str, Any]:
    before, after = plan.placement, assignment.placement
    was, becomes = (by_server((*p.nodes, *p.spares)) for p in (before, after))
    nodes = {n.node for n in after.nodes}
    return {
        "nodes_added": tuple(n.node for name, n in becomes.items() if name not in was),
        "nodes_removed": tuple(n.node for name, n in was.items() if name not in becomes),
        "spares_used": tuple(n.node for n in before.spares if n.node in nodes),
    }


def _resources(before: Graph, after: Graph) -> dict[str, Any]:
    old, new = before.by_key(), after.by_key()
    return {
        "added": tuple(r.key for r in after.resources if r.key not in old),
        "removed": tuple(r for r in before.resources if r.key not in new),
        "changed": tuple(c for r in after.resources if r.key in old for c in _specs(old[r.key], r)),
    }


def _specs(before: Resource, after: Resource) -> Iterator[SpecChange]:
    for name, value in after.spec:
        was = getattr(before.spec, name)
        if was != value:
            words = _ports if name == "members" else _text
            yield SpecChange(key=after.key, field=name, was=words(was), becomes=words(value))


def _ports(members: Sized) -> str:
    """How many ports; only operators see which ones."""
    return some(len(members), "port")


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return ", ".join(str(v) for v in value) or "none"  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case _:
            return str(value)
