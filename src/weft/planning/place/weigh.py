"""The exact optimum where nodes have different costs: preferences, halls and buildings, uplinks.

A dynamic program over the tree, counted in units: for each number of units the least (cost, leftover) that the leaves
so far can give. Opening a domain costs its level's weight once, a leaf `LEAF`, each unit its own preference. It visits
every leaf, so it is used only for orders where the quick methods can't prove the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from weft.model.localityorder import Level
from weft.planning.place.solver import LEAF

NEVER = 1 << 60
Values = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LeafOption:
    """What one leaf has for this order.

    Attributes:
        path: numbers of its domains, the outermost first: building, hall, block.
        free: units (nodes, or slices) that the order could have.
        costs: of each of them, in thousandths of a leaf, the cheapest first; empty: nothing.
        stays: units of the order's pod that are on it already: it and its domains cost nothing.
        limit: units that its uplinks can carry to other leaves; None: no limit.
    """

    leaf: int
    path: tuple[int, ...]
    free: int
    costs: tuple[int, ...] = ()
    stays: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """The best leaves.

    Attributes:
        takes: (leaf, units), in tree order.
        cost: leaves, further blocks, halls and buildings at their weights, and preferences; thousandths of a leaf.
        preferences: the part of it that preferences are.
        leftover: units that stay behind on the leaves used.
    """

    takes: tuple[tuple[int, int], ...]
    cost: int
    preferences: int
    leftover: int


def weigh(
    parts: Sequence[LeafOption], need: int, weights: Sequence[int], required: Level, preferred: Level
) -> Weighed | None:
    """The best leaves for `need` units, or None.

    Args:
        parts: in tree order, including those on which nodes stay, even if nothing is free on them.
        weights: of a building, a hall and a block, in thousandths of a leaf: one for each domain of a path.
    """
    if required == "node" and (need > 1 or any(p.stays for p in parts)):
        return None
    for level in (preferred, required) if preferred in ("block", "hall", "building") else (required,):
        found: list[tuple[int, int, int, int, Weighed]] = []
        for number, group in enumerate(_domains(parts, level)):
            room = sum(p.free for p in group)
            if room >= need:
                best = _Table(group, need, weights).weighed
                if best is not None:
                    found.append((best.cost, best.leftover, room, number, best))
        if found:
            return min(found)[4]
    return None


def _domains(parts: Sequence[LeafOption], level: Level) -> list[list[LeafOption]]:
    """The domains of a level, as their leaves. If nodes stay: only the domain with all of them, if any."""
    depth = {"node": 0, "leaf": 0, "block": 0, "hall": 1, "building": 2}.get(level)

    def domain(part: LeafOption) -> tuple[int, ...]:
        if depth is None:
            return ()
        path = part.path[: len(part.path) - depth]
        return (*path, part.leaf) if level in ("node", "leaf") else path

    homes = {domain(p) for p in parts if p.stays}
    if len(homes) > 1:
        return []
    groups = [list(group) for _, group in groupby(parts, key=domain)]
    return [g for g in groups if not homes or domain(g[0]) in homes]


class _Table:
    """The dynamic program over some leaves; a value is cost · scale + leftover."""

    def __init__(self, parts: Sequence[LeafOption], need: int, weights: Sequence[int]) -> None:
        self._weights = weights
        self._need = need
        self._scale = sum(p.free for p in parts) + 1
        self._total = need + sum(p.stays for p in parts)
        self._log: list[tuple[LeafOption | None, NDArray[np.uint16] | NDArray[np.bool_] | None]] = []
        values = np.full(need + 1, NEVER, np.int64)
        values[0] = 0
        last = self._domain(values, parts, 0)
        # The first domain of each level costs nothing.
        included = 0 if any(p.stays for p in parts) else sum(weights)
        value = int(last[need]) - included * self._scale
        self.weighed = self._walk_back(value) if last[need] < NEVER // 2 else None

    def _domain(self, before: Values, parts: Sequence[LeafOption], level: int) -> Values:
        if level == len(self._weights):
            for part in parts:
                if part.free:
                    before = self._leaf(before, part)
            return before
        for _, group in groupby(parts, key=lambda p: p.path[level]):
            members = list(group)
            weight = 0 if any(p.stays for p in members) else self._weights[level] * self._scale
            self._log.append((None, None))
            inner = self._domain(before + weight, members, level + 1)
            used = inner < before
            self._log.append((None, used))
            before = np.where(used, inner, before)
        return before

    def _leaf(self, before: Values, part: LeafOption) -> Values:
        most = min(part.free, self._need)
        prefix = list(accumulate(part.costs[:most], initial=0)) if part.costs else [0] * (most + 1)
        leaf = 0 if part.stays else LEAF
        steps = np.full(most, NEVER, np.int64)  # by units taken, most first
        for units in range(1, most + 1):
            here = units + part.stays
            if part.limit is None or min(here, self._total - here) <= part.limit:
                steps[most - units] = (leaf + prefix[units]) * self._scale + part.free - units
        padded = np.concatenate((np.full(most, NEVER, np.int64), before))
        values = sliding_window_view(padded, most)[: self._need + 1] + steps
        best = values.argmin(1)
        after = values[np.arange(self._need + 1), best]
        used = after < before
        self._log.append((part, np.where(used, most - best, 0).astype(np.uint16)))
        return np.where(used, after, before)

    def _walk_back(self, value: int) -> Weighed:
        units = self._need
        takes: list[tuple[int, int]] = []
        preferences = 0
        at = len(self._log) - 1
        while at >= 0:
            part, choice = self._log[at]
            if part is not None and choice is not None:
                take = int(choice[units])
                if take:
                    takes.append((part.leaf, take))
                    preferences += sum(part.costs[:take])
                    units -= take
            elif choice is not None and not choice[units]:
                at = self._opened(at)
            at -= 1
        cost, leftover = divmod(value, self._scale)
        return Weighed(tuple(sorted(takes)), cost, preferences, leftover)

    def _opened(self, at: int) -> int:
        """Where the domain that ends here was opened."""
        depth = 0
        while True:
            part, choice = self._log[at]
            if part is None:
                depth += 1 if choice is not None else -1
                if not depth:
                    return at
            at -= 1
