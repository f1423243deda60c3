"""Changes of one switch whose outcome is unknown: they may still take effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from weft.drivers.switches.vlans import Batch, SwitchState


class Doubts:
    """The unconfirmed changes of one switch. Thread-safe.

    Args:
        monotonic: monotonic seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._kept: list[tuple[Batch, float]] = []

    def add(self, batches: Iterable[Batch], seconds: float) -> None:
        """Doubt each batch separately: what ends the doubt about one says nothing about another.

        Args:
            seconds: how long they may still take effect.
        """
        until = self._monotonic() + seconds
        with self._lock:
            self._kept += [(batch, until) for batch in batches]

    def left(self, state: SwitchState) -> list[Batch]:
        """Batches that a reading doesn't show and that may still take effect; the others are forgotten."""
        now = self._monotonic()
        with self._lock:
            self._kept = [(b, until) for b, until in self._kept if now < until and not b.done(state)]
            return [b for b, _ in self._kept]

    def override(self, batch: Batch) -> None:
        """A change was read back: earlier batches that it contradicts have taken effect by now, or never
        will."""
        with self._lock:
            self._kept = [(b, until) for b, until in self._kept if not batch.overrides(b)]
