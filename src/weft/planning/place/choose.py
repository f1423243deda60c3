"""Which leaves: the exact optimum over room counted per leaf.

The objective, in this order: (1) leaves + β·(pods−1), (2) least leftover: room that stays behind on the leaves used,
(3) fewest pods, (4) leaves that are broken already before whole ones, (5) the fullest pod, (6) tree order.
Leaves and pods that the order's pod stands on already (`home`) cost nothing.

How: one leaf is a scan. For several, the most room that j leaves in q pods can have is a small dynamic programme
over the pods' prefix sums ("take the largest"); the cheapest (q, j) with enough room is exact. The least leftover
among all sets of that cost is a subset sum, with integers as bitsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.order import Level
from weft.planning.place.subset import least_leftover

LEAF = 1000
"""Cost of a leaf; a pod's weight β is counted in thousandths of it, so that costs are exact integers."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The operator's settings.

    Attributes:
        pod: β, what a further pod costs, counted in leaves; 0.5 favours few leaves, 2 favours few pods.
    """

    pod: float = 0.5

    @property
    def beta(self) -> int:
        return round(self.pod * LEAF)


@dataclass(frozen=True, slots=True)
class Room:
    """What one leaf has for this order.

    Attributes:
        leaf: number of the leaf in tree order.
        pod: number of its pod in tree order.
        free: nodes on it that the order could have.
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
    """Leaves and how many nodes to take of each, in tree order.

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
    """The best leaves for `need` nodes, or None if they don't fit inside the required level."""
    home = home or Home()
    rooms = [r for r in rooms if r.free > 0 and _allowed(r, required, home)]
    if need > sum(r.free for r in rooms) or (required == "node" and need + sum(home.leaves.values()) > 1):
        return None
    if home.leaves:
        return _around(rooms, need, weights, required, home)
    if (one := _one_leaf(rooms, need)) is not None:
        return one
    if required in ("node", "leaf"):
        return None
    if required == "pod" or preferred == "pod":
        best = _one_pod(rooms, need)
        if best is not None or required == "pod":
            return best
    return _many(rooms, need, weights.beta, Home())


def _allowed(room: Room, required: Level, home: Home) -> bool:
    if not home.leaves or required == "site":
        return True
    if required == "pod":
        return home.pods == frozenset((room.pod,))
    return set(home.leaves) == {room.leaf}


def _one_leaf(rooms: Sequence[Room], need: int) -> Choice | None:
    """The tightest single leaf."""
    pod_free = _pod_free(rooms)
    best = min(
        (r for r in rooms if r.free >= need),
        key=lambda r: (r.free, r.whole, pod_free[r.pod], r.leaf),
        default=None,
    )
    return Choice(((best.leaf, need),), LEAF, best.free - need, 1) if best else None


def _one_pod(rooms: Sequence[Room], need: int) -> Choice | None:
    """The best set of leaves inside one pod."""
    pods: dict[int, list[Room]] = {}
    for room in rooms:
        pods.setdefault(room.pod, []).append(room)
    choices = [
        (c.cost, c.leftover, sum(r.free for r in members), pod, c)
        for pod, members in pods.items()
        if (c := _many(members, need, 0, Home())) is not None
    ]
    return min(choices, key=lambda c: c[:4])[4] if choices else None


def _around(rooms: Sequence[Room], need: int, weights: Weights, required: Level, home: Home) -> Choice | None:
    """Beside nodes that stay: their leaves first, where most of them are; then as few further leaves as can be."""
    own = sorted(
        (r for r in rooms if r.leaf in home.leaves), key=lambda r: (-home.leaves[r.leaf], r.free, r.leaf)
    )
    takes: list[tuple[int, int]] = []
    leftover = 0
    for room in own:
        take = min(need, room.free)
        if take:
            takes.append((room.leaf, take))
            leftover += room.free - take
            need -= take
    pods = set(home.pods)
    cost = 0
    if need:
        others = [r for r in rooms if r.leaf not in home.leaves]
        more = _many(others, need, weights.beta, home)
        if more is None:
            return None
        takes += more.takes
        leftover += more.leftover
        cost = more.cost
        pod_of = {r.leaf: r.pod for r in others}
        pods |= {pod_of[leaf] for leaf, _ in more.takes}
    return Choice(tuple(sorted(takes)), cost, leftover, len(pods))


