"""Whose leaves are shared with whom, and what uplinks carry: one rule for every door, now and in any window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

Leaf = TypeVar("Leaf", int, str)


class Terms(NamedTuple):
    """What a pod asks of the leaves that it stands on, as long as it is there.

    Attributes:
        project: whose it is; empty: nobody's that matters to others.
        apart_from: projects that it shares no leaf with.
        exclusive: it shares its leaves with no other project at all.
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
        """Whether these two may not stand on one leaf; it is the same from both sides."""
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


def add_crossing(found: dict[int, int], places: Iterable[tuple[int, int]], gbps: int) -> None:
    """Add to `found` what the uplinks carry for a pod whose nodes are given as (leaf, bits)."""
    for leaf, carried in crossing({leaf: bits.bit_count() for leaf, bits in places}, gbps).items():
        found[leaf] = found.get(leaf, 0) + carried
