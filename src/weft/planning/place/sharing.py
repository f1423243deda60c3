"""Who shares leaves with whom, and what uplinks carry: one rule for every caller, now and in any time window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

Leaf = TypeVar("Leaf", int, str)


class Terms(NamedTuple):
    """What a pod requires of the leaves that it uses, as long as it is there.

    Attributes:
        project: its project; empty: one that doesn't affect others.
        apart_from: projects that it shares no leaf with.
        exclusive: whether it shares its leaves with no other project at all.
        gbps: Gb/s of each of its nodes that the uplinks of its leaf carry for it.
    """

    project: str = ""
    apart_from: frozenset[str] = frozenset()
    exclusive: bool = False
    gbps: int = 0

    @property
    def closing(self) -> bool:
        """Whether it keeps others off its leaves."""
        return self.exclusive or bool(self.apart_from)

    def at_odds(self, other: Terms) -> bool:
        """Whether these two must not share a leaf; symmetric."""
        if self.project == other.project or not self.project or not other.project:
            return False
        return (
            self.exclusive
            or other.exclusive
            or other.project in self.apart_from
            or self.project in other.apart_from
        )


NO_TERMS = Terms()
NOTHING: Mapping[int, int] = {}


def crossing(nodes: Mapping[Leaf, int], gbps: int) -> dict[Leaf, int]:
    """Leaf -> Gb/s that its uplinks carry at most between a pod's nodes on it and its others."""
    total = sum(nodes.values())
    return {leaf: min(n, total - n) * gbps for leaf, n in nodes.items() if 0 < n < total}


class Load(NamedTuple, Generic[Leaf]):
    """What the uplinks of these leaves carry from `start` (included) to `end` (excluded); Gb/s, below 0: less."""

    start: float
    end: float
    carried: Mapping[Leaf, int]


def peak(loads: Iterable[Load[Leaf]], start: float) -> dict[Leaf, int]:
    """Leaf -> the highest sum of these at any moment from `start`, in Gb/s.

    Two consecutive ones never add up: otherwise an order booked next to both would not be admitted when its time
    comes.
    """
    steps: dict[float, dict[Leaf, int]] = {}
    for load in loads:
        if load.start < load.end and load.end > start:
            for at, sign in ((max(load.start, start), 1), (load.end, -1)):
                step = steps.setdefault(at, {})
                for leaf, gbps in load.carried.items():
                    step[leaf] = step.get(leaf, 0) + sign * gbps
    now: dict[Leaf, int] = {}
    most: dict[Leaf, int] = {}
    for at in sorted(steps):
        for leaf, gbps in steps[at].items():
            before = now.get(leaf, 0)
            now[leaf] = before + gbps
            most[leaf] = max(now[leaf], most.get(leaf, now[leaf] if at == start else 0))
    return most
