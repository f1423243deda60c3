"""What a choice of leaves is compared with: runners-up, from the free units at that moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.planning.place.solver.pool import Pool
from weft.planning.place.solver.solve import next_leaf

Rival = tuple[str, tuple[int, ...], int, int]
"""Leaves that would have had room, too: (what they are best at, leaves in tree order, number of their blocks, units
left over on them).
"""
NEXT_LEAF = "next leaf"
NEXT_DOMAIN = "next NVLink domain"


def rivals(pool: Pool, need: int, leaves: Sequence[int], anywhere: bool) -> tuple[Rival, ...]:
    """What these leaves of the pool are compared with; the arguments are those of `other_sets`."""
    if len(leaves) > 1:
        return other_sets(pool, need, leaves, anywhere)
    other = next_leaf(pool, leaves[0])
    return ((NEXT_LEAF, (other,), 1, pool.free[other] - need),) if other >= 0 else ()


def tightest(leaves: NDArray[np.intp], units: NDArray[Any], need: int) -> tuple[Rival, ...]:
    """The tightest of these leaves, where rooms are numpy's: `[leaf]`."""
    if not len(leaves):
        return ()
    leaf = int(leaves[int(units[leaves].argmin())])
    return ((NEXT_LEAF, (leaf,), 1, int(units[leaf]) - need),)


def other_sets(pool: Pool, need: int, leaves: Sequence[int], anywhere: bool) -> tuple[Rival, ...]:
    """One block instead of several, or the next block; and the fewest leaves, wherever they are.

    Args:
        leaves: the chosen leaves, more than one.
        anywhere: whether leaves in several blocks would do.
    """
    own = {pool.block_of[x] for x in leaves}
    found = _other_block(pool, need, len(leaves), own)
    fewest = pool.fewest(need)
    if anywhere and (not found or len(own) > 1 or fewest < len(leaves)):
        roomy = _most_roomy(pool, fewest)
        if roomy != tuple(leaves) and not (found and found[0][1] == roomy):
            beyond = sum([pool.free[x] for x in roomy]) - need
            found += (("fewest leaves", roomy, len({pool.block_of[x] for x in roomy}), beyond),)
    return found


def _other_block(pool: Pool, need: int, number: int, own: set[int]) -> tuple[Rival, ...]:
    """The fullest other block that needs no more leaves; if there is none, that which needs the fewest."""
    count, ranked, kept = pool.blocks, pool.ranked, pool.sorted_rooms
    start = bisect_left(ranked, need * count)
    what = "one block" if len(own) > 1 else "next block"
    for i in range(start, len(ranked)):
        block = ranked[i] % count
        beyond = sum(kept(block)[-number:]) - need
        if beyond >= 0 and block not in own:
            return _top(pool, what, block, number, beyond)
    blocks = [key % count for key in ranked[start:]]
    found = [
        (bisect_left(pool.prefix(p), need), i) for i, p in enumerate(blocks) if len(own) > 1 or p not in own
    ]
    if not found:
        return ()
    number, i = min(found)
    return _top(pool, what, blocks[i], number, pool.prefix(blocks[i])[number] - need)


def _top(pool: Pool, what: str, block: int, number: int, beyond: int) -> tuple[Rival, ...]:
    """The most roomy leaves of a block."""
    return ((what, tuple(sorted(pool.order(block)[:number])), 1, beyond),)


def _most_roomy(pool: Pool, number: int) -> tuple[int, ...]:
    """This many of the leaves with the most room."""
    found: list[int] = []
    levels = pool.levels
    while levels:
        level = levels.bit_length() - 1
        levels ^= 1 << level
        blocks = pool.blocks_with[level]
        while blocks:
            block = (blocks & -blocks).bit_length() - 1
            blocks &= blocks - 1
            bits = pool.bucket[block][level]
            while bits:
                found.append(pool.block_start[block] + (bits & -bits).bit_length() - 1)
                bits &= bits - 1
                if len(found) == number:
                    return tuple(sorted(found))
    return tuple(sorted(found))
