"""What is believed to exist, from a series of discoveries, each of which may have missed something. Pure.

A discovery with time-outs shows what is there, but what it lacks may be there too. When a complete discovery lacks
something that was seen before, the absence is doubted until a second one, at least `AGAIN_SECONDS` later, confirms it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

AGAIN_SECONDS = 1.0
"""Two discoveries closer together may miss the same thing for the same reason."""

T = TypeVar("T")


class Sightings(Generic[T]):
    """What was seen of one kind, such as ports. Not thread-safe. Times are seconds of one monotonic clock."""

    def __init__(self, again: float = AGAIN_SECONDS) -> None:
        self._again = again
        self._believed, self._doubted = frozenset[T](), frozenset[T]()
        self._lacked: dict[T, float] = {}

    @property
    def doubted(self) -> frozenset[T]:
        """What the last discovery lacked and no second one has confirmed as gone."""
        return self._doubted

    def note(self, seen: Iterable[T], now: float, whole: bool) -> None:
        """Add a discovery. `whole`: it had no time-outs and no messages, so that what it lacks counts as missing."""
        found = frozenset(seen)
        self._believed |= found
        self._lacked = {item: since for item, since in self._lacked.items() if item not in found}
        self._doubted = self._believed - found
        if whole:
            self.lack(self._doubted, now)

    def lack(self, items: Iterable[T], now: float) -> None:
        """Record that these are missing, by a discovery or other evidence; those missing for long enough are gone."""
        gone: set[T] = set()
        for item in self._doubted.intersection(items):
            if now - self._lacked.setdefault(item, now) >= self._again:
                gone.add(item)
                del self._lacked[item]
        self._believed -= gone
        self._doubted -= gone
