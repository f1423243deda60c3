"""How soon something that costs a lot is done again: not before ten times as long as it took has passed.

Whoever comes meanwhile is served together, so it takes a tenth of the time at most, however many ask for it.
"""

from __future__ import annotations

LONGEST = 1.0
"""Seconds at most between two."""


def next_at(began: float, ended: float) -> float:
    """Earliest beginning of the next one, by the same clock."""
    return ended + min(10 * (ended - began), LONGEST)
