"""What one attempt gave when it isn't done: why, and after how long to look again. Nothing sleeps inside a visit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """Not done yet; what was seen is written down.

    Attributes:
        delay: seconds.
    """

    reason: str
    delay: float = 0.0


def soonest(waits: Iterable[Wait]) -> Wait | None:
    """The one that ends first; None if there is none."""
    return min(waits, key=lambda w: w.delay, default=None)
