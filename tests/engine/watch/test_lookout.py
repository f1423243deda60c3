"""The lookout: a follower gets the pod as it is now and after its events, without a thread or query of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.timehouse import make
from weft.engine.base.database import Database, Row
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.rows.shownrecords import FoundPod
from weft.engine.watch import lookout as module
from weft.engine.watch.lookout import Lookout
from weft.model.errors import TemporaryError
from weft.model.pod import PodState

LONG = 20.0


class Deaf:
    """A listener without notifications: the lookout finds everything by itself."""

    def add_follower(self, follower: object) -> None:
        self.follower = follower


class Eye:
    """A follower, and what it has received."""

    def __init__(self) -> None:
        self.configured: queue.Queue[FoundPod | None] = queue.Queue()

    def __call__(self, pod: FoundPod | None) -> None:
        self.configured.put(pod)

    def next(self) -> FoundPod | None:
        return self.configured.get(timeout=LONG)

    def until(self, state: PodState) -> FoundPod:
        while (pod := self.next()) is None or pod.state is not state:
            pass
        return pod


class Reads:
    """The database as a lookout has it. Its first statements may fail.

    Attributes:
        asked: for how many pods each statement has asked.
    """

    def __init__(self, database: Database, *errors: Exception) -> None:
        self._database, self.errors, self.asked = database, list(errors), list[int]()

    @contextmanager
    def statement(self) -> Generator[Reads]:
        if self.errors:
            raise self.errors.pop(0)
        with self._database.statement() as self._tx:
            yield self

    def rows(self, name: str, /, ids: Sequence[UUID]) -> list[Row]:
        self.asked.append(len(ids))
        return self._tx.rows(name, ids=ids)


@pytest.fixture
def reads(house: House) -> Reads:
    return Reads(house.database)


@pytest.fixture
def lookout(house: House, reads: Reads) -> Iterator[Lookout]:
    listener = Listener(house.database.url)
    yield Lookout(reads, listener)  # type: ignore[arg-type]
    listener.close()


def pods(house: House, number: int) -> list[UUID]:
    return [house.order(make(f"p{n}", 1)).id for n in range(number)]


def test_follower_gets_the_pod_now_and_after_each_event(house: House, lookout: Lookout) -> None:
    """The first time without any event: what happened before one waited isn't missed."""
    pod = house.ready()
    eye = Eye()
    with lookout.watching(pod.id, eye):
        now = eye.next()
        assert now == house.store.pods.which(str(pod.id), None) and now.state is PodState.READY
        house.release(pod)
        while (later := eye.next()) is None or later.last_event == now.last_event:
            pass
        house.run(pod, PodState.RELEASED)
        eye.until(PodState.RELEASED)


def test_unknown_pod_is_reported(lookout: Lookout) -> None:
    eye = Eye()
    with lookout.watching(uuid4(), eye):
        assert eye.next() is None


def test_event_whose_notification_was_lost_is_found_later(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a listener the lookout finds it by itself, a while later."""
    monkeypatch.setattr(module, "LOOK_EVERY", 0.2)
    lookout = Lookout(house.database, Deaf())  # type: ignore[arg-type]
    pod, eye = house.ready(), Eye()
    with lookout.watching(pod.id, eye):
        house.release(pod)
        house.run(pod, PodState.RELEASED)
        eye.until(PodState.RELEASED)
    lookout.stop()


def test_events_of_other_pods_cause_no_query(house: House, lookout: Lookout, reads: Reads) -> None:
    """A thousand wait for one pod, and another one has events: none of them is notified, nothing is read."""
    mine, other = pods(house, 2)
    asked = reads.asked
    eye, first, last = Eye(), Eye(), Eye()
    with ExitStack() as all_, psycopg.connect(house.database.url, autocommit=True) as connection:
        for _ in range(1000):
            all_.enter_context(lookout.watching(mine, eye))
        all_.enter_context(lookout.watching(mine, first))
        first.next()
        before = len(asked)
        for _ in range(50):
            connection.execute("SELECT pg_notify('weft_event', %s)", [str(other)])
        # Notifications arrive in order: once this one was received, those before it were, too.
        connection.execute("SELECT pg_notify('weft_event', %s)", [str(mine)])
        all_.enter_context(lookout.watching(mine, last))
        last.next()
        assert set(asked[before:]) == {1} and len(asked) - before <= 3


def test_events_of_many_pods_are_read_with_one_statement(
    house: House, lookout: Lookout, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each follower gets only its own pod."""
    monkeypatch.setattr(module, "GATHER", 0.5)
    ids = pods(house, 8)
    eyes = {pod_id: Eye() for pod_id in ids}
    with ExitStack() as all_:
        for pod_id, eye in eyes.items():
            all_.enter_context(lookout.watching(pod_id, eye))
        assert all((now := eye.next()) is not None and now.id == pod_id for pod_id, eye in eyes.items())
        for _ in range(20):
            for pod_id in ids:
                lookout.came(str(pod_id))
        assert all((now := eye.next()) is not None and now.id == pod_id for pod_id, eye in eyes.items())
    assert len(reads.asked) <= 6, reads.asked


def test_ended_waits_are_forgotten(house: House, lookout: Lookout) -> None:
    (pod_id,) = pods(house, 1)
    one, two = Eye(), Eye()
    with lookout.watching(pod_id, two):
        with lookout.watching(pod_id, one):
            one.next()
        assert len(lookout._waiting[str(pod_id)]) == 1
    assert lookout._waiting == {}


def test_lookout_survives_errors(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away, and a defect: followers are notified later, and /readyz says what is wrong."""
    monkeypatch.setattr(module, "AFTER_TROUBLE", 0.01)
    reads = Reads(house.database, TemporaryError("a", "b", "c"), RuntimeError("d"))
    pulse = Pulse()
    lookout = Lookout(reads, Deaf(), pulse)  # type: ignore[arg-type]
    (pod_id,) = pods(house, 1)
    eye = Eye()
    with lookout.watching(pod_id, eye):
        assert eye.next() is not None
        assert reads.errors == []
    lookout.stop()
    assert pulse.checks() == {"lookout": "ok"}


def test_lookout_ends_with_the_listener(house: House) -> None:
    """No thread is left, and a later wait lasts its full time."""
    listener = Listener(house.database.url)
    lookout, (pod_id,) = Lookout(house.database, listener), pods(house, 1)
    eye = Eye()
    with lookout.watching(pod_id, eye):
        eye.next()
        listener.close()
        assert not [t for t in threading.enumerate() if t is lookout._thread]
    with lookout.watching(pod_id, eye):
        pass


def test_no_thread_runs_before_the_first_wait(house: House) -> None:
    listener = Listener(house.database.url)
    assert Lookout(house.database, listener)._thread is None
    listener.close()
