"""The door to placement: which nodes an order gets, and why; or why none, and what would fit.

Pure: the same request, site and occupancy give the same answer, byte for byte. All names are read from the site;
names in the occupancy that the site doesn't know (any more) are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.errors import InputError
from weft.model.placement import (
    Explanation,
    FilterReport,
    Occupancy,
    PlacedNode,
    Placement,
    PlacementRequest,
    Refusal,
)
from weft.model.site import Node, Site
from weft.planning import filters
from weft.planning.place.choose import Choice, Home, Room, Weights, choose
from weft.planning.place.explain import compared, refusal_reason, why_chosen
from weft.planning.place.would_fit import smallest_changes
from weft.planning.topology import Topology, natural


def place(
    request: PlacementRequest, site: Site, occupancy: Occupancy, weights: Weights | None = None
) -> Placement | Refusal:
    """All `request.count` nodes, or a refusal; never some of them.

    Args:
        request: what is asked.
        site: what there is.
        occupancy: what can't be had now.
        weights: the operator's settings; None: the defaults.

    Raises:
        InputError: the request names a fabric that the site doesn't have, or a count that is not whole slices.
    """
    weights = weights or Weights()
    if request.count % request.slice:
        raise InputError("count", request.count, f"a multiple of the slice ({request.slice})")
    topology = Topology.of(site, request.fabric)
    able, nodes, reports = filters.able_and_free(request, site, topology, occupancy)
    rooms = rooms_of(topology, nodes, request.slice, able)
    choice = _choose(request, topology, rooms, weights)
    if choice is None:
        return _refuse(request, site, topology, occupancy, weights, nodes, reports)
    chosen = _nodes(request, topology, nodes, choice)
    explanation = Explanation(
        considered=len(site.nodes),
        filters=reports,
        compared=compared(request, topology, rooms, choice, weights),
        chosen=why_chosen(request, topology, choice, weights),
    )
    placed = tuple(
        PlacedNode(node=s.node, rack=s.rack, leaf=s.leaf, pod=s.pod)
        for s in (topology.stands[n] for n in chosen)
    )
    near = tuple(n for n in request.near if n in topology.stands)
    return Placement(nodes=placed, level=topology.level_of((*near, *chosen)), explanation=explanation)


def decide(
    request: PlacementRequest, topology: Topology, nodes: Sequence[Node], weights: Weights
) -> Choice | None:
    """The leaves for a request out of the nodes that passed the filters."""
    return _choose(request, topology, rooms_of(topology, nodes, request.slice), weights)


def _choose(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], weights: Weights
) -> Choice | None:
    return choose(
        rooms,
        request.count // request.slice,
        weights,
        request.required,
        request.preferred,
        home_of(topology, request.near),
    )


def rooms_of(
    topology: Topology, nodes: Sequence[Node], slice_: int = 1, able: Sequence[Node] | None = None
) -> list[Room]:
    """What each leaf has, in slices, leaves and pods numbered in tree order.

    Args:
        able: nodes that could ever serve, to know a broken leaf by; none: all nodes of the leaf.
    """
    free: dict[str, int] = {}
    for node in nodes:
        leaf = topology.stands[node.name].leaf
        free[leaf] = free.get(leaf, 0) + 1
    every = {leaf: len(members) for leaf, members in topology.leaves.items()}
    if able is not None:
        every = dict.fromkeys(topology.leaves, 0)
        for node in able:
            every[topology.stands[node.name].leaf] += 1
    numbers = {leaf: i for i, leaf in enumerate(topology.leaves)}
    return [
        Room(numbers[leaf], pod, free[leaf] // slice_, free[leaf] // slice_ == every[leaf] // slice_)
        for pod, leaves in enumerate(topology.pods.values())
        for leaf in leaves
        if leaf in free
    ]


def home_of(topology: Topology, near: Sequence[str]) -> Home:
    """Where the nodes that stay are; those that the fabric doesn't know are passed over."""
    numbers = {leaf: i for i, leaf in enumerate(topology.leaves)}
    pods = {pod: i for i, pod in enumerate(topology.pods)}
    leaves: dict[int, int] = {}
    for stand in (topology.stands[n] for n in near if n in topology.stands):
        leaves[numbers[stand.leaf]] = leaves.get(numbers[stand.leaf], 0) + 1
    return Home(leaves, frozenset(pods[topology.stands[n].pod] for n in near if n in topology.stands))


def _nodes(request: PlacementRequest, topology: Topology, nodes: Sequence[Node], choice: Choice) -> list[str]:
    """The nodes of the chosen leaves: those that have least beyond what is asked, then by name."""
    names = list(topology.leaves)
    by_leaf: dict[str, list[Node]] = {}
    for node in nodes:
        by_leaf.setdefault(topology.stands[node.name].leaf, []).append(node)
    chosen: list[tuple[str, str]] = []
    for number, take in choice.takes:
        tightest = sorted(by_leaf[names[number]], key=lambda n: (surplus(n, request), natural(n.name)))
        chosen += [(names[number], n.name) for n in tightest[: take * request.slice]]
    return [node for _, node in sorted(chosen, key=lambda c: (natural(c[0]), natural(c[1])))]


def surplus(node: Node, request: PlacementRequest) -> tuple[int, int]:
    """What the node has beyond the request: (accelerators, HCAs on the fabric)."""
    wanted = request.accelerators.count if request.accelerators else 0
    return len(node.accelerators) - wanted, len(node.hcas_on(request.fabric)) - request.hcas_per_node


def _refuse(
    request: PlacementRequest,
    site: Site,
    topology: Topology,
    occupancy: Occupancy,
    weights: Weights,
    nodes: Sequence[Node],
    reports: tuple[FilterReport, ...],
) -> Refusal:
    passing: dict[tuple[int, tuple[str, ...], frozenset[str]], tuple[Node, ...]] = {}

    def fits(changed: PlacementRequest, then: Occupancy) -> bool:
        # Everything but who is busy is filtered once for each kind of change: there are many pods to try.
        key = changed.hcas_per_node, changed.exclude, frozenset(then.quarantined)
        if key not in passing:
            idle = then.model_copy(update={"busy": {}})
            passing[key] = filters.eligible(changed, site, topology, idle)[0]
        left = [n for n in passing[key] if n.name not in then.busy]
        return decide(changed, topology, left, weights) is not None

    reason = refusal_reason(
        request, topology, rooms_of(topology, nodes), home_of(topology, request.near), reports
    )
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=len(site.nodes), filters=reports, chosen=reason),
        would_fit=smallest_changes(request, occupancy, fits),
    )
