"""Lanes of a worker: how many visits run, which wait aside, which go first."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from weft.engine.hold import lane as lane_module
from weft.engine.hold.lane import Lane

LONG = 60.0


class Visits:
    """Visits that last until a test releases them by their names."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._gates: dict[tuple[str, str], threading.Event] = {}
        self.ended: list[bool] = []

    def gate(self, name: str, step: str) -> threading.Event:
        return self._gates.setdefault((name, step), threading.Event())

    def begin(self, name: str, aside: bool) -> None:
        """Begin a visit that lasts until its gate `work` is open. If it goes aside then, it waits there for `answer`,
        and for `rest` once it has a place again."""

        def visit() -> None:
            assert self.gate(name, "work").wait(LONG)
            if aside:
                with self._lane.aside():
                    self.gate(name, "is aside").set()
                    assert self.gate(name, "answer").wait(LONG)
                self.gate(name, "is back").set()
                assert self.gate(name, "rest").wait(LONG)
            self.ended.append(self._lane.ended())
            self.gate(name, "is over").set()

        for step in ("work", "answer", "rest"):
            self.gate(name, step)
        self._lane.begin(visit)

    def let(self, name: str, *steps: str) -> None:
        for step in steps:
            if step.startswith("is "):
                assert self.gate(name, step).wait(LONG), (name, step)
            else:
                self.gate(name, step).set()


def test_visit_set_aside_frees_its_place_and_resumes_before_new_ones() -> None:
    freed: list[int] = []
    lane = Lane("visit", 1, aside=3, freed=lambda: freed.append(1))
    visits = Visits(lane)
    assert lane.free == 1 and lane.empty
    visits.begin("a", aside=True)
    assert lane.free == 0 and not lane.empty
    visits.let("a", "work", "is aside")
    assert lane.free == 1 and freed == [1]
    visits.begin("b", aside=False)
    assert lane.free == 0
    visits.let("a", "answer")  # it has its answer and no place
    assert not visits.gate("a", "is back").wait(0.05)
    visits.let("b", "work", "is over")
    visits.let("a", "is back")
    assert lane.free == 0
    visits.let("a", "rest", "is over")
    assert lane.free == 1 and lane.empty
    assert visits.ended == [False, True]
    lane.close()


def test_returning_visit_counts_before_it_has_its_place() -> None:
    """No other may begin in it meanwhile: otherwise those that come back would wait forever behind new ones."""
    lane = Lane("visit", 1, aside=2)
    visits = Visits(lane)
    for name in ("a", "b"):
        visits.begin(name, aside=True)
        visits.let(name, "work", "is aside")
    visits.let("a", "answer", "is back")
    visits.let("b", "answer")
    visits.let(
        "a",
        "rest",
        "is over",
    )
    visits.let("b", "is back")
    assert lane.free == 0
    visits.let("b", "rest", "is over")
    assert visits.ended == [False, True]
    lane.close()


def test_visits_aside_are_limited() -> None:
    """The next one keeps its place, and goes on all the same."""
    lane = Lane("visit", 2, aside=1)
    visits = Visits(lane)
    for name in ("a", "b"):
        visits.begin(name, aside=True)
        visits.let(name, "work", "is aside")
    assert lane.free == 1
    for name in ("b", "a"):
        visits.let(name, "answer", "is back", "rest", "is over")
    assert lane.free == 2
    lane.close()


@pytest.mark.parametrize("aside", [True, False])
def test_place_is_regained_after_an_error(aside: bool) -> None:
    lane = Lane("visit", 1, aside=int(aside))
    lane.begin(lambda: None)
    with pytest.raises(ValueError, match="wrong"), lane.aside():
        raise ValueError("wrong")
    assert lane.free == 0
    assert lane.ended()
    assert lane.free == 1
    lane.close()


def test_visits_give_way_to_the_lane_that_has_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it is aside; for a moment at most, however long it lasts; and not to their own kind."""
    first = Lane("release", 1, aside=1)
    lane = Lane("visit", 1, first=first)
    passed = threading.Event()

    def step(way: Lane) -> Callable[[], None]:
        def go() -> None:
            for _ in range(3):
                way.give_way()
            passed.set()

        return go

    step(lane)()
    assert passed.is_set()
    visits = Visits(first)
    visits.begin("release", aside=True)
    passed.clear()
    step(first)()
    assert passed.is_set()
    passed.clear()
    thread = threading.Thread(target=step(lane))
    thread.start()
    assert passed.wait(LONG)  # it isn't stopped forever
    thread.join()
    monkeypatch.setattr(lane_module, "LONGEST_STOP", LONG)
    passed.clear()
    thread = threading.Thread(target=step(lane))
    thread.start()
    visits.let("release", "work", "is aside")
    assert not passed.wait(0.05)
    monkeypatch.setattr(lane_module, "MOVED", 0.0)
    step(lane)()  # nothing has moved there lately: others don't give way to it
    visits.let("release", "answer", "is back", "rest", "is over")
    assert passed.wait(LONG)
    thread.join()
    first.close()


def test_short_visits_are_handed_out_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as have ended lately, once half of those have begun; one after another, each when there is a place."""
    monkeypatch.setattr(lane_module, "AHEAD", LONG)
    monkeypatch.setattr(lane_module, "EACH", 1)
    lane = Lane("visit", 2, aside=1, ahead=True)
    visits = Visits(lane)
    for number in range(4):
        assert lane.free == 2 + min(number, 2)  # no more ahead than there are places
        visits.begin(f"short{number}", aside=False)
        visits.let(f"short{number}", "work", "is over")
    for name in "abcd":
        visits.begin(name, aside=name == "a")
    assert lane.free == 0 and not lane.empty
    visits.let("a", "work", "is aside")  # c has its place
    assert lane.free == 1
    visits.let("a", "answer")
    assert not visits.gate("a", "is back").wait(0.05)
    visits.let("c", "work", "is over")
    visits.let("a", "is back")  # before d, which still waits
    visits.let("d", "work")
    assert not visits.gate("d", "is over").wait(0.05)
    visits.let("b", "work", "is over")
    visits.let("d", "is over")
    visits.let("a", "rest", "is over")
    assert lane.empty and visits.ended[-1]
    lane.close()


