"""Changes of one thing outside, by many callers at a time: changes that wait are combined into one.

Each keeps its own fence, which is tested right before the change is sent, and its own outcome: if a change of several
fails without having been made, each of them is made alone, so that one that is refused fails only itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from weft.drivers.pace import next_at
from weft.model.errors import OutsideError, UnknownError
from weft.ports.fences import Fence, renew, unfenced

log = logging.getLogger(__name__)

E = TypeVar("E")
T = TypeVar("T")

MOST_TOGETHER = 1024
"""Most changes that are made together."""


@dataclass(slots=True, eq=False)
class Submission(Generic[E]):
    """One caller's part of a change.

    Attributes:
        error: why it isn't made, or why that is unknown.
        apart: the error concerns all that were made together, and nothing was made: alone it may succeed.
    """

    edit: E
    fence: Fence = field(default=unfenced, kw_only=True)
    error: Exception | None = field(default=None, kw_only=True)
    apart: bool = field(default=False, kw_only=True)

    def fail(self, error: Exception, apart: bool = False) -> None:
        """Fail with an error that concerns several, unless this part has failed already."""
        if self.error is None:
            self.error, self.apart = own_error(error), apart


P = TypeVar("P", bound=Submission[Any])


def own_error(error: Exception) -> Exception:
    """The same error for one of several parts: each is raised in its caller's thread, and may be changed there."""
    if not isinstance(error, OutsideError):
        return error
    mine = type(error).__new__(type(error), *error.args)
    mine.__dict__.update(error.__dict__)
    mine.__cause__ = error.__cause__
    return mine


def still_asked(parts: Sequence[P]) -> list[P]:
    """Renew together and test the fences of the parts that haven't failed; returns the parts that may be made now.

    Raises what `weft.ports.fences.renew` raises.
    """
    left = [p for p in parts if p.error is None]
    renew(p.fence for p in left)
    for part in left:
        try:
            part.fence()
        except Exception as error:
            part.error = error
    return [p for p in left if p.error is None]


