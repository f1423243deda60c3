"""One reading at a time, shared by all callers that asked before it began, since readings are expensive.

A reading says nothing about changes after it began. So callers get one that began after their request (or at most the
given time before), and never one that began before the last change of this process. A caller that has just
made that change needs only a reading that began after it, so callers whose changes were batched share a
reading, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from weft.drivers.joined import own_error
from weft.drivers.pace import next_at
from weft.model.errors import OutsideError

T = TypeVar("T")


@dataclass(slots=True)
class _Run(Generic[T]):
    """One reading; in the end it has a value or an error."""

    began: float
    value: T | None = None
    error: BaseException | None = None

    def outcome(self) -> T:
        if self.error is not None:
            raise own_error(self.error) if isinstance(self.error, Exception) else self.error
        assert self.value is not None
        return self.value


class SharedReading(Generic[T]):
    """A reading that callers share. Thread-safe.

    Args:
        read: reads; gets the moment at which it began. Must end in bounded time.
        monotonic: monotonic seconds.
    """

    def __init__(self, read: Callable[[float], T], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._read, self._monotonic = read, monotonic
        self._lock = threading.Condition()
        self._last: _Run[T] | None = None
        self._current: _Run[T] | None = None
        self._changed = self._next = float("-inf")
        self._waiting = 0

    def changed(self) -> None:
        """A change has completed: don't use earlier readings any more."""
        with self._lock:
            self._changed = self._monotonic()

    def get(self, max_age: float = 0.0, patient: bool = False) -> T:
        """A reading that began at most this many seconds before the call; 0: after it.

        Args:
            patient: the reading may be delayed (`weft.drivers.pace`).

        Raises what the reading raised, for all that waited for it.
        """
        with self._lock:
            oldest = max(self._monotonic() - max_age, self._changed)
        return self._since(oldest, patient)

    def since_change(self) -> T:
        """A reading that began after the last change, possibly another caller's. Raises as `get`."""
        with self._lock:
            last = self._last
            # A failed reading counts only for its own callers.
            oldest = self._changed if last is None or last.error is None else self._monotonic()
        return self._since(oldest)

    def _since(self, oldest: float, patient: bool = False) -> T:
        with self._lock:
            while True:
                if self._last is not None and self._last.began >= oldest:
                    return self._last.outcome()
                pause = self._next - self._monotonic() if patient else 0.0
                if self._current is None and pause <= 0:
                    mine = self._current = _Run(self._monotonic())
                    break
                self._waiting += 1
                try:
                    self._lock.wait(pause if self._current is None else None)
                finally:
                    self._waiting -= 1
        try:
            mine.value = self._read(mine.began)
        except OutsideError as error:
            # It is kept until the next reading; its traceback would keep the callers' frames, with all they have read.
            mine.error = _without_frames(error)
        except BaseException as error:
            mine.error = error
        with self._lock:
            self._last, self._current = mine, None
            self._next = next_at(mine.began, self._monotonic(), 1 + self._waiting)
            self._lock.notify_all()
        return mine.outcome()


def _without_frames(error: BaseException) -> BaseException:
    """The error and its causes without their tracebacks."""
    one: BaseException | None = error
    while one is not None and one.__traceback__ is not None:
        one.__traceback__, one = None, one.__cause__ or one.__context__
    return error
