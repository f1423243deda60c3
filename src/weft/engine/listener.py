"""Wakes threads of this process when something changes (LISTEN/NOTIFY), each only for what concerns it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from weft.engine.postgres import connecting, outside_error
from weft.engine.pulse import Pulse

log = logging.getLogger(__name__)

LISTENER_LIMIT = 60.0
"""Seconds without a turn after which the listener counts as stuck; a turn takes one."""
WORK, EVENT = "weft_work", "weft_event"
"""Channels: something is due sooner (no payload), and an event of a pod (its id)."""


class Watch:
    """One thread's wait for events of one pod."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wait(self, timeout: float) -> bool:
        """Until there was an event since this was made or last waited for; False if the time ran out."""
        came = self._event.wait(timeout)
        self._event.clear()
        return came

    def wake(self) -> None:
        self._event.set()


class Listener:
    """A wake-up carries no input: threads check the database themselves.

    Workers wait for work (`mark`, `wait`), those who follow a pod for its events (`watching`). If the connection is
    lost, waiting simply lasts its full time, and the connection is made again, which wakes everybody once.
    """

    def __init__(self, url: str, pulse: Pulse | None = None) -> None:
        self._url = url
        self._pulse = pulse or Pulse()
        self._condition = threading.Condition()
        self._count = 0
        self._watches: dict[str, set[Watch]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def mark(self) -> int:
        """The current position; take it before checking, then `wait(mark)`."""
        with self._condition:
            return self._count

    def wait(self, mark: int, timeout: float) -> bool:
        """Wait until there was work after `mark`; False if the time ran out."""
        with self._condition:
            return self._condition.wait_for(lambda: self._count > mark or self._stop.is_set(), timeout)

    @contextmanager
    def watching(self, pod_id: object) -> Generator[Watch]:
        """Wakes up with each event of a pod; enter it before checking, so that none is missed."""
        watch, key = Watch(), str(pod_id)
        with self._condition:
            self._watches.setdefault(key, set()).add(watch)
        try:
            yield watch
        finally:
            with self._condition:
                self._watches[key].discard(watch)
                if not self._watches[key]:
                    del self._watches[key]

    def wake(self) -> None:
        """Wake the workers of this process."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def close(self) -> None:
        self._stop.set()
        self._wake_everybody()
        with suppress(psycopg.Error), self._connect() as connection:
            # It need not wait for its second to end.
            connection.execute("SELECT pg_notify(%s, 'bye')", [EVENT])
        self._thread.join(timeout=5)

    def _wake_everybody(self) -> None:
        self.wake()
        with self._condition:
            watches = [watch for some in self._watches.values() for watch in some]
        for watch in watches:
            watch.wake()

    def _told(self, channel: str, payload: str) -> None:
        if channel == WORK:
            self.wake()
            return
        with self._condition:
            watches = list(self._watches.get(payload, ()))
        for watch in watches:
            watch.wake()

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True, **connecting(self._url))

    def _run(self) -> None:
        self._pulse.turn("listener", LISTENER_LIMIT)
        while not self._stop.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                self._pulse.trouble("listener", error)
                log.warning("the listener: %s", outside_error(self._url, error))
            except Exception as error:
                self._pulse.trouble("listener", error)
                log.exception("the listener: defect in weft")
            self._stop.wait(1.0)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"LISTEN {WORK}".encode())
        connection.execute(f"LISTEN {EVENT}".encode())
        self._wake_everybody()
        while not self._stop.is_set():
            for notice in connection.notifies(timeout=1.0, stop_after=1):
                self._told(notice.channel, notice.payload)
            self._pulse.turn("listener", LISTENER_LIMIT)
