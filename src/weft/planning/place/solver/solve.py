"""The best leaves of a pool: a single leaf in a few operations, several without a scan where that is provably exact."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence

from weft.planning.place.solver.exact import LEAF, cheapest_shapes
from weft.planning.place.solver.pairs import best_pair, pair_in_block, pair_of_blocks
from weft.planning.place.solver.pool import Pool
from weft.planning.place.solver.subset import least_leftover
from weft.planning.place.solver.swaps import swapped


def one_leaf(pool: Pool, need: int) -> int | None:
    """The tightest leaf for `need`; of equals a partly used one, in the fullest block, first in tree order."""
    above = pool.levels >> (2 * need)
    if not above:
        return None
    level = 2 * need + (above & -above).bit_length() - 1
    block = fullest(pool, pool.blocks_with[level], level >> 1)
    bits = pool.bucket[block][level]
    return pool.block_start[block] + (bits & -bits).bit_length() - 1


def next_leaf(pool: Pool, leaf: int) -> int:
    """The runner-up of this leaf by the same rule; -1 if there is none."""
    starts, bucket, room, block = pool.block_start, pool.bucket, pool.free[leaf], pool.block_of[leaf]
    level = 2 * room + (room == pool.full[leaf])
    bits = bucket[block][level] ^ (1 << (leaf - starts[block]))
    if not bits:
        blocks = pool.blocks_with[level] ^ (1 << block)
        if not blocks:
            above = pool.levels >> (level + 1)
            if not above:
                return -1
            level += (above & -above).bit_length()
            blocks = pool.blocks_with[level]
        block = fullest(pool, blocks, level >> 1)
        bits = bucket[block][level]
    return starts[block] + (bits & -bits).bit_length() - 1


def fullest(pool: Pool, blocks: int, room: int) -> int:
    """The block with the least room, at least `room`, in a bitset of blocks."""
    block = blocks.bit_length() - 1
    if blocks != 1 << block:
        count, ranked = pool.blocks, pool.ranked
        for i in range(bisect_left(ranked, room * count), len(ranked)):
            block = ranked[i] % count
            if blocks >> block & 1:
                break
    return block


def two_leaves(pool: Pool, need: int, closed: Sequence[Container[int]]) -> tuple[int, int] | None:
    """The tightest leaf and the next one (-1: there is none) among the leaves that none of these has."""
    leaf = one_leaf(pool, need)
    if leaf is None:
        return None
    two = leaf, next_leaf(pool, leaf)
    for some in closed:
        if two[0] in some or two[1] in some:
            break
    else:
        return two
    found: list[int] = []
    for leaf in _in_order(pool, need):
        for some in closed:
            if leaf in some:
                break
        else:
            found.append(leaf)
            if len(found) == 2:
                return found[0], found[1]
    return (found[0], -1) if found else None


def _in_order(pool: Pool, need: int) -> Iterator[int]:
    """The leaves that have the room, in the order in which they would be chosen."""
    starts, count, ranked = pool.block_start, pool.blocks, pool.ranked
    above, level = pool.levels >> (2 * need), 2 * need - 1
    while above:
        step = (above & -above).bit_length()
        level += step
        above >>= step
        blocks = pool.blocks_with[level]
        at = bisect_left(ranked, (level >> 1) * count) if blocks & (blocks - 1) else 0
        while blocks:
            block = blocks.bit_length() - 1
            if blocks != 1 << block:
                block = ranked[at] % count
                at += 1
                if not blocks >> block & 1:
                    continue
            blocks ^= 1 << block
            bits, start = pool.bucket[block][level], starts[block]
            while bits:
                yield start + (bits & -bits).bit_length() - 1
                bits &= bits - 1


def one_block(pool: Pool, need: int) -> list[int] | None:
    """The fewest leaves inside one block, and of those the least leftover."""
    if need > pool.total:
        return None
    blocks = _with_room(pool, need)
    found = _tightest(pool, blocks, pool.fewest(need), need)
    return found or (_tightest(pool, blocks, _fewest_in_one(pool, blocks, need), need) if blocks else None)


def several(
    pool: Pool, need: int, beta: int, home: frozenset[int] = frozenset()
) -> tuple[int, list[int]] | None:
    """The leaves of least cost, and of those the least leftover: (cost in thousandths of a leaf, leaves).

    Args:
        home: blocks that cost nothing, because the order's pod stands on them already.
    """
    if need > pool.total:
        return None
    fewest = pool.fewest(need)
    if beta == 0:
        return LEAF * fewest, _anywhere(pool, need, fewest)
    single = None
    if not home:
        blocks = _with_room(pool, need)
        inside = _tightest(pool, blocks, fewest, need)
        if inside is not None:
            return LEAF * fewest, inside
        if blocks:
            single = _fewest_in_one(pool, blocks, need)
            # Two blocks cost at least this much: below it, a single block is the optimum.
            if LEAF * single < LEAF * fewest + beta:
                inside = _tightest(pool, blocks, single, need)
                assert inside is not None
                return LEAF * single, inside
        if fewest == 2 and (single is None or LEAF * single > LEAF * 2 + beta):
            pair = pair_of_blocks(pool, need)
            if pair:
                return LEAF * 2 + beta, pair
    return _over_blocks(pool, need, beta, home, fewest, single)


def _with_room(pool: Pool, need: int) -> list[int]:
    """The blocks that have room for all, the fullest first."""
    count, ranked = pool.blocks, pool.ranked
    return [key % count for key in ranked[bisect_left(ranked, need * count) :]]


def _fewest_in_one(pool: Pool, blocks: Sequence[int], need: int) -> int:
    """The least number of leaves that one of these blocks needs; each has the room."""
    return min([bisect_left(pool.prefix(block), need) for block in blocks])


def _tightest(pool: Pool, blocks: Sequence[int], leaves: int, need: int) -> list[int] | None:
    """The set of `leaves` leaves in one of these blocks with the least leftover; None if no block has such a set."""
    if leaves == 2:
        return _pair(pool, blocks, need)
    found, leftover, doubtful = swapped(pool, need, ((1, leaves),), blocks)
    if doubtful:
        useful = ((False, _useful(pool, p, need - pool.prefix(p)[leaves - 1])) for p in doubtful)
        picked = least_leftover(useful, pool.most_roomy, need, ((1, leaves),))
        if picked is not None and picked[0] < leftover:
            return picked[1]
    return found


def _pair(pool: Pool, blocks: Sequence[int], need: int) -> list[int] | None:
    """What `_tightest` returns for two leaves, from the pool's counts of free units, without a search."""
    least, best = 1 << 60, (0, 0)
    for block in blocks:
        if sum(pool.sorted_rooms(block)[-2:]) >= need:
            beyond, larger = best_pair(pool, block, need)
            if beyond < least:
                least, best = beyond, (block, larger)
                if not beyond:
                    break
    return None if least == 1 << 60 else pair_in_block(pool, best[0], best[1], need + least - best[1])


