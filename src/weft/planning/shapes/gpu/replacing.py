"""Another node in the place of one of a pod's: the same number, so the same server name, addresses and volumes. Pure.

A spare of the pod comes first, then the nearest free node by placement's rules. The other nodes keep their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError
from weft.model.messages import orders
from weft.model.messages import placement as placements
from weft.model.messages.orders import instead
from weft.model.offer import fields_of
from weft.model.placement import Occupancy, PlacedNode, Placement, Refusal, by_server
from weft.model.plan import Allotment, Plan
from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.place.placement import place
from weft.planning.shapes.gpu.reassign import called, chosen_out, rails_of, too_small
from weft.planning.shapes.gpu.request import boot_key, request_of
from weft.planning.shapes.graph import servers_by_name
from weft.planning.shapes.shape import Assignment, Resolved
from weft.planning.words import first_names


def replace_node(
    plan: Plan, resolved: Resolved, occupancy: Occupancy, leaving: Collection[str], asked: Replacement
) -> Assignment | Refusal:
    """The pod's nodes with another one in the place of `asked.node`, and their numbers.

    Args:
        occupancy: what is unavailable for the rest of the lease.
        leaving: nodes that the pod still holds and doesn't want any more.

    Returns a `Refusal` if no node can take its place.
    Raises `InputError` for a node that can't be replaced, or can't take the place; `ConflictError` if the server is
    being replaced already, or if a node that stays isn't in the site any more.
    """
    nodes, order = plan.placement.nodes, resolved.order
    failed = _failed(plan, leaving, asked)
    topology = Topology.of(resolved.site, plan.fabric)
    for one in (*nodes, *plan.placement.spares):
        if one.node != failed.node and one.node not in topology.locations:
            raise ConflictError(
                orders.NODE_NOT_IN_SITE(node=one.node, pod=order.name, site=resolved.site.name)
            )
    found = _instead_of(plan, failed, resolved, topology, occupancy, asked.by)
    if isinstance(found, Refusal):
        return found
    new = found.nodes[0]
    working = tuple(new if n.node == failed.node else n for n in nodes)
    spares = tuple(s for s in plan.placement.spares if s.node != new.node)
    held = (*working, *spares)
    placement = Placement(
        nodes=working,
        spares=spares,
        level=topology.level_of([n.node for n in held]),
        rails=topology.rails_of({n.leaf for n in held}),
        explanation=found.explanation,
    )
    return Assignment(placement, _numbers(plan, working, failed.node, new.node, leaving))


def with_new_number(plan: Plan, node: str, leaving: Collection[str]) -> Allotment | Refusal:
    """The allotment in which a node doesn't take over the number of one that is leaving, but has one of its own.

    Returns a `Refusal` if the pod's subnets have no address for it.
    """
    numbers = plan.server_numbers
    others = {numbers[n] for n in (*by_server(plan.placement.nodes), *leaving) if n in numbers and n != node}
    free = next(i for i in range(len(others) + 1) if i not in others)
    rails = plan.allotment.rails or rails_of(plan)
    if refused := too_small(plan, plan.order, max((*others, free)) + 1, rails):
        return refused
    known = (*by_server(plan.placement.nodes), *leaving)
    hosts = {n: numbers[n] for n in known if n in numbers} | {node: free}
    return plan.allotment.model_copy(update={"hosts": hosts, "rails": rails})


def successors(plan: Plan, leaving: Collection[str]) -> dict[str, str]:
    """Node of the pod -> node that is leaving and whose number it takes over."""
    numbers = plan.server_numbers
    going = {numbers[n]: n for n in sorted(leaving) if n in numbers}
    whole = (n.node for n in plan.placement.nodes if n.part is None)
    return {n: going[numbers[n]] for n in whole if n not in leaving and numbers.get(n) in going}


def replaced_by(plan: Plan, server: str) -> tuple[str, str] | None:
    """The node with a server of this name, and the one whose place it has; None: there is no such server, or none that
    replaced another one in the last change of nodes."""
    node = servers_by_name(plan.graph).get(server)
    gone = plan.allotment.hosts.keys() - {n.node for n in plan.placement.nodes}
    before = successors(plan, gone).get(node) if node is not None and node != server else None
    return None if node is None or before is None else (node, before)


def _failed(plan: Plan, leaving: Collection[str], asked: Replacement) -> PlacedNode:
    """The node that is to be replaced."""
    there = by_server((*plan.placement.nodes, *plan.placement.spares))
    meant = called(plan, there, [asked.node], "node").get(asked.node, frozenset())
    working = {n.node: n for n in plan.placement.nodes}
    if not meant:
        known = first_names(sorted(working), 40)
        raise InputError("node", asked.node, instead("nodes of the pod: {nodes}", nodes=known))
    (name,) = meant
    if name not in working:
        allowed = instead("a node with a server; a spare is given back with nodes.spare and --remove")
        raise InputError("node", asked.node, allowed)
    # By its name a server could be replaced a second time by a request that was only repeated.
    before = successors(plan, leaving).get(name)
    if before is not None and asked.node != name:
        raise ConflictError(
            orders.REPLACED_ALREADY(pod=plan.order.name, server=asked.node, node=before, by=name)
        )
    return working[name]


def _instead_of(
    plan: Plan,
    failed: PlacedNode,
    resolved: Resolved,
    topology: Topology,
    occupancy: Occupancy,
    by: str | None,
) -> Placement | Refusal:
    """One node in the place of the failed one, as a placement of its own."""
    order, held = resolved.order, plan.placement.held
    if by is not None:
        _check_chosen(by, plan, resolved.site)
    fit = () if order.locality.slice > 1 else _fit(plan, failed, occupancy)
    spares = [s for s in fit if by in (None, s.node)]
    if spares:
        why = plan.placement.explanation.model_copy(update={"chosen": f"{spares[0].node} is the pod's spare"})
        return Placement(nodes=(spares[0],), level="node", explanation=why)
    near = tuple(n for n in held if n != failed.node)
    exclude = _not_chosen(
        failed, resolved.site, topology, by, order.locality.slice, order.locality.slice_within
    )
    request = request_of(resolved).model_copy(
        update={"count": 1, "spare": 0, "slice": 1, "near": near, "exclude": exclude}
    )
    found = place(request, resolved.site, occupancy)
    if isinstance(found, Placement):
        return found
    offers = tuple(o for o in found.would_fit if not {"nodes.count", "nodes.spare"} & {*fields_of(o)})
    why = chosen_out(by, resolved.site, occupancy) if by is not None else None
    reason = placements.NO_REPLACEMENT(node=failed.node, why=why or found.reason)
    return found.model_copy(update={"reason": reason, "would_fit": offers})


def _fit(plan: Plan, failed: PlacedNode, occupancy: Occupancy) -> list[PlacedNode]:
    """The pod's spares that could boot now, those nearest to the failed node first."""
    unfit = occupancy.unfit.get(boot_key(plan.cloud, plan.project, plan.order.nodes.image, plan.flavor), {})
    spares = plan.placement.spares
    fit = [s for s in spares if s.node not in unfit and not occupancy.out_of_service(s.node)]
    return sorted(fit, key=lambda s: (s.leaf != failed.leaf, s.block != failed.block))


