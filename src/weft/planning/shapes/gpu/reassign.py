"""The nodes of a changed pod: which stay, are removed or added, and the number of each. Pure.

Nodes that stay keep their number and so their addresses. Added nodes are placed near the others, under the same
constraints. Of nodes that aren't named, those are removed whose loss leaves the pod most compact, by placement's costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from weft.model.errors import ConflictError, InputError
from weft.model.localityorder import LEVELS
from weft.model.messages import orders
from weft.model.messages import placement as placements
from weft.model.messages.orders import instead
from weft.model.offer import FieldsOffer, NewPodOffer, Offer, OfferedChange, fields_of, offered
from weft.model.order import Order
from weft.model.placement import (
    Explanation,
    Occupancy,
    PlacedNode,
    Placement,
    PlacementRequest,
    Refusal,
    by_server,
)
from weft.model.plan import Plan
from weft.model.site import Site
from weft.model.specs import PortSpec
from weft.planning.fabric.segments import management_size, rdma_size
from weft.planning.fabric.topology import Topology
from weft.planning.place.engine import Engine
from weft.planning.place.filters import carried, in_maintenance, others, stops
from weft.planning.place.placement import decide, place
from weft.planning.shapes.gpu.graph import RDMA_NETWORK
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.graph import servers_by_name
from weft.planning.shapes.shape import Assignment, Resolved
from weft.planning.words import first_names, some


def reassign(
    plan: Plan,
    resolved: Resolved,
    occupancy: Occupancy,
    leaving: Collection[str],
    remove: Collection[str],
) -> Assignment | Refusal:
    """The nodes of the changed order.

    Args:
        occupancy: what is unavailable for the lease of the changed order; the pod's own nodes are ignored.
        leaving: nodes of earlier generations that aren't released yet: their numbers are in use.
        remove: nodes to remove; further ones are chosen.

    Returns a `Refusal` if there is no room, or no address, for more.
    Raises `InputError` for a node that can't be removed, or an invalid order; `ConflictError` if a node
    that would stay isn't in the site any more.
    """
    order, site = resolved.order, resolved.site
    request = request_of(resolved)
    topology = Topology.of(site, plan.fabric)
    nodes, spares = _without(plan, order, remove)
    for one in (*nodes, *spares):
        if one.node not in topology.locations:
            raise ConflictError(orders.NODE_NOT_IN_SITE(node=one.node, pod=order.name, site=site.name))
    _check_slices(nodes, order, topology, remove)
    nodes = _fewer(nodes, request, site, topology, occupancy)
    more = order.nodes.count - len(nodes)
    used = _best_spares(
        _fit(spares, resolved, occupancy), nodes, max(0, min(more, len(spares) - order.nodes.spare))
    )
    nodes = [*nodes, *used]
    spares = _best_spares([s for s in spares if s not in used], nodes, order.nodes.spare)
    _check_level(nodes, spares, order, topology)
    why = _why_these(plan, nodes, spares, used)
    more, idle = order.nodes.count - len(nodes), order.nodes.spare - len(spares)
    if more or idle:
        found = _placed(request, more, idle, (*nodes, *spares), site, occupancy)
        if isinstance(found, Refusal):
            return found
        nodes, spares = [*nodes, *found.nodes], [*spares, *found.spares]
        why = found.explanation
    held = [n.node for n in (*nodes, *spares)]
    placement = Placement(
        nodes=tuple(nodes),
        spares=tuple(spares),
        level=topology.level_of(held),
        rails=topology.rails_of({n.leaf for n in (*nodes, *spares)}),
        explanation=why,
    )
    return numbered(plan, order, placement, leaving)


def _without(plan: Plan, order: Order, remove: Collection[str]) -> tuple[list[PlacedNode], list[PlacedNode]]:
    """The pod's nodes and spares without those that `remove` names."""
    placement = plan.placement
    known = set(placement.held)
    fewer = order.nodes.count < len(placement.nodes) or order.nodes.spare < len(placement.spares)
    meant = called(plan, by_server((*placement.nodes, *placement.spares)), remove)
    named = set[str]().union(*meant.values())
    if not fewer and not named:
        return list(placement.nodes), list(placement.spares)  # already requested and done
    for name in remove:
        if name not in meant:
            raise not_in_pod(name, known)
    nodes = [n for n in placement.nodes if n.node not in named]
    spares = [n for n in placement.spares if n.node not in named]
    if len(nodes) < order.nodes.count <= len(placement.nodes) or (
        len(nodes) < len(placement.nodes) and order.nodes.count > len(placement.nodes)
    ):
        raise too_many(remove, "node", "nodes.count", len(placement.nodes), order.nodes.count)
    if len(spares) < len(placement.spares) and len(spares) < order.nodes.spare:
        raise too_many(remove, "spare", "nodes.spare", len(placement.spares), order.nodes.spare)
    return nodes, spares


