"""The least leftover: which leaves, given their number and that of their blocks, hold an order with the least excess.

A subset sum with one integer as a bitset of everything reachable: bit (q, j, d) says that some j leaves in q paid
blocks fall short of j times the roomiest leaf by d units in total. Shortfalls are small where sums are large, so the
integer stays short, and adding a leaf is one shift for all q, j and d at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

Shape = tuple[int, int]
"""(paid blocks, leaves)."""
Leaves = Sequence[tuple[int, int]]
"""(leaf, its room) of one block."""
KEPT = 1 << 14
"""Layouts of at most this many bits are cached for the next order."""


class _Step(NamedTuple):
    """One block's step: what was reachable `before` it, and after each of its leaves with some leaves of this block."""

    free: bool
    leaves: Leaves
    before: int
    after: list[int]


def least_leftover(
    blocks: Iterable[tuple[bool, Leaves]], most: int, need: int, shapes: Sequence[Shape]
) -> tuple[int, list[int]] | None:
    """(leftover, leaves) whose room is at least `need` and as near to it as any of these shapes allows.

    None if no set of these shapes has the room. A set without leftover is taken as soon as it is found.

    Args:
        blocks: whether it is free of charge, and its leaves; earlier blocks and leaves are preferred.
        most: no leaf has more room.
        shapes: allowed (paid blocks, leaves).
    """
    shapes = [(q, j) for q, j in shapes if j * most >= need]
    if not shapes:
        return None
    rows = max([j for _, j in shapes]) + 1
    width = (rows - 1) * most - need + 1
    paid = max([q for q, _ in shapes])
    layout = (_kept_layout if (paid + 1) * rows * width < KEPT else _Layout)(width, rows, paid, most)
    exact = 0
    for q, j in shapes:
        exact |= 1 << layout.at(q, j, j * most - need)
    reached, history = layout.run(blocks, exact)
    best: tuple[int, int, int, int] | None = None
    for q, j in shapes:
        slack = j * most - need
        row = reached >> layout.at(q, j, 0) & ((1 << (slack + 1)) - 1)
        if row and (best is None or slack + 1 - row.bit_length() < best[0]):
            best = slack + 1 - row.bit_length(), q, j, row.bit_length() - 1
    return None if best is None else (best[0], layout.walk_back(history, best[1:]))


class _Layout:
    """Where (q, j, d) is in the integer: q·rows·width + j·width + d.

    Args:
        width: shortfalls from 0; `rows`: numbers of leaves from 0; `blocks`: the most paid blocks.
        most: room of the most roomy leaf.
    """

    __slots__ = ("_inside", "_keep", "_plane", "_starts", "most", "width")

    def __init__(self, width: int, rows: int, blocks: int, most: int) -> None:
        self.width, self.most = width, most
        self._plane = plane = rows * width
        self._inside = (1 << blocks * plane) - 1
        # A bit at the start of each row but the last of every q: nothing is added to a full row.
        row = ((1 << (rows - 1) * width) - 1) // ((1 << width) - 1)
        self._starts = row * (((1 << (blocks + 1) * plane) - 1) // ((1 << plane) - 1))
        self._keep: dict[int, int] = {}

    def at(self, q: int, j: int, d: int) -> int:
        return q * self._plane + j * self.width + d

    def run(self, blocks: Iterable[tuple[bool, Leaves]], exact: int) -> tuple[int, list[_Step]]:
        """Everything reachable, and how, up to the first hit of `exact`."""
        most, width, keep = self.most, self.width, self._keep
        reached = 1
        history: list[_Step] = []
        for free, leaves in blocks:
            base = reached if free else (reached & self._inside) << self._plane
            inner = 0
            after: list[int] = []
            history.append(_Step(free, leaves, reached, after))
            for _, room in leaves:
                short = most - room
                mask = keep.get(short)
                if mask is None:
                    mask = keep[short] = self._starts * ((1 << max(width - short, 0)) - 1)
                inner |= ((base | inner) & mask) << (width + short)
                after.append(inner)
                if inner & exact:
                    return inner & exact, history
            reached |= inner
        return reached, history

    def walk_back(self, history: Sequence[_Step], state: tuple[int, int, int]) -> list[int]:
        """Which leaves reached this (q, j, d)."""
        q, j, d = state
        picked: list[int] = []
        for free, leaves, before, after in reversed(history):
            if not j:
                break
            if before >> self.at(q, j, d) & 1:
                continue
            for k in range(len(after) - 1, -1, -1):
                earlier = after[k - 1] if k else 0
                if earlier >> self.at(q, j, d) & 1:
                    continue
                leaf, room = leaves[k]
                picked.append(leaf)
                d -= self.most - room
                j -= 1
                if not earlier >> self.at(q, j, d) & 1:
                    q -= not free
                    break
        return picked


_kept_layout = lru_cache(maxsize=256)(_Layout)
