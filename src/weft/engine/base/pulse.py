"""Liveness of this process's threads: each reports every completed iteration."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.model.messages import health


@dataclass(slots=True)
class _Beat:
    at: float
    limit: float
    trouble: str = ""


class Pulse:
    """Thread-safe. A thread that never began a turn isn't known here.

    Args:
        monotonic: a clock in seconds that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._beats: dict[str, _Beat] = {}

    def turn(self, thread: str, limit: float) -> None:
        """Record that a turn is done, or that the thread begins: the next turn must be done within `limit` seconds."""
        with self._lock:
            self._beats[thread] = _Beat(self._monotonic(), limit)

    def trouble(self, thread: str, error: Exception) -> None:
        """Record that a turn failed. The thread goes on, but is unhealthy if no turn succeeds within the limit."""
        with self._lock:
            if beat := self._beats.get(thread):
                beat.trouble = type(error).__name__

    def checks(self) -> Mapping[str, str]:
        """Thread -> `ok`, or since when it hasn't done its work. Names only types of errors: everyone may read it."""
        now = self._monotonic()
        with self._lock:
            return {name: _say(beat, now - beat.at) for name, beat in sorted(self._beats.items())}


def _say(beat: _Beat, lasted: float) -> str:
    if lasted <= beat.limit:
        return health.OK()
    return health.NO_TURN(lasted=round(lasted), limit=round(beat.limit), trouble=beat.trouble)
