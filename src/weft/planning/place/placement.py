"""The entry point of placement: which nodes an order gets, and why; or why none, and what would fit.

Pure: the same request, site and occupancy give the same answer, byte for byte. All names come from the site; names in
the occupancy that the site doesn't know (any more) are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from weft.model.errors import InputError
from weft.model.messages.orders import instead
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
from weft.planning.kept import kept
from weft.planning.place import filters
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.decision import Decision
from weft.planning.place.engine import Engine
from weft.planning.place.explain import refusal_reason
from weft.planning.place.shares import place_shares, placed_at
from weft.planning.place.tries import Tries
from weft.planning.place.weighinput import OWN
from weft.planning.place.would_fit import smallest_changes


def place(
    request: PlacementRequest, site: Site, occupancy: Occupancy, weights: Weights | None = None
) -> Placement | Refusal:
    """All `request.count` nodes, or a refusal; never some of them.

    The filters say which nodes are eligible, with a reason for each other one; the engine chooses among these.

    Args:
        request: the order's part that decides placement.
        site: the active site.
        occupancy: what isn't available now.
        weights: the operator's settings; None: the site's.

    Raises:
        InputError: the request names a fabric that the site doesn't have, or a count that is not whole slices.
    """
    _check(request)
    topology = Topology.of(site, request.fabric)
    check_uplinks(request.bisection_gbps, topology)
    marks, reports = filters.eligible_marks(request, site, topology, occupancy)
    if request.share is not None:
        nodes = filters.nodes_of(site, marks)
        return place_shares(request, request.share, site, topology, occupancy, nodes, reports)
    engine = Engine.of_marks(site, request.fabric, marks, occupancy, weights)
    taken = filters.carried(topology, filters.others(request, occupancy))
    decision = decide(request, engine, taken, occupancy.own)
    if decision is None:
        return _refuse(request, site, engine, occupancy, marks.bit_count(), reports)
    why, rails = decision.explanation(), _rails(site, request.fabric)
    near = tuple(n for n in request.near if n in topology.locations)
    return Placement(
        nodes=_placed(topology, decision.working),
        spares=_placed(topology, decision.spares),
        level=topology.level_of((*near, *decision.nodes)),
        rails={leaf: rails[leaf] for leaf in decision.leaves if leaf in rails},
        explanation=Explanation(
            considered=len(site.nodes), filters=reports, compared=why.compared, chosen=why.chosen
        ),
    )


def decide(
    request: PlacementRequest, engine: Engine, carried: Mapping[str, int], own: Collection[str] = ()
) -> Decision | None:
    """The best nodes for this request among those that are free in an engine.

    Args:
        carried: leaf -> Gb/s of its uplinks that are guaranteed to others.
        own: nodes that are set aside for the order's project, free or not.
    """
    ask, numbers = Ask.of(request), engine.ledger.numbers
    leaves = enumerate(numbers.leaves) if carried else ()
    extra_load = {leaf: carried[name] for leaf, name in leaves if name in carried}
    view = engine.ledger.view(ask)
    mine = {
        leaf: bits
        for leaf, among in numbers.masks(own).items()
        if (bits := among & engine.ledger.available[leaf] & view.mask[leaf])
    }
    if not mine:
        return engine.decide(ask, None, extra_load)
    found = engine.decide(
        replace(ask, preferences=(*ask.preferences, engine.weigher.preferring(mine, OWN))), None, extra_load
    )
    return found and found.at_home(mine, OWN, bool(request.preferences))


@kept
def _rails(site: Site, fabric: str) -> Mapping[str, tuple[str, ...]]:
    topology = Topology.of(site, fabric)
    return topology.rails_of(topology.leaves)


def _check(request: PlacementRequest) -> None:
    for field, value in (("count", request.count), ("nodes.spare", request.spare)):
        if value % request.slice:
            raise InputError(field, value, instead("a multiple of the slice ({slice})", slice=request.slice))


def check_uplinks(gbps: int, topology: Topology) -> None:
    """Raise `InputError` if Gb/s are to be guaranteed on unknown uplinks."""
    known = any(topology.uplinks.values()) or (topology.uplinks and len(topology.leaves) < 2)
    if gbps and not known:
        allowed = instead(
            "0 or omitted: the site has no cables from fabric {fabric}'s leaves to other switches",
            fabric=topology.fabric,
        )
        raise InputError("fabric.bisection_gbps", gbps, allowed)


def _placed(topology: Topology, nodes: Iterable[str]) -> tuple[PlacedNode, ...]:
    locations = [topology.locations[n] for n in nodes]
    return tuple(placed_at(s) for s in locations)


def _refuse(
    request: PlacementRequest,
    site: Site,
    engine: Engine,
    occupancy: Occupancy,
    eligible: int,
    reports: tuple[FilterReport, ...],
) -> Refusal:
    def fits(gang: PlacementRequest, left: Sequence[Node], carried: Mapping[str, int]) -> bool:
        free = Engine.among(site, gang.fabric, (n.name for n in left), occupancy, engine.ledger.weights)
        return decide(gang, free, carried) is not None

    topology = engine.ledger.topology
    tries = Tries(request, site, topology, occupancy, fits)
    reason = refusal_reason(request, engine, reports, eligible)
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=len(site.nodes), filters=reports, chosen=reason),
        would_fit=smallest_changes(request, occupancy, tries.fits, topology.levels),
    )
