"""Fabrics whose switches choose among equal paths by a hash of each flow (ECMP), or by a spanning tree. Pure.

Which one a flow takes isn't known, so that each pair has all links of all shortest paths: possible ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.model.errors import InputError
from weft.planning.fabric.forwarding import PORTS, Fate, Followed, Forwarding, Ints

MOST_LINKS = 16_000_000
"""Most links on the paths of all pairs together."""


class EqualPaths(Forwarding):
    """Links numbered as in `Forwarding`; a path here is every link of every shortest path."""

    def __init__(self, ports: Sequence[RoutedPort], cables: Sequence[SwitchCable]) -> None:
        super().__init__({}, ports, cables)
        self._beyond: dict[int, dict[int, list[int]]] = {}
        """Index of a switch -> index of the next one -> links to it."""
        for cable in cables:
            for guid, port in ((cable.a, cable.a_port), (cable.b, cable.b_port)):
                link = self._index[guid] * PORTS + port
                beyond = self._beyond.setdefault(self._index[guid], {})
                beyond.setdefault(int(self._next[link]), []).append(link)
        self._between: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._layers: dict[int, tuple[set[int], ...]] = {}

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
        layers = self._layers_to(far)
        hops = next((number for number, layer in enumerate(layers) if near in layer), None)
        if hops is None:
            return None
        found, level = list[int](), {near}
        for layer in reversed(layers[:hops]):
            closer = set[int]()
            for switch in level:
                beyond = self._beyond.get(switch, {})
                # A spine has many leaves, of which few are next: the smaller of both is looked through.
                for other in beyond.keys() & layer:
                    found += beyond[other]
                    closer.add(other)
            level = closer
        return tuple(sorted(found))

    def _layers_to(self, far: int) -> tuple[set[int], ...]:
        """Switches by their hops to one of them, from 0. Cables lead both ways."""
        if far not in self._layers:
            layers, seen = [{far}], {far}
            while layers[-1]:
                following = {other for here in layers[-1] for other in self._beyond.get(here, ())} - seen
                seen |= following
                layers.append(following)
            self._layers[far] = tuple(layers)
        return self._layers[far]
