"""Nodes that are taken for a while: by a pod, for an order that waits, or for a project. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.model.placement import Neighbour, Part
from weft.planning.place.calendar import FOREVER
from weft.planning.place.sharing import NO_TERMS, Terms
from weft.planning.place.slots import is_slot

GIVING_BACK = 60.0
"""Assumed seconds until the nodes of a pod are free after its lease ended or its release was requested."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Nodes that are taken from `start` to `end`.

    Attributes:
        name: the pod's for a lease or booking, its own for a reservation.
        project: the project that has them.
        label: the pod's name for people.
        terms: its constraints on leaves; without them only the project is known.
        parts: (node, part of a server) for shared nodes; empty for whole ones.
        came: of an open booking: when its order was submitted; None: anything else.
    """

    name: str
    project: str
    nodes: tuple[str, ...]
    start: float
    end: float = FOREVER
    label: str = ""
    terms: Terms = NO_TERMS
    parts: tuple[tuple[str, Part], ...] = ()
    came: float | None = None

    @property
    def asks(self) -> Terms:
        """Its terms, as those of its project."""
        return self.terms._replace(project=self.project)

    def neighbour(self, label: str, start: float = 0.0, now: float = 0.0) -> Neighbour:
        """How others see it in a window from `start`; a lease that should have ended by now needs a moment to
        disappear."""
        asks, end = self.asks, self.gone(now)
        return Neighbour(
            pod=label,
            project=self.project,
            nodes=self.nodes,
            apart_from=tuple(sorted(asks.apart_from)),
            exclusive=asks.exclusive,
            bisection_gbps=asks.gbps,
            start=max(self.start, start),
            end=None if end == FOREVER else end,
        )

    def gone(self, now: float) -> float:
        """When its nodes will be free, as far as known."""
        return self.end if self.end > now else now + GIVING_BACK

    @property
    def counted(self) -> int:
        """Nodes and IPU-Machines among them: slots on shared hosts don't count against a project's limit."""
        return sum(not is_slot(n) for n in self.nodes)

    def overlaps(self, start: float, end: float) -> bool:
        """Whether it is taken at some moment in [start, end)."""
        return self.start < end and self.end > start

    def parts_in(self, start: float, now: float = 0.0) -> Iterator[tuple[str, Part]]:
        """Its parts of shared nodes in a window from `start`, each with the time for which it has them."""
        end = self.gone(now)
        window = {"start": max(self.start, start), "end": None if end == FOREVER else end}
        for node, part in self.parts:
            yield node, part.model_copy(update=window)