def make_all(
    parts: Sequence[P],
    attempt: Callable[[Sequence[P]], object],
    late: Callable[[], Exception],
    seconds: float,
    each: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Make all parts together, then one by one those that are to be made apart.

    Args:
        attempt: makes some; sets `error` and `apart` of those that it doesn't make.
        late: the error of those that there was no time for.
        seconds: the time for making them alone.
        each: make each alone from the beginning.
    """
    left = list(parts)
    if not each:
        _attempt(left, attempt)
        left = [p for p in parts if p.apart]
    end = monotonic() + seconds
    for part in left:
        if monotonic() < end:
            part.error, part.apart = None, False
            _attempt([part], attempt)
        elif part.error is None:
            part.error = late()


def _attempt(parts: Sequence[P], attempt: Callable[[Sequence[P]], object]) -> None:
    try:
        attempt(parts)
    except Exception as error:
        for part in parts:
            part.fail(error)


@dataclass(slots=True, eq=False)
class _InLine(Generic[P]):
    """An entry of the queue: a part, or something to do alone."""

    what: P | Callable[[], Any]
    future: Future[Any] = field(default_factory=Future[Any])


class Joined(Generic[P]):
    """Queue of the changes of one thing. Thread-safe; waiting callers occupy no thread of the pool.

    What is first in line goes first: if it is a change, all changes that wait are made with it. A future that is
    canceled before its turn leaves nothing. A `BaseException` other than `Exception` fails all waiters of that turn.

    Args:
        make: makes some and sets their errors. It must end in bounded time.
        pool: where they are made; the queue takes one thread of it at a time, and waits at its end between two changes.
        closed: the error of those that wait when the pool is shut down.
        paced: patient changes wait for more of them (`weft.drivers.pace`), in the pool's thread.
        fitting: how many of those that wait are made together, from the first on, which always is; the others keep
            their places. Without it: all.
    """

    def __init__(
        self,
        make: Callable[[Sequence[P]], None],
        pool: Executor,
        closed: Callable[[], Exception],
        most: int = MOST_TOGETHER,
        paced: bool = False,
        fitting: Callable[[Sequence[P]], int] = len,
    ) -> None:
        self._make, self._pool, self._closed, self._most, self._paced = make, pool, closed, most, paced
        self._fitting = fitting
        self._changed = threading.Condition()
        self._line: deque[_InLine[P]] = deque()
        self._busy = self._hurry = False
        self._next = float("-inf")
        self._turn: object = None

    @property
    def waiting(self) -> int:
        """Number of entries whose turn hasn't come."""
        with self._changed:
            return len(self._line)

    def ask(self, part: P, patient: bool = False) -> Future[None]:
        """Queue a change. The future completes when it was made, or with its error.

        Args:
            patient: it may wait a moment for others, until one that isn't patient is asked for.
        """
        return self._wait(_InLine[P](part), not patient)

    def alone(self, do: Callable[[], T]) -> T:
        """Call `do` in its turn, while no change is made. Raises what it raises."""
        return self._wait(_InLine[P](do), hurry=True).result()

    def _wait(self, one: _InLine[P], hurry: bool) -> Future[Any]:
        with self._changed:
            self._line.append(one)
            begins, self._busy = not self._busy, True
            if hurry:
                self._hurry = True
                self._changed.notify()
        if begins:
            self._begin()
        return one.future

    def _begin(self) -> None:
        self._turn = turn = object()
        try:
            run = self._pool.submit(self._run, turn)
        except RuntimeError as error:
            # It is shut down; or the system refuses a thread, and the pool keeps the turn for later.
            log.warning("changes that wait are refused: %s", error)
            self._refuse()
        else:
            run.add_done_callback(lambda done: self._refuse() if done.cancelled() else None)

    def _run(self, turn: object) -> None:
        if turn is not self._turn:
            # The entries that this turn was begun for were refused; later ones have a turn of their own.
            return
        taken = [one for one in self._take() if one.future.set_running_or_notify_cancel()]
        began = time.monotonic()
        ended = self._made(taken) if taken else []
        with self._changed:
            self._next = next_at(began, time.monotonic(), len(taken))
            self._busy = goes_on = bool(self._line)
        if goes_on:
            self._begin()
        for one, value, error in ended:
            if error is None:
                one.future.set_result(value)
            else:
                one.future.set_exception(error)

    def _take(self) -> list[_InLine[P]]:
        with self._changed:
            if self._paced and self._line and isinstance(self._line[0].what, Submission):
                self._changed.wait_for(lambda: self._hurry, max(0.0, self._next - time.monotonic()))
            if not self._line:  # they were refused meanwhile
                return []
            if not isinstance(self._line[0].what, Submission):
                taken = [self._line.popleft()]
            else:
                waiting = [one for one in self._line if isinstance(one.what, Submission)][: self._most]
                taken = waiting[: max(1, self._fitting([cast(P, one.what) for one in waiting]))]
                joins = set(taken)
                self._line = deque(one for one in self._line if one not in joins)
            self._hurry = self._hurry and bool(self._line)
            return taken

    def _made(self, taken: Sequence[_InLine[P]]) -> list[tuple[_InLine[P], Any, BaseException | None]]:
        first = taken[0].what
        try:
            if not isinstance(first, Submission):
                return [(taken[0], first(), None)]
            parts = [cast(P, one.what) for one in taken]
            self._make(parts)
        except BaseException as error:
            return [(one, None, error) for one in taken]
        return [(one, None, part.error) for one, part in zip(taken, parts, strict=True)]

    def _refuse(self) -> None:
        with self._changed:
            refused, self._line, self._busy = self._line, deque[_InLine[P]](), False
            self._turn = None
        for one in refused:
            if one.future.set_running_or_notify_cancel():
                one.future.set_exception(self._closed())


class Queued(Generic[P]):
    """Has a queue (`line`) with a thread of its own.

    Args:
        make, paced, fitting: as of `Joined`.
        name: of the thread.
        asked, whom: what is asked, and of whom, for errors.
    """

    def __init__(
        self,
        make: Callable[[Sequence[P]], None],
        name: str,
        asked: str,
        whom: str,
        paced: bool = False,
        fitting: Callable[[Sequence[P]], int] = len,
    ) -> None:
        self._asked, self._whom = asked, whom
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.line = Joined[P](make, self._pool, self._closed, paced=paced, fitting=fitting)

    def close(self) -> None:
        """Stop the queue: changes that wait are refused."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _unknown(self, said: str) -> UnknownError:
        return UnknownError(self._asked, self._whom, said)

    def _closed(self) -> UnknownError:
        return self._unknown("weft doesn't use this site any more")
