"""Changes of one switch of which nobody knows what became: they may show in a reading yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from weft.drivers.switches.vlans import Batch, SwitchState


class Doubts:
    """Thread-safe.

    Args:
        monotonic: monotonic seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._kept: list[tuple[Batch, float]] = []

    def add(self, batches: Iterable[Batch], seconds: float) -> None:
        """Each by itself: what ends the doubt of one says nothing of another.

        Args:
            seconds: how long they may land.
        """
        until = self._monotonic() + seconds
        with self._lock:
            self._kept += [(batch, until) for batch in batches]

    def left(self, state: SwitchState) -> list[Batch]:
        """Those that a reading doesn't show and that may land yet; the others are forgotten."""
        now = self._monotonic()
        with self._lock:
            self._kept = [(b, until) for b, until in self._kept if now < until and not b.done(state)]
            return [b for b, _ in self._kept]

    def override(self, batch: Batch) -> None:
        """A change was read back: what was sent before it has landed by now, or never will, where it says something
        else itself."""
        with self._lock:
            self._kept = [(b, until) for b, until in self._kept if not batch.overrides(b)]