def _many(rooms: Sequence[Room], need: int, beta: int, home: Home) -> Choice | None:
    """The exact best set over any number of leaves and pods."""
    if beta == 0:
        groups = [sorted(rooms, key=lambda r: (r.whole, r.leaf))]
    else:
        pod_free = _pod_free(rooms)
        by_pod: dict[int, list[Room]] = {}
        for room in sorted(
            rooms, key=lambda r: (r.pod not in home.pods, pod_free[r.pod], r.pod, r.whole, r.leaf)
        ):
            by_pod.setdefault(room.pod, []).append(room)
        groups = list(by_pod.values())
    free_of_charge = [g[0].pod in home.pods for g in groups]
    sizes = [[r.free for r in g] for g in groups]
    shapes = cheapest_shapes(sizes, free_of_charge, need, beta, bool(home.pods))
    if not shapes:
        return None
    cost, pairs = shapes
    picked = least_leftover(sizes, free_of_charge, need, pairs)
    chosen = [groups[g][i] for g, i in picked]
    return _choice(chosen, need, cost)


def _choice(chosen: Sequence[Room], need: int, cost: int) -> Choice:
    """Fill the chosen leaves; what is left over stays together on the one with most room."""
    leftover = sum(r.free for r in chosen) - need
    largest = max(chosen, key=lambda r: (r.free, r.leaf))
    takes = tuple(sorted((r.leaf, r.free - (leftover if r is largest else 0)) for r in chosen))
    return Choice(takes, cost, leftover, len({r.pod for r in chosen}))


def cheapest_shapes(
    sizes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], need: int, beta: int, homed: bool
) -> tuple[int, list[tuple[int, int]]] | None:
    """The least cost, and every (paid pods, leaves) of that cost whose most roomy set has room for `need`.

    Args:
        sizes: room of each leaf, by pod.
        free_of_charge: whether the pod costs nothing (it is home).
        homed: whether any pod is home: then the first paid pod costs too.
    """
    everything = sorted((f for pod in sizes for f in pod), reverse=True)
    fewest = _leaves_for(everything, need)
    if fewest is None:
        return None
    tops = [sorted(pod, reverse=True) for pod in sizes]
    paid_at_no_cost = 0 if homed else 1
    bound = min(
        (LEAF * n for pod in tops if (n := _leaves_for(pod, need)) is not None),
        default=LEAF * fewest + beta * len(sizes),
    )
    bound = min(bound + (beta if homed else 0), LEAF * fewest + beta * len(sizes))
    most_leaves = min(len(everything), bound // LEAF)
    most_pods = (
        len(sizes) if beta == 0 else min(len(sizes), (bound - LEAF * fewest) // beta + paid_at_no_cost)
    )
    room = _most_room(tops, free_of_charge, max(most_pods, 1), most_leaves)
    costs = [
        (LEAF * j + beta * max(0, q - paid_at_no_cost), q, j)
        for q, row in enumerate(room)
        for j, most in enumerate(row)
        if most >= need
    ]
    least = min(c for c, _, _ in costs)
    return least, [(q, j) for c, q, j in costs if c == least]


def _leaves_for(tops: Sequence[int], need: int) -> int | None:
    """How many of these leaves, largest first, it takes."""
    for i, free in enumerate(tops, 1):
        need -= free
        if need <= 0:
            return i
    return None


def _most_room(
    tops: Sequence[Sequence[int]], free_of_charge: Sequence[bool], most_pods: int, most_leaves: int
) -> list[list[int]]:
    """`[q][j]`: the most room that j leaves in at most q paid pods can have; -1 where there is none."""
    room = [[0] + [-1] * most_leaves for _ in range(most_pods + 1)]
    prefixes: list[list[int]] = []
    for pod in tops:
        prefix = [0]
        for free in pod[:most_leaves]:
            prefix.append(prefix[-1] + free)
        prefixes.append(prefix)
    for p in _worth_a_look(prefixes, free_of_charge, most_pods, most_leaves):
        prefix = prefixes[p]
        step = 0 if free_of_charge[p] else 1
        for q in range(most_pods, step - 1, -1):
            before, after = room[q - step], room[q]
            for j in range(most_leaves, 0, -1):
                best = after[j]
                for i in range(1, min(j, len(prefix) - 1) + 1):
                    if before[j - i] >= 0 and before[j - i] + prefix[i] > best:
                        best = before[j - i] + prefix[i]
                after[j] = best
    return room


def _worth_a_look(
    prefixes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], most_pods: int, most_leaves: int
) -> list[int]:
    """Pods that are among the `most_pods` most roomy ones for some number of leaves; no other can be in a best set."""
    keep = {p for p, free in enumerate(free_of_charge) if free}
    paid = [p for p, free in enumerate(free_of_charge) if not free]
    for j in range(1, most_leaves + 1):
        with_j = [p for p in paid if len(prefixes[p]) > j]
        keep.update(sorted(with_j, key=lambda p: (-prefixes[p][j], p))[:most_pods])
    return sorted(keep)


def _pod_free(rooms: Sequence[Room]) -> dict[int, int]:
    free: dict[int, int] = {}
    for room in rooms:
        free[room.pod] = free.get(room.pod, 0) + room.free
    return free
