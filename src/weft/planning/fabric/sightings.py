"""What is believed to be there, by a series of discoveries of which any one may have missed something. Pure.

A discovery that had time-outs shows what is there, and says nothing of what it doesn't show. A whole one that lacks
something which the one before had is doubted until a second one, at least `AGAIN_SECONDS` later, lacks it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

AGAIN_SECONDS = 1.0
"""Two discoveries that are closer together may lack the same thing for the same reason."""

T = TypeVar("T")


class Sightings(Generic[T]):
    """Things of one kind, such as ports. Not thread-safe. Times are seconds of one monotonic clock."""

    def __init__(self, again: float = AGAIN_SECONDS) -> None:
        self._again = again
        self._believed, self._doubted = frozenset[T](), frozenset[T]()
        self._lacked: dict[T, float] = {}

    @property
    def doubted(self) -> frozenset[T]:
        """What the last discovery lacks, and which isn't agreed to be gone."""
        return self._doubted

    def note(self, seen: Iterable[T], now: float, whole: bool) -> None:
        """Take a discovery in. `whole`: it had no time-outs and no messages: what it lacks counts as lacking."""
        found = frozenset(seen)
        self._believed |= found
        self._lacked = {item: since for item, since in self._lacked.items() if item not in found}
        self._doubted = self._believed - found
        if whole:
            self.lack(self._doubted, now)

    def lack(self, items: Iterable[T], now: float) -> None:
        """These are not there by some other evidence; what lacked already, long enough ago, is gone."""
        gone: set[T] = set()
        for item in self._doubted.intersection(items):
            if now - self._lacked.setdefault(item, now) >= self._again:
                gone.add(item)
                del self._lacked[item]
        self._believed -= gone
        self._doubted -= gone
