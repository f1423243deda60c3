"""Whose turn it is where several queues want the same nodes: whole ones, of a fabric or of none, and parts. Pure.

Each queue decides for its own orders. Of the orders that could start, that with the best rank of all queues starts, and
no queue books nodes for an order before another queue had the chance to book them for one with a better rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from weft.planning.place.calendar import FOREVER
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.queue import QueueSettings

Where = TypeVar("Where")
NEVER = (FOREVER, FOREVER)


class QueuedOrder(NamedTuple):
    """A waiting order: its pod, when it was submitted, and whether its start was booked with it."""

    pod: str
    project: str
    submitted: float
    fixed: bool


class Turns:
    """Ranks of waiting orders.

    Args:
        used: project -> node-seconds, older ones counted less.
    """

    def __init__(self, settings: QueueSettings, used: Mapping[str, float]) -> None:
        self._settings, self._used = settings, used

    def turn(self, one: QueuedOrder) -> tuple[float, float]:
        """Sorts orders by fair share, then by submission."""
        shares = self._settings.shares
        score = self._used.get(one.project, 0.0) / shares.get(one.project, 1.0) if shares else 0.0
        return score, one.submitted

    def first(self, those: Sequence[QueuedOrder], bookings: Mapping[str, Keep]) -> QueuedOrder | None:
        """The first of orders that could all start now: booked ones go first, by their starts."""

        def rank(one: QueuedOrder) -> tuple[float, float, float]:
            kept = bookings.get(one.pod)
            return (0.0, kept.start, 0.0) if kept else (1.0, *self.turn(one))

        return min(those, key=rank, default=None)

    def order(
        self, queues: Mapping[Where, Sequence[QueuedOrder]], book: Book
    ) -> list[tuple[Where, frozenset[str]]]:
        """The queues as they may book nodes, each with the orders that must leave that to the queues after it."""
        with_booking = {k.name for k in book.bookings}
        opened = {k.name for k in book.open}
        heads: dict[Where, tuple[float, float]] = {}
        for where, those in queues.items():
            booked = sum(not c.fixed and c.pod in with_booking | opened for c in those)
            turns = [
                self.turn(c)
                for c in those
                if c.pod not in with_booking
                and (c.fixed or c.pod in opened or booked < self._settings.bookings)
            ]
            heads[where] = min(turns, default=NEVER)
        ordered = sorted(queues, key=lambda where: heads[where])
        found: list[tuple[Where, frozenset[str]]] = []
        for where, after in zip(ordered, [*ordered[1:], None], strict=False):
            limit = heads[after] if after is not None else NEVER
            found.append((where, frozenset(c.pod for c in queues[where] if self.turn(c) > limit)))
        return found
