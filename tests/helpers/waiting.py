"""Polling with one patience: far more than the slowest machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 180.0
"""Seconds. A test fails by it and is never right by it: what must be quick is counted, or has its own clock."""


def wait_for(look: Callable[[], T], what: str = "", seconds: float = PATIENCE, pause: float = 0.02) -> T:
    """Polls until `look` returns something true; that value.

    Args:
        what: for the failure's message.
        pause: seconds between two polls; longer for expensive ones.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"it has not come about within {seconds:.0f} s{what and ': '}{what}"
        time.sleep(pause)
    return seen
