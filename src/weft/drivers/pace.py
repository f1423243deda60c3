"""How soon something that costs a lot is done again: later, the longer it took and the more are served by it together.

Whoever comes meanwhile is served with them. So it takes a tenth of the time at most, however many ask for it; and who
is alone hardly waits.
"""

from __future__ import annotations

EACH, LONGEST = 0.03, 1.0
"""Seconds between two for each that was served by the first; and at most."""


def next_at(began: float, ended: float, served: int) -> float:
    """Earliest beginning of the next one, by the same clock."""
    return ended + min(10 * (ended - began), EACH * served, LONGEST)
