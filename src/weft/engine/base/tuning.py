"""Settings of weft's processes: of Python's threads and collector, and of the C library's memory."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress

SWITCH_SECONDS = 0.001
"""Threads of a visit compute little between two answers; a thread with an answer shouldn't wait long for the rest."""
COLLECTING = (50_000, 10, 10)
"""Thresholds of Python's cycle collector. Rows and documents are many objects and hardly ever in cycles: with Python's
own (700, 10, 10) a quarter of the processor time goes into scanning them."""
ARENAS = 2
"""Arenas of the C library's memory. One thread runs at a time, so more of them (the default is eight per processor)
only keep the peak that each has needed."""
_M_ARENA_MAX = -8


def collect_rarely() -> None:
    """Apply `COLLECTING` to this process."""
    gc.set_threshold(*COLLECTING)


def tune() -> None:
    """Apply all settings to this process, which runs the loop."""
    sys.setswitchinterval(SWITCH_SECONDS)
    collect_rarely()
    with suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)
