"""Servers on shared nodes: which node each gets, and which of its accelerators. Pure, like all of placement.

Whole nodes should stay whole: parts go to nodes that are already shared, as few as possible, the fullest first; another
node is split only if that isn't enough, on the leaf with the fewest whole ones.
A server's accelerators are behind one PCIe switch if one has enough free, else on one NUMA node, and always where the
fewest are stranded, so that larger groups stay whole; its virtual functions are on the adapters closest to them.
`weft.planning.place.room` chooses the part of a node.  Nodes held whole keep their bit masks and never get here;
shared ones are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from weft.model.localityorder import LEVELS, Level
from weft.model.messages import placement as messages
from weft.model.offer import offered
from weft.model.placement import (
    Explanation,
    FilterReport,
    Occupancy,
    Part,
    PlacedNode,
    Placement,
    PlacementRequest,
    Refusal,
    Share,
)
from weft.model.site import AcceleratorCount, Node, Site
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.filters import EXAMPLES, eligible
from weft.planning.place.room import Room, near_words
from weft.planning.words import first_names, some


def place_shares(
    request: PlacementRequest,
    share: Share,
    site: Site,
    topology: Topology,
    occupancy: Occupancy,
    nodes: Sequence[Node],
    reports: tuple[FilterReport, ...],
) -> Placement | Refusal:
    """`request.count` servers on nodes that passed the filters, several on one node where they fit, or none; further
    ones of a pod (`request.near`) in the domain of the required level where its others are.

    Args:
        nodes: `reports` says what was removed before.
    """
    wanted = request.accelerators
    assert wanted is not None, "planning refuses shares without accelerators"
    nodes = _beside(nodes, request, topology)
    numbers = {name: i for i, name in enumerate(topology.locations)}
    rooms = rooms_of(wanted, share, request.fabric, occupancy, nodes, numbers)
    reports = (*reports, _report(rooms, wanted.type, share))
    split = any(r.begun for r in rooms)
    rooms = sorted((r for r in rooms if r.servers), key=lambda r: r.order)
    own, near = frozenset(occupancy.own), frozenset(request.near)
    chosen, most = choose(rooms, request, topology, own)
    if not chosen:
        return _refusal(request, topology, rooms, reports, most, len(site.nodes))
    placed = [
        placed_at(s, room.take(wanted.count, share))
        for room, servers in sorted(chosen, key=lambda c: c[0].order)
        for s in [topology.locations[room.node.name]] * servers
    ]
    why = _why([r for r, _ in chosen], request, placed, own, split)
    return Placement(
        nodes=tuple(placed),
        level=topology.level_of(sorted({n.node for n in placed} | near, key=numbers.__getitem__)),
        rails=topology.rails_of({n.leaf for n in placed}),
        explanation=Explanation(considered=len(site.nodes), filters=reports, chosen=why),
    )


def most_shares(request: PlacementRequest, site: Site, occupancy: Occupancy) -> int:
    """How many such servers there is room for within one domain of the required level."""
    assert request.accelerators is not None and request.share is not None
    topology = Topology.of(site, request.fabric)
    nodes, _ = eligible(request, site, topology, occupancy)
    nodes, numbers = _beside(nodes, request, topology), {name: i for i, name in enumerate(topology.locations)}
    rooms = rooms_of(request.accelerators, request.share, request.fabric, occupancy, nodes, numbers)
    domains = _domains(rooms, _levels(request.required, topology)[-1], topology)
    return max((sum(r.servers for r in domain) for domain in domains), default=0)


def choose(
    rooms: Sequence[Room], request: PlacementRequest, topology: Topology, own: Collection[str]
) -> tuple[list[tuple[Room, int]], int]:
    """Rooms with how many servers each gets, none if they don't fit; and how many fit within the required level."""
    whole = Counter(topology.locations[r.node.name].leaf for r in rooms if not r.begun)
    most, best = 0, None
    for level in _levels(request.required, topology):
        for domain in _domains(rooms, level, topology):
            total = sum(r.servers for r in domain)
            most = max(most, total) if _inside(level, request.required, topology) else most
            if total >= request.count:
                found = _fill(domain, request.count, topology, whole, own, frozenset(request.near))
                if best is None or found[0] < best[0]:
                    best = found
    return (best[1] if best is not None else []), most