def called(
    plan: Plan, there: Mapping[str, PlacedNode], remove: Collection[str], field: str = "remove"
) -> dict[str, frozenset[str]]:
    """Name in `remove` -> servers of that name, or on the node of that name, as `by_server` has them.

    Names that are neither are left out. Raises `InputError` for the name of a server that is also another node's.
    """
    names, found = servers_by_name(plan.graph), dict[str, frozenset[str]]()
    for name in remove:
        on = frozenset(server for server, node in there.items() if node.node == name)
        own = frozenset({names[name]} & there.keys()) if name in names else frozenset[str]()
        if on and own and not own <= on:
            server = next(iter(own))
            allowed = f"a name of one: it is a node's, and that of the server on {there[server].node}"
            raise InputError(field, name, allowed)
        if own or on:
            found[name] = own or on
    return found


def not_in_pod(name: str, nodes: Collection[str]) -> InputError:
    """The error for a node to be removed that isn't the pod's."""
    return InputError(
        "remove", name, instead("nodes of the pod: {nodes}", nodes=first_names(sorted(nodes), 40))
    )


def too_many(remove: Collection[str], what: str, field: str, before: int, after: int) -> InputError:
    """The error for more names to remove than the order removes nodes."""
    form = "{count}, since {field} goes from {before} to {after}"
    allowed = instead(form, count=some(max(0, before - after), what), field=field, before=before, after=after)
    return InputError("remove", ", ".join(remove), allowed)


def _check_slices(
    nodes: Sequence[PlacedNode], order: Order, topology: Topology, remove: Collection[str]
) -> None:
    """Raise `InputError` if the named nodes leave part of a slice in a domain."""
    size = order.locality.slice
    for field, value in (("nodes.count", order.nodes.count), ("nodes.spare", order.nodes.spare)):
        if value % size:
            raise InputError(field, value, instead("a multiple of the slice ({size})", size=size))
    locations, on_leaf = [topology.locations[n.node] for n in nodes], order.locality.slice_within == "leaf"
    domains = Counter(s.leaf if on_leaf else s.nvlink_domain for s in locations)
    for domain, count in sorted(domains.items()):
        if remove and count % size:
            per, left = ("leaf", f"on {domain}") if on_leaf else ("NVLink domain", f"in {domain or 'none'}")
            form = "whole slices of {size} nodes per {per}; {count} would be left {left}"
            allowed = instead(form, size=size, per=per, count=some(count, "node"), left=left)
            raise InputError("remove", ", ".join(remove), allowed)


def _check_level(
    nodes: Sequence[PlacedNode], spares: Sequence[PlacedNode], order: Order, topology: Topology
) -> None:
    """Raise `InputError` if the remaining nodes are farther apart than the order requires: nodes don't move."""
    level = topology.level_of([n.node for n in (*nodes, *spares)])
    required = order.locality.required
    if LEVELS.index(level) > LEVELS.index(required):
        allowed = instead("{level} or wider: its nodes are within one {level} and don't move", level=level)
        raise InputError("locality.required", required, allowed)


