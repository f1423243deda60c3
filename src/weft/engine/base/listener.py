"""Wakes threads of this process when something changes (LISTEN/NOTIFY), each only for what concerns it."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import psycopg

from weft.engine.base.postgres import connecting, outside_error
from weft.engine.base.pulse import Pulse

log = logging.getLogger(__name__)

LISTENER_LIMIT = 60.0
"""Seconds without a turn after which the listener counts as stuck; a turn takes one."""
WORK, EVENT = "weft_work", "weft_event"
"""Channels: something is due sooner (no payload), and events of pods (their ids)."""
AND, TOGETHER = ",", 200
"""The separator of ids, and how many go into one notification: PostgreSQL takes 8,000 octets."""
Notification = tuple[str, str]
"""A channel and a payload."""


def joined(notifications: Sequence[Notification]) -> list[Notification]:
    """Notifications joined into as few as possible: every listener pays for each by its payload."""
    of_each: dict[str, list[str]] = {}
    for channel, payload in notifications:
        of_each.setdefault(channel, []).append(payload)
    return [
        (channel, AND.join(payloads[i : i + TOGETHER]))
        for channel, payloads in of_each.items()
        for i in range(0, len(payloads), TOGETHER)
    ]


class Follower(Protocol):
    """Receives pods' events, in the listener's thread; stopped with it."""

    def came(self, pod_id: str) -> None:
        """Take note that a pod, or another owner, has changed. Called in the listener's thread: must return at once."""

    def may_have_missed(self) -> None:
        """Check everything once: the connection was lost for a while."""

    def stop(self) -> None:
        """End: the listener has ended, and notifies of nothing more."""


class Listener:
    """Wakes waiting threads. A wake-up carries no data: threads check the database themselves.

    Workers wait for work (`mark`, `wait`), followers (`weft.engine.watch.lookout`) for pods' events. If the
    connection is lost, waiting simply takes its full time; reconnecting wakes everyone once.
    """

    def __init__(self, url: str, pulse: Pulse | None = None) -> None:
        self._url = url
        self._pulse = pulse or Pulse()
        self._condition = threading.Condition()
        self._count = 0
        self._followers: list[Follower] = []
        self._stop = threading.Event()
        self._connection: psycopg.Connection[Any] | None = None
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

    def add_follower(self, follower: Follower) -> None:
        """Pass all events to it from now on."""
        with self._condition:
            self._followers.append(follower)

    def wake(self) -> None:
        """Wake the workers of this process."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def close(self) -> None:
        self._stop.set()
        self._wake_everyone()
        self._stop_reading()
        self._thread.join(timeout=5)
        for follower in self._current_followers():
            follower.stop()

    def _stop_reading(self) -> None:
        """End the read under way instead of waiting for its second; another thread may do no more to the connection."""
        connection = self._connection
        with suppress(OSError, psycopg.Error):
            if connection is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as link:
                    link.shutdown(socket.SHUT_RD)

    def _wake_everyone(self) -> None:
        self.wake()
        for follower in self._current_followers():
            follower.may_have_missed()

    def _received(self, channel: str, payload: str) -> None:
        if channel == WORK:
            self.wake()
            return
        followers = self._current_followers()
        for pod_id in payload.split(AND):
            for follower in followers:
                follower.came(pod_id)

    def _current_followers(self) -> list[Follower]:
        with self._condition:
            return list(self._followers)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True, **connecting(self._url))

    def _run(self) -> None:
        self._pulse.turn("listener", LISTENER_LIMIT)
        while not self._stop.is_set():
            try:
                with self._connect() as connection:
                    self._listen(connection)
            except psycopg.Error as error:
                if self._stop.is_set():
                    return
                self._pulse.trouble("listener", error)
                log.warning("the listener: %s", outside_error(self._url, error))
            except Exception as error:
                self._pulse.trouble("listener", error)
                log.exception("the listener: defect in weft")
            self._stop.wait(1.0)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(f"LISTEN {WORK}".encode())
        connection.execute(f"LISTEN {EVENT}".encode())
        self._wake_everyone()
        self._connection = connection
        while not self._stop.is_set():
            for notice in connection.notifies(timeout=1.0, stop_after=1):
                self._received(notice.channel, notice.payload)
            self._pulse.turn("listener", LISTENER_LIMIT)