def test_long_visits_are_not_handed_out_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "AHEAD", 0.0)
    lane = Lane("visit", 1, ahead=True)
    visits = Visits(lane)
    for name in "ab":
        visits.begin(name, aside=False)
        assert lane.free == 0
        visits.let(name, "work", "is over")
    assert lane.free == 1
    lane.close()


@pytest.mark.parametrize("end", ["slow", "closed"])
def test_visits_waiting_ahead_are_handed_back(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once visits get slow, since others may have time for them; and before it ends."""
    monkeypatch.setattr(lane_module, "AHEAD", LONG)
    monkeypatch.setattr(lane_module, "SLOW", LONG)
    lane = Lane("visit", 1, ahead=True)
    visits = Visits(lane)
    visits.begin("short", aside=False)
    visits.let("short", "work", "is over")
    visits.begin("a", aside=False)
    back: list[str] = []
    lane.begin(lambda: back.append("begun"), lambda: back.append("back"))
    lane.hand_back()
    assert back == []  # visits are short here
    if end == "slow":
        monkeypatch.setattr(lane_module, "SLOW", 0.0)
        lane.hand_back()
    else:
        lane.close()
    assert back == ["back"]
    visits.let("a", "work", "is over")
    assert lane.empty
    lane.close()
    assert back == ["back"]


def test_returning_visits_resume_one_by_one() -> None:
    """Each is woken by the place that it gets: with hundreds, waking all at each end took most of the processor."""
    lane = Lane("visit", 1, aside=4)
    visits = Visits(lane)
    names = ["a", "b", "c", "d"]
    for name in names:
        visits.begin(name, aside=True)
        visits.let(name, "work", "is aside")
    visits.let("a", "answer", "is back")
    for name, after in zip(names, [*names[1:], None], strict=True):
        if after is not None:
            visits.let(after, "answer")
            assert not visits.gate(after, "is back").wait(0.05)
        visits.let(name, "rest", "is over")
        if after is not None:
            visits.let(after, "is back")
            assert lane.free == 0
    assert visits.ended == [False, False, False, True]
    assert lane.free == 1
    lane.close()


def test_no_visit_is_woken_for_a_taken_place() -> None:
    freed: list[int] = []
    lane = Lane("visit", 1, aside=2, freed=lambda: freed.append(1))
    visits = Visits(lane)
    for name in ("a", "b"):
        visits.begin(name, aside=True)  # "b" waits for a place
    visits.let("a", "work", "is aside")
    assert freed == []
    visits.let("b", "work", "is aside")
    assert freed == [1]
    for name in ("a", "b"):
        visits.let(name, "answer", "is back", "rest", "is over")
    lane.close()


def test_visit_with_a_slow_answer_frees_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As while a service of the cloud hangs; when it has its answer it waits for a place like those aside."""
    monkeypatch.setattr(lane_module, "HANGING", 0.0)
    lane = Lane("visit", 1, aside=1)
    visits = Visits(lane)
    answer, back = threading.Event(), threading.Event()

    def hanging() -> None:
        with lane.outside():
            assert answer.wait(LONG)
        back.set()
        visits.ended.append(lane.ended())

    lane.begin(hanging)
    while not lane.free:
        pass
    visits.begin("b", aside=False)
    assert lane.free == 0
    answer.set()
    assert not back.wait(0.05)
    visits.let("b", "work", "is over")
    assert back.wait(LONG)
    lane.close()


def test_short_waits_keep_their_places() -> None:
    """However many there are: only one that hangs is another's chance."""
    lane = Lane("visit", 1, aside=1)
    for _ in range(3):
        with lane.outside():
            assert lane.free == 1
    assert lane.empty
    lane.close()


def test_hanging_visits_leave_their_places_to_handed_out_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a lane that puts no visit aside for a fabric, and whose visits are handed out many at a time."""
    monkeypatch.setattr(lane_module, "HANGING", 0.0)
    lane = Lane("look", 2, hanging=4, batch=4)
    answer, seen = threading.Event(), threading.Semaphore(0)

    def hanging() -> None:
        with lane.outside():
            seen.release()
            assert answer.wait(LONG)
        lane.ended()

    def visit() -> None:
        seen.release()
        lane.ended()

    assert lane.free == 8
    for one in (hanging, hanging, hanging, visit):
        lane.begin(one)
    for _ in range(4):
        while not seen.acquire(timeout=0.01):
            assert lane.free >= 0  # as its worker does, turn after turn
    while not lane.idle:
        pass
    assert not lane.empty and lane.free == 8
    with lane.aside():
        assert lane.free == 8
    answer.set()
    while not lane.empty:
        pass
    lane.close()
