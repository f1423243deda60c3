"""Changes that wait for each other are made together; each keeps its own fence and its own outcome."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.waiting import wait_for
from weft.drivers.joined import Joined, Submission, make_all, still_asked
from weft.model.errors import PermanentError, UnknownError

LONG = 60.0


class LostError(Exception):
    pass


def closed() -> UnknownError:
    return UnknownError("change", "the thing", "closed")


def no_time() -> UnknownError:
    return UnknownError("change", "the thing", "no time")


def refused() -> PermanentError:
    return PermanentError("change", "the thing", "refused", "nothing")


def lost() -> None:
    raise LostError


@dataclass
class Thing:
    """What is changed. An edit is a number; some numbers are always refused.

    Attributes:
        applied: numbers, in the order in which they took effect.
        batches: the numbers of each request.
        unheard: requests, counted from 0, that change nothing and whose outcome is unknown.
        crashes: requests that end in an unforeseen error.
    """

    bad: set[int] = field(default_factory=set[int])
    unheard: set[int] = field(default_factory=set[int])
    crashes: set[int] = field(default_factory=set[int])
    applied: list[int] = field(default_factory=list[int])
    batches: list[list[int]] = field(default_factory=list[list[int]])
    together: int = 0
    goes_on: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def attempt(self, parts: Sequence[Submission[int]]) -> None:
        left = still_asked(parts)
        if not left:
            return
        request = len(self.batches)
        self.batches.append([p.edit for p in left])
        if request in self.crashes:
            raise ZeroDivisionError
        if request in self.unheard:
            error = UnknownError("change", "the thing", "no answer")
            for part in parts:
                part.fail(error)
            return
        if self.bad & {p.edit for p in left}:
            for part in parts:
                part.fail(refused(), apart=len(parts) > 1)
            return
        self.applied += [p.edit for p in left]

    def make(self, parts: Sequence[Submission[int]]) -> None:
        self.together += 1
        try:
            assert self.together == 1, "two changes at a time"
            self.begun.set()
            assert self.goes_on.wait(LONG)
            make_all(parts, self.attempt, no_time, LONG)
        finally:
            self.together -= 1


class Queue:
    def __init__(
        self,
        held: bool = False,
        most: int = 1000,
        threads: int = 1,
        paced: bool = False,
        fitting: Callable[[Sequence[Submission[int]]], int] = len,
    ) -> None:
        self.thing = Thing()
        if not held:
            self.thing.goes_on.set()
        self.pool = ThreadPoolExecutor(threads)
        self.line = Joined[Submission[int]](self.thing.make, self.pool, closed, most, paced, fitting)

    def ask(self, number: int, fence: Callable[[], None] = lambda: None) -> Future[None]:
        return self.line.ask(Submission(number, fence=fence))

    def first(self, number: int = 0) -> Future[None]:
        """A change that is under way until the test lets it end."""
        made = self.ask(number)
        assert self.thing.begun.wait(LONG)
        return made


@pytest.fixture
def queue() -> Generator[Queue]:
    queue = Queue(held=True)
    yield queue
    queue.thing.goes_on.set()
    queue.pool.shutdown()


def test_waiting_changes_are_joined_in_their_order(queue: Queue) -> None:
    made = [queue.first(), *(queue.ask(n) for n in (3, 1, 2))]
    assert queue.line.waiting == 3
    queue.thing.goes_on.set()
    assert [one.result(LONG) for one in made] == [None] * 4
    assert queue.thing.batches == [[0], [3, 1, 2]] and queue.line.waiting == 0


def test_refused_change_fails_only_itself(queue: Queue) -> None:
    queue.thing.bad = {2}
    first, *others = [queue.first(), *(queue.ask(n) for n in (1, 2, 3))]
    queue.thing.goes_on.set()
    wait([first, *others], LONG)
    with pytest.raises(PermanentError, match="refused"):
        others[1].result()
    assert queue.thing.batches == [[0], [1, 2, 3], [1], [2], [3]] and queue.thing.applied == [0, 1, 3]


def test_fence_is_tested_when_the_change_is_made(queue: Queue) -> None:
    """And again if each is made alone, since the attempt before may have taken long."""
    holds, tests = threading.Event(), list[int]()

    def once() -> None:
        tests.append(1)
        if len(tests) > 1:
            raise LostError

    def held() -> None:
        if not holds.is_set():
            raise LostError

    holds.set()
    queue.first()
    stale, twice, bad = queue.ask(1, held), queue.ask(2, once), queue.ask(3)
    queue.thing.bad = {3}
    holds.clear()
    queue.thing.goes_on.set()
    for failed, error in ((stale, LostError), (twice, LostError), (bad, PermanentError)):
        with pytest.raises(error):
            failed.result(LONG)
    assert queue.thing.applied == [0] and queue.thing.batches[1:] == [[2, 3], [3]]


def test_unknown_outcome_is_not_tried_again(queue: Queue) -> None:
    """Each waiter has an error object of its own, which its caller may change."""
    queue.thing.unheard = {1}
    queue.first()
    failed = [queue.ask(1), queue.ask(2)]
    queue.thing.goes_on.set()
    errors = [one.exception(LONG) for one in failed]
    assert all(isinstance(e, UnknownError) for e in errors) and errors[0] is not errors[1]
    assert queue.thing.batches == [[0], [1, 2]]
    assert queue.ask(3).result(LONG) is None


def test_lone_turn_waits_in_line_and_changes_behind_it_join_those_before_it(queue: Queue) -> None:
    queue.first()
    order: list[str] = []
    with ThreadPoolExecutor(2) as looks:
        one = looks.submit(queue.line.alone, lambda: order.append(f"look after {queue.thing.batches}"))
        wait_for(lambda: queue.line.waiting == 1)
        made = [queue.ask(1)]
        two = looks.submit(queue.line.alone, lambda: 1 // 0)
        wait_for(lambda: queue.line.waiting == 3)
        made.append(queue.ask(2))
        queue.thing.goes_on.set()
        wait([*made, one], LONG)
        assert two.exception(LONG) is not None
    assert order == ["look after [[0]]"] and queue.thing.batches == [[0], [1, 2]]
    with pytest.raises(ZeroDivisionError):
        two.result()


def test_canceled_change_is_not_made(queue: Queue) -> None:
    """Its caller stopped waiting."""
    queue.first()
    gone, stays = queue.ask(1), queue.ask(2)
    assert gone.cancel()
    queue.thing.goes_on.set()
    stays.result(LONG)
    assert queue.thing.applied == [0, 2]


def test_changes_are_limited_and_queues_take_turns_in_the_pool() -> None:
    """Hundreds of changes of one thing don't keep another from its thread."""
    queue = Queue(held=True, most=2)
    other = Thing()
    other.goes_on.set()
    second = Joined[Submission[int]](other.make, queue.pool, closed)
    order: list[str] = []
    made = [queue.first(), *(queue.ask(n) for n in range(1, 6))]
    aside = second.ask(Submission(7))
    aside.add_done_callback(lambda _: order.append(f"after {len(queue.thing.batches)}"))
    queue.thing.goes_on.set()
    wait([*made, aside], LONG)
    queue.pool.shutdown()
    assert queue.thing.batches == [[0], [1, 2], [3, 4], [5]]
    assert order == ["after 1"]


