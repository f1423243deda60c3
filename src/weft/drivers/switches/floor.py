"""The oldest answer of a switch that still counts, by the switch's own time or its count of changes."""

from __future__ import annotations

import threading

FLOOR_SECONDS = 600.0
"""Seconds for which an earlier answer is remembered: a switch's clock may be set back."""
BACK_SECONDS = 60.0
"""Seconds for which a clock that was set back must be seen to advance: in answers repeated by a cache, it doesn't."""


class OldestAnswer:
    """The oldest answer of one switch that counts. Thread-safe; `now` is monotonic seconds.

    Args:
        goes_on: whether serials grow by themselves, like times; others grow only with changes.
    """

    def __init__(self, goes_on: bool) -> None:
        self._goes_on, self._lock = goes_on, threading.Lock()
        self._floor = float("-inf"), float("-inf")
        self._behind: tuple[float, float] | None = None

    @property
    def highest(self) -> tuple[float, float]:
        """The highest serial, and when it was seen."""
        with self._lock:
            return self._floor

    def rise(self, serial: float, now: float) -> None:
        """Record that an answer with this serial has come."""
        with self._lock:
            if serial >= self._floor[0]:
                self._floor, self._behind = (serial, now), None

    def takes(self, serial: float, before: tuple[float, float], now: float) -> bool:
        """Whether an answer counts. Args: before: the highest serial at the request; the answer may be older
        than one that came meanwhile."""
        if serial >= before[0]:
            self.rise(serial, now)
            return True
        with self._lock:
            if self._behind is None or serial < self._behind[0]:
                self._behind = serial, now
            first, since = self._behind
            went_on = now - since >= BACK_SECONDS and serial - first >= (now - since) / 2
            back = now - before[1] >= FLOOR_SECONDS and (went_on or not self._goes_on)
            if back:
                self._floor, self._behind = (serial, now), None
            return back
