"""Fabrics whose switches choose among equal paths by a hash of each flow (ECMP), or by a spanning tree. Pure.

Which one a flow takes isn't known, so that each pair has all links of all shortest paths: possible ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.model.errors import InputError
from weft.planning.fabric.forwarding import PORTS, Fate, Followed, Forwarding, Ints

MOST_LINKS = 16_000_000
"""Of all pairs together."""


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
        """All links of all shortest paths of each pair; one whose leaves have no path has no route.

        Raises `InputError` if that is more than `MOST_LINKS`: memory is bounded.
        """
        n = len(self.switches)
        near, far = self._leaf[sources].astype(np.int64), self._leaf[targets].astype(np.int64)
        pairs, which = np.unique(near * n + far, return_inverse=True)
        between = [self._links_between(int(pair) // n, int(pair) % n) for pair in pairs]
        sizes = np.array([0 if found is None else len(found) + 2 for found in between], np.int64)
        if int(sizes[which].sum()) > MOST_LINKS:
            allowed = f"another pattern: the possible paths of this one have more than {MOST_LINKS:,} links"
            raise InputError("pattern", f"{len(sources):,} pairs", allowed)
        lost = np.array([found is None for found in between], np.bool_)
        fate = np.where(lost[which], Fate.NO_ROUTE, Fate.ARRIVES).astype(np.int8)
        going = np.flatnonzero(fate == Fate.ARRIVES).astype(np.int32)
        paths = [going, going]
        links = [
            n * PORTS + sources[going],
            self._leaf[targets[going]] * PORTS + self._leaf_port[targets[going]],
        ]
        order = np.argsort(which, kind="stable").astype(np.int32)
        starts = np.searchsorted(which[order], np.arange(len(pairs) + 1))
        for number, found in enumerate(between):
            if found:
                mine = order[starts[number] : starts[number + 1]]
                paths.append(np.repeat(mine, len(found)))
                links.append(np.tile(np.array(found, np.int32), len(mine)))
        return Followed(np.concatenate(paths), np.concatenate(links).astype(np.int32), fate)

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
