"""Which leaves: the exact optimum over room counted per leaf.

The objective, in this order: (1) leaves + β·(pods−1), (2) least leftover: room that stays behind on the leaves used.
Among equals a single leaf is a broken one rather than a whole one, in the fullest pod, first in tree order; sets are
told apart by fixed rules of the same spirit, so that equal states give equal answers. Leaves and pods that the
order's pod stands on already (`home`) cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from weft.model.order import Level
from weft.model.site import PlacementPolicy
from weft.planning.place.exact import LEAF
from weft.planning.place.pool import Pool
from weft.planning.place.solve import fill, one_leaf, one_pod, several

Takes = tuple[tuple[int, int], ...]
Policy = Callable[[Pool, Level, Level, int], Takes | None]
"""Another rule than weft's, to compare with: (pool, required, preferred, units) -> what to take of each leaf."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The operator's settings.

    Attributes:
        pod: β, what a further pod costs, counted in leaves; 0.5 favours few leaves, 2 favours few pods.
        hall: what a further hall costs beside its pod; `building` beside its hall.
    """

    pod: float = 0.5
    hall: float = 1.0
    building: float = 2.0

    @classmethod
    def of(cls, policy: PlacementPolicy) -> Self:
        """The settings as a site has them."""
        return cls(policy.pod, policy.hall, policy.building)

    @property
    def beta(self) -> int:
        return round(self.pod * LEAF)

    @property
    def levels(self) -> tuple[int, int, int]:
        """A building, a hall and a pod, in thousandths of a leaf."""
        return round(self.building * LEAF), round(self.hall * LEAF), self.beta


@dataclass(frozen=True, slots=True)
class Room:
    """What one leaf has for this order.

    Attributes:
        leaf: number of the leaf in tree order.
        pod: number of its pod in tree order.
        free: units on it that the order could have.
        whole: whether nothing on the leaf is taken.
    """

    leaf: int
    pod: int
    free: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Home:
    """Where the nodes of the same pod stand that stay: leaf -> how many, and the pods of these leaves."""

    leaves: Mapping[int, int] = field(default_factory=dict[int, int])
    pods: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Choice:
    """Leaves and how many units to take of each, in tree order.

    Attributes:
        cost: leaves + β·(pods−1), in thousandths of a leaf; home leaves and pods are free.
        leftover: room for this order that stays behind on the leaves used.
        pods: number of pods used.
    """

    takes: tuple[tuple[int, int], ...]
    cost: int
    leftover: int
    pods: int


def choose(
    rooms: Sequence[Room],
    need: int,
    weights: Weights,
    required: Level = "site",
    preferred: Level = "leaf",
    home: Home | None = None,
) -> Choice | None:
    """The best leaves for `need` units, or None if they don't fit inside the required level."""
    rooms = sorted((r for r in rooms if r.free > 0), key=lambda r: (r.pod, r.leaf))
    if not home or not home.leaves:
        return from_pool(*pool_of(rooms), need, weights, required, preferred)
    if required == "node":
        return None
    return _around([r for r in rooms if _allowed(r, required, home)], need, weights, home)


def from_pool(
    pool: Pool,
    names: Sequence[int],
    need: int,
    weights: Weights,
    required: Level,
    preferred: Level,
    policy: Policy | None = None,
) -> Choice | None:
    """The best leaves of a pool; `names` gives the number that each of its leaves has outside."""
    if need > pool.total or (required == "node" and need > 1):
        return None
    if policy is not None:
        takes = policy(pool, required, preferred, need)
        return None if takes is None else _choice(pool, names, [leaf for leaf, _ in takes], need, 0)
    leaf = one_leaf(pool, need)
    if leaf is not None:
        return Choice(((names[leaf], need),), LEAF, pool.free[leaf] - need, 1)
    if required in ("node", "leaf"):
        return None
    if required == "pod" or preferred == "pod":
        inside = one_pod(pool, need)
        if inside is not None:
            return _choice(pool, names, inside, need, LEAF * len(inside))
        if required == "pod":
            return None
    best = several(pool, need, weights.beta)
    return None if best is None else _choice(pool, names, best[1], need, best[0])


def _choice(pool: Pool, names: Sequence[int], leaves: Sequence[int], need: int, cost: int) -> Choice:
    takes = tuple((names[leaf], take) for leaf, take in fill(pool.free, leaves, need))
    leftover = sum(pool.free[leaf] for leaf in leaves) - need
    return Choice(takes, cost, leftover, len({pool.pod_of[leaf] for leaf in leaves}))


def pool_of(rooms: Sequence[Room]) -> tuple[Pool, list[int]]:
    """A pool of these rooms, in tree order, and the number that each of its leaves has outside.

    A leaf that isn't whole counts as having had more.
    """
    starts = [0, *(i for i in range(1, len(rooms)) if rooms[i].pod != rooms[i - 1].pod)]
    pool = Pool(
        [r.free if r.whole else r.free + 1 for r in rooms], [r.free for r in rooms], [*starts, len(rooms)]
    )
    return pool, [r.leaf for r in rooms]


def _allowed(room: Room, required: Level, home: Home) -> bool:
    if required == "pod":
        return home.pods == frozenset((room.pod,))
    return required != "leaf" or set(home.leaves) == {room.leaf}


def _around(rooms: Sequence[Room], need: int, weights: Weights, home: Home) -> Choice | None:
    """Beside nodes that stay: their leaves first, where most of them are; then as few further leaves as can be."""
    if need > sum(r.free for r in rooms):
        return None
    own = sorted(
        (r for r in rooms if r.leaf in home.leaves), key=lambda r: (-home.leaves[r.leaf], r.free, r.leaf)
    )
    takes: list[tuple[int, int]] = []
    leftover, cost, pods = 0, 0, set(home.pods)
    for room in own:
        take = min(need, room.free)
        if take:
            takes.append((room.leaf, take))
            leftover += room.free - take
            need -= take
    if need:
        others = [r for r in rooms if r.leaf not in home.leaves]
        pool, names = pool_of(others)
        numbers = {r.pod: pool.pod_of[i] for i, r in enumerate(others)}
        best = several(pool, need, weights.beta, frozenset(numbers[p] for p in home.pods if p in numbers))
        if best is None:
            return None
        more = _choice(pool, names, best[1], need, best[0])
        if not any(p in numbers for p in home.pods):
            more = Choice(more.takes, more.cost + weights.beta, more.leftover, more.pods)
        takes += more.takes
        leftover += more.leftover
        cost = more.cost
        pods |= {r.pod for r in others if r.leaf in dict(more.takes)}
    return Choice(tuple(sorted(takes)), cost, leftover, len(pods))
