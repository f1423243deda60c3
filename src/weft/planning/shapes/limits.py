"""Limits of projects, and resources that pods must no longer begin to use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from weft.model.messages import placement
from weft.model.placement import Explanation, Refusal
from weft.model.resources import Graph
from weft.model.specs import FloatingIPSpec, PortSpec, RouterSpec, ServerSpec
from weft.planning.place.slots import is_slot
from weft.planning.queue.book import Book
from weft.planning.shapes.shape import Resolved


def over_limit(
    resolved: Resolved,
    nodes: Collection[str],
    book: Book,
    start: float,
    end: float,
    exclude_pod: str = "",
    leaving: Iterable[str] = (),
) -> Refusal | None:
    """Why the project can't have this many nodes, counting what it holds and has booked in the window.

    Args:
        nodes: what the order would get: shared nodes on which the project has parts already don't count again.
        exclude_pod: a pod that isn't counted.
        leaving: nodes that this pod still holds and doesn't want any more.
    """
    limits, project = resolved.site.queue.projects.get(resolved.project), resolved.project
    if limits is None or limits.max_nodes is None:
        return None
    held = {
        node
        for keep in (*book.leases, *book.bookings)
        if keep.project == project and keep.name != exclude_pod and keep.overlaps(start, end)
        for node in keep.nodes
        if not is_slot(node)
    }.union(leaving)
    has, spare, most = len(held), resolved.order.nodes.spare, limits.max_nodes
    wanted = resolved.shape.adds(resolved, nodes, held)
    if has + wanted <= most:
        return None
    reason = placement.PROJECT_LIMIT(has=has, most=most, more=wanted, spare=spare or None)
    left = most - has - spare
    fewer = resolved.shape.fewer(resolved.order, left) if left > 0 else None
    would = () if fewer is None else (fewer,)
    return Refusal(reason=reason, explanation=Explanation(considered=0, chosen=reason), would_fit=would)


def ending(graph: Graph, names: Mapping[str, str]) -> Refusal | None:
    """Why a pod can't have these resources while networks or flavors of the site are being removed: it would delay
    the removal, and then lack them.

    Args:
        names: name or id of each of these networks and flavors -> its kind.
    """
    if not names:
        return None
    used = set[str]()
    for resource in graph.resources:
        match resource.spec:
            case PortSpec(site_network=str() as name) | RouterSpec(external_network=name):
                used.add(name)
            case FloatingIPSpec(external_network=name) | ServerSpec(flavor=name):
                used.add(name)
            case _:
                pass
    if not (found := sorted(used & names.keys())):
        return None
    listed = ", ".join(f"{names[name]} {name}" for name in found)
    reason = placement.SITE_IS_REMOVING(things=listed)
    return Refusal(reason=reason, explanation=Explanation(considered=0, chosen=reason))
