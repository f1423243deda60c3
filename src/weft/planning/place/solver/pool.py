"""Free units per leaf ("room"), maintained leaf by leaf, so that a decision needs no scan.

Leaves are in buckets by (room, whole), per block and over all blocks, as bitsets: the tightest leaf for k nodes is one
find-first-set. Blocks are ranked by their room; the prefix sums of a block are made when asked for and kept until
it changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Self


class Pool:
    """How many units (nodes, or slices of several) each leaf has left for one kind of order.

    Args:
        full: units of each leaf when nothing is taken, leaves in tree order.
        free: units of each leaf now.
        block_start: number of the first leaf of each block, and the number of leaves as the last entry.

    Attributes:
        bucket: `[block][2 * room + whole]`, bitset of the block's leaves with that room.
        blocks_with: `[2 * room + whole]`, bitset of the blocks that have such a leaf; `levels`: of those that exist.
        histogram: `[room]`, number of leaves.
        rooms: `[block]`, bitset of the rooms that its leaves have.
        ranked: room · blocks + number of each block, sorted.
    """

    __slots__ = (
        "_order",
        "_prefixes",
        "_sorted",
        "block_free",
        "block_of",
        "block_start",
        "blocks",
        "blocks_with",
        "bucket",
        "free",
        "full",
        "histogram",
        "levels",
        "ranked",
        "rooms",
        "total",
    )

    def __init__(self, full: Sequence[int], free: Sequence[int], block_start: Sequence[int]) -> None:
        self.full = list(full)
        self.free = list(free)
        self.block_start = list(block_start)
        self.blocks = len(block_start) - 1
        self.block_of = [p for p in range(self.blocks) for _ in range(block_start[p], block_start[p + 1])]
        most = max(self.full, default=0)
        self.bucket = [[0] * (2 * most + 2) for _ in range(self.blocks)]
        self.blocks_with = [0] * (2 * most + 2)
        self.levels = 0
        self.histogram = [0] * (most + 1)
        self.block_free = [0] * self.blocks
        self.rooms = [0] * self.blocks
        self._order: list[list[int] | None] = [None] * self.blocks
        self._prefixes: list[list[int] | None] = [None] * self.blocks
        self._sorted: list[list[int] | None] = [None] * self.blocks
        for leaf, room in enumerate(self.free):
            self._enter(leaf, room)
            self.block_free[self.block_of[leaf]] += room
        self.total = sum(self.free)
        self.ranked = sorted(room * self.blocks + p for p, room in enumerate(self.block_free))

    def set(self, leaf: int, room: int) -> None:
        """Leaf has `room` now."""
        old = self.free[leaf]
        if room == old:
            return
        block = self.block_of[leaf]
        if old:
            self._leave(leaf, old)
        self.free[leaf] = room
        self._enter(leaf, room)
        self._order[block] = self._prefixes[block] = None
        rooms = self._sorted[block]
        if rooms is not None:
            del rooms[bisect_left(rooms, old)]
            insort(rooms, room)
        ranked, was = self.ranked, self.block_free[block]
        del ranked[bisect_left(ranked, was * self.blocks + block)]
        self.block_free[block] = now = was + room - old
        insort(ranked, now * self.blocks + block)
        self.total += room - old

    def with_rooms(self, rooms: Mapping[int, int]) -> Self:
        """Another pool, equal except for these leaves' room; this one doesn't change."""
        free, block_of, block_free = self.free, self.block_of, self.block_free
        changed = {leaf: room for leaf, room in rooms.items() if free[leaf] != room}
        if not changed:
            return self
        other = object.__new__(type(self))
        other.full, other.block_start, other.blocks, other.block_of = (
            self.full,
            self.block_start,
            self.blocks,
            block_of,
        )
        other.free, other.block_free = free.copy(), block_free.copy()
        other.bucket, other.blocks_with, other.rooms = (
            self.bucket.copy(),
            self.blocks_with.copy(),
            self.rooms.copy(),
        )
        other.levels, other.histogram, other.total = self.levels, self.histogram.copy(), self.total
        other._order, other._prefixes = self._order.copy(), self._prefixes.copy()
        other._sorted = self._sorted.copy()
        other._change(changed)
        return other

    def _change(self, rooms: Mapping[int, int]) -> None:
        """Set the room of many leaves, in a copy whose rows are still those of the other."""
        free, block_of, full, starts = self.free, self.block_of, self.full, self.block_start
        bucket, rooms_of, histogram, blocks_with = self.bucket, self.rooms, self.histogram, self.blocks_with
        block_free, total, own = self.block_free, self.total, set[int]()
        for leaf, room in rooms.items():
            old, block = free[leaf], block_of[leaf]
            if block not in own:
                own.add(block)
                bucket[block] = bucket[block].copy()
                self._order[block] = self._prefixes[block] = self._sorted[block] = None
            if old:  # as `_leave`, without a function call for each of possibly hundreds
                level = 2 * old + (old == full[leaf])
                row = bucket[block]
                left = row[level] = row[level] ^ 1 << (leaf - starts[block])
                histogram[old] -= 1
                if not left:
                    if not row[level ^ 1]:
                        rooms_of[block] ^= 1 << old
                    left = blocks_with[level] = blocks_with[level] ^ 1 << block
                    if not left:
                        self.levels ^= 1 << level
            free[leaf] = room
            if room:
                self._enter(leaf, room)
            block_free[block] += room - old
            total += room - old
        self.total, count = total, self.blocks
        self.ranked = sorted([room * count + p for p, room in enumerate(block_free)])

    def room_on(self, leaves: Sequence[Collection[int]]) -> int:
        """The room of all these leaves, each counted once."""
        free = self.free
        if len(leaves) > 1:
            return sum(map(free.__getitem__, {x for some in leaves for x in some if free[x]}))
        return sum(map(free.__getitem__, leaves[0]))

    def _leave(self, leaf: int, room: int) -> None:
        block = self.block_of[leaf]
        level = 2 * room + (room == self.full[leaf])
        bit = 1 << (leaf - self.block_start[block])
        row = self.bucket[block]
        row[level] ^= bit
        self.histogram[room] -= 1
        if not row[level]:
            if not row[level ^ 1]:
                self.rooms[block] ^= 1 << room
            self._last_of(block, level)

    def _last_of(self, block: int, level: int) -> None:
        self.blocks_with[level] ^= 1 << block
        if not self.blocks_with[level]:
            self.levels ^= 1 << level

    def _enter(self, leaf: int, room: int) -> None:
        if not room:
            return
        block = self.block_of[leaf]
        level = 2 * room + (room == self.full[leaf])
        bit = 1 << (leaf - self.block_start[block])
        self.bucket[block][level] |= bit
        self.rooms[block] |= 1 << room
        self.blocks_with[level] |= 1 << block
        self.levels |= 1 << level
        self.histogram[room] += 1

    @property
    def most_roomy(self) -> int:
        """The room of the most roomy leaf; 0 if none has any."""
        return max(self.levels.bit_length() - 1, 0) >> 1

    def order(self, block: int) -> list[int]:
        """The block's leaves, the most roomy first, then in tree order; those without room come last."""
        found = self._order[block]
        if found is None:
            leaves = range(self.block_start[block], self.block_start[block + 1])
            found = self._order[block] = sorted(leaves, key=self.free.__getitem__, reverse=True)
        return found

    def sorted_rooms(self, block: int) -> list[int]:
        """The room of each of the block's leaves, the least first."""
        found = self._sorted[block]
        if found is None:
            found = self._sorted[block] = sorted(
                self.free[self.block_start[block] : self.block_start[block + 1]]
            )
        return found

    def prefix(self, block: int) -> list[int]:
        """`[j]` is the room of the block's j most roomy leaves."""
        found = self._prefixes[block]
        if found is None:
            found = self._prefixes[block] = list(accumulate(reversed(self.sorted_rooms(block)), initial=0))
        return found

    def fewest(self, need: int) -> int:
        """The least number of leaves, anywhere, with room for `need`; all together must have it."""
        leaves = 0
        histogram = self.histogram
        for room in range(len(histogram) - 1, 0, -1):
            there = histogram[room]
            if there:
                if there * room >= need:
                    return leaves - (-need // room)
                leaves += there
                need -= there * room
        raise ValueError("all leaves together lack the room")

    def most(self, leaves: int) -> int:
        """The room of the pool's most roomy leaves, this many of them."""
        total = 0
        histogram = self.histogram
        for room in range(len(histogram) - 1, 0, -1):
            there = min(histogram[room], leaves)
            total += there * room
            leaves -= there
            if not leaves:
                break
        return total
