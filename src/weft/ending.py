"""The end of a program that is asked for by a signal."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable

log = logging.getLogger("weft")


def outlive_hang_up() -> None:
    """From now on SIGHUP ends nothing. For the time until a program hears it: it has read nothing that is replaced."""
    signal.signal(signal.SIGHUP, lambda *_: None)


class EndSignal:
    """From now on SIGTERM and SIGINT are heard, whichever thread they reach, and at any moment. Main thread only.

    An event that a handler sets doesn't do: a handler runs between two instructions of the main thread, so that a
    signal which comes right before it begins to wait, or reaches another thread, is not noticed while it waits. What
    the interpreter's own C handler writes into a pipe is there, whoever was interrupted (`signal.set_wakeup_fd`).
    """

    def __init__(self, numbers: Iterable[int] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._told, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (*numbers, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def wait(self) -> None:
        """Return when a signal has come, now or before. SIGHUP is none of them: files that were replaced are noticed
        without it, and settings are read at the start alone."""
        while os.read(self._told, 1) == bytes([signal.SIGHUP]):
            log.info(
                "SIGHUP: replaced certificates are noticed without it; settings are read at the start alone"
            )
