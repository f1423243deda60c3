"""Polling with one patience: far more than the slowest machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 180.0
"""Seconds. Only a failing test waits so long; tests of speed count steps or have a clock of their own."""


def wait_for(look: Callable[[], T], what: str = "", seconds: float = PATIENCE, pause: float = 0.02) -> T:
    """Polls until `look` returns something true; that value.

    Args:
        what: for the failure's message.
        pause: seconds between two polls; longer for expensive ones.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"it didn't happen within {seconds:.0f} s{what and ': '}{what}"
        time.sleep(pause)
    return seen
