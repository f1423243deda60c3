"""Who is on which leaf, and whom they keep away, maintained so that an order need not check each pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from weft.planning.place.sharing import Terms

Counts = dict[str, dict[int, int]]
"""Project -> leaf -> number of nodes."""


class Neighbours:
    """The pods of one fabric by their effect on others; pods without a project have none.

    Attributes:
        away: project that is kept away -> leaf -> nodes of the pods that keep it away.
        away_on: leaf -> projects that are kept away from it.
    """

    __slots__ = ("_exclusive", "_stands", "away", "away_on")

    def __init__(self) -> None:
        self._stands: Counts = {}
        self.away: Counts = {}
        self.away_on: dict[int, dict[str, int]] = {}
        self._exclusive: Counts = {}

    @property
    def closing(self) -> bool:
        """Whether any pod keeps others off its leaves."""
        return bool(self.away or self._exclusive)

    def count(self, leaf: int, nodes: int, terms: Terms) -> Sequence[str]:
        """A pod on these terms has this many more nodes on the leaf; below 0: fewer.

        Returns the projects that are from now on kept away from the leaf, or no longer.
        """
        project = terms.project
        if not project:
            return ()
        _count(self._stands, project, leaf, nodes)
        if terms.exclusive:
            _count(self._exclusive, project, leaf, nodes)
        if not terms.apart_from:
            return ()
        changed: list[str] = []
        for other in terms.apart_from:
            if other != project and _count(self.away, other, leaf, nodes):
                changed.append(other)
                _count(self.away_on, leaf, other, 1 if nodes > 0 else -1)
        return changed

    def against(self, terms: Terms) -> list[Mapping[int, int]]:
        """Leaves closed to an order on these terms, from either side; a leaf may be in several of them."""
        own, stands = terms.project, self._stands
        found: list[Mapping[int, int]] = []
        if terms.exclusive:
            found = [leaves for project, leaves in stands.items() if project != own]
        elif terms.apart_from:
            found = [stands[project] for project in terms.apart_from if project != own and project in stands]
        if own:
            if own in self.away:
                found.append(self.away[own])
            if self._exclusive:
                found += [leaves for project, leaves in self._exclusive.items() if project != own]
        return found


_Outer = TypeVar("_Outer", int, str)
_Inner = TypeVar("_Inner", int, str)


def _count(counts: dict[_Outer, dict[_Inner, int]], outer: _Outer, inner: _Inner, number: int) -> bool:
    """Add to a count; returns whether it became nonzero or zero."""
    here = counts.setdefault(outer, {})
    before = here.get(inner, 0)
    if before + number:
        here[inner] = before + number
        return not before
    del here[inner]
    if not here:
        del counts[outer]
    return True
