"""Limits waiting: waiting requests hold a thread each, so their number is limited, in total and per caller."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from openvipu.model.errors import Busy

PLACES = 48
"""Maximum waiting requests; fewer than a server's threads, so that others are always handled."""

SHARE = 16
"""Maximum per caller: a quarter of a server's threads."""


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """The waiting caller (a user, or without users a host), and the most seconds that it waits."""

    caller: str
    seconds: float


class WaitingCalls:
    """Counts waiting requests, in total and per caller."""

    def __init__(self, places: int = PLACES, share: int = SHARE) -> None:
        self._lock = threading.Lock()
        self._places = places
        self._share = share
        self._taken: Counter[str] = Counter()

    @contextmanager
    def place(self, caller: str) -> Generator[None]:
        """Occupy a place while waiting; Busy at once if the caller's places, or all, are taken."""
        with self._lock:
            if self._taken[caller] >= self._share:
                raise Busy(f"{self._share} requests of yours wait already; try again when they are answered")
            if self._taken.total() >= self._places:
                raise Busy(f"{self._places} requests wait already; try again")
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                self._taken += Counter()  # drops the names that count nothing

    def count(self) -> int:
        """Number of waiting requests."""
        with self._lock:
            return self._taken.total()
