"""A waiting order, from its row, and the window that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from weft.engine.base.documents import message_text
from weft.engine.book.capacity import seconds_of
from weft.engine.queue.gather import Window
from weft.model.ids import span
from weft.model.order import Order
from weft.planning.queue.turns import Candidate


@dataclass(frozen=True, slots=True)
class Waiter:
    """A waiting order, from its row; see `PodRecord`."""

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

    @classmethod
    def of(cls, row: Mapping[str, Any], order: Order) -> Self:
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
        )

    @property
    def candidate(self) -> Candidate:
        """The order as the queue's turns see it."""
        return Candidate(str(self.id), self.project, self.created_at.timestamp(), self.fixed)

    def window(self, now: float) -> Window:
        """Its window if it starts now."""
        return replace(window_of(self.order, now, now, str(self.id)), came=self.created_at.timestamp())


def window_of(order: Order, now: float, start: float, pod: str = "") -> Window:
    """Its window from `start`."""
    lease = order.lease
    until = seconds_of(lease.end)
    end = start + span(lease.duration).total_seconds() if lease.duration else until
    return Window(now, start, end, until, pod)
