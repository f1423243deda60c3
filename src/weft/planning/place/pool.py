"""Room counted per leaf, kept up to date leaf by leaf, so that a decision needs no scan.

Leaves are in buckets by (room, whole), per pod and over all pods, as bitsets: the tightest leaf for k nodes is one
find-first-set. Pods are ranked by their room; the prefix sums of a pod are made when asked for and kept until
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
        pod_start: number of the first leaf of each pod, and the number of leaves as the last entry.

    Attributes:
        bucket: `[pod][2 * room + whole]`, bitset of the pod's leaves with that room.
        pods_with: `[2 * room + whole]`, bitset of the pods that have such a leaf; `levels`: of those that exist.
        histogram: `[room]`, number of leaves.
        rooms: `[pod]`, bitset of the rooms that its leaves have.
        ranked: room · pods + number of each pod, sorted.
    """

    __slots__ = (
        "_order",
        "_prefixes",
        "_sorted",
        "bucket",
        "free",
        "full",
        "histogram",
        "levels",
        "pod_free",
        "pod_of",
        "pod_start",
        "pods",
        "pods_with",
        "ranked",
        "rooms",
        "total",
    )

    def __init__(self, full: Sequence[int], free: Sequence[int], pod_start: Sequence[int]) -> None:
        self.full = list(full)
        self.free = list(free)
        self.pod_start = list(pod_start)
        self.pods = len(pod_start) - 1
        self.pod_of = [p for p in range(self.pods) for _ in range(pod_start[p], pod_start[p + 1])]
        most = max(self.full, default=0)
        self.bucket = [[0] * (2 * most + 2) for _ in range(self.pods)]
        self.pods_with = [0] * (2 * most + 2)
        self.levels = 0
        self.histogram = [0] * (most + 1)
        self.pod_free = [0] * self.pods
        self.rooms = [0] * self.pods
        self._order: list[list[int] | None] = [None] * self.pods
        self._prefixes: list[list[int] | None] = [None] * self.pods
        self._sorted: list[list[int] | None] = [None] * self.pods
        for leaf, room in enumerate(self.free):
            self._enter(leaf, room)
            self.pod_free[self.pod_of[leaf]] += room
        self.total = sum(self.free)
        self.ranked = sorted(room * self.pods + p for p, room in enumerate(self.pod_free))

    def set(self, leaf: int, room: int) -> None:
        """Leaf has `room` now."""
        old = self.free[leaf]
        if room == old:
            return
        pod = self.pod_of[leaf]
        if old:
            self._leave(leaf, old)
        self.free[leaf] = room
        self._enter(leaf, room)
        self._order[pod] = self._prefixes[pod] = None
        rooms = self._sorted[pod]
        if rooms is not None:
            del rooms[bisect_left(rooms, old)]
            insort(rooms, room)
        ranked, was = self.ranked, self.pod_free[pod]
        del ranked[bisect_left(ranked, was * self.pods + pod)]
        self.pod_free[pod] = now = was + room - old
        insort(ranked, now * self.pods + pod)
        self.total += room - old

    def but(self, rooms: Mapping[int, int]) -> Self:
        """Another pool, alike but for these leaves' room; this one stays as it is."""
        free, pod_of, pod_free = self.free, self.pod_of, self.pod_free
        changed = {leaf: room for leaf, room in rooms.items() if free[leaf] != room}
        if not changed:
            return self
        other = object.__new__(type(self))
        other.full, other.pod_start, other.pods, other.pod_of = self.full, self.pod_start, self.pods, pod_of
        other.free, other.pod_free = free.copy(), pod_free.copy()
        other.bucket, other.pods_with, other.rooms = (
            self.bucket.copy(),
            self.pods_with.copy(),
            self.rooms.copy(),
        )
        other.levels, other.histogram, other.total = self.levels, self.histogram.copy(), self.total
        other._order, other._prefixes = self._order.copy(), self._prefixes.copy()
        other._sorted = self._sorted.copy()
        other._change(changed)
        return other

    def _change(self, rooms: Mapping[int, int]) -> None:
        """Set the room of many leaves, in a copy whose rows are still those of the other."""
        free, pod_of, full, starts = self.free, self.pod_of, self.full, self.pod_start
        bucket, rooms_of, histogram, pods_with = self.bucket, self.rooms, self.histogram, self.pods_with
        pod_free, total, own = self.pod_free, self.total, set[int]()
        for leaf, room in rooms.items():
            old, pod = free[leaf], pod_of[leaf]
            if pod not in own:
                own.add(pod)
                bucket[pod] = bucket[pod].copy()
                self._order[pod] = self._prefixes[pod] = self._sorted[pod] = None
            if old:  # as `_leave`, without a call for each of perhaps hundreds
                level = 2 * old + (old == full[leaf])
                row = bucket[pod]
                left = row[level] = row[level] ^ 1 << (leaf - starts[pod])
                histogram[old] -= 1
                if not left:
                    if not row[level ^ 1]:
                        rooms_of[pod] ^= 1 << old
                    left = pods_with[level] = pods_with[level] ^ 1 << pod
                    if not left:
                        self.levels ^= 1 << level
            free[leaf] = room
            if room:
                self._enter(leaf, room)
            pod_free[pod] += room - old
            total += room - old
        self.total, count = total, self.pods
        self.ranked = sorted([room * count + p for p, room in enumerate(pod_free)])

    def room_on(self, leaves: Sequence[Collection[int]]) -> int:
        """The room of all these leaves, each counted once."""
        free = self.free
        if len(leaves) > 1:
            return sum(map(free.__getitem__, {x for some in leaves for x in some if free[x]}))
        return sum(map(free.__getitem__, leaves[0]))

    def _leave(self, leaf: int, room: int) -> None:
        pod = self.pod_of[leaf]
        level = 2 * room + (room == self.full[leaf])
        bit = 1 << (leaf - self.pod_start[pod])
        row = self.bucket[pod]
        row[level] ^= bit
        self.histogram[room] -= 1
        if not row[level]:
            if not row[level ^ 1]:
                self.rooms[pod] ^= 1 << room
            self._last_of(pod, level)

    def _last_of(self, pod: int, level: int) -> None:
        self.pods_with[level] ^= 1 << pod
        if not self.pods_with[level]:
            self.levels ^= 1 << level

    def _enter(self, leaf: int, room: int) -> None:
        if not room:
            return
        pod = self.pod_of[leaf]
        level = 2 * room + (room == self.full[leaf])
        bit = 1 << (leaf - self.pod_start[pod])
        self.bucket[pod][level] |= bit
        self.rooms[pod] |= 1 << room
        self.pods_with[level] |= 1 << pod
        self.levels |= 1 << level
        self.histogram[room] += 1

    @property
    def most_roomy(self) -> int:
        """The room of the most roomy leaf; 0 if none has any."""
        return max(self.levels.bit_length() - 1, 0) >> 1

    def order(self, pod: int) -> list[int]:
        """The pod's leaves, the most roomy first, then in tree order; those without room come last."""
        found = self._order[pod]
        if found is None:
            leaves = range(self.pod_start[pod], self.pod_start[pod + 1])
            found = self._order[pod] = sorted(leaves, key=self.free.__getitem__, reverse=True)
        return found

    def sorted_rooms(self, pod: int) -> list[int]:
        """The room of each of the pod's leaves, the least first."""
        found = self._sorted[pod]
        if found is None:
            found = self._sorted[pod] = sorted(self.free[self.pod_start[pod] : self.pod_start[pod + 1]])
        return found

    def prefix(self, pod: int) -> list[int]:
        """`[j]` is the room of the pod's j most roomy leaves."""
        found = self._prefixes[pod]
        if found is None:
            found = self._prefixes[pod] = list(accumulate(reversed(self.sorted_rooms(pod)), initial=0))
        return found

    def fewest(self, need: int) -> int:
        """The least number of leaves, wherever they are, that have room for `need`; all together must have it."""
        leaves = 0
        histogram = self.histogram
        for room in range(len(histogram) - 1, 0, -1):
            there = histogram[room]
            if there:
                if there * room >= need:
                    return leaves - (-need // room)
                leaves += there
                need -= there * room
        raise ValueError("there is not so much room")

    def most(self, leaves: int) -> int:
        """The room of so many leaves, the most roomy of the pool."""
        total = 0
        histogram = self.histogram
        for room in range(len(histogram) - 1, 0, -1):
            there = min(histogram[room], leaves)
            total += there * room
            leaves -= there
            if not leaves:
                break
        return total
