"""The result of an attempt that isn't done: why, and when to try again. Nothing sleeps inside a visit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """Not done yet; what was observed is noted.

    Attributes:
        delay: seconds.
    """

    reason: str
    delay: float = 0.0


def soonest(waits: Iterable[Wait]) -> Wait | None:
    """The wait that ends first; None if there is none."""
    return min(waits, key=lambda w: w.delay, default=None)
