"""Lanes: work of one lane is done one piece after the other, in order; lanes run beside each other."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from openvipu.model.errors import Busy

log = logging.getLogger("openvipu")
T = TypeVar("T")
Work = Callable[[], None]


class Lanes:
    """Queues by name on a shared pool of threads."""

    def __init__(self, workers: int = 32) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="lane")
        self._lock = threading.Lock()
        self._queues: dict[str, deque[Work]] = {}
        self._timers: set[threading.Timer] = set()
        self._waiting: set[Future[Any]] = set()
        self._closed = False

    def run(self, lane: str, work: Callable[[], T], timeout: float) -> T:
        """The result of ``work`` when its turn has come; Busy if that takes longer than ``timeout`` s.

        Work that has begun is waited for, so that Busy always means "not done".
        """
        future: Future[T] = Future()

        def task() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            self._waiting.add(future)
        try:
            self.submit(lane, task)
            return future.result(timeout)
        except FutureTimeoutError:
            if future.cancel():
                raise Busy(f"{lane} is busy with earlier requests; try again") from None
            return future.result()
        except CancelledError:
            raise Busy("the controller is shutting down; try again") from None
        finally:
            with self._lock:
                self._waiting.discard(future)

    def waiting(self) -> int:
        """Requests that wait for their turn or for their answer."""
        with self._lock:
            return len(self._waiting)

    def submit(self, lane: str, work: Work, first: bool = False) -> None:
        """Queue ``work``; ``first`` puts it before what waits, for the second half of what runs now."""
        with self._lock:
            if self._closed:
                raise Busy("the controller is shutting down; try again")
            waiting = self._queues.get(lane)
            if waiting is not None:
                waiting.appendleft(work) if first else waiting.append(work)
                return
            self._queues[lane] = deque([work])
        self._pool.submit(self._drain, lane)

    def later(self, seconds: float, lane: str, work: Work) -> None:
        """Queue ``work`` after a pause; nothing happens if the lanes are closed before."""

        def fire() -> None:
            with self._lock:
                self._timers.discard(timer)
                if self._closed:
                    return
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
                waiting.clear()
            for future in self._waiting:
                future.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _drain(self, lane: str) -> Any:
        while True:
            with self._lock:
                waiting = self._queues[lane]
                if not waiting:
                    del self._queues[lane]
                    return
                work = waiting.popleft()
            try:
                work()
            except Busy:
                log.info("%s: left for the next start", lane)
            except Exception:
                log.exception("defect in %s", lane)
