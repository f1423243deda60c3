"""The least leftover without a search, where exchanging one leaf for another proves it.

The roomiest leaves of some blocks have the most room that this many of their leaves can have. Any other set results
from exchanging leaves in it for others, and each exchange reduces the sum by the difference of their rooms. What no sum
of differences reaches, no set reaches; what one difference reaches, one exchange does. Only where two or more exchanges
might do better, a search is needed (`weft.planning.place.solver.subset`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from weft.planning.place.solver.pool import Pool
from weft.planning.place.solver.subset import Shape

FEW_GROUPS = 20
"""Up to this many groups of blocks are examined one by one; for more, the search is faster."""


class Swapped(NamedTuple):
    """What exchanges of one leaf can do.

    Attributes:
        leaves: the best of these sets; None if no set has the room, or there are too many groups of blocks.
        leftover: room that it leaves behind.
        doubtful: blocks in which a search may find less, the fullest first.
    """

    leaves: list[int] | None
    leftover: int
    doubtful: Sequence[int]


_Set = tuple[tuple[int, ...], int, int, int, int, int]
"""Some blocks: (blocks, leaves, what their emptiest leaves, this many, have beyond the need, the room of the fullest
of them, bitset of the rooms of these leaves, and of the others). A plain tuple: tens are created per order.
"""


def swapped(pool: Pool, need: int, shapes: Sequence[Shape], blocks: Sequence[int]) -> Swapped:
    """The best set of leaves of these shapes (blocks, leaves) that differs in one leaf from the most roomy ones.

    Args:
        blocks: those that have room, the fullest first: of equal sets theirs is taken.
    """
    if any(comb(len(blocks), q) > FEW_GROUPS for q, _ in shapes if q > 1):
        return Swapped(None, 0, blocks)
    sets: list[_Set] = []
    for q, j in shapes:
        for one in _sets(pool, need, q, j, blocks):
            _, _, slack, _, inside, outside = one
            if not slack or inside & outside << slack:
                return Swapped(_leaves(pool, one, slack), 0, ())
            sets.append(one)
    best: tuple[int, int] | None = None
    least: list[int] = []
    for number, one in enumerate(sets):
        slack = one[2]
        less, could = _differences(one)
        least.append(slack - could)
        if best is None or slack - less < best[0]:
            best = slack - less, number
    if best is None:
        return Swapped(None, 0, ())
    doubtful = {block for one, could in zip(sets, least, strict=True) if could < best[0] for block in one[0]}
    chosen = sets[best[1]]
    return Swapped(
        _leaves(pool, chosen, chosen[2] - best[0]),
        best[0],
        [block for block in blocks if block in doubtful],
    )


def _sets(pool: Pool, need: int, q: int, leaves: int, blocks: Sequence[int]) -> Iterator[_Set]:
    """The sets of q blocks whose most roomy leaves, this many, have the room; the fullest first."""
    kept, bits = pool.sorted_rooms, pool.rooms
    if q == 1:
        for block in blocks:
            rooms = kept(block)
            slack = sum(rooms[-leaves:]) - need
            if slack >= 0 and (least := rooms[-leaves]):
                every = bits[block]
                others = every & ((2 << rooms[-leaves - 1]) - 2) if len(rooms) > leaves else 0
                yield (block,), leaves, slack, least, every >> least << least, others
        return
    for chosen in combinations(blocks, q):
        rooms: list[int] = []
        every = 0
        for block in chosen:
            rooms += kept(block)
            every |= bits[block]
        rooms.sort()
        slack = sum(rooms[-leaves:]) - need
        if slack >= 0 and (least := rooms[-leaves]):
            others = every & ((2 << rooms[-leaves - 1]) - 2) if len(rooms) > leaves else 0
            yield chosen, leaves, slack, least, every >> least << least, others


def _differences(one: _Set) -> tuple[int, int]:
    """The most, up to the slack, that one exchange makes less, and that any number of them could."""
    _, _, slack, least, inside, outside = one
    up_to = (2 << slack) - 1
    too_small = max(least - slack, 0)
    left = outside >> too_small << too_small
    differences = 0
    while left:
        room = left.bit_length() - 1
        differences |= inside >> room
        left ^= 1 << room
    differences &= up_to & ~1
    most = max(differences.bit_length() - 1, 0)
    if 2 * (differences & -differences).bit_length() - 2 > slack:
        return most, most
    sums = 1
    while differences:
        step = (differences & -differences).bit_length() - 1
        differences &= differences - 1
        while step <= slack:
            sums |= sums << step & up_to
            step *= 2
    return most, sums.bit_length() - 1


def _leaves(pool: Pool, one: _Set, less: int) -> list[int]:
    """The set's leaves with one exchanged so that there is so much less room; broken leaves are taken first."""
    free, full, starts = pool.free, pool.full, pool.block_start
    blocks, leaves, _, least, inside, outside = one
    there = [x for block in blocks for x in range(starts[block], starts[block + 1])]
    taken = [x for x in there if free[x] >= least]
    beyond = len(taken) - leaves
    if beyond > 0:
        alike = [x for x in taken if free[x] == least]
        alike.sort(key=lambda x: full[x] == least)
        for leaf in alike[len(alike) - beyond :]:
            taken.remove(leaf)
    if less:
        rooms = inside & outside << less
        room = (rooms & -rooms).bit_length() - 1
        alike = [x for x in taken if free[x] == room]
        taken.remove(max(alike, key=lambda x: (full[x] == room, x)))
        alike = [x for x in there if free[x] == room - less and x not in taken]
        taken.append(next((x for x in alike if full[x] != free[x]), alike[0]))
    return taken
