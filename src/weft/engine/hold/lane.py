"""Visits of one sort in one worker process, each in a thread: a limited number run at once; the rest wait.

Changes of a fabric wait for each other, and all that wait become one change (`weft.drivers.opensm.change`): the more
pods may wait, the fewer changes there are. So a visit that waits for a fabric frees its place, and resumes when there
is one again. A visit that waits long for a cloud's answer does the same: a service that hangs delays only the visits
that need it.

Claiming owners costs less for each, the more are claimed at once. So where visits are short, some are handed out
before there is a place for them: as many as begin within a moment, since no other process can claim them meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

log = logging.getLogger(__name__)

LONGEST_STOP = 0.2
"""Most seconds for which a visit gives way before each of its steps, as many visits may go first."""
MOVED = 2.0
"""Seconds without progress in a lane after which others stop giving way to it: it waits for something outside."""

AHEAD = 0.25
"""As many visits are handed out ahead as places became free in these seconds, but no more than `EACH` for each."""
EACH = 3
HANGING = 5.0
"""Seconds after which a visit that waits for one answer from outside frees its place."""
SLOW = 1.0
"""Seconds without a freed place after which visits that were handed out ahead are handed back."""


class VisitLane(Protocol):
    """How a visit yields to the other visits of its process; this one doesn't."""

    def aside(self) -> AbstractContextManager[None]:
        """Free the visit's place within the block; leaving the block waits for a place."""
        return nullcontext()

    def outside(self) -> AbstractContextManager[None]:
        """Wait for an answer from outside within the block; frees the place once that takes longer than answers do."""
        return nullcontext()

    def give_way(self) -> None:
        """Let visits that go first pass."""
        return


class Alone(VisitLane):
    """There are no other visits."""


ALONE = Alone()


