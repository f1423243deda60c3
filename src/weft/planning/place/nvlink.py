"""The NVLink domains of a leaf: how many slices each has room for, and which are used.

The rule is that for leaves, one level below: the tightest domain that holds all; else the most roomy ones, and the
tightest that holds the rest, so that as many domains as possible stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from weft.model.localityorder import SliceWithin

Rooms = list[tuple[int, int]]
"""(room, bits of the nodes that make it up) of each domain that has any."""


class Slicing(Protocol):
    """How nodes are grouped."""

    @property
    def slice(self) -> int:
        """Nodes of one slice."""
        ...

    @property
    def within(self) -> SliceWithin:
        """What a slice must not leave."""
        ...


def slices(domains: Iterable[int], bits: int, how: Slicing) -> Rooms:
    """Room in slices that each domain of a leaf has on these nodes."""
    size = how.slice
    if how.within == "whole_nvlink_domain":
        return [(1, domain) for domain in domains if domain & bits == domain and domain.bit_count() == size]
    return [(room, mine) for domain in domains if (room := (mine := domain & bits).bit_count() // size)]


def rooms(domains: Iterable[int], bits: int) -> Rooms:
    """Room in nodes that each domain has; nodes in no domain count as one, the first."""
    found: Rooms = []
    rest = bits
    for domain in domains:
        if mine := domain & bits:
            found.append((mine.bit_count(), mine))
            rest ^= mine
    return [(rest.bit_count(), rest), *found] if rest else found


def tightest(rooms: Sequence[tuple[int, int]], need: int) -> list[tuple[int, int]]:
    """(bits, how much of them) of the domains to use; together they must have the room."""
    left = sorted(rooms, key=lambda one: -one[0])
    found: list[tuple[int, int]] = []
    while need > 0:
        enough = [one for one in left if one[0] >= need]
        best = min(enough, key=lambda one: (one[0], one[1].bit_count())) if enough else left[0]
        left.remove(best)
        found.append((best[1], min(best[0], need)))
        need -= best[0]
    return found
