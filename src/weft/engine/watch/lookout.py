"""Waiting for pods without a thread or connection each: one thread reads all pods that are waited for.

It reads those with new events (`weft.engine.base.listener`), all in one statement and at most once in `GATHER`
seconds; and every `LOOK_EVERY` seconds all that are waited for, since a notification can be lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from uuid import UUID

from weft.engine.base.database import Database
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

GATHER = 0.05
"""Seconds between two reads: events that come meanwhile share one."""
LOOK_EVERY = 10.0
"""Seconds after which all pods are read, whatever notifications came."""
LIMIT = 60.0
"""Seconds without a turn after which the lookout counts as stuck; a turn takes at most `LOOK_EVERY`."""
AFTER_TROUBLE = 1.0
"""Seconds after which a failed read is tried again."""

PodCallback = Callable[[FoundPod | None], None]
"""Called with a pod in the lookout's thread; None: there is no such pod. It must not block."""


class Lookout:
    """Reports pods to their followers; its thread starts with the first wait and ends with the listener."""

    def __init__(self, database: Database, listener: Listener, pulse: Pulse | None = None) -> None:
        self._database = database
        self._pulse = pulse or Pulse()
        self._condition = threading.Condition()
        self._waiting: dict[str, list[PodCallback]] = {}
        self._due: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        listener.add_follower(self)

    @contextmanager
    def watching(self, pod_id: UUID, seen: PodCallback) -> Generator[None]:
        """Call `seen` with the pod, or another owner, now and after each of its events, until the block ends."""
        key = str(pod_id)
        with self._condition:
            self._waiting.setdefault(key, []).append(seen)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
                self._thread.start()
        self.came(key)  # earlier events have had no follower here
        try:
            yield
        finally:
            with self._condition:
                self._waiting[key].remove(seen)
                if not self._waiting[key]:
                    del self._waiting[key]

    # -- called by the listener ----------------------------------------------------------------------------------

    def came(self, pod_id: str) -> None:
        """There was an event of this pod."""
        with self._condition:
            if pod_id in self._waiting:
                self._due.add(pod_id)
                self._condition.notify()

    def may_have_missed(self) -> None:
        """There may have been events of any pod."""
        with self._condition:
            self._due.update(self._waiting)
            self._condition.notify()

    def stop(self) -> None:
        """Answer all who wait, and end the thread."""
        self._stop.set()
        with self._condition:
            self._condition.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout=5)

    # -- its thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        all_due_at = time.monotonic() + LOOK_EVERY
        while not self._stop.is_set():
            with self._condition:
                left = max(0.0, all_due_at - time.monotonic())
                self._condition.wait_for(lambda: bool(self._due) or self._stop.is_set(), left)
                if time.monotonic() >= all_due_at:
                    self._due.update(self._waiting)
                    all_due_at = time.monotonic() + LOOK_EVERY
                due, self._due = self._due, set()
            self._stop.wait(GATHER if self._looked_at(due) else AFTER_TROUBLE)

    def _looked_at(self, due: set[str]) -> bool:
        """Report these pods to their followers; False if the pods couldn't be read and are still due."""
        try:
            if due:
                self._report(due)
        except Exception as error:
            self._pulse.trouble("lookout", error)
            if isinstance(error, WeftError):
                log.warning("the lookout: %s", error)
            else:
                log.exception("the lookout: defect in weft")
            with self._condition:
                self._due |= due
            return False
        self._pulse.turn("lookout", LIMIT)
        return True

    def _report(self, due: Iterable[str]) -> None:
        with self._database.statement() as tx:
            rows = tx.rows("look_at_owners", ids=[UUID(pod_id) for pod_id in due])
        found = {str(row["id"]): FoundPod.of(row) for row in rows}
        for pod_id in due:
            with self._condition:
                waiting = list(self._waiting.get(pod_id, ()))
            for seen in waiting:
                seen(found.get(pod_id))
