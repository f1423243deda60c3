"""Notifies followers of an owner of its events, and workers of a due owner, once these are written.

PostgreSQL commits transactions that notify one after the other: one lock, held until the disk has the data. So
neither a visit's writes nor claims notify; this does it for all of them together, and doesn't wait for the disk. If
the process dies first, followers and workers find out by themselves some seconds later (`weft.engine.watch.lookout`,
`weft.engine.watch.worker`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from weft.engine.base.listener import Notification
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

PAUSE = 0.05
"""Seconds between two of its statements: one notifies of everything that came meanwhile."""
AGAIN = 1.0
"""Seconds until a failed notification is sent again: a connection may have been cut."""


class Notifier:
    """Thread-safe; its one thread starts with the first notification.

    Args:
        send: sends all of these.
        again: see `AGAIN`.
    """

    def __init__(self, send: Callable[[Sequence[Notification]], None], again: float = AGAIN) -> None:
        self._send, self._again = send, again
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="notifier")
        self._condition = threading.Condition()
        self._due: set[Notification] = set()
        self._busy = self._hurries = self._closed = False

    def notify(self, *notifications: Notification) -> None:
        """Send these soon, together with what comes meanwhile."""
        with self._condition:
            self._due.update(notifications)
            if self._busy or self._closed:
                return
            try:
                self._pool.submit(self._run)
                self._busy = True
            except RuntimeError as error:  # from the system: the next call may get a thread
                log.error("no thread to send notifications: %s", error)

    def wait(self) -> None:
        """Send everything now, and wait until that is done; what can't be sent is dropped."""
        with self._condition:
            self._hurries |= self._busy
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._busy)

    def close(self) -> None:
        """Send what is left, and end the thread."""
        with self._condition:
            self._closed = self._hurries = True
            self._condition.notify_all()
        self._pool.shutdown()

    def _run(self) -> None:
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

    def _left(self, due: Sequence[Notification]) -> Sequence[Notification]:
        """Send them; returns those that must be sent again."""
        try:
            self._send(due)
        except WeftError as error:
            log.warning("%d notifications can't be sent: %s", len(due), error)
            return due
        except Exception:
            log.exception("%d notifications can't be sent: defect in weft", len(due))
        return ()