def test_only_what_fits_is_made_together_and_the_others_keep_their_places() -> None:
    """The first change of a batch is made even if it alone doesn't fit."""
    queue = Queue(
        held=True,
        fitting=lambda parts: sum(sum(p.edit for p in parts[: n + 1]) <= 5 for n in range(len(parts))),
    )
    made = [queue.first(), *(queue.ask(n) for n in (2, 3, 9, 1, 4, 1))]
    queue.thing.goes_on.set()
    wait(made, LONG)
    queue.pool.shutdown()
    assert queue.thing.batches == [[0], [2, 3], [9], [1, 4], [1]]


def test_closed_queue_refuses_what_waits(queue: Queue) -> None:
    first = queue.first()
    waiting = queue.ask(1)
    queue.pool.shutdown(wait=False, cancel_futures=True)
    queue.thing.goes_on.set()
    assert first.result(LONG) is None
    for refused_one in (waiting, queue.ask(2)):
        with pytest.raises(UnknownError, match="closed"):
            refused_one.result(LONG)
    assert queue.thing.applied == [0]


def test_unforeseen_error_ends_only_its_own_turn(queue: Queue) -> None:
    queue.thing.crashes = {1}
    queue.first()
    failed = queue.ask(1)
    queue.thing.goes_on.set()
    with pytest.raises(ZeroDivisionError):
        failed.result(LONG)
    assert queue.ask(2).result(LONG) is None