class Lane:
    """Runs visits in threads; also the `VisitLane` of its visits. Thread-safe.

    Args:
        name: prefix of its threads' names.
        places: visits that may run at the same time.
        aside: further visits that may wait aside; more of them keep their places.
        hanging: further visits that may wait long for a cloud's answer; None: as `aside`.
        batch: visits that may be handed out for each place.
        freed: called when a visit goes aside and another may be handed out.
        first: a lane whose visits go before those of this one.
        ahead: whether visits are handed out before there is a place for them.
    """

    def __init__(
        self,
        name: str,
        places: int,
        aside: int = 0,
        hanging: int | None = None,
        batch: int = 1,
        freed: Callable[[], None] = lambda: None,
        first: Lane | None = None,
        ahead: bool = False,
    ) -> None:
        self._places, self._batch, self._freed, self._first = places, batch, freed, first
        self._most_aside, self._most_hanging = aside, aside if hanging is None else hanging
        self._pool = ThreadPoolExecutor(places + max(aside, self._most_hanging), thread_name_prefix=name)
        self._pool.submit(lambda: None)  # start one thread now, in case the system refuses another later
        self._condition = threading.Condition()
        self._taken = self._aside = 0
        self._returning: deque[threading.Lock] = deque()
        self._moved = float("-inf")
        self._outside: dict[object, float] = {}  # since when each waits, in order of time
        self._hanging: set[object] = set()  # those of them that have freed their place
        self._waiting: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self._freed_at: deque[float] = deque(maxlen=EACH * places if ahead else 0)
        self._closed = False

    @property
    def free(self) -> int:
        """Visits that may be handed out now: those that begin at once, and some ahead once half of these have begun."""
        with self._condition:
            now = time.monotonic()
            self._put_aside(now)
            ahead = sum(now - freed < AHEAD for freed in self._freed_at)
            places = max(0, self._places * self._batch - self._taken - len(self._returning))
            early = ahead + self._places * (self._batch - 1)
            return max(0, places + ahead - len(self._waiting)) if len(self._waiting) <= early // 2 else 0

    @property
    def empty(self) -> bool:
        """Whether it has no visit at all, not even one aside."""
        with self._condition:
            return self._is_empty()

    @property
    def idle(self) -> bool:
        """Whether none runs or waits for its place; hanging visits may hang for long and don't count."""
        with self._condition:
            self._put_aside(time.monotonic())
            return self._is_idle()

    def _is_idle(self) -> bool:
        return (
            not self._taken
            and not self._returning
            and not self._waiting
            and self._aside == len(self._hanging)
        )

    def _is_empty(self) -> bool:
        return not self._taken and not self._aside and not self._waiting

    def begin(self, visit: Callable[[], None], back: Callable[[], None] = lambda: None) -> None:
        """Run `visit` in one of its threads, once there is a place. Callers check `free` first.

        Args:
            back: called instead, if the visit doesn't begin in time or the lane is closed.
        """
        with self._condition:
            if not (closed := self._closed):
                self._waiting.append((visit, back))
                self._moved = time.monotonic()
                self._begin_those_that_wait()
        if closed:
            back()

    def _begin_those_that_wait(self) -> None:
        """Begin waiting visits while there are places; returning ones first, each woken alone: hundreds may wait."""
        while self._returning and self._taken < self._places:
            self._take_again()
            self._returning.popleft().release()
        while self._waiting and self._taken < self._places:
            visit, _ = self._waiting.popleft()
            self._taken += 1
            try:
                self._pool.submit(visit)
            except RuntimeError as error:  # from the system: the pool keeps the visit for its next thread
                log.error("no further thread for visits: %s", error)

    def hand_back(self) -> None:
        """Hand back visits that wait for a place, if none has become free lately: other workers may have time for
        them."""
        with self._condition:
            slow = not self._freed_at or time.monotonic() - self._freed_at[-1] >= SLOW
            given = self._take_back() if slow else []
        for back in given:
            back()

    def _take_back(self) -> list[Callable[[], None]]:
        given = [back for _, back in self._waiting]
        self._waiting.clear()
        return given

    def ended(self) -> bool:
        """Call when a visit has ended. Returns whether only hanging ones are left."""
        with self._condition:
            self._taken -= 1
            self._moved = time.monotonic()
            self._freed_at.append(self._moved)
            self._begin_those_that_wait()
            if self._is_empty():
                self._condition.notify_all()
            return self._is_idle()

    def give_way(self) -> None:
        """Wait for the lane that goes first: threads share a processor, and its visits have few, short steps."""
        if self._first is not None:
            self._first.let_pass()

    def let_pass(self) -> None:
        """Wait until it has no visits, for a moment at most; visits that are aside need this process's threads, too."""
        with self._condition:
            if time.monotonic() - self._moved < MOVED:
                self._condition.wait_for(self._is_empty, LONGEST_STOP)

    @contextmanager
    def aside(self) -> Generator[None]:
        if not self._goes_aside():
            yield
            return
        if self.free:
            self._freed()
        try:
            yield
        finally:
            self._come_back()

    @contextmanager
    def outside(self) -> Generator[None]:
        mine = object()
        with self._condition:
            self._outside[mine] = time.monotonic()
        try:
            yield
        finally:
            with self._condition:
                self._outside.pop(mine, None)
                hangs = mine in self._hanging
                self._hanging.discard(mine)
            if hangs:
                self._come_back()

    def _put_aside(self, now: float) -> None:
        """Free the places of visits that have waited long for an answer from outside."""
        for mine, since in list(self._outside.items()):
            if now - since < HANGING or self._aside >= self._most_hanging:
                return
            del self._outside[mine]
            self._hanging.add(mine)
            self._go_aside()

    def _come_back(self) -> None:
        with self._condition:
            if self._taken < self._places:
                self._take_again()
                return
            place = threading.Lock()
            place.acquire()
            self._returning.append(place)
        place.acquire()

    def _take_again(self) -> None:
        self._aside -= 1
        self._taken += 1
        self._moved = time.monotonic()

    def _goes_aside(self) -> bool:
        with self._condition:
            if self._aside >= self._most_aside:
                return False
            self._go_aside()
            return True

    def _go_aside(self) -> None:
        self._aside += 1
        self._taken -= 1
        self._freed_at.append(time.monotonic())
        self._begin_those_that_wait()

    def close(self) -> None:
        """Begin no further visit; those under way end by themselves."""
        with self._condition:
            self._closed = True
            given = self._take_back()
        for back in given:
            back()
        self._pool.shutdown(wait=False)
