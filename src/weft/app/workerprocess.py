"""The worker of `weft serve`, in a process of its own, so that API requests can't delay the loop.

Python runs one thread of a process at a time, so parsing a large body, or a hundred listings, would delay a pod's
heartbeat.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from weft.app.settings import ServeSettings
from weft.app.wiring import shared_services, start_log
from weft.engine.base.tuning import keep_survivors
from weft.model.messages import health

log = logging.getLogger("weft")

REPORTS = 2.0
"""Seconds between the worker's reports on its threads."""
SILENT = 30.0
"""Seconds without a report after which it is not ready; starting takes some of them."""
STARTED_AGAIN = 5.0
"""Seconds after which an ended worker is restarted."""
TO_STOP = 20.0
"""Seconds that the worker has to hand back its owners when it is stopped."""


class WorkerProcess:
    """Starts the worker process, restarts it if it ends, and stops it."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = replace(settings, worker=True, site=None)  # the site is activated before it starts
        self._context = multiprocessing.get_context("spawn")
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._said: Mapping[str, str] = {}
        self._heard = time.monotonic()
        self._process: SpawnProcess | None = None
        self._thread = threading.Thread(target=self._supervise, name="worker-process", daemon=True)

    @property
    def pid(self) -> int | None:
        """PID of the current process."""
        with self._lock:
            return self._process.pid if self._process else None

    def start(self) -> None:
        """Run the worker, and start it again whenever it ends."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker; waits until it has handed its owners back, or time is over."""
        self._ended.set()
        self._thread.join(TO_STOP + 10)

    def checks(self) -> Mapping[str, str]:
        """State of the worker's threads from its last report, and whether that is stale."""
        with self._lock:
            said, silent = self._said, time.monotonic() - self._heard
        if silent > SILENT:
            return {"worker process": health.NO_SIGN_OF_LIFE(lasted=round(silent), limit=round(SILENT))}
        return said or {"worker process": health.STARTING()}

    def _supervise(self) -> None:
        while not self._ended.is_set():
            ours, theirs = self._context.Pipe(duplex=False)
            process = self._context.Process(target=work, args=(self._settings, theirs), name="weft-worker")
            process.start()
            theirs.close()
            with self._lock:
                self._process = process
            self._listen(ours)
            self._end(process)
            ours.close()
            if not self._ended.is_set():
                log.error("the worker process ended (%s); another one is started", process.exitcode)
                self._ended.wait(STARTED_AGAIN)

    def _listen(self, ours: Connection) -> None:
        """Wait until it has ended, or is to be stopped."""
        while not self._ended.is_set():
            try:
                said = ours.recv() if ours.poll(0.5) else None
            except (EOFError, OSError):
                return
            if said is not None:
                with self._lock:
                    self._said, self._heard = said, time.monotonic()

    def _end(self, process: SpawnProcess) -> None:
        process.terminate()
        process.join(TO_STOP)
        if process.is_alive():
            process.kill()
            process.join()
        with self._lock:
            self._said, self._process = {}, None


def work(settings: ServeSettings, pipe: Connection) -> None:
    """The worker process: runs until SIGTERM, or until its parent is gone."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    for number in (signal.SIGINT, signal.SIGHUP):  # they reach both; the server stops this one
        signal.signal(number, signal.SIG_IGN)
    start_log(settings)
    keep_survivors()
    parent = multiprocessing.parent_process()
    with shared_services(settings) as made:
        runner = made.worker()
        runner.start()
        log.info("worker %s: %d pods at once", runner.name, settings.workers)
        with suppress(OSError):  # the parent is gone
            while parent is not None and parent.is_alive() and not ended.is_set():
                pipe.send(dict(made.pulse.checks()))
                ended.wait(REPORTS)
        runner.stop()