@pytest.mark.parametrize("each", [True, False], ids=["from the beginning", "after a failure"])
def test_changes_without_time_for_an_attempt_of_their_own_fail(each: bool) -> None:
    """With the error of the joint attempt, if there was one."""
    now, parts, sizes = [0.0], [Submission(n) for n in range(4)], list[int]()

    def attempt(some: Sequence[Submission[int]]) -> None:
        now[0] += 1.0
        sizes.append(len(some))
        for part in some:
            part.fail(PermanentError("change", "it", f"{len(some)} refused", ""), apart=len(some) > 1)

    make_all(parts, attempt, no_time, 1.5, each, monotonic=lambda: now[0])
    assert sizes == ([1, 1] if each else [4, 1, 1])
    said = [next(t for t in ("1 refused", "4 refused", "no time") if t in str(p.error)) for p in parts]
    assert said == ["1 refused"] * 2 + (["no time"] if each else ["4 refused"]) * 2


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12),
    st.sets(st.integers(0, 6), max_size=2),
    st.sets(st.integers(0, 6), max_size=1),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(40), deadline=None)
def test_each_change_is_made_once_or_reported(
    asked: list[tuple[bool, bool]], unheard: set[int], crashes: set[int], most: int, order: random.Random
) -> None:
    """From several threads, with refused edits, lost owners, requests without an answer, and unforeseen errors."""
    queue = Queue(most=most, threads=3)
    thing = queue.thing
    thing.bad = {n for n, (bad, _) in enumerate(asked) if bad}
    thing.unheard, thing.crashes = unheard, crashes
    stale = {n for n, (_, is_stale) in enumerate(asked) if is_stale}
    numbers = list(range(len(asked)))
    order.shuffle(numbers)
    with ThreadPoolExecutor(4) as callers:
        outcomes = dict(
            zip(
                numbers,
                callers.map(
                    lambda n: queue.ask(n, lost if n in stale else lambda: None).exception(LONG), numbers
                ),
                strict=True,
            )
        )
    queue.pool.shutdown()
    made = {n for n, error in outcomes.items() if error is None}
    assert sorted(thing.applied) == sorted(made), "each change exactly once"
    assert not made & (stale | thing.bad)
    assert all(isinstance(outcomes[n], LostError) for n in stale)
    if not unheard and not crashes:
        assert made == set(numbers) - stale - thing.bad


def test_turn_delayed_by_a_full_pool_does_not_run_beside_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool runs later what it had no thread for; by then its waiters have an error."""
    pool, free, goes_on = ThreadPoolExecutor(2), threading.Event(), threading.Event()
    busy = pool.submit(lambda: free.wait(LONG))
    made: list[int] = []
    most, under_way = 0, threading.Semaphore(1)

    def make(parts: Sequence[Submission[int]]) -> None:
        nonlocal most
        assert under_way.acquire(blocking=False), "another turn is under way"
        most = max(most, len(parts))
        assert goes_on.wait(LONG)
        made.extend(p.edit for p in parts)
        under_way.release()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    line = Joined[Submission[int]](make, pool, closed)
    with monkeypatch.context() as system:
        system.setattr(threading.Thread, "start", refuse)
        first = line.ask(Submission(1))
    assert isinstance(first.exception(LONG), UnknownError)
    second = line.ask(Submission(2))
    free.set()
    assert busy.result(LONG)
    third = line.ask(Submission(3))
    pool.submit(lambda: None).result(LONG)  # the delayed turn ran before this
    goes_on.set()
    assert (second.result(LONG), third.result(LONG), made, most) == (None, None, [2, 3], 1)
    pool.shutdown()
