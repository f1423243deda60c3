"""Settings of a process that runs the loop: of Python's threads and collector, and of the C library's memory."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

SWITCH_SECONDS = 0.001
"""Threads of a visit do little between two answers; who has one needn't wait long for those that compute."""
COLLECTING = (50_000, 10, 10)
"""Thresholds of Python's cycle collector. Rows and documents are many objects and hardly ever in cycles: by Python's
own (700, 10, 10) a quarter of the processor goes into looking at them."""
ARENAS = 2
"""Of the C library's memory. One thread runs at a time: more of them (it makes eight for each processor) only keep what
each has once needed."""
_M_ARENA_MAX = -8


def tune() -> None:
    """Of this process, from now on."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTING)
    with suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)
