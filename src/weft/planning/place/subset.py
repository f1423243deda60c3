"""The least leftover: which leaves, so many in so many pods, have room for an order with least beyond it.

A subset sum with one integer as a bitset of everything that can be reached: bit (q, j, d) says that some j leaves in
q paid pods fall short of j times the most roomy leaf by d units in all. Shortfalls are small where sums are large, so
the integer stays short, and one leaf more is one shift for all q, j and d at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Shape = tuple[int, int]
"""(paid pods, leaves)."""


class _Step(NamedTuple):
    """What a pod added: `reached` before it, and after each of its leaves (index, reached with some of this pod)."""

    pod: int
    reached: int
    leaves: list[tuple[int, int]]


def least_leftover(
    sizes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], need: int, shapes: Sequence[Shape]
) -> list[tuple[int, int]] | None:
    """Leaves, as (pod, index), whose room is at least `need` and as near to it as any of these shapes allows.

    None if no set of these shapes has the room. A set with nothing left over is taken as soon as it is seen.

    Args:
        sizes: room of each leaf, by pod, all above 0; earlier pods and leaves are preferred.
        shapes: allowed (paid pods, leaves).
    """
    most = max((room for pod in sizes for room in pod), default=0)
    shapes = [(q, j) for q, j in shapes if j * most >= need]
    if not shapes:
        return None
    width = max(j for _, j in shapes) * most - need + 1
    rows = max(j for _, j in shapes) + 1
    field = _Field(width, rows, max(q for q, _ in shapes), most)
    exact = 0
    for q, j in shapes:
        exact |= 1 << field.at(q, j, j * most - need)
    reached, history = field.run(sizes, free_of_charge, exact)
    best: tuple[int, int, int, int] | None = None
    for q, j in shapes:
        slack = j * most - need
        row = reached >> field.at(q, j, 0) & ((1 << (slack + 1)) - 1)
        if row and (best is None or slack + 1 - row.bit_length() < best[0]):
            best = slack + 1 - row.bit_length(), q, j, row.bit_length() - 1
    return None if best is None else field.walk_back(history, sizes, free_of_charge, best[1:])


class _Field:
    """Where (q, j, d) is in the integer: q·rows·width + j·width + d.

    Args:
        width: shortfalls from 0; `rows`: numbers of leaves from 0; `pods`: the most paid pods.
        most: room of the most roomy leaf.
    """

    __slots__ = ("_keep", "_one_row", "most", "pods", "rows", "width")

    def __init__(self, width: int, rows: int, pods: int, most: int) -> None:
        self.width, self.rows, self.pods, self.most = width, rows, pods, most
        # A bit at the beginning of each row but the last of every q: nothing is added to a full row.
        row = ((1 << (rows - 1) * width) - 1) // ((1 << width) - 1)
        plane = rows * width
        self._one_row = row * (((1 << (pods + 1) * plane) - 1) // ((1 << plane) - 1))
        self._keep: dict[int, int] = {}

    def at(self, q: int, j: int, d: int) -> int:
        return (q * self.rows + j) * self.width + d

    def run(
        self, sizes: Sequence[Sequence[int]], free_of_charge: Sequence[bool], exact: int
    ) -> tuple[int, list[_Step]]:
        """Everything that can be reached, and how, up to the first hit of `exact`."""
        most, width, keep = self.most, self.width, self._keep
        plane = self.rows * width
        inside = (1 << self.pods * plane) - 1
        reached = 1
        history: list[_Step] = []
        for pod, (rooms, free) in enumerate(zip(sizes, free_of_charge, strict=True)):
            base = reached if free else (reached & inside) << plane
            inner = 0
            leaves: list[tuple[int, int]] = []
            for index, room in enumerate(rooms):
                short = most - room
                mask = keep.get(short)
                if mask is None:
                    mask = keep[short] = self._one_row * ((1 << max(width - short, 0)) - 1)
                inner |= ((base | inner) & mask) << (width + short)
                leaves.append((index, inner))
                if inner & exact:
                    history.append(_Step(pod, reached, leaves))
                    return inner & exact, history
            history.append(_Step(pod, reached, leaves))
            reached |= inner
        return reached, history

    def walk_back(
        self,
        history: Sequence[_Step],
        sizes: Sequence[Sequence[int]],
        free_of_charge: Sequence[bool],
        state: tuple[int, int, int],
    ) -> list[tuple[int, int]]:
        """Which leaves reached this (q, j, d)."""
        q, j, d = state
        picked: list[tuple[int, int]] = []
        for pod, before, leaves in reversed(history):
            if not j:
                break
            if before >> self.at(q, j, d) & 1:
                continue
            step = 0 if free_of_charge[pod] else 1
            for k in range(len(leaves) - 1, -1, -1):
                earlier = leaves[k - 1][1] if k else 0
                if earlier >> self.at(q, j, d) & 1:
                    continue
                picked.append((pod, leaves[k][0]))
                d -= self.most - sizes[pod][leaves[k][0]]
                j -= 1
                if not earlier >> self.at(q, j, d) & 1:
                    q -= step
                    break
        return picked
