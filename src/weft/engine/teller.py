"""Tells whoever follows an owner that there are events of it, once they are written.

A transaction that notifies keeps all others that do from being committed beside it: PostgreSQL has one lock for them,
which lasts until the disk has what was written. So a visit's writes tell nobody; this does, for all of them together,
and doesn't wait for the disk. What is lost with the process, followers find by themselves some seconds later
(`weft.engine.lookout`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from weft.model.errors import WeftError

log = logging.getLogger(__name__)

PAUSE = 0.05
"""Seconds between two of its statements: whoever follows is told of all that came meanwhile by one."""


class Teller:
    """Thread-safe; its one thread begins with the first that is told.

    Args:
        send: tells of these owners.
    """

    def __init__(self, send: Callable[[Sequence[str]], None]) -> None:
        self._send = send
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="teller")
        self._condition = threading.Condition()
        self._due: set[str] = set()
        self._busy = self._hurries = self._closed = False

    def tell(self, owner_id: str) -> None:
        """Soon, with all of which is told meanwhile."""
        with self._condition:
            self._due.add(owner_id)
            if not self._busy and not self._closed:
                self._busy = True
                self._pool.submit(self._tell)

    def wait(self) -> None:
        """Until nothing is left to be told, which is at once."""
        with self._condition:
            self._hurries = True
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
            try:
                self._send(due)
            except WeftError as error:
                log.warning("events of %d owners can't be told: %s", len(due), error)
            except Exception:
                log.exception("events of %d owners can't be told: defect in weft", len(due))
            with self._condition:
                self._condition.wait_for(lambda: self._hurries, PAUSE)
