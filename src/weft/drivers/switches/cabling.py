"""The switch ports that a segment needs: its members', and links on the paths between them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.model.site import Site, Switching

_Neighbours = Mapping[str, frozenset[str]]
"""Switch -> its neighbours over links."""


def switch_of(port: str) -> str:
    """The switch of a port, `switch/port`."""
    return port.partition("/")[0]


@dataclass(frozen=True)
class Cabling:
    """The cabling of one fabric.

    Attributes:
        switches: names of all.
        hosts: ids of hosts' ports, as the site names them.
        links: (end, end, whether it is a peer link).
        bundles: a bond's ends, for every end of it.
        others: ends of hardware that is cabled here but never in a segment: boot ports, BMCs.
    """

    switches: tuple[str, ...]
    hosts: frozenset[str]
    links: tuple[tuple[str, str, bool], ...] = ()
    bundles: Mapping[str, tuple[str, ...]] | None = None
    others: frozenset[str] = frozenset()

    @classmethod
    def of(cls, site: Site, fabric: str, switching: Switching | None) -> Cabling:
        """Cabling of a fabric; without `switching` it has the names of switches and no ports."""
        names = tuple(sorted(s.name for s in site.switches if s.fabric == fabric))
        machines = (port for f, port in site.machine_by_port if f == fabric)
        hosts = frozenset((*(h.port_id for n in site.nodes for h in n.hcas_on(fabric)), *machines))
        if switching is None:
            return cls(names, hosts)
        links = tuple((k.a, k.b, k.peer) for k in switching.links)
        bundles = {end: b.ports for b in switching.bundles for end in b.ports}
        cabled: list[tuple[str | None, str | None]] = [end for i in site.interfaces for end in i.ends]
        cabled += [(m.bmc_switch, m.bmc_port) for m in site.ipu_machines]
        cabled += [(m.gw_switch, m.gw_port) for m in site.ipu_machines]
        others = frozenset(f"{switch}/{port}" for switch, port in cabled if port and switch in names)
        return cls(names, hosts, links, bundles, others)

    def ends(self, port: str) -> tuple[str, ...]:
        """Ports that are configured together with this one: all ends of its bond."""
        return (self.bundles or {}).get(port, (port,))

    @cached_property
    def member(self) -> Mapping[str, str]:
        """Every end -> the id that it has as a member."""
        return {end: port for port in self.hosts for end in self.ends(port)}

    @cached_property
    def uplinks(self) -> frozenset[str]:
        """Every end of a link between switches."""
        return frozenset(end for a, b, _ in self.links for end in (a, b))

    def ports(self, switch: str) -> frozenset[str]:
        """The switch's ports that weft manages, by the vendor's names."""
        mine = (e for e in (*self.member, *self.uplinks) if switch_of(e) == switch)
        return frozenset(e.partition("/")[2] for e in mine)

    def spread(self, ports: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Switch -> ends of links that must carry the segment there; has every switch that is needed.

        It includes every shortest path between two members' switches, whichever the spanning tree uses now. A peer link
        is on a path only if there is no other: it carries what both of its switches have. Without members, one switch
        holds the segment.
        """
        leaves = sorted({switch_of(end) for port in ports for end in self.ends(port)})
        if not leaves:
            return dict.fromkeys(self.switches[:1], frozenset[str]())
        on_the_way = set(leaves)
        distances = {leaf: _distances(leaf, self._neighbours) for leaf in leaves}
        for i, a in enumerate(leaves):
            for b in leaves[i + 1 :]:
                near, far = distances[a], distances[b]
                if b not in near:
                    near, far = _distances(a, self._all_neighbours), _distances(b, self._all_neighbours)
                if (total := near.get(b)) is not None:
                    on_the_way |= {s for s, d in near.items() if s in far and d + far[s] == total}
        needed = {(a, b) for a, b, _ in self.links if {switch_of(a), switch_of(b)} <= on_the_way}
        ends = {end for pair in needed for end in pair}
        return {s: frozenset(e for e in ends if switch_of(e) == s) for s in sorted(on_the_way)}

    @cached_property
    def _neighbours(self) -> _Neighbours:
        return _neighbours((a, b) for a, b, peer in self.links if not peer)

    @cached_property
    def _all_neighbours(self) -> _Neighbours:
        """Neighbours, also over peer links."""
        return _neighbours((a, b) for a, b, _ in self.links)


def _neighbours(links: Iterable[tuple[str, str]]) -> _Neighbours:
    found: dict[str, set[str]] = {}
    for a, b in links:
        found.setdefault(switch_of(a), set()).add(switch_of(b))
        found.setdefault(switch_of(b), set()).add(switch_of(a))
    return {s: frozenset(others) for s, others in found.items()}


def _distances(start: str, neighbours: _Neighbours) -> Mapping[str, int]:
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        for other in neighbours.get(here, ()):
            if other not in distances:
                distances[other] = distances[here] + 1
                waiting.append(other)
    return distances
