"""The cheapest shapes: how few leaves in how few pods can have the room, exactly.

A shape is (paid pods, leaves). The most room that j leaves in q pods can have is a dynamic programme over the pods'
prefix sums ("take the largest"), and a pod that is not among the q most roomy ones for any number of leaves can't be
in a best set, so the programme stays small whatever the site's size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import nlargest

LEAF = 1000
"""Cost of a leaf; a pod's weight β is counted in thousandths of it, so that costs are exact integers."""

Shape = tuple[int, int]


def cheapest_shapes(
    prefixes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], need: int, beta: int, fewest: int
) -> tuple[int, list[Shape]]:
    """The least cost, and every shape of that cost whose most roomy set has room for `need`.

    Args:
        prefixes: by pod, `[j]` is the room of its j most roomy leaves; all together have room for `need`.
        free_of_charge: by pod, whether it costs nothing because the order's pod stands on it already; the first
            paid pod is free too if none is.
        fewest: the least number of leaves that have the room, whatever their pods.
    """
    included = 0 if any(free_of_charge) else 1
    most_pods = sum(1 for free in free_of_charge if not free)
    bound = _bound(prefixes, need, beta, most_pods, included, fewest)
    for pods in range(_fewest_pods(prefixes, free_of_charge, need, included), most_pods + 1):
        floor = LEAF * fewest + beta * (pods - included)
        most_leaves = (bound - beta * (pods - included)) // LEAF
        room = _most_room(prefixes, free_of_charge, pods, most_leaves)
        costs = [
            (LEAF * j + beta * max(0, q - included), q, j)
            for q, row in enumerate(room)
            for j, most in enumerate(row)
            if most >= need
        ]
        if not costs:
            continue
        least = min(c for c, _, _ in costs)
        if pods == most_pods or beta == 0 or least < floor + beta:
            return least, [(q, j) for c, q, j in costs if c == least]
        # A further pod may still pay: look again with as many pods as the cost found could buy.
        most = min(most_pods, (least - LEAF * fewest) // beta + included)
        room = _most_room(prefixes, free_of_charge, most, least // LEAF)
        costs = [
            (LEAF * j + beta * max(0, q - included), q, j)
            for q, row in enumerate(room)
            for j, most_here in enumerate(row)
            if most_here >= need
        ]
        least = min(c for c, _, _ in costs)
        return least, [(q, j) for c, q, j in costs if c == least]
    raise AssertionError("all leaves together have the room")


def _fewest_pods(
    prefixes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], need: int, included: int
) -> int:
    """The least number of paid pods whose whole room is enough."""
    need -= sum(p[-1] for p, free in zip(prefixes, free_of_charge, strict=True) if free)
    pods = 0
    for room in sorted(
        (p[-1] for p, free in zip(prefixes, free_of_charge, strict=True) if not free), reverse=True
    ):
        if need <= 0:
            break
        need -= room
        pods += 1
    return max(pods, included)


def _bound(
    prefixes: Sequence[Sequence[int]], need: int, beta: int, most_pods: int, included: int, fewest: int
) -> int:
    """A cost that can certainly be had: the best single pod, or the fewest leaves wherever they are."""
    anywhere = LEAF * fewest + beta * max(0, min(most_pods, fewest) - included)
    single = min((bisect_left(p, need) for p in prefixes if p[-1] >= need), default=None)
    if single is None:
        return anywhere
    return min(anywhere, LEAF * single + beta * (1 - included))


def _most_room(
    prefixes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], most_pods: int, most_leaves: int
) -> list[list[int]]:
    """`[q][j]`: the most room that j leaves in at most q paid pods can have; -1 where there is none."""
    room = [[0] + [-1] * most_leaves for _ in range(most_pods + 1)]
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
    """Pods that are among the `most_pods` most roomy ones for some number of leaves, and those free of charge."""
    keep = {p for p, free in enumerate(free_of_charge) if free}
    paid = [p for p, free in enumerate(free_of_charge) if not free and len(prefixes[p]) > 1]
    if most_pods >= len(paid):
        return sorted(keep.union(paid))
    for j in range(1, most_leaves + 1):
        with_j = [(prefixes[p][j], -p) for p in paid if len(prefixes[p]) > j]
        if not with_j:
            break
        keep.update(-p for _, p in nlargest(most_pods, with_j))
    return sorted(keep)
