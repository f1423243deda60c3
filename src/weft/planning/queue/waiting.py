"""Orders in the queue."""

from __future__ import annotations

from dataclasses import dataclass

from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER


@dataclass(frozen=True, slots=True)
class Waiting:
    """An order in the queue.

    Attributes:
        duration: seconds, the longest it may run.
        until: when it ends at the latest, however late it starts.
        not_before: when it may start at the earliest.
        fixed: its start was booked with the order; it doesn't count as one of the queue's `bookings`.
    """

    ask: Ask
    duration: float
    submitted: float
    until: float = FOREVER
    not_before: float = 0.0
    fixed: bool = False

    def end(self, start: float) -> float:
        return min(start + self.duration, self.until)
