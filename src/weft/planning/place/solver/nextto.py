"""One node near those that a pod has: the replacement if the failed node's leaf has no free one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.model.localityorder import Level
from weft.planning.place.solver.exact import LEAF
from weft.planning.place.solver.pool import Pool
from weft.planning.place.solver.solve import one_leaf


def next_to(
    pool: Pool, held: Mapping[int, int], failed: int, bit: int, required: Level, beta: int
) -> tuple[int, int] | None:
    """(leaf, cost in thousandths of a leaf): the pod's own leaves, then its blocks, then the tightest leaf; or None.

    Args:
        held: leaf -> bits of the pod's nodes; the failed one, `bit` of leaf `failed`, doesn't count.
    """
    free, block_of = pool.free, pool.block_of
    best: tuple[int, int, int] | None = None
    blocks: set[int] = set()
    stay = 0
    for leaf, bits in held.items():
        if leaf == failed:
            bits &= ~bit  # noqa: PLW2901
            if not bits:
                continue
        elif free[leaf] and (best is None or (-bits.bit_count(), free[leaf], leaf) < best):
            best = -bits.bit_count(), free[leaf], leaf
        stay += 1
        blocks.add(block_of[leaf])
    if (required == "leaf" and stay > 1) or (required == "block" and len(blocks) > 1):
        return None
    if best is not None:
        return best[2], 0
    if required == "leaf" and stay:
        return None
    near = tightest_of_blocks(pool, blocks)
    if near is not None or (required == "block" and stay):
        return None if near is None else (near, LEAF)
    leaf = one_leaf(pool, 1)
    return None if leaf is None else (leaf, LEAF + (beta if stay else 0))


def tightest_of_blocks(pool: Pool, blocks: Iterable[int]) -> int | None:
    """The leaf of these blocks with the fewest free units, but some; among equals partly used, in the fullest block."""
    best: tuple[int, int, int] | None = None
    for block in blocks:
        rooms = pool.rooms[block]
        if rooms:
            level = 2 * (rooms & -rooms).bit_length() - 2
            level += not pool.bucket[block][level]
            if best is None or (level, pool.block_free[block], block) < best:
                best = level, pool.block_free[block], block
    if best is None:
        return None
    bits = pool.bucket[best[2]][best[0]]
    return pool.block_start[best[2]] + (bits & -bits).bit_length() - 1
