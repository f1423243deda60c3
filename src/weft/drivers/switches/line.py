"""Queue of changes of one switch: when it is free, all waiting changes are made together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future

from weft.drivers.switches.interface import Asked, Switch
from weft.drivers.switches.parts import UndoneError

MOST_TOGETHER = 64
"""Most changes made at once, since the size of a switch's request is limited."""

_Waiting = tuple[Asked, Future[None]]


class Line:
    """Thread-safe; waiting changes occupy no thread of the pool.

    Args:
        pool: where the changes are made; this takes one thread of it at a time.
    """

    def __init__(self, switch: Switch, pool: Executor) -> None:
        self._switch, self._pool = switch, pool
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._busy = False

    @property
    def waiting(self) -> int:
        """Number of changes that aren't in progress yet."""
        with self._lock:
            return len(self._waiting)

    def ask(self, asked: Asked) -> Future[None]:
        """Queue a change; the future completes when it was made, or with its error."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((asked, future))
            begins, self._busy = not self._busy, True
        if begins:
            self._begin()
        return future

    def _begin(self) -> None:
        try:
            run = self._pool.submit(self._run)
        except RuntimeError:  # it is closed
            self._refuse()
        else:
            run.add_done_callback(lambda done: self._refuse() if done.cancelled() else None)

    def _run(self) -> None:
        with self._lock:
            taken, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        if not taken:  # they were refused meanwhile
            return
        try:
            errors = self._switch.change_all([asked for asked, _ in taken])
        except BaseException as error:
            errors: Sequence[BaseException | None] = [error] * len(taken)
        with self._lock:
            self._busy = bool(self._waiting)
            goes_on = self._busy
        if goes_on:
            self._begin()  # again at the end of the pool's queue: other switches have changes, too
        _tell(taken, errors)

    def _refuse(self) -> None:
        with self._lock:
            taken, self._waiting, self._busy = self._waiting, [], False
        said = "weft doesn't use this site any more"
        error = UndoneError("change VLANs", f"switch {self._switch.name}", said)
        _tell(taken, [error] * len(taken))


def _tell(taken: Sequence[_Waiting], errors: Sequence[BaseException | None]) -> None:
    for (_, future), error in zip(taken, errors, strict=True):
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
