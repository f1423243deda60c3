"""What leaves and blocks cost, and the shapes (paid blocks, leaves) possible for an order, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from weft.planning.place.solver.subset import Shape

LEAF = 1000
"""Cost of a leaf; a block's weight β is counted in thousandths of it, so that costs are exact integers."""


def cheapest_shapes(
    paid: Sequence[Sequence[int]],
    home: Sequence[Sequence[int]],
    need: int,
    beta: int,
    fewest: int,
    single: int | None,
) -> Iterator[tuple[int, list[Shape]]]:
    """Each cost, from the lowest, with all shapes of that cost that may hold `need`.

    Args:
        paid: by block, `[j]` is the room of its j most roomy leaves.
        home: the same for the blocks that cost nothing, because the order's pod stands on them; without any, the first
            paid block costs nothing.
        beta: weight of a block, more than 0.
        fewest: the least number of leaves that have the room, whatever their blocks.
        single: the least number of leaves that have it inside one paid block; None if no block has the room.
    """
    included = 0 if home else 1
    most_leaves = sum(len(p) - 1 for p in (*paid, *home))
    first = _fewest_blocks(paid, need - sum(p[-1] for p in home), included)
    heap: list[tuple[int, int, int]] = []

    def open_(q: int) -> None:
        if q <= len(paid):
            j = max(fewest, q, single or 0) if q == 1 and included else max(fewest, q)
            heappush(heap, (LEAF * j + beta * (q - included), q, j))

    open_(first)
    opened = first
    if first == 1 and included:  # one block may need many leaves, and two few
        opened = 2
        open_(2)
    while heap:
        cost = heap[0][0]
        shapes: list[Shape] = []
        while heap and heap[0][0] == cost:
            _, q, j = heappop(heap)
            if _may_have(paid, home, need, q, j):
                shapes.append((q, j))
            if q == opened:
                opened += 1
                open_(opened)
            if j < most_leaves:
                heappush(heap, (cost + LEAF, q, j + 1))
        if shapes:
            yield cost, shapes


def _may_have(
    paid: Sequence[Sequence[int]], home: Sequence[Sequence[int]], need: int, q: int, j: int
) -> bool:
    """Whether the q blocks that have most on j leaves each would have room together with all of the home blocks."""
    need -= sum([p[j] if j < len(p) else p[-1] for p in home])
    if need <= 0 or not q:
        return need <= 0
    rooms = sorted([p[j] if j < len(p) else p[-1] for p in paid])
    return sum(rooms[-q:]) >= need


def _fewest_blocks(paid: Sequence[Sequence[int]], need: int, included: int) -> int:
    """The least number of paid blocks whose whole room is enough."""
    blocks = 0
    for room in sorted([p[-1] for p in paid], reverse=True):
        if need <= 0:
            break
        need -= room
        blocks += 1
    return max(blocks, included)
