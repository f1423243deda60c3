"""Two leaves: the best pair within a block or across blocks, from the counts of free units, without a search."""

from __future__ import annotations

from weft.planning.place.solver.pool import Pool


def best_pair(pool: Pool, block: int, need: int) -> tuple[int, int]:
    """(leftover, free units of the larger) of the block's two leaves with at least `need` and closest to it."""
    row, left = pool.bucket[block], pool.rooms[block]
    best, larger = 1 << 60, 0
    while left:
        room = left.bit_length() - 1
        if 2 * room < need:
            break
        low = max(need - room, 1)
        others = left >> low
        other = low + (others & -others).bit_length() - 1
        if others and room + other - need < best:
            alike = row[2 * room] | row[2 * room + 1]
            if other < room or (row[2 * room] and row[2 * room + 1]) or alike & (alike - 1):
                best, larger = room + other - need, room
                if not best:
                    break
        left ^= 1 << room
    return best, larger


def pair_in_block(pool: Pool, block: int, one: int, other: int) -> list[int]:
    """Two leaves of the block with these numbers of free units, partly used ones first."""
    row, start = pool.bucket[block], pool.block_start[block]
    found: list[int] = []
    for room in (one, other):
        taken = 1 << (found[0] - start) if found else 0
        bits = row[2 * room] & ~taken or row[2 * room + 1] & ~taken
        found.append(start + (bits & -bits).bit_length() - 1)
    return found


def pair_of_blocks(pool: Pool, need: int) -> list[int] | None:
    """Two leaves in two blocks with at least `need` free units and closest to it; None if there are none."""
    blocks_with, histogram = pool.blocks_with, pool.histogram
    best: tuple[int, int, int] | None = None
    for room in range(pool.most_roomy, (need - 1) // 2, -1):
        if not histogram[room]:
            continue
        here = blocks_with[2 * room] | blocks_with[2 * room + 1]
        for other in range(max(need - room, 1), room + 1):
            if best is not None and room + other - need >= best[0]:
                break
            if histogram[other]:
                both = here | blocks_with[2 * other] | blocks_with[2 * other + 1]
                if both & (both - 1):
                    best = room + other - need, room, other
                    break
        if best is not None and not best[0]:
            break
    return None if best is None else _leaf_each(pool, best[1], best[2])


def _leaf_each(pool: Pool, one: int, other: int) -> list[int]:
    """Leaves with these numbers of free units in two blocks: the fullest blocks first, then partly used leaves."""
    here = [p for key in pool.ranked if pool.rooms[p := key % pool.blocks] >> one & 1]
    there = [p for key in pool.ranked if pool.rooms[p := key % pool.blocks] >> other & 1]
    first, second = next((p, r) for p in here for r in there if p != r)
    return [*pair_in_block(pool, first, one, one)[:1], *pair_in_block(pool, second, other, other)[:1]]
