"""Servers on nodes that they share: which node each gets, and which of its accelerators. Pure, as all of placement.

Whole nodes are to stay whole: parts go to nodes that are in part use already, as few as can be, and of these to the one
that is left fullest; a further node is broken only where that isn't enough, on the leaf that has fewest whole ones.
A server's accelerators are behind one PCIe switch where a switch has as many free, else on one NUMA node, and always
where the fewest stay behind, so that the larger groups stay whole. Nodes held whole keep their bit masks and never
come here; shared ones are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.order import LEVELS, Level
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
from weft.model.site import Accelerator, Node, Site
from weft.planning.fabric.topology import Topology
from weft.planning.place.filters import EXAMPLES
from weft.planning.words import first_names, some

UNLIMITED = 1 << 30


@dataclass(slots=True)
class Room:
    """What is left of a node.

    Attributes:
        begun: whether somebody has a part of it already.
        order: its place in the tree.
        servers: how many servers of the order fit on it.
    """

    node: Node
    devices: list[Accelerator]
    cores: int
    memory_mib: int
    begun: bool
    order: int
    servers: int = field(default=0)

    @classmethod
    def of(cls, node: Node, taken: Sequence[Part], type_: str, order: int) -> Room:
        gone = {device for part in taken for device in part.devices}
        return cls(
            node,
            [a for a in node.accelerators if a.type == type_ and a.pci not in gone],
            (UNLIMITED if node.cores is None else node.cores) - sum(p.cores for p in taken),
            (UNLIMITED if node.memory_mib is None else node.memory_mib) - sum(p.memory_mib for p in taken),
            bool(taken),
            order,
        )

    def fits(self, count: int, share: Share) -> int:
        """How many servers with so many accelerators each."""
        groups = _groups(self.devices, lambda a: str(a.numa)) if share.one_numa else [self.devices]
        fits = sum(len(group) // count for group in groups)
        for has, needs in ((self.cores, share.cores), (self.memory_mib, share.memory_mib)):
            fits = min(fits, has // needs) if needs else fits
        return max(fits, 0)

    def take(self, count: int, share: Share) -> Part:
        """One server's part; there is room for it."""
        chosen = nearest(self.devices, count)
        self.devices = [a for a in self.devices if a not in chosen]
        self.cores -= share.cores
        self.memory_mib -= share.memory_mib
        return Part(
            devices=tuple(a.pci for a in chosen),
            cores=share.cores,
            memory_mib=share.memory_mib,
            of_cores=self.node.cores,
            of_memory_mib=self.node.memory_mib,
        )


def nearest(free: Sequence[Accelerator], count: int) -> list[Accelerator]:
    """So many of these that are behind one PCIe switch, else on one NUMA node, else on as few as can be.

    Of several groups the one that has fewest beyond them.
    """
    numa = _groups(free, lambda a: str(a.numa))
    inside = [group for group in numa if len(group) >= count]
    switches = [s for group in inside for s in _groups(group, lambda a: a.switch or f"alone {a.pci}")]
    for groups in (switches, inside):
        if fitting := [group for group in groups if len(group) >= count]:
            return min(fitting, key=lambda g: (len(g) - count, g[0].pci))[:count]
    found: list[Accelerator] = []
    for group in sorted(numa, key=lambda g: (-len(g), g[0].pci)):
        found += group[: count - len(found)]
    return found


def place_shares(
    request: PlacementRequest,
    share: Share,
    site: Site,
    topology: Topology,
    occupancy: Occupancy,
    nodes: Sequence[Node],
    reports: tuple[FilterReport, ...],
) -> Placement | Refusal:
    """`request.count` servers on nodes that passed the filters, several on one node where it has the room, or none.

    Args:
        nodes: `reports` says what was removed before.
    """
    wanted = request.accelerators
    assert wanted is not None, "planning refuses shares without accelerators"
    numbers = {name: i for i, name in enumerate(topology.stands)}
    rooms = [Room.of(n, occupancy.parts.get(n.name, ()), wanted.type, numbers[n.name]) for n in nodes]
    for room in rooms:
        room.servers = room.fits(wanted.count, share)
    reports = (*reports, _report(rooms, wanted.type))
    rooms = sorted((r for r in rooms if r.servers), key=lambda r: r.order)
    whole = Counter(topology.stands[r.node.name].leaf for r in rooms if not r.begun)
    most, chosen = 0, None
    for level in _levels(request.required, topology):
        for domain in _domains(rooms, level, topology):
            total = sum(r.servers for r in domain)
            most = max(most, total) if _inside(level, request.required, topology) else most
            if total >= request.count:
                found = _fill(domain, request.count, topology, whole)
                if chosen is None or found[0] < chosen[0]:
                    chosen = found
    if chosen is None:
        return _refusal(request, topology, rooms, reports, most, len(site.nodes))
    placed = [
        PlacedNode(node=s.node, rack=s.rack, leaf=s.leaf, block=s.block, part=room.take(wanted.count, share))
        for room, servers in sorted(chosen[1], key=lambda c: c[0].order)
        for s in [topology.stands[room.node.name]] * servers
    ]
    return Placement(
        nodes=tuple(placed),
        level=topology.level_of(sorted({n.node for n in placed}, key=numbers.__getitem__)),
        explanation=Explanation(
            considered=len(site.nodes), filters=reports, chosen=_why([r for r, _ in chosen[1]], request)
        ),
    )