def _check_chosen(by: str, plan: Plan, site: Site) -> None:
    """Raise `InputError` for a node that can't take another one's place."""
    if by not in site.node_by_name:
        raise InputError("with", by, instead("a node of site {site}", site=site.name))
    if by in {n.node for n in plan.placement.nodes}:
        raise InputError(
            "with", by, instead("a free node, or a spare of the pod: it has a server of the pod")
        )
    if plan.order.locality.slice > 1 and by in {n.node for n in plan.placement.spares}:
        allowed = instead("a free node: with locality.slice spares replace whole slices")
        raise InputError("with", by, allowed)


def _not_chosen(
    failed: PlacedNode, site: Site, topology: Topology, by: str | None, size: int, within: str
) -> tuple[str, ...]:
    """Nodes that must not take its place: all but the chosen one, and all outside of its slice's domain."""
    locations = topology.locations

    def may(name: str) -> bool:
        if name == failed.node or by not in (None, name):
            return False
        if size == 1:
            return True
        location = locations[name]
        if within == "leaf":
            return location.leaf == failed.leaf
        return (location.nvlink_domain or None) == failed.nvlink_domain

    return tuple(n for n in _known(site, locations) if not may(n))


def _known(site: Site, locations: Collection[str]) -> Iterable[str]:
    return (n.name for n in site.nodes if n.name in locations)


def _numbers(
    plan: Plan, working: Sequence[PlacedNode], failed: str, new: str, leaving: Collection[str]
) -> Allotment:
    """Everyone's number, those of nodes that are leaving included; the new node has the failed one's."""
    old = plan.server_numbers
    names = [n.node for n in working if n.node != new]
    hosts = {n: old[n] for n in (*names, failed, *sorted(leaving)) if n in old}
    hosts[new] = old[failed]
    rails = plan.allotment.rails or rails_of(plan)
    return plan.allotment.model_copy(update={"hosts": hosts, "rails": rails})