def placed_at(location: NodeLocation, part: Part | None = None) -> PlacedNode:
    """A node at its location."""
    return PlacedNode(
        node=location.node,
        rack=location.rack,
        leaf=location.leaf,
        block=location.block,
        nvlink_domain=location.nvlink_domain or None,
        part=part,
    )


def rooms_of(
    wanted: AcceleratorCount,
    share: Share,
    fabric: str,
    occupancy: Occupancy,
    nodes: Iterable[Node],
    numbers: Mapping[str, int],
) -> list[Room]:
    """What is left of each node, with how many servers fit. Equal unused nodes are counted once."""
    known: dict[object, int] = {}
    rooms: list[Room] = []
    for node in nodes:
        parts = occupancy.parts.get(node.name, ())
        room = Room.of(node, parts, wanted.type, fabric, numbers[node.name])
        if parts or (share.numa is None and not share.vfs):
            room.servers = room.count(wanted.count, share)
        else:
            alike = room.layout
            if alike not in known:
                known[alike] = room.count(wanted.count, share)
            room.servers = known[alike]
        rooms.append(room)
    return rooms


Chosen = tuple[tuple[int, int, int, int, int, int], list[tuple[Room, int]]]
"""(nodes broken, of these not set aside for the project, leaves and nodes that the pod isn't on yet, servers' worth of
room that stays on them, place in the tree), rooms with servers."""


def _fill(
    rooms: Sequence[Room],
    count: int,
    topology: Topology,
    whole: Mapping[str, int],
    own: Collection[str],
    near: Collection[str],
) -> Chosen:
    """The rooms of a domain that take them: shared ones first, then as few whole ones as possible; of each the pod's
    own first.

    Args:
        whole: leaf -> unused nodes on it.
        own: nodes that are set aside for the order's project.
        near: nodes that the pod is on.
    """

    def rank(room: Room) -> tuple[bool, int, int]:
        """The project's reserved nodes first, then the leaf with the fewest whole nodes, then by name."""
        fewest = 0 if room.begun else whole[topology.locations[room.node.name].leaf]
        return room.node.name not in own, fewest, room.order

    taken: list[tuple[Room, int]] = []
    for begun in (True, False):
        those = (r for r in rooms if r.begun is begun)
        left = sorted(those, key=lambda r: (r.node.name not in near, -r.servers, rank(r)))
        for i, room in enumerate(left):
            if not count:
                break
            # The room that takes most, while none takes all that is left; then the tightest of those that do.
            best = room
            if room.servers >= count:
                alike = (r for r in left[i:] if (r.node.name in near) is (room.node.name in near))
                best = min((r for r in alike if r.servers >= count), key=lambda r: (r.servers, rank(r)))
            taken.append((best, min(count, best.servers)))
            count -= taken[-1][1]
    leaves = {topology.locations[r.node.name].leaf for r, _ in taken}
    there = {topology.locations[n].leaf for n in near}
    key = (
        sum(not r.begun for r, _ in taken),
        sum(not r.begun and r.node.name not in own for r, _ in taken),
        len(leaves - there),
        sum(r.node.name not in near for r, _ in taken),
        sum(r.servers - n for r, n in taken),
        sum(whole[leaf] for leaf in leaves) if any(not r.begun for r, _ in taken) else 0,
    )
    return key, taken


def _levels(required: Level, topology: Topology) -> list[Level]:
    """The levels to try, from the nearest to the required one, or the next wider one that the site has."""
    wider = (x for x in topology.levels if LEVELS.index(x) >= LEVELS.index(required))
    return list(topology.levels[: topology.levels.index(next(wider)) + 1])


def _inside(level: Level, required: Level, topology: Topology) -> bool:
    """Whether this is the widest of the levels that are tried."""
    return level == _levels(required, topology)[-1]


def _domains(rooms: Iterable[Room], level: Level, topology: Topology) -> list[list[Room]]:
    found: dict[str, list[Room]] = {}
    for room in rooms:
        if (name := _domain(topology.locations[room.node.name], level)) is not None:
            found.setdefault(name, []).append(room)
    return list(found.values())