def _anywhere(pool: Pool, need: int, leaves: int) -> list[int]:
    """`leaves` leaves with the least leftover, in any blocks."""
    least = need - pool.most(leaves - 1)
    members = [leaf for key in pool.ranked for leaf in _useful(pool, key % pool.blocks, least)]
    picked = least_leftover([(True, members)], pool.most_roomy, need, [(0, leaves)])
    assert picked is not None
    return picked[1]


def _over_blocks(
    pool: Pool, need: int, beta: int, home: frozenset[int], fewest: int, single: int | None
) -> tuple[int, list[int]]:
    """The exact best set over any number of blocks: the shapes from the cheapest, until one has the room."""
    blocks = [key % pool.blocks for key in pool.ranked if key >= pool.blocks]
    first: tuple[int, int] | None = None
    if not home:
        # No set has fewer leaves than `fewest`, nor fewer blocks than can hold it: usually both minima are possible.
        first = max(2, _fewest_blocks(pool, blocks, need)), fewest
        cost = LEAF * fewest + beta * (first[0] - 1)
        if single is None or LEAF * single > cost:
            found = _of_shapes(pool, need, [first], blocks, home)
            if found is not None:
                return cost, found
        else:
            first = None
    paid = [pool.prefix(p) for p in blocks if p not in home]
    free = [pool.prefix(p) for p in blocks if p in home]
    extra = beta if home and not free else 0  # no block of the order has room: the first new one isn't free
    for cost, shapes in cheapest_shapes(paid, free, need, beta, fewest, single):
        found = None if shapes == [first] else _of_shapes(pool, need, shapes, blocks, home)
        if found is not None:
            return cost + extra, found
    raise AssertionError("all leaves together have the room")


def _fewest_blocks(pool: Pool, blocks: Sequence[int], need: int) -> int:
    """The least number of these blocks, the fullest first, that have room for `need`."""
    for number, block in enumerate(reversed(blocks), 1):
        need -= pool.block_free[block]
        if need <= 0:
            return number
    raise AssertionError("all leaves together have the room")


def _of_shapes(
    pool: Pool, need: int, shapes: Sequence[tuple[int, int]], blocks: Sequence[int], home: frozenset[int]
) -> list[int] | None:
    """The least leftover over shapes that cost the same; None if none of them has the room."""
    known: list[int] | None = None
    leftover = 0
    if not home:
        known, leftover, blocks = swapped(pool, need, shapes, blocks)
        if not blocks:
            return known
    most_blocks, most_leaves = max(q for q, _ in shapes), max(j for _, j in shapes)
    least = max(need - pool.most(most_leaves - 1), 1)
    if home:
        blocks = sorted(blocks, key=lambda p: p not in home)
    else:
        # The most roomy others must have the rest.
        others = (
            sum([pool.block_free[p] for p in blocks[len(blocks) - most_blocks + 1 :]])
            if most_blocks > 1
            else 0
        )
        blocks = [p for p in blocks if pool.block_free[p] + others >= need]
    roomy = 0
    for here in pool.blocks_with[2 * least :]:
        roomy |= here
    left = ((p in home, _useful(pool, p, least)) for p in blocks if roomy >> p & 1)
    picked = least_leftover(left, pool.most_roomy, need, shapes)
    if picked is None or (known is not None and leftover <= picked[0]):
        return known
    return picked[1]


def _useful(pool: Pool, block: int, least: int) -> list[tuple[int, int]]:
    """The block's leaves with at least this room, but some, and their room (with less, even the emptiest others
    don't make up the sum): partly used ones first, then in tree order.
    """
    start, full, least = pool.block_start[block], pool.full, max(least, 1)
    rooms = pool.free[start : pool.block_start[block + 1]]
    useful = [pair for pair in enumerate(rooms, start) if pair[1] >= least]
    whole = [pair for pair in useful if pair[1] == full[pair[0]]]
    return [pair for pair in useful if pair[1] != full[pair[0]]] + whole if whole else useful


def fill(free: Sequence[int], leaves: Iterable[int], need: int) -> tuple[tuple[int, int], ...]:
    """How much to take of each leaf, in tree order; what is left over stays together on the most roomy one."""
    chosen = sorted(leaves)
    leftover = sum(free[leaf] for leaf in chosen) - need
    largest = max(chosen, key=lambda leaf: free[leaf])
    return tuple((leaf, free[leaf] - leftover if leaf == largest else free[leaf]) for leaf in chosen)
