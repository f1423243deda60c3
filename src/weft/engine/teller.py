"""Tells whoever follows an owner that there are events of it, and workers that one is due, once that is written.

A transaction that notifies keeps all others that do from being committed beside it: PostgreSQL has one lock for them,
which lasts until the disk has what was written. So a visit's writes tell nobody, and neither do claims; this does, for
all of them together, and doesn't wait for the disk. What is lost with the process, followers and workers find by
themselves some seconds later (`weft.engine.lookout`, `weft.engine.worker`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from weft.engine.listener import Said
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

PAUSE = 0.05
"""Seconds between two of its statements: whoever follows is told of all that came meanwhile by one."""
AGAIN = 1.0
"""Seconds until what couldn't be told is told again: a connection may have been cut, and nobody else's with it."""


class Teller:
    """Thread-safe; its one thread begins with the first that is told.

    Args:
        send: tells all of these.
        again: see `AGAIN`.
    """

    def __init__(self, send: Callable[[Sequence[Said]], None], again: float = AGAIN) -> None:
        self._send, self._again = send, again
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="teller")
        self._condition = threading.Condition()
        self._due: set[Said] = set()
        self._busy = self._hurries = self._closed = False

    def tell(self, *said: Said) -> None:
        """Soon, with all of which is told meanwhile."""
        with self._condition:
            self._due.update(said)
            if self._busy or self._closed:
                return
            try:
                self._pool.submit(self._tell)
                self._busy = True
            except RuntimeError as error:  # of the system: the next one may get a thread
                log.error("no thread to tell of events: %s", error)

    def wait(self) -> None:
        """Until nothing is left to be told, which is at once; what can't be told now isn't."""
        with self._condition:
            self._hurries |= self._busy
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._busy)

    def close(self) -> None:
        """After what was to be told."""
        with self._condition:
            self._closed = self._hurries = True
            self._condition.notify_all()
        self._pool.shutdown()

    def _tell(self) -> None:
        while True:
            with self._condition:
                due, self._due = sorted(self._due), set()
                if not due:
                    self._busy = self._hurries = False
                    self._condition.notify_all()
                    return
            left = self._left(due)
            with self._condition:
                if not self._hurries:
                    self._due.update(left)
                self._condition.wait_for(lambda: self._hurries, self._again if left else PAUSE)

    def _left(self, due: Sequence[Said]) -> Sequence[Said]:
        """Those that are to be told again."""
        try:
            self._send(due)
        except WeftError as error:
            log.warning("%d events can't be told: %s", len(due), error)
            return due
        except Exception:
            log.exception("%d events can't be told: defect in weft", len(due))
        return ()