def _fewer(
    nodes: Sequence[PlacedNode],
    request: PlacementRequest,
    site: Site,
    topology: Topology,
    occupancy: Occupancy,
) -> list[PlacedNode]:
    """The most compact ones of the pod's nodes, as many as requested: placed again on these nodes only."""
    if len(nodes) <= request.count:
        return list(nodes)
    own = Engine.among(site, request.fabric, (n.node for n in nodes), Occupancy())
    # Its nodes are inside the required level already; placement's ranking by distance does the rest.
    asked = request.model_copy(update={"spare": 0, "near": ()})
    taken = carried(topology, others(request, occupancy))
    found = decide(asked, own, taken)
    if found is None:  # what is guaranteed on uplinks may be more across leaves than inside one
        allowed = instead(
            "{nodes}, or name the nodes to remove: no {count} of them satisfy the order",
            nodes=len(nodes),
            count=request.count,
        )
        raise InputError("nodes.count", request.count, allowed)
    stay = frozenset(found.nodes)
    return [n for n in nodes if n.node in stay]


def _fit(spares: Sequence[PlacedNode], resolved: Resolved, occupancy: Occupancy) -> list[PlacedNode]:
    """Spares that may get a server; of a slice all or none."""
    bad = [s for s in spares if occupancy.out_of_service(s.node) is not None]
    if resolved.order.locality.slice == 1:
        return [s for s in spares if s not in bad]
    on_leaf = resolved.order.locality.slice_within == "leaf"
    domains = {s.leaf if on_leaf else s.nvlink_domain for s in bad}
    return [s for s in spares if (s.leaf if on_leaf else s.nvlink_domain) not in domains]


def _best_spares(spares: Sequence[PlacedNode], nodes: Sequence[PlacedNode], count: int) -> list[PlacedNode]:
    """The `count` spares on the leaves where the pod has most nodes."""
    on = Counter(n.leaf for n in nodes)
    best = sorted(spares, key=lambda s: -on[s.leaf])[:count]
    return [s for s in spares if s in best]


def _placed(
    request: PlacementRequest,
    more: int,
    idle: int,
    stay: Sequence[PlacedNode],
    site: Site,
    occupancy: Occupancy,
) -> Placement | Refusal:
    """Nodes and spares next to those that stay."""
    near = tuple(n.node for n in stay)
    # Spares alone are placed as nodes are.
    asked = request.model_copy(update={"count": more or idle, "spare": idle if more else 0, "near": near})
    found = place(asked, site, occupancy)
    if isinstance(found, Placement):
        return found if more else found.model_copy(update={"nodes": (), "spares": found.nodes})
    extra = some(more + idle, "additional node")
    reason = placements.MORE_FOR_POD(more=extra, stay=len(stay), why=found.reason)
    fewer = _fewer_more(asked, site, occupancy) if more > 1 else 0
    total = request.count - more + fewer
    first = [offered("nodes.count", request.count, total)] if fewer else []
    changes = [_of_pod(x, request) for x in found.would_fit if "nodes.count" not in fields_of(x)]
    return found.model_copy(update={"reason": reason, "would_fit": (*first, *changes)})


def _of_pod(offer: Offer, request: PlacementRequest) -> Offer:
    """An offer for the added nodes and spares, as a change of the whole pod's order (`request`)."""
    match offer:
        case FieldsOffer(changes=(OfferedChange(field="nodes.spare", was=int(was), becomes=int(becomes)),)):
            return offered("nodes.spare", request.spare, request.spare - was + becomes)
        case _:
            return offer


def _fewer_more(asked: PlacementRequest, site: Site, occupancy: Occupancy) -> int:
    """The largest number of nodes that could be added; 0: none."""
    low, high = 0, asked.count // asked.slice
    while high - low > 1:
        middle = (low + high) // 2
        tried = asked.model_copy(update={"count": middle * asked.slice})
        low, high = (middle, high) if isinstance(place(tried, site, occupancy), Placement) else (low, middle)
    return low * asked.slice