Chosen = tuple[tuple[int, int, int, int, int], list[tuple[Room, int]]]
"""(nodes broken, leaves, nodes, servers' worth of room that stays on them, place in the tree), rooms with servers."""


def _fill(rooms: Sequence[Room], count: int, topology: Topology, whole: Mapping[str, int]) -> Chosen:
    """The rooms of a domain that take them: begun ones first, then as few whole ones as can be.

    Args:
        whole: leaf -> nodes on it that nobody has anything of.
    """

    def rank(room: Room) -> tuple[int, int]:
        """The leaf with fewest whole nodes first, then by name."""
        return 0 if room.begun else whole[topology.stands[room.node.name].leaf], room.order

    taken: list[tuple[Room, int]] = []
    for begun in (True, False):
        left = sorted((r for r in rooms if r.begun is begun), key=lambda r: (-r.servers, rank(r)))
        for i, room in enumerate(left):
            if not count:
                break
            # The one that takes most, as long as none takes all that is left; then the tightest of those that do.
            enough = [r for r in left[i:] if r.servers >= count]
            best = min(enough, key=lambda r: (r.servers, rank(r))) if enough else room
            taken.append((best, min(count, best.servers)))
            count -= taken[-1][1]
    leaves = {topology.stands[r.node.name].leaf for r, _ in taken}
    key = (
        sum(not r.begun for r, _ in taken),
        len(leaves),
        len(taken),
        sum(r.servers - n for r, n in taken),
        sum(whole[leaf] for leaf in leaves) if any(not r.begun for r, _ in taken) else 0,
    )
    return key, taken


def _levels(required: Level, topology: Topology) -> list[Level]:
    """The levels that are tried, from the nearest to the one that is required."""
    return [x for x in LEVELS if x in topology.levels and LEVELS.index(x) <= LEVELS.index(required)] or [
        "site"
    ]


def _inside(level: Level, required: Level, topology: Topology) -> bool:
    """Whether this is the widest of the levels that are tried."""
    return level == _levels(required, topology)[-1]


def _domains(rooms: Iterable[Room], level: Level, topology: Topology) -> list[list[Room]]:
    found: dict[str, list[Room]] = {}
    for room in rooms:
        stand = topology.stands[room.node.name]
        names: Mapping[str, str] = {
            "node": stand.node,
            "leaf": stand.leaf,
            "block": stand.block,
            "hall": stand.hall,
            "building": stand.building,
        }
        found.setdefault(names.get(level, ""), []).append(room)
    return list(found.values())


def _groups(devices: Iterable[Accelerator], key: Callable[[Accelerator], str]) -> list[list[Accelerator]]:
    found: dict[str, list[Accelerator]] = {}
    for one in sorted(devices, key=lambda a: a.pci):
        found.setdefault(key(one), []).append(one)
    return list(found.values())


def _report(rooms: Sequence[Room], type_: str) -> FilterReport:
    """What of the nodes has too little room for a single server."""
    out = [r for r in rooms if not r.servers]
    return FilterReport(
        filter="room",
        removed=len(out),
        left=len(rooms) - len(out),
        examples=tuple(f"{r.node.name}: {_left(r, type_)} left" for r in out[:EXAMPLES]),
    )


def _left(room: Room, type_: str) -> str:
    said = [f"{len(room.devices)} {type_}"]
    said += [f"{room.cores} cores"] if room.node.cores is not None else []
    said += [f"{room.memory_mib} MiB"] if room.node.memory_mib is not None else []
    return ", ".join(said)


def _why(rooms: Sequence[Room], request: PlacementRequest) -> str:
    begun, new = [r.node.name for r in rooms if r.begun], [r.node.name for r in rooms if not r.begun]
    said: list[str] = []
    if begun:
        said.append(f"{first_names(begun)} in part use already, so that whole nodes stay whole")
    if new:
        said.append(f"{first_names(new)} whole until now, since those in part use have no room for it")
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
    reason = f"{some(request.count, 'server')} with {wanted.count} {wanted.type} each"
    if total < request.count:
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        reason += f" are requested on shared nodes, and there is capacity for {total}"
        reason += f" (removed by: {removed})." if removed else "."
    else:
        level = request.required
        reason += f" fit, but at most {most} within one {level}, and locality.required is {level}."
    would = [f"count: {most} instead of {request.count}"] if most else []
    if total >= request.count:
        wider: list[Level] = [x for x in topology.levels if LEVELS.index(x) > LEVELS.index(request.required)]
        for other in wider:
            if any(sum(r.servers for r in d) >= request.count for d in _domains(rooms, other, topology)):
                would.append(f"locality.required: {other} instead of {request.required}")
                break
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=considered, filters=reports, chosen=reason),
        would_fit=tuple(would),
    )
