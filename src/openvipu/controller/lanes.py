"""Lanes: the work of one lane runs sequentially, in order; lanes run in parallel.

Requests run in their own thread, jobs in a thread pool: many slow jobs don't delay requests in other lanes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from openvipu.controller.waiting import WaitingCalls, WaitLimit
from openvipu.model.errors import Busy

log = logging.getLogger("openvipu")
T = TypeVar("T")
Work = Callable[[], None]

SHUTTING_DOWN = "the controller is shutting down; try again"


class _Turn(threading.Event):
    """Set when a request's turn has come, or when there will be none (``refused``)."""

    refused = False


class Lanes:
    """Lanes by name. ``waiting`` limits the requests that wait for a turn."""

    def __init__(self, waiting: WaitingCalls, workers: int = 64) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="lane")
        self._places = waiting
        self._lock = threading.Lock()
        self._calm = threading.Condition(self._lock)
        self._queues: dict[str, deque[Work | _Turn]] = {}
        self._timers: set[threading.Timer] = set()
        self._requests = 0
        self._closed = False

    def run(self, lane: str, work: Callable[[], T], patience: WaitLimit) -> T:
        """The result of ``work`` when its turn has come.

        Busy if that takes longer than the caller waits, or if too many wait already: then it wasn't done. Work
        that has begun is finished.
        """
        turn = _Turn()
        with self._lock:
            if self._closed:
                raise Busy(SHUTTING_DOWN)
            if lane not in self._queues:
                self._queues[lane] = deque()
                turn.set()
            self._requests += 1
        try:
            if not turn.is_set():
                self._await(lane, turn, patience)
            try:
                return work()
            finally:
                self._next(lane)
        finally:
            with self._lock:
                self._requests -= 1
                self._calm.notify_all()

    def submit(self, lane: str, work: Work, first: bool = False) -> None:
        """Queue ``work``; ``first`` puts it before what waits, for the second half of what runs now.

        Once the lanes are closed no work begins: the next start resumes from the state.
        """
        with self._lock:
            if self._closed:
                log.info("%s: left for the next start", lane)
                return
            waiting = self._queues.get(lane)
            if waiting is not None:
                waiting.appendleft(work) if first else waiting.append(work)
                return
            self._queues[lane] = deque()
            self._pool.submit(self._do, lane, work)

    def later(self, seconds: float, lane: str, work: Work) -> None:
        """Queue ``work`` after a pause; nothing happens if the lanes are closed before."""

        def fire() -> None:
            with self._lock:
                self._timers.discard(timer)
            self.submit(lane, work)

        timer = threading.Timer(seconds, fire)
        timer.daemon = True
        with self._lock:
            if self._closed:
                return
            self._timers.add(timer)
        timer.start()

    def close(self) -> None:
        """Finish what runs now, drop what waits."""
        with self._lock:
            self._closed = True
            for timer in self._timers:
                timer.cancel()
            for waiting in self._queues.values():
                for entry in waiting:
                    _refuse(entry)
                waiting.clear()
            self._calm.wait_for(lambda: not self._requests)
        self._pool.shutdown(wait=True)

    def _await(self, lane: str, turn: _Turn, patience: WaitLimit) -> None:
        """Queue the request; returns when it is its turn."""
        with self._places.place(patience.caller):
            with self._lock:
                if self._closed:
                    raise Busy(SHUTTING_DOWN)
                waiting = self._queues.get(lane)
                if waiting is None:
                    # it became free a moment ago
                    self._queues[lane] = deque()
                    return
                waiting.append(turn)
            if not turn.wait(patience.seconds):
                with self._lock:
                    if not turn.is_set():
                        self._queues[lane].remove(turn)
                        raise Busy(f"{lane} is busy with earlier requests; try again")
        if turn.refused:
            raise Busy(SHUTTING_DOWN)

    def _do(self, lane: str, work: Work) -> None:
        try:
            work()
        except Exception:
            log.exception("defect in %s", lane)
        finally:
            self._next(lane)

    def _next(self, lane: str) -> None:
        """Begin the lane's next piece of work; without one, drop the lane."""
        with self._lock:
            waiting = self._queues[lane]
            if not waiting:
                del self._queues[lane]
                return
            entry = waiting.popleft()
            if isinstance(entry, _Turn):
                entry.set()
            else:
                self._pool.submit(self._do, lane, entry)


def _refuse(entry: Work | _Turn) -> None:
    if isinstance(entry, _Turn):
        entry.refused = True
        entry.set()
