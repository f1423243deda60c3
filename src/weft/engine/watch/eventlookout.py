"""Waiting for events of projects without a thread or connection each: one thread asks for all streams together.

It asks after a notification (`weft.engine.base.listener`), at most once in `GATHER` seconds; every `LOOK_EVERY`
seconds in any case, since a notification can be lost; and again soon while there are events that can't be delivered
yet, because a transaction is in progress below them (`weft.engine.watch.eventstream`): nothing notifies of its end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.engine.base.database import Database
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.watch.eventstream import Position
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

GATHER = 0.2
"""Seconds between two queries: events that come meanwhile share one."""
LOOK_EVERY = 5.0
"""Seconds after which it queries, whatever notifications came."""
LIMIT = 60.0
"""Seconds without a turn after which the thread counts as stuck."""


@dataclass(frozen=True, eq=False, slots=True)
class Watch:
    """A stream that waits: of a project (None: all) after a position; `seen` is called in the thread, once or more."""

    project: str | None
    after: Position
    seen: Callable[[], None]


class EventLookout:
    """Reports events to waiting streams; its thread starts with the first wait and ends with the listener."""

    def __init__(self, database: Database, listener: Listener, pulse: Pulse | None = None) -> None:
        self._database, self._pulse = database, pulse or Pulse()
        self._condition = threading.Condition()
        self._waiting: list[Watch] = []
        self._due = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        listener.add_follower(self)

    @contextmanager
    def watching(self, watch: Watch) -> Generator[None]:
        """Call `seen` once there are events after the position, or it isn't valid any more, until the block ends."""
        with self._condition:
            self._waiting.append(watch)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="event lookout", daemon=True)
                self._thread.start()
        self.may_have_missed()
        try:
            yield
        finally:
            with self._condition:
                self._waiting.remove(watch)

    # -- called by the listener ----------------------------------------------------------------------------------

    def came(self, pod_id: str) -> None:
        """There was an event of some owner."""
        self.may_have_missed()

    def may_have_missed(self) -> None:
        """There may have been events."""
        with self._condition:
            self._due = True
            self._condition.notify()

    def stop(self) -> None:
        """Answer all who wait, and end the thread."""
        self._stop.set()
        self.may_have_missed()
        with self._condition:
            thread = self._thread
        if thread is not None:
            thread.join(timeout=5)

    # -- its thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._condition:
                self._condition.wait_for(lambda: self._due, LOOK_EVERY)
                self._due = False
                waiting = list(self._waiting)
            try:
                if waiting and self._report(waiting):
                    self.may_have_missed()
                self._pulse.turn("event lookout", LIMIT)
            except Exception as error:
                self._pulse.trouble("event lookout", error)
                if isinstance(error, WeftError):
                    log.warning("the lookout for events: %s", error)
                else:
                    log.exception("the lookout for events: defect in weft")
                self._stop.wait(1.0)
                self.may_have_missed()
            self._stop.wait(GATHER)

    def _report(self, waiting: list[Watch]) -> bool:
        """Call `seen` of streams with events; returns whether there are events that can't be delivered yet."""
        row = self._database.row(
            "news_of_streams",
            projects=[w.project for w in waiting],
            marks=[w.after.mark for w in waiting],
            lives=[w.after.life for w in waiting],
            xacts=[str(w.after.xact) for w in waiting],
            sequences=[w.after.sequence for w in waiting],
        )
        assert row is not None, "it always has one row"
        for number in row["news"]:
            waiting[number - 1].seen()
        return row["pending"]
