"""How soon something that costs a lot is done again: not before three times as long as it took has passed.

Whoever comes meanwhile is served together, so it takes a quarter of the time at most, however many ask for it.
"""

from __future__ import annotations

LONGEST = 0.25
"""Seconds at most between two."""


def next_at(began: float, ended: float) -> float:
    """Earliest beginning of the next one, by the same clock."""
    return ended + min(3 * (ended - began), LONGEST)
