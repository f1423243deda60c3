"""A waiting order, from its row, and the window that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from weft.engine.base.documents import message_text
from weft.engine.book.capacity import seconds_of
from weft.engine.queue.gather import Window
from weft.model.ids import span
from weft.model.order import Order
from weft.model.site import Site
from weft.planning.place.calendar import FOREVER
from weft.planning.queue.turns import QueuedOrder
from weft.planning.shapes.resolve import resolve
from weft.planning.shapes.shape import Resolved, WaitingOrder


class Resolving:
    """Resolves an order once for a site, and again for another one. Nothing but a cache: threads may share it."""

    def __init__(self) -> None:
        self._last: Resolved | None = None

    def __call__(self, order: Order, project: str, site: Site) -> Resolved:
        """The resolved order, cached for the last site. Raises `InputError`."""
        last = self._last
        if last is None or last.site is not site or last.order is not order:
            last = self._last = resolve(order, project, site)
        return last


@dataclass(frozen=True, slots=True)
class Waiter:
    """A waiting order, from its row; see `PodRecord`.

    Attributes:
        resolving: kept with its row between readings.
    """

    id: UUID
    project: str
    name: str
    order: Order
    created_at: datetime
    not_before: datetime | None
    fixed: bool
    reason: str = ""
    position: int | None = None
    expected_start: datetime | None = None
    generation: int = 1
    resolving: Resolving = field(default_factory=Resolving, compare=False, repr=False)

    @classmethod
    def of(cls, row: Mapping[str, Any], order: Order, resolving: Resolving) -> Self:
        """From a row and its order."""
        return cls(
            row["id"],
            row["project_id"],
            row["name"],
            order,
            row["created_at"],
            row["not_before"],
            row["fixed"],
            message_text(row["reason"]),
            row["position"],
            row["expected_start"],
            row["generation"],
            resolving,
        )

    def resolved(self, site: Site) -> Resolved:
        """The order resolved for a site. Raises `InputError` for what the site no longer has."""
        return self.resolving(self.order, self.project, site)

    def asks(self, site: Site, now: float, reported: Mapping[str, str]) -> WaitingOrder:
        """The order as the queue sees it now. Raises `InputError` as `resolved`.

        Args:
            reported: nodes that its project has reported -> why.
        """
        order, window = self.resolved(site), self.window(now)
        ask = order.ask
        return WaitingOrder(
            order,
            replace(ask, pod=str(self.id), exclude=(*ask.exclude, *sorted(reported))),
            self.created_at.timestamp(),
            window.end - now if self.order.lease.duration else FOREVER,
            window.until,
            self.not_before.timestamp() if self.not_before else 0.0,
            self.fixed,
            reported,
        )

    @property
    def candidate(self) -> QueuedOrder:
        """The order as the queue's turns see it."""
        return QueuedOrder(str(self.id), self.project, self.created_at.timestamp(), self.fixed)

    def window(self, now: float) -> Window:
        """The order's window if it starts now."""
        return replace(window_of(self.order, now, now, str(self.id)), came=self.created_at.timestamp())


def window_of(order: Order, now: float, start: float, pod: str = "") -> Window:
    """The window of an order that starts at `start`."""
    lease = order.lease
    until = seconds_of(lease.end)
    end = start + span(lease.duration).total_seconds() if lease.duration else until
    return Window(now, start, end, until, pod)
