"""A thread that does one thing periodically, and survives any error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from weft.engine.base.pulse import Pulse
from weft.model.errors import WeftError

log = logging.getLogger(__name__)


class Periodic:
    """One thread. Its pulse shows whether it is still alive.

    Args:
        turn: does the work once and returns the seconds until the next turn; None: `every`.
        pulse: None: of its own.
        limit: seconds without a successful turn after which the thread counts as stuck.
        every: seconds between two turns.
        first: seconds before the first turn.
        again, defect: pauses after an expected error, and after an unexpected one.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float | None],
        pulse: Pulse | None,
        limit: float,
        *,
        every: float = 10.0,
        first: float = 1.0,
        again: float = 10.0,
        defect: float = 60.0,
    ) -> None:
        self._name, self._turn, self._pulse, self._limit = name, turn, pulse or Pulse(), limit
        self._period = every
        self._pause, self._again, self._defect = first, again, defect
        self.stopped, self._hurried = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Begin no further turn; one under way ends with the process, and must be safe to cut anywhere."""
        self.stopped.set()
        self._hurried.set()
        self._thread.join(timeout)

    def hurry(self) -> None:
        """Begin the next turn now, or right after the one under way."""
        self._hurried.set()

    def _run(self) -> None:
        self._pulse.turn(self._name, self._limit)
        while True:
            self._hurried.wait(self._pause)
            self._hurried.clear()
            if self.stopped.is_set():
                return
            try:
                pause = self._turn()
                self._pause = self._period if pause is None else pause
            except WeftError as error:
                self._failed(error)
                log.warning("%s: %s", self._name, error)
                self._pause = self._again
            except Exception as error:
                self._failed(error)
                log.exception("%s: defect in weft", self._name)
                self._pause = self._defect
            else:
                self._pulse.turn(self._name, self._limit)

    def _failed(self, error: Exception) -> None:
        self._pulse.trouble(self._name, error)
