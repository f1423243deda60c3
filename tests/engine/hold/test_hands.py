"""Owners held by a worker that dies, hangs, stops or is overtaken: other workers still get them."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.engine.hold.test_ownerclaims import ONE, house, ready, silent_hosts, sql, work
from tests.engine.house import ORDER, House
from tests.helpers.statements import on_statements
from tests.helpers.waiting import wait_for
from weft.engine.hold.fence import ChangedError
from weft.engine.hold.held import Held
from weft.engine.hold.lane import Lane
from weft.engine.hold.status import News
from weft.engine.watch import worker as worker_module
from weft.engine.watch.worker import Worker
from weft.model.pod import Aspect, Cause, PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault

__all__ = ["house"]


@pytest.fixture(autouse=True)
def short_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "LONGEST_SLEEP", 0.05)
    monkeypatch.setattr(worker_module, "SEEN_SECONDS", 0.05)


@contextmanager
def working(house: House) -> Generator[Worker]:
    worker = house.new_worker("w2")
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


@contextmanager
def hanging(monkeypatch: pytest.MonkeyPatch, house: House) -> Generator[threading.Event]:
    """All READY pods are due, and the observation of `hangs` doesn't end meanwhile. The event: it has begun."""
    with silent_hosts(monkeypatch, house, "hangs") as begun:
        sql(house, "UPDATE pod SET next_at = now()")
        yield begun


def looked_at(house: House, name: str) -> datetime:
    at = house.store.pods.find(name, None).watched_at
    assert at is not None
    return at


def ordered(house: House) -> Held:
    house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    sql(house, "UPDATE pod SET next_at = now()")
    (held,) = work(house)
    return held


def test_ready_pods_of_a_dead_worker_are_observed_again(house: House) -> None:
    before = {pod.name: looked_at(house, pod.name) for pod in ready(house, "a", "b", "c")}
    dead = "worker = 'dead', token = token + 1, held_until = now() - interval '1 min'"
    sql(house, f"UPDATE pod SET {dead}, next_at = now() - interval '2 min'")
    with working(house):
        wait_for(lambda: all(looked_at(house, name) > at for name, at in before.items()))


def test_release_does_not_wait_for_an_observation(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = ready(house, "a", "hangs")
    with working(house), hanging(monkeypatch, house) as begun:
        assert begun.wait(30)
        house.service.pods.release(house.request(), str(a.id))
        wait_for(lambda: house.store.pods.which(str(a.id), None).state is PodState.RELEASED, seconds=30)


def test_ready_pods_are_observed_beside_a_hanging_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = ready(house, "a", "hangs")
    with working(house), hanging(monkeypatch, house) as begun:
        assert begun.wait(30)
        wait_for(
            lambda: sql(house, "SELECT held_until FROM pod WHERE id = %s", a.id) == [(None,)], seconds=30
        )
        before = looked_at(house, "a")
        sql(house, "UPDATE pod SET next_at = now() - interval '1 min' WHERE id = %s", a.id)
        wait_for(lambda: looked_at(house, "a") > before, seconds=30)


def test_stopping_worker_hands_back_observed_pods(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "SEEN_SECONDS", 3600.0)
    a, _ = ready(house, "a", "hangs")
    worker = house.new_worker("w2")
    worker.start()
    with hanging(monkeypatch, house) as begun:
        assert begun.wait(30)
        worker.stop(2.0)
        assert sql(house, "SELECT held_until FROM pod WHERE id = %s", a.id) == [(None,)]


def test_pod_claimed_again_at_once_keeps_its_heartbeat(house: House) -> None:
    """By the turn's thread, before the visit's thread, which has handed it back, has forgotten it."""
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER)
    ordered(house).hand_back_unvisited()
    again: list[Held] = []

    def after(name: str, values: Mapping[str, Any]) -> None:
        if name.startswith("write_held") and values["delay"] >= 0 and not again:
            sql(house, "UPDATE pod SET next_at = now()")
            again.extend(worker._claim_work(1, 0))  # pyright: ignore[reportPrivateUsage]

    with on_statements(house.database) as database:
        worker = house.new_worker("w2", database=database)
        database.after = after
        assert worker.run_once()
        assert again and sql(house, "SELECT worker FROM pod") == [("w2",)]
        assert worker.busy() == 1


def test_retry_is_not_undone_by_an_earlier_visit(house: House) -> None:
    held = ordered(house)
    held.become(News(Aspect.FAILED, "true", Cause.PERSON_NEEDED, "it broke 3 times"))
    held.notes.flush()
    held.hand_back(0.0)
    (held,) = work(house)
    held.notes.records()
    house.store.retry(held.owner.id, "please")
    held.explain("the cloud hangs")
    with pytest.raises(ChangedError):
        held.hand_back(5.0, 1)
    held.hand_back_unwritten(0.0)
    assert house.store.pods.find("a", None).state is not PodState.FAILED
    (held,) = work(house)
    assert held.status.state is not PodState.FAILED


def test_handed_back_owner_wakes_other_workers(house: House) -> None:
    held = ordered(house)
    time.sleep(0.3)  # notifications of the order have arrived
    mark = house.listener.mark()
    held.hand_back_unvisited()
    assert house.listener.wait(mark, 10.0)


def test_visit_without_a_thread_waits_and_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran, lane = list[str](), Lane("x", 2)

    def visit() -> None:
        ran.append(threading.current_thread().name)
        lane.ended()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        lane.begin(visit)
    wait_for(lambda: lane.empty)
    assert ran == ["x_0", "x_0", "x_0"]
    lane.close()


def test_closed_lane_hands_waiting_owners_back() -> None:
    lane, calls = Lane("x", 1), list[str]()
    lane.close()
    lane.begin(lambda: calls.append("visited"), lambda: calls.append("handed back"))
    assert calls == ["handed back"]
