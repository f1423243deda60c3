"""Settings of weft's processes: of Python's threads and collector, and of the C library's memory."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

SWITCH_SECONDS = 0.001
"""Seconds after which Python switches threads: a visit's thread computes little between two answers, and shouldn't wait
long for the others."""
COLLECTING = (50_000, 10, 10)
"""Thresholds of Python's cycle collector. Rows and documents are many objects and hardly ever in cycles: with Python's
own (700, 10, 10) a quarter of the processor time goes into scanning them."""
WHOLE_SECONDS = 3600.0
"""Seconds between two full collections. All threads wait for a collection, and a site of 16,000 nodes with
what follows from it is millions of objects: 0.3 s of a processor, in which no page is answered."""
ARENAS = 2
"""Arenas of the C library's memory. One thread runs at a time, so more of them (the default is eight per processor)
only keep the peak that each has needed."""
_M_ARENA_MAX = -8


def collect_rarely() -> None:
    """Apply `COLLECTING` to this process."""
    gc.set_threshold(*COLLECTING)


def keep_survivors() -> None:
    """Leave what has survived a full collection out of later ones, for the rest of this process; see `Survivors`."""
    if not any(isinstance(one, Survivors) for one in gc.callbacks):
        gc.callbacks.append(Survivors())


class Survivors:
    """A callback of Python's collector: what survived a full collection is looked at again `WHOLE_SECONDS` later.

    Nearly all of it ends by its reference counts, such as a site that was replaced. Cycles among it, such as requests
    that were in progress, wait for the next collection of everything.

    https://docs.python.org/3/library/gc.html#gc.freeze
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._whole = monotonic()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "stop":
            gc.freeze()
        elif self._monotonic() >= self._whole + WHOLE_SECONDS:
            gc.unfreeze()
            self._whole = self._monotonic()


def tune() -> None:
    """Apply all settings to this process, which runs the loop."""
    sys.setswitchinterval(SWITCH_SECONDS)
    collect_rarely()
    with suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)
