"""Shutdown of a program on a signal."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("weft")


def outlive_hang_up() -> None:
    """Ignore SIGHUP during start-up: nothing that it could reload has been read yet."""
    signal.signal(signal.SIGHUP, lambda *_: None)


@contextmanager
def interrupted_by_signals() -> Generator[None]:
    """Within the block SIGTERM and SIGHUP raise `KeyboardInterrupt`, as SIGINT does, so that what was begun is removed.

    In another thread than the main one it changes nothing.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EndSignal:
    """Catches SIGTERM and SIGINT at any moment, in whichever thread they arrive. Create it in the main thread.

    An event set by a handler isn't enough: a Python handler runs between two instructions of the main thread, so a
    signal that arrives right before the wait begins, or in another thread, would not end the wait. The interpreter's
    C handler writes into a pipe (`signal.set_wakeup_fd`), which works in every case.
    """

    def __init__(self, numbers: Iterable[int] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._received, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        for number in (*numbers, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def wait(self) -> None:
        """Return once a signal has arrived, now or before the call; SIGHUP is logged and ignored."""
        while os.read(self._received, 1) == bytes([signal.SIGHUP]):
            log.info(
                "SIGHUP: replaced certificates are noticed without it; settings are read only at the start"
            )