def _domain(location: NodeLocation, level: Level) -> str | None:
    """Name of the domain of this level that a node is in; None: in none."""
    names: Mapping[str, str | None] = {
        "node": location.node,
        "nvlink_domain": location.nvlink_domain or None,
        "leaf": location.leaf,
        "block": location.block,
        "hall": location.hall,
        "building": location.building,
    }
    return names.get(level, "")


def _beside(nodes: Sequence[Node], request: PlacementRequest, topology: Topology) -> Sequence[Node]:
    """Those in the domain of the required level where the pod's other servers are; all, if it has none."""
    if not request.near:
        return nodes
    level = _levels(request.required, topology)[-1]
    inside = {_domain(topology.locations[n], level) for n in request.near}
    return [n for n in nodes if inside == {_domain(topology.locations[n.name], level)} and None not in inside]


def _report(rooms: Sequence[Room], type_: str, share: Share) -> FilterReport:
    """The nodes with too little left for a single server."""
    out = [r for r in rooms if not r.servers]
    return FilterReport(
        filter="room",
        removed=len(out),
        left=len(rooms) - len(out),
        examples=tuple(f"{r.node.name}: {_left(r, type_, share)} left" for r in out[:EXAMPLES]),
    )


def _left(room: Room, type_: str, share: Share) -> str:
    """What is left of a node, or of each of its NUMA nodes if they matter."""
    said = [f"{len(room.devices)} {type_}"]
    if room.node.cores is not None:
        said.append(f"{room.pool.cores} cores")
    if share.dedicated and room.node.dedicated_cores is not None:
        said.append(f"{room.pool.dedicated} dedicated cores")
    if room.node.memory_mib is not None:
        said.append(f"{room.pool.memory_mib} MiB")
    if share.vfs:
        said.append(some(room.free_functions, "virtual function"))
    if share.numa is not None and len(room.pools) > 1:
        cells = (sum(a.numa == i for a in room.devices) for i in range(len(room.pools)))
        said.append(f"by NUMA node {' and '.join(f'{n} {type_}' for n in cells)}")
    return ", ".join(said)


def _why(
    rooms: Sequence[Room],
    request: PlacementRequest,
    placed: Sequence[PlacedNode],
    own: Collection[str],
    split: bool,
) -> str:
    """Why these nodes were chosen, in one sentence.

    Args:
        split: whether pods have parts of some of the nodes that were considered.
    """
    begun, new = [r.node.name for r in rooms if r.begun], [r.node.name for r in rooms if not r.begun]
    said: list[str] = []
    if begun:
        said.append(f"{first_names(begun)} in part use already, so that whole nodes stay whole")
    if new:
        why = "those in part use don't have enough room" if split else "no node is in part use"
        said.append(f"{first_names(new)} whole until now, since {why}")
    if mine := [r for r in rooms if r.node.name in own]:
        said.append(f"{len(mine)} of them set aside for the project")
    if request.share is not None and request.share.vfs:
        nodes = {r.node.name: r.node for r in rooms}
        near = Counter(near_words(nodes[n.node], n.part) for n in placed if n.part)
        said += [f"virtual functions {where} as the accelerators: {n}" for where, n in sorted(near.items())]
    return f"{some(request.count, 'server')} on {some(len(rooms), 'node')}: {'; '.join(said)}."


def _refusal(
    request: PlacementRequest,
    topology: Topology,
    rooms: Sequence[Room],
    reports: tuple[FilterReport, ...],
    most: int,
    considered: int,
) -> Refusal:
    wanted, total = request.accelerators, sum(r.servers for r in rooms)
    assert wanted is not None
    each: dict[str, Any] = {"n": request.count, "each": wanted.count, "type": wanted.type}
    if total < request.count:
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        reason = messages.TOO_FEW_SHARES(**each, there=total, removed=removed)
    else:
        reason = messages.SHARES_NOT_IN_ONE(**each, most=most, level=request.required)
    would = [offered("nodes.count", request.count, most)] if most else []
    if total >= request.count:
        wider: list[Level] = [x for x in topology.levels if LEVELS.index(x) > LEVELS.index(request.required)]
        for other in wider:
            if any(sum(r.servers for r in d) >= request.count for d in _domains(rooms, other, topology)):
                would.append(offered("locality.required", request.required, other))
                break
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=considered, filters=reports, chosen=reason),
        would_fit=tuple(would),
    )
