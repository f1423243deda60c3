"""How soon an expensive operation is repeated: later, the longer it took and the more requests it served.
Requests that arrive meanwhile are batched. So the operation takes at most a tenth of the time, however many
requests there are, and a lone request barely waits.
"""

from __future__ import annotations

EACH, LONGEST = 0.03, 1.0
"""Seconds of pause for each request that the last operation served; and the longest pause."""


def next_at(began: float, ended: float, served: int) -> float:
    """Earliest start of the next operation, by the same clock."""
    return ended + min(10 * (ended - began), EACH * served, LONGEST)
