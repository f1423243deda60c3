"""Who stands on which leaf, and whom they keep away: kept up to date, so that an order need not ask each pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from weft.planning.place.sharing import Terms

Counts = dict[str, dict[int, int]]
"""Project -> leaf -> number of nodes."""


class Neighbours:
    """The pods of one fabric by what they mean for others; pods without a project mean nothing.

    Attributes:
        away: project that is kept away -> leaf -> nodes of those who keep it away.
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
        """Whether anybody keeps others off its leaves."""
        return bool(self.away or self._exclusive)

    def count(self, leaf: int, nodes: int, terms: Terms) -> Sequence[str]:
        """A pod on these terms has so many more nodes on the leaf; below 0: so many less.

        Gives the projects that are kept away from the leaf from now, or no more.
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
        """Leaves that an order on these terms keeps away from, or is kept away from; some may be in several of them."""
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
    """Add to a count; whether it began or ended with that."""
    here = counts.setdefault(outer, {})
    before = here.get(inner, 0)
    if before + number:
        here[inner] = before + number
        return not before
    del here[inner]
    if not here:
        del counts[outer]
    return True
