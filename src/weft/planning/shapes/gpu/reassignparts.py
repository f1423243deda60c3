"""The servers of a changed pod on shared nodes: which stay, go or come, and the number of each. Pure.

Servers that stay keep their part of their node, their number and so their addresses. Of servers that aren't named,
those are removed whose loss leaves the pod on the fewest nodes, and on nodes that others share anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError
from weft.model.messages import orders
from weft.model.messages import placement as placements
from weft.model.messages.orders import instead
from weft.model.offer import fields_of, offered
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
from weft.planning.fabric.topology import Topology
from weft.planning.place.placement import place
from weft.planning.place.room import Room
from weft.planning.place.shares import choose, most_shares
from weft.planning.shapes.gpu.reassign import called, chosen_out, not_in_pod, numbered, too_many
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.graph import servers_by_name
from weft.planning.shapes.shape import Assignment, Resolved
from weft.planning.words import first_names, some

Servers = Mapping[str, PlacedNode]
"""Servers by name, as `by_server` has them."""


def reassign_parts(
    plan: Plan,
    resolved: Resolved,
    occupancy: Occupancy,
    leaving: Collection[str],
    remove: Collection[str],
) -> Assignment | Refusal:
    """The servers of the changed order.

    Args:
        occupancy: what is unavailable for the lease of the changed order, including the pod's own parts.
        leaving: servers of earlier generations that aren't gone yet: their names and numbers are in use.
        remove: servers to remove, by name or by node; further ones are chosen.

    Returns a `Refusal` if there is no room, or no address, for more.
    Raises `InputError` for a server that can't be removed, or an invalid order; `ConflictError` if a node
    that would stay isn't in the site any more.
    """
    order, site, before = resolved.order, resolved.site, by_server(plan.placement.nodes)
    stay = _without(plan, before, order.nodes.count, remove)
    if len(stay) == len(before) == order.nodes.count:
        return Assignment(plan.placement, plan.allotment)
    request, topology = request_of(resolved), Topology.of(site, plan.fabric)
    for one in stay.values():
        if one.node not in topology.locations:
            raise ConflictError(orders.NODE_NOT_IN_SITE(node=one.node, pod=order.name, site=site.name))
    stay = _fewer(stay, request, site, topology, occupancy)
    who = f"{some(len(stay), 'server')} {'stays' if len(stay) == 1 else 'stay'}"
    why = f"{who} on {some(len(_on(stay)), 'node')} ({first_names(list(_on(stay)))})"
    explanation = Explanation(considered=plan.placement.explanation.considered, chosen=why)
    servers = dict(stay)
    if more := order.nodes.count - len(stay):
        found = _placed(request, more, stay, site, occupancy)
        if isinstance(found, Refusal):
            return found
        explanation = found.explanation
        servers |= _named(found, {*before, *leaving})
    return numbered(plan, order, _placement(servers, topology, explanation), leaving)


def replace_part(
    plan: Plan, resolved: Resolved, occupancy: Occupancy, leaving: Collection[str], asked: Replacement
) -> Assignment | Refusal:
    """The pod's servers with others, on other nodes, instead of `asked.node`: a server, or all of the pod's on a node.
    They have numbers of their own, and so other names and addresses: nothing waits until the old parts are proved
    clean.

    Args: as for `reassign_parts`.

    Returns a `Refusal` if no other nodes have room.
    Raises `InputError` for a server that can't be replaced, or a node that can't have the new one.
    """
    before, site = by_server(plan.placement.nodes), resolved.site
    meant = called(plan, before, [asked.node], "node").get(asked.node, frozenset())
    if not meant:
        by_key = {key: name for name, key in servers_by_name(plan.graph).items()}
        known = first_names(sorted(by_key.get(key, key) for key in before), 40)
        raise InputError("node", asked.node, instead("one of the pod's servers: {servers}", servers=known))
    host = next(before[server].node for server in meant)
    if asked.by is not None and (asked.by == host or asked.by not in site.node_by_name):
        allowed = instead("another node of site {site} than the server is on", site=site.name)
        raise InputError("with", asked.by, allowed)
    others = (n.name for n in site.nodes if n.name == host or asked.by not in (None, n.name))
    stay = {server: node for server, node in before.items() if server not in meant}
    request, topology = request_of(resolved), Topology.of(site, plan.fabric)
    for one in stay.values():
        if one.node not in topology.locations:
            raise ConflictError(orders.NODE_NOT_IN_SITE(node=one.node, pod=plan.order.name, site=site.name))
    near = tuple(_on(stay))
    wanted = request.model_copy(update={"count": len(meant), "near": near, "exclude": tuple(others)})
    found = place(wanted, site, occupancy)
    if isinstance(found, Refusal):
        offers = tuple(x for x in found.would_fit if "nodes.count" not in fields_of(x))
        why = chosen_out(asked.by, site, occupancy, shares=True) if asked.by is not None else None
        reason = placements.NO_REPLACEMENT(node=host, why=why or found.reason)
        return found.model_copy(update={"reason": reason, "would_fit": offers})
    servers = stay | _named(found, {*before, *leaving})
    return numbered(plan, resolved.order, _placement(servers, topology, found.explanation), leaving)


def _placement(servers: Servers, topology: Topology, explanation: Explanation) -> Placement:
    nodes = tuple(n.model_copy(update={"server": int(s.rpartition("/")[2])}) for s, n in servers.items())
    return Placement(
        nodes=nodes,
        level=topology.level_of(_on(servers)),
        rails=topology.rails_of({n.leaf for n in nodes}),
        explanation=explanation,
    )


def _on(servers: Servers) -> Counter[str]:
    """Node -> how many of these are on it."""
    return Counter(n.node for n in servers.values())


def _without(plan: Plan, there: Servers, count: int, remove: Collection[str]) -> Servers:
    """The servers without those that `remove` names."""
    known = called(plan, there, remove)
    named = set[str]().union(*(known.values()))
    unknown = [name for name in remove if name not in known]
    most = max(0, len(there) - count)
    if not most and not named:
        return there  # already requested and done
    if unknown:
        raise not_in_pod(unknown[0], _on(there))
    if len(named) > most:
        raise too_many(remove, "server", "nodes.count", len(there), count)
    return {s: n for s, n in there.items() if s not in named}


def _fewer(
    there: Servers, request: PlacementRequest, site: Site, topology: Topology, occupancy: Occupancy
) -> Servers:
    """The most compact ones of the pod's parts, as many as requested: placed again on these parts only."""
    if len(there) <= request.count:
        return there
    assert request.accelerators is not None, "planning refuses shares without accelerators"
    here, rooms = _on(there), list[Room]()
    for number, name in enumerate(topology.locations):
        if name not in here:
            continue
        own = {d for n in there.values() if n.node == name and n.part for d in n.part.devices}
        others = [p for p in occupancy.parts.get(name, ()) if own.isdisjoint(p.devices)]
        room = Room.of(site.node_by_name[name], others, request.accelerators.type, request.fabric, number)
        room.servers = here[name]
        rooms.append(room)
    chosen, most = choose(rooms, request, topology, occupancy.own)
    if not chosen:
        allowed = instead(
            "{most}, or name the nodes to remove: no {count} of them satisfy the order",
            most=most,
            count=request.count,
        )
        raise InputError("nodes.count", request.count, allowed)
    left = {room.node.name: count for room, count in chosen}
    stay: dict[str, PlacedNode] = {}
    for name, node in there.items():  # of several on a node, the last ones added are removed
        if left.get(node.node):
            left[node.node] -= 1
            stay[name] = node
    return stay


def _placed(
    request: PlacementRequest, more: int, stay: Servers, site: Site, occupancy: Occupancy
) -> Placement | Refusal:
    """Further servers next to those that stay."""
    asked = request.model_copy(update={"count": more, "near": tuple(_on(stay))})
    found = place(asked, site, occupancy)
    if isinstance(found, Placement):
        return found
    extra = some(more, "additional server")
    reason = placements.MORE_FOR_POD(more=extra, stay=len(stay), why=found.reason)
    fewer = most_shares(asked, site, occupancy) if more > 1 else 0
    changes = [x for x in found.would_fit if "nodes.count" not in fields_of(x)]
    first = [offered("nodes.count", request.count, len(stay) + fewer)] if 0 < fewer < more else []
    return found.model_copy(update={"reason": reason, "would_fit": (*first, *changes)})


def _named(found: Placement, taken: Collection[str]) -> dict[str, PlacedNode]:
    """Added servers, each by the lowest free number on its node."""
    named: dict[str, PlacedNode] = {}
    for node in found.nodes:
        number = 0
        while (name := f"{node.node}/{number}") in taken or name in named:
            number += 1
        named[name] = node
    return named
