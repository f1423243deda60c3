"""The worker of `weft serve`, in a process of its own: what is asked of the API can't hold up the loop.

Python runs one thread of a process at a time, so a large body that is parsed, or a hundred listings, would stand
between a pod and its heartbeat.
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
from weft.app.wiring import parts, start_log

log = logging.getLogger("weft")

REPORTS = 2.0
"""Seconds between two words of the worker on how its threads are."""
SILENT = 30.0
"""Seconds without one after which it is not ready; it needs some of them to start."""
STARTED_AGAIN = 5.0
"""Seconds after which a worker that has ended is started again."""
TO_STOP = 20.0
"""Seconds that it has to let go of its pods."""


class WorkerProcess:
    """Starts it, starts it again if it ends, ends it. `checks` is what /readyz says of it."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = replace(settings, worker=True, site=None)  # the site is applied before it starts
        self._context = multiprocessing.get_context("spawn")
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._said: Mapping[str, str] = {}
        self._heard = time.monotonic()
        self._process: SpawnProcess | None = None
        self._thread = threading.Thread(target=self._supervise, name="worker-process", daemon=True)

    @property
    def pid(self) -> int | None:
        """Of the process that works now."""
        with self._lock:
            return self._process.pid if self._process else None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(TO_STOP + 10)

    def checks(self) -> Mapping[str, str]:
        """How the worker's threads are by its last word, and whether that is old."""
        with self._lock:
            said, silent = self._said, time.monotonic() - self._heard
        if silent > SILENT:
            return {"worker process": f"no sign of life for {silent:.0f} s, more than {SILENT:.0f} s"}
        return said or {"worker process": "it starts"}

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
        """Until it has ended, or is to end."""
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
    """The worker's process: until it is told to end, or nobody is there who would tell it."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the server ends this one
    start_log(settings)
    parent = multiprocessing.parent_process()
    with parts(settings) as made:
        runner = made.worker()
        runner.start()
        log.info("worker %s: %d pods at once", runner.name, settings.workers)
        with suppress(OSError):  # nobody listens any more
            while parent is not None and parent.is_alive() and not ended.is_set():
                pipe.send(dict(made.pulse.checks()))
                ended.wait(REPORTS)
        runner.stop()