def _why_these(
    plan: Plan, nodes: Sequence[PlacedNode], spares: Sequence[PlacedNode], used: Sequence[PlacedNode]
) -> Explanation:
    before = plan.placement.explanation
    if [n.node for n in nodes] == [n.node for n in plan.placement.nodes] and len(spares) == len(
        plan.placement.spares
    ):
        return before
    leaves = list(dict.fromkeys(n.leaf for n in nodes))
    text = f"{some(len(nodes), 'node')} stay on {some(len(leaves), 'leaf', 'leaves')} ({first_names(leaves)})"
    text += f", {len(used)} of them spares so far" if used else ""
    return Explanation(considered=before.considered, chosen=text)


def numbered(
    plan: Plan, order: Order, placement: Placement, leaving: Collection[str]
) -> Assignment | Refusal:
    """A number for each server: those that stay or are leaving keep theirs, added ones get the lowest free."""
    before, old = plan.allotment, plan.server_numbers
    names, were = (list(by_server(p.nodes)) for p in (placement, plan.placement))
    if names == were:
        return Assignment(placement, before)
    rails = before.rails or rails_of(plan)
    going = set(were) - set(names) | set(leaving)
    stay = {*were} & {*names} | going
    hosts = {n: old[n] for n in (*names, *sorted(going - set(names))) if n in stay and n in old}
    for (
        name
    ) in names:  # one that returns may have been replaced under its number, by a node that returns, too
        if name in old and name not in stay and old[name] not in hosts.values():
            hosts[name] = old[name]
    free = (i for i in range(len(hosts) + len(names)) if i not in set(hosts.values()))
    hosts |= {n: next(free) for n in names if n not in hosts}
    if refused := too_small(plan, order, max(hosts[n] for n in names) + 1, rails):
        return refused
    numbers = before.model_copy(update={"hosts": hosts, "rails": rails})
    return Assignment(placement, numbers)


def rails_of(plan: Plan) -> int:
    """Adapters that the RDMA subnet of a plan counts with: those of the server that has most of them."""
    on = Counter(
        r.key.rpartition("/")[0]
        for r in plan.graph.resources
        if isinstance(r.spec, PortSpec) and r.spec.network == RDMA_NETWORK
    )
    return max(on.values(), default=1)


def too_small(plan: Plan, order: Order, numbers: int, rails: int) -> Refusal | None:
    """Why there are no addresses for this many nodes: a subnet can't grow while servers are on it."""
    sizes = {
        "rdma": (plan.allotment.rdma_cidr, rdma_size(numbers, rails)),
        "management": (plan.allotment.management_cidr, management_size(numbers)),
    }
    for plane, (cidr, size) in sizes.items():
        if not cidr:
            continue
        there = 1 << (32 - int(cidr.rpartition("/")[2]))
        if size > there:
            reason = placements.SUBNET_TOO_SMALL(
                cidr=cidr, plane=plane, there=there, needed=size, n=order.nodes.count
            )
            would = NewPodOffer(field=f"network.{plane}")
            return Refusal(
                reason=reason, explanation=Explanation(considered=0, chosen=reason), would_fit=(would,)
            )
    return None


def chosen_out(by: str, site: Site, occupancy: Occupancy, shares: bool = False) -> str | None:
    """What keeps the node that shall take another one's place from every order, by the filter's name; None: nothing
    does. Args: shares: a part of it is enough."""
    ways = {
        **stops(occupancy, in_maintenance(site)),
        "busy": {} if shares and by in occupancy.parts else occupancy.busy,
        "reserved": occupancy.reserved,
    }
    for name, why in ways.items():
        if by in why:
            return placements.CHOSEN_NODE_OUT(chosen=by, filter=name, why=why[by])
    return None
