"""The door to placement: which nodes an order gets, and why; or why none, and what would fit.

Pure: the same request, site and occupancy give the same answer, byte for byte. All names are read from the site;
names in the occupancy that the site doesn't know (any more) are passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from weft.planning.fabric.topology import Topology
from weft.planning.place import filters
from weft.planning.place.choose import Home, Room, Weights, choose
from weft.planning.place.explain import compared, refusal_reason, why_chosen
from weft.planning.place.fit import Decided, Fit
from weft.planning.place.parts import Tree
from weft.planning.place.tries import Tries
from weft.planning.place.weigh import weigh
from weft.planning.place.would_fit import smallest_changes

NOBODY: frozenset[str] = frozenset()


def place(
    request: PlacementRequest, site: Site, occupancy: Occupancy, weights: Weights | None = None
) -> Placement | Refusal:
    """All `request.count` nodes, or a refusal; never some of them.

    Args:
        request: what is asked.
        site: what there is.
        occupancy: what can't be had now.
        weights: the operator's settings; None: the site's.

    Raises:
        InputError: the request names a fabric that the site doesn't have, or a count that is not whole slices.
    """
    weights = weights or Weights.of(site.placement)
    _check(request)
    topology = Topology.of(site, request.fabric)
    check_uplinks(request.bisection_gbps, topology)
    able, nodes, reports = filters.able_and_free(request, site, topology, occupancy)
    gang = request.model_copy(update={"count": request.count + request.spare, "spare": 0})
    taken = filters.carried(topology, filters.others(request, occupancy))
    own = frozenset(occupancy.own).intersection(n.name for n in nodes) if occupancy.own else NOBODY
    found = decide(gang, topology, nodes, weights, taken, able, own)
    if found is None:
        return _refuse(request, site, topology, occupancy, weights, nodes, reports)
    working, spares = _split(request, topology, found.nodes)
    explanation = Explanation(
        considered=len(site.nodes),
        filters=reports,
        compared=compared(gang, topology, rooms_of(topology, nodes, request.slice, able), found, weights),
        chosen=why_chosen(request, topology, found, weights, spares),
    )
    near = tuple(n for n in request.near if n in topology.stands)
    return Placement(
        nodes=_placed(topology, working),
        spares=_placed(topology, spares),
        level=topology.level_of((*near, *found.nodes)),
        explanation=explanation,
    )


def _check(request: PlacementRequest) -> None:
    for field, value in (("count", request.count), ("nodes.spare", request.spare)):
        if value % request.slice:
            raise InputError(field, value, f"a multiple of the slice ({request.slice})")


def check_uplinks(gbps: int, topology: Topology) -> None:
    """Raise `InputError` if Gb/s are to be guaranteed on uplinks that nobody knows."""
    known = any(topology.uplinks.values()) or (topology.uplinks and len(topology.leaves) < 2)
    if gbps and not known:
        allowed = (
            f"0 or left out: the site has no cables from fabric {topology.fabric}'s leaves to other switches"
        )
        raise InputError("fabric.bisection_gbps", gbps, allowed)


def decide(
    request: PlacementRequest,
    topology: Topology,
    nodes: Sequence[Node],
    weights: Weights,
    carried: Mapping[str, int],
    able: Sequence[Node] | None = None,
    own: frozenset[str] = NOBODY,
) -> Decided | None:
    """The leaves and nodes for a request out of the nodes that passed the filters.

    Args:
        carried: leaf -> Gb/s of its uplinks that are guaranteed to others.
        able: nodes that could ever serve, to know a broken leaf by; none: all.
        own: those of the nodes that are set aside for the order's project.
    """
    home = home_of(topology, request.near)
    fit = Fit(request, topology, Tree.of(topology), nodes, home, carried, own)
    units = request.count // request.slice
    if not request.preferences and not own:
        rooms = rooms_of(topology, nodes, request.slice, able)
        choice = choose(rooms, units, weights, request.required, request.preferred, home)
        if choice is None:
            return None
        counts = dict(home.leaves)
        for leaf, taken in choice.takes:
            counts[leaf] = counts.get(leaf, 0) + taken * request.slice
        if not fit.beaten(counts):
            return fit.decided(choice)
    weighed = weigh(fit.parts(), units, weights.levels, request.required, request.preferred)
    return weighed and fit.weighed(weighed)


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


def _split(
    request: PlacementRequest, topology: Topology, nodes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """(nodes that work, spares): spares are on the leaves that have fewest, so that the others are together."""
    by_leaf: dict[str, list[str]] = {}
    for node in nodes:
        by_leaf.setdefault(topology.stands[node].leaf, []).append(node)
    spares: list[str] = []
    for members in sorted(by_leaf.values(), key=len):
        if request.spare > len(spares):
            spares += members[len(spares) - request.spare :]
    return [n for n in nodes if n not in spares], spares


def _placed(topology: Topology, nodes: Sequence[str]) -> tuple[PlacedNode, ...]:
    stands = [topology.stands[n] for n in nodes]
    return tuple(PlacedNode(node=s.node, rack=s.rack, leaf=s.leaf, pod=s.pod) for s in stands)


def _refuse(
    request: PlacementRequest,
    site: Site,
    topology: Topology,
    occupancy: Occupancy,
    weights: Weights,
    nodes: Sequence[Node],
    reports: tuple[FilterReport, ...],
) -> Refusal:
    tries = Tries(
        request,
        site,
        topology,
        occupancy,
        lambda gang, left, carried: decide(gang, topology, left, weights, carried) is not None,
    )
    reason = refusal_reason(
        request,
        topology,
        rooms_of(topology, nodes, request.slice),
        home_of(topology, request.near),
        reports,
        len(nodes),
    )
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=len(site.nodes), filters=reports, chosen=reason),
        would_fit=smallest_changes(request, occupancy, tries.fits, topology.levels),
    )
