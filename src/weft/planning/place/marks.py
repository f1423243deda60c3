"""Sets of a site's nodes as the bits of one number: set operations on thousands of nodes take microseconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.model.site import Site
from weft.planning.kept import kept
from weft.planning.overlay import Overlay

V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The nodes of a site, numbered in its order.

    Attributes:
        every: all of them.
    """

    names: tuple[str, ...]
    numbers: dict[str, int]
    every: int

    def of(self, names: Iterable[str]) -> int:
        """Marks of these nodes, from their cache if they have one; names unknown to the site are ignored."""
        if isinstance(names, MarkedNodes):
            return names.marks(self)
        return self.counted(names)

    def counted(self, names: Iterable[str]) -> int:
        """Marks of these nodes, each looked up by its name."""
        found = [number for name in names if (number := self.numbers.get(name)) is not None]
        if len(found) < 64:
            return sum(1 << number for number in set(found))
        bits = np.zeros(len(self.names), np.bool_)
        bits[found] = True
        return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")

    def bools(self, marks: int) -> NDArray[np.uint8]:
        """1 for each node of the site that is marked, otherwise 0; some zeros follow."""
        octets = np.frombuffer(marks.to_bytes(-(-len(self.names) // 8), "little"), np.uint8)
        return np.unpackbits(octets, bitorder="little")

    def in_order(self, marks: int) -> list[str]:
        """Their names, in the site's order."""
        return [self.names[number] for number in np.flatnonzero(self.bools(marks)).tolist()]

    def first(self, marks: int, most: int) -> list[str]:
        """The names of the first of them, at most this many."""
        found: list[str] = []
        while marks and len(found) < most:
            low = marks & -marks
            found.append(self.names[low.bit_length() - 1])
            marks ^= low
        return found


class MarkedNodes(Overlay[str, V]):
    """Node -> any value, with the cached marks of its nodes for one site, the last one asked for."""

    __slots__ = ("_last",)
    _last: tuple[Marks, int] | None

    def marks(self, marks: Marks) -> int:
        """Marks of its nodes; cached for one site."""
        last = getattr(self, "_last", None)
        if last is None or last[0] is not marks:
            last = self._last = marks, marks.counted(self)
        return last[1]

    def with_changes(self, changed: Mapping[str, V | None]) -> Self:
        """An overlay with changes, and marks that follow them."""
        other = super().with_changes(changed)
        if (last := getattr(self, "_last", None)) is not None:
            marks, found = last
            come = marks.of(node for node, value in changed.items() if value is not None)
            other._last = marks, found & ~marks.of(iter(changed)) | come
        return other


@kept
def marks_of(site: Site) -> Marks:
    """The marks of a site, cached."""
    names = tuple(n.name for n in site.nodes)
    return Marks(names, {name: i for i, name in enumerate(names)}, (1 << len(names)) - 1)
