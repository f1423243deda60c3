"""A worker: takes pods that are due, visits each in a thread, gives signs of life, lets go; and tends the queue.

Any number may run.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from weft.engine.database import Database, Listener
from weft.engine.dispatcher import Dispatcher
from weft.engine.held import HOLD_SECONDS, Held, LostError
from weft.engine.reconciler import Look, Reconciler
from weft.engine.records import PodRecord
from weft.engine.settings import LoopSettings
from weft.engine.store import Store
from weft.model.errors import WeftError
from weft.ports.clock import Clock

log = logging.getLogger(__name__)

LONGEST_SLEEP = 5.0
"""Also when nobody wakes us we look this often: leases of pods end, workers elsewhere die."""
QUEUE_PAUSE = 0.2
"""Wake-ups come with every event; the queue need not be asked more often than this."""


class Worker:
    """Runs until `stop`. Several in one process, or on many machines, share the work by the database alone."""

    def __init__(
        self,
        database: Database,
        listener: Listener,
        reconciler: Reconciler,
        clock: Clock,
        settings: LoopSettings,
        dispatcher: Dispatcher,
        name: str | None = None,
    ) -> None:
        self._database, self._listener, self._reconciler = database, listener, reconciler
        self._clock, self._settings, self._dispatcher = clock, settings, dispatcher
        self._store = Store(database, clock)
        self.name = name or f"{socket.gethostname()}/{os.getpid()}"
        self._stop = threading.Event()
        self._held: dict[UUID, Held] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for target, name in (
            (self._run, "worker"),
            (self._tend_queue, "queue"),
            (self._heartbeat, "heartbeat"),
        ):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout: float = 20.0) -> None:
        """Take no more pods; wait for the visits under way, which let go at their next step."""
        self._stop.set()
        self._listener.wake()
        for thread in self._threads:
            thread.join(timeout)

    def busy(self) -> int:
        """How many pods it holds now."""
        with self._lock:
            return len(self._held)

    def run_once(self) -> bool:
        """Take one pod that is due and visit it, here and now; False if none was. For tests and tools."""
        held = self._take()
        if held is None:
            return False
        self._visit(held)
        return True

    def tend_queue(self) -> float:
        """End what is over, start what may start. Seconds until there is something to do again."""
        self._store.end_leases()
        return self._dispatcher.run_due()

    def _tend_queue(self) -> None:
        while not self._stop.is_set():
            mark = self._listener.mark()
            try:
                pause = self.tend_queue()
            except WeftError as error:
                log.warning("worker %s: the queue: %s", self.name, error)
                pause = 2.0
            except Exception:
                log.exception("worker %s: defect in the queue", self.name)
                pause = LONGEST_SLEEP
            self._stop.wait(QUEUE_PAUSE)
            self._listener.wait(mark, min(pause, LONGEST_SLEEP))

    def _run(self) -> None:
        with ThreadPoolExecutor(self._settings.pods_at_once, thread_name_prefix="visit") as pool:
            while not self._stop.is_set():
                mark = self._listener.mark()
                try:
                    while self.busy() < self._settings.pods_at_once and (held := self._take()):
                        pool.submit(self._visit, held)
                    pause = self._pause()
                except WeftError as error:
                    log.warning("worker %s: %s", self.name, error)
                    pause = 2.0
                self._listener.wait(mark, pause)

    def _pause(self) -> float:
        with self._database.transaction() as tx:
            row = tx.row("next_pod_at")
        due = float(row["seconds"]) if row and row["seconds"] is not None else LONGEST_SLEEP
        if self.busy() >= self._settings.pods_at_once:
            return LONGEST_SLEEP  # a finished visit wakes us
        return min(max(due, 0.05), LONGEST_SLEEP)

    def _take(self) -> Held | None:
        with self._database.transaction() as tx:
            row = tx.row("take_pod", worker=self.name, hold=HOLD_SECONDS)
        if row is None:
            return None
        held = Held(self._database, self._clock, PodRecord.of(row))
        with self._lock:
            self._held[held.pod.id] = held
        return held

    def _visit(self, held: Held) -> None:
        try:
            look = self._guarded(held)
            if not held.lost.is_set():
                held.give_up(look.delay, look.failures)
        except LostError:
            log.warning("pod %s was taken over by another worker", held.pod.id)
        except WeftError as error:
            log.warning("pod %s: %s", held.pod.id, error)
        finally:
            with self._lock:
                self._held.pop(held.pod.id, None)
            self._listener.wake()

    def _guarded(self, held: Held) -> Look:
        """A defect of ours in one pod must not end the loop for all."""
        try:
            return self._reconciler.visit(held)
        except (LostError, WeftError):
            raise
        except Exception as error:
            log.exception("pod %s: defect in the loop", held.pod.id)
            failures = held.pod.failures + 1
            held.go(
                held.state, f"defect in weft ({type(error).__name__}: {error}); please report it with the log"
            )
            return Look(self._settings.delay(failures), failures)

    def _heartbeat(self) -> None:
        while not self._stop.wait(HOLD_SECONDS / 3):
            with self._lock:
                held = list(self._held.values())
            for pod in held:
                try:
                    pod.extend()
                except WeftError as error:
                    log.warning("sign of life for pod %s: %s", pod.pod.id, error)
