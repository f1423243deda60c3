"""Fabrics whose switches choose among equal paths by a hash of each flow (ECMP), or by a spanning tree. Pure.

Which one a flow takes isn't known, so that each pair has all links of all shortest paths: possible ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.planning.fabric.forwarding import PORTS, Fate, Followed, Forwarding, Ints


class EqualPaths(Forwarding):
    """Links as of `Forwarding`; a path is every link of every shortest path."""

    def __init__(self, ports: Sequence[RoutedPort], cables: Sequence[SwitchCable]) -> None:
        super().__init__({}, ports, cables)
        self._beyond: dict[int, list[tuple[int, int]]] = {}
        """Index of a switch -> (link, index of the switch that it leads to)."""
        for cable in cables:
            for guid, port in ((cable.a, cable.a_port), (cable.b, cable.b_port)):
                link = self._index[guid] * PORTS + port
                self._beyond.setdefault(self._index[guid], []).append((link, int(self._next[link])))
        self._between: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._hops: dict[int, dict[int, int]] = {}

    def follow(self, sources: Ints, targets: Ints, lids: Ints | None = None) -> Followed:
        """All links of all shortest paths of each pair; one whose leaves have no path has no route."""
        n = len(self.switches)
        paths: list[int] = []
        links: list[int] = []
        fate = np.full(len(sources), Fate.ARRIVES, np.int8)
        for number, (source, target) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
            near, far = int(self._leaf[source]), int(self._leaf[target])
            between = self._links_between(near, far)
            if between is None:
                fate[number] = Fate.NO_ROUTE
                continue
            mine = (n * PORTS + source, *between, far * PORTS + int(self._leaf_port[target]))
            paths += [number] * len(mine)
            links += mine
        return Followed(np.array(paths, np.int32), np.array(links, np.int32), fate)

    def _links_between(self, near: int, far: int) -> tuple[int, ...] | None:
        """Links of all shortest paths from one switch to another; None: there is none."""
        if (near, far) not in self._between:
            self._between[near, far] = self._found(near, far)
        return self._between[near, far]

    def _found(self, near: int, far: int) -> tuple[int, ...] | None:
        hops = self._hops_to(far)
        if near not in hops:
            return None
        found, level = list[int](), {near}
        while level and level != {far}:
            on = [
                (link, other)
                for switch in level
                for link, other in self._beyond.get(switch, ())
                if hops.get(other) == hops[switch] - 1
            ]
            found += [link for link, _ in on]
            level = {other for _, other in on}
        return tuple(sorted(found))

    def _hops_to(self, far: int) -> dict[int, int]:
        """Switch -> hops to one of them. Cables lead both ways."""
        if far not in self._hops:
            hops, waiting = {far: 0}, deque([far])
            while waiting:
                here = waiting.popleft()
                for _, other in self._beyond.get(here, ()):
                    if other not in hops:
                        hops[other] = hops[here] + 1
                        waiting.append(other)
            self._hops[far] = hops
        return self._hops[far]
