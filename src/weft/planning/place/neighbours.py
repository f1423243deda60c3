"""Who stands on which leaf, and whom they keep away: kept up to date, so that an order need not ask each pod."""

from __future__ import annotations

from collections.abc import Mapping

from weft.planning.place.sharing import Terms

Counts = dict[str, dict[int, int]]
"""Project -> leaf -> number of nodes."""


class Neighbours:
    """The pods of one fabric by what they mean for others; pods without a project mean nothing."""

    __slots__ = ("_away", "_exclusive", "_stands")

    def __init__(self) -> None:
        self._stands: Counts = {}
        self._away: Counts = {}  # by the project that is kept away
        self._exclusive: Counts = {}

    @property
    def closing(self) -> bool:
        """Whether anybody keeps others off its leaves."""
        return bool(self._away or self._exclusive)

    def count(self, leaf: int, nodes: int, terms: Terms) -> None:
        """A pod on these terms has so many more nodes on the leaf; below 0: so many less."""
        project = terms.project
        if not project:
            return
        _count(self._stands, project, leaf, nodes)
        if terms.exclusive:
            _count(self._exclusive, project, leaf, nodes)
        for other in terms.apart_from:
            if other != project:
                _count(self._away, other, leaf, nodes)

    def against(self, terms: Terms) -> list[Mapping[int, int]]:
        """Leaves that an order on these terms keeps away from, or is kept away from; some may be in several of them."""
        own, stands = terms.project, self._stands
        found: list[Mapping[int, int]] = []
        if terms.exclusive:
            found = [leaves for project, leaves in stands.items() if project != own]
        elif terms.apart_from:
            found = [stands[project] for project in terms.apart_from if project != own and project in stands]
        if own:
            if own in self._away:
                found.append(self._away[own])
            if self._exclusive:
                found += [leaves for project, leaves in self._exclusive.items() if project != own]
        return found


def _count(counts: Counts, project: str, leaf: int, nodes: int) -> None:
    here = counts.setdefault(project, {})
    left = here.get(leaf, 0) + nodes
    if left:
        here[leaf] = left
        return
    del here[leaf]
    if not here:
        del counts[project]
