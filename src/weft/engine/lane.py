"""Visits of one sort in one worker process, each in a thread: a limited number run at once; the rest wait.

Changes of a fabric wait for each other, and all that wait are one change (`weft.drivers.opensm.change`): the more
pods may wait, the fewer changes there are. So a visit that waits for a fabric gives its place to another, and takes
none of the processor; it goes on when there is a place again. What waits long for an answer of a cloud does the same:
while a service of it hangs, the visits that wait for it keep no others from being begun.

Taking owners out of the database costs less for each, the more are taken at once. So where visits are short, some are
handed out before there is a place for them: as many as begin within a moment, since nobody else can take them.
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
"""Seconds at most that a visit gives way before each of its steps: who goes first may be many."""
MOVED = 2.0
"""Seconds after which a lane in which nothing has moved is given way to no more: it waits for something outside."""

AHEAD = 0.25
"""So many visits are handed out ahead as places have become free in these seconds, and no more than `EACH` for each."""
EACH = 3
HANGING = 5.0
"""Seconds after which a visit that waits for one answer from outside gives its place to another."""
SLOW = 1.0
"""After so many seconds in which no place has become free, those that were handed out ahead are handed back."""


class Way(Protocol):
    """What a visit knows of the others."""

    def aside(self) -> AbstractContextManager[None]:
        """Without a place as long as this lasts; it ends when there is one again."""
        ...

    def outside(self) -> AbstractContextManager[None]:
        """An answer from outside is waited for: without a place once that takes longer than answers do."""
        ...

    def give_way(self) -> None:
        """Let those go first that do."""
        ...


class Alone:
    """There are no others."""

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def outside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def give_way(self) -> None:
        return


ALONE = Alone()


class Lane:
    """Thread-safe. A `Way` of its visits.

    Args:
        name: of its threads.
        places: visits that may go on at the same time.
        aside: visits that may wait aside besides; more of them keep their places.
        hanging: the same of those that wait long for a cloud's answer; None: `aside`.
        batch: visits that may be handed out for each place.
        freed: called when a visit goes aside and another may be handed out.
        first: its visits go before those of this one.
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
        self._pool.submit(lambda: None)  # one thread at least: whatever has no other waits for it
        self._condition = threading.Condition()
        self._taken = self._aside = 0
        self._returning: deque[threading.Lock] = deque()
        self._moved = float("-inf")
        self._outside: dict[object, float] = {}  # since when each waits; the first began first
        self._hanging: set[object] = set()  # those of them that gave their place away
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
        with self._condition:
            return self._is_empty()

    @property
    def idle(self) -> bool:
        """Whether none goes on or waits for its place: those that hang may do so for long."""
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
        """In one of its threads, when there is a place. Whoever begins one looks at `free` before.

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
        """As far as there are places; who comes back from aside goes first, each woken by itself: hundreds may wait."""
        while self._returning and self._taken < self._places:
            self._take_again()
            self._returning.popleft().release()
        while self._waiting and self._taken < self._places:
            visit, _ = self._waiting.popleft()
            self._taken += 1
            try:
                self._pool.submit(visit)
            except RuntimeError as error:  # of the system: the pool has it all the same, for its next thread
                log.error("no further thread for visits: %s", error)

    def hand_back(self) -> None:
        """Those that wait for a place though none has become free lately: others may have time for them."""
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
        """A visit is over. Whether none is left but those that hang."""
        with self._condition:
            self._taken -= 1
            self._moved = time.monotonic()
            self._freed_at.append(self._moved)
            self._begin_those_that_wait()
            if self._is_empty():
                self._condition.notify_all()
            return self._is_idle()

    def give_way(self) -> None:
        """Threads of one process share a processor, and what somebody waits for has few steps that each take little."""
        if self._first is not None:
            self._first.let_pass()

    def let_pass(self) -> None:
        """Wait until it has no visits, for a moment at most: who is aside waits for what this process does, too."""
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
        """Those that have waited long for an answer from outside."""
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
        """No visit begins in its threads any more; those under way end by themselves."""
        with self._condition:
            self._closed = True
            given = self._take_back()
        for back in given:
            back()
        self._pool.shutdown(wait=False)
