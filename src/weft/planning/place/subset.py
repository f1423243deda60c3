"""The least leftover: a subset sum over leaves, with integers as bitsets of the sums that can be reached."""

from __future__ import annotations

from collections.abc import Sequence

Reach = list[list[int]]
"""`[paid pods][leaves]` -> bitset: bit s is set if some choice has room s."""


def least_leftover(
    sizes: Sequence[Sequence[int]],
    free_of_charge: Sequence[bool],
    need: int,
    shapes: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Leaves, as (pod, index), whose room is at least `need` and as near to it as any of these shapes allows.

    Args:
        sizes: room of each leaf, by pod; earlier pods and leaves are preferred.
        shapes: allowed (paid pods, leaves); at least one of them has room enough.
    """
    most_pods = max(q for q, _ in shapes)
    most_leaves = max(j for _, j in shapes)
    mask = (1 << (need + max(f for pod in sizes for f in pod))) - 1
    reach: Reach = [[1] + [0] * most_leaves for _ in range(most_pods + 1)]
    history: list[tuple[Reach, list[tuple[int, Reach]]]] = []
    for pod, free in zip(sizes, free_of_charge, strict=True):
        steps = _one_pod(reach, pod, 0 if free else 1, mask)
        history.append((reach, steps))
        if steps:
            inner = steps[-1][1]
            reach = [[a | b for a, b in zip(x, y, strict=True)] for x, y in zip(reach, inner, strict=True)]
        if any(reach[q][j] >> need & 1 for q, j in shapes):
            break
    total, q, j = min((_first_at(reach[q][j], need), q, j) for q, j in shapes if reach[q][j] >> need)
    return _walk_back(history, sizes, free_of_charge, q, j, total)


def _one_pod(base: Reach, pod: Sequence[int], step: int, mask: int) -> list[tuple[int, Reach]]:
    """What can be reached with at least one leaf of this pod: after each leaf taken up, its index and all sums."""
    most_pods, most_leaves = len(base) - 1, len(base[0]) - 1
    inner: Reach = [[0] * (most_leaves + 1) for _ in range(most_pods + 1)]
    steps: list[tuple[int, Reach]] = []
    seen: dict[int, int] = {}
    for index, free in enumerate(pod):
        seen[free] = seen.get(free, 0) + 1
        if seen[free] > most_leaves:
            continue
        inner = [list(row) for row in inner]
        for q in range(step, most_pods + 1):
            before, row = base[q - step], inner[q]
            for j in range(most_leaves, 0, -1):
                reached = before[j - 1] | row[j - 1]
                if reached:
                    row[j] |= (reached << free) & mask
        steps.append((index, inner))
    return steps


def _first_at(bits: int, need: int) -> int:
    """The lowest set bit that is not below `need`."""
    above = bits >> need
    return need + (above & -above).bit_length() - 1


def _walk_back(
    history: Sequence[tuple[Reach, list[tuple[int, Reach]]]],
    sizes: Sequence[Sequence[int]],
    free_of_charge: Sequence[bool],
    q: int,
    j: int,
    total: int,
) -> list[tuple[int, int]]:
    """Which leaves gave this total."""
    picked: list[tuple[int, int]] = []
    for pod in range(len(history) - 1, -1, -1):
        base, steps = history[pod]
        if base[q][j] >> total & 1:
            continue
        step = 0 if free_of_charge[pod] else 1
        for k in range(len(steps) - 1, -1, -1):
            earlier = steps[k - 1][1] if k else None
            if earlier is not None and earlier[q][j] >> total & 1:
                continue
            index = steps[k][0]
            picked.append((pod, index))
            total -= sizes[pod][index]
            j -= 1
            if earlier is None or not earlier[q][j] >> total & 1:
                q -= step
                break
        if j == 0:
            break
    return picked
