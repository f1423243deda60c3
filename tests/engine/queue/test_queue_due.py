"""The queue is due again after any order, or freed capacity, that comes while it is processed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.queue.test_queue import Counted
from tests.engine.timehouse import HandClock, look, make, queue
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.service import Service
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.engine.store.store import Store
from weft.model.pod import PodState


class Slow(Counted):
    """A database that does something, once, before it commits a transaction with one of these statements."""

    def __init__(self, database: Database, work: Callable[[], None], *statements: str) -> None:
        super().__init__(database)
        self._work, self._statements = work, set(statements)

    @contextmanager
    def transaction(self) -> Generator[Any]:
        with super().transaction() as tx:
            yield tx
            self._before()

    @contextmanager
    def placing(self, lock: bool = True) -> Generator[Any]:
        with super().placing(lock) as tx:
            yield tx
            self._before()

    statement = transaction

    def _before(self) -> None:
        if self._statements & set(self.asked):
            self._statements.clear()
            self._work()


class Other:
    """A worker of another process, which processes the queue while a transaction of this one isn't committed."""

    def __init__(self, house: House, database: Database, watch: psycopg.Connection) -> None:
        self._house, self._watch = house, watch
        worker = house.new_worker("other", database=database)
        self._thread = threading.Thread(target=worker.tend_queue)

    def slow(self, *statements: str) -> Any:
        """This process's database; the other worker processes the queue before these statements are committed."""
        return Slow(self._house.database, self._begin, *statements)

    def _begin(self) -> None:
        self._thread.start()
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        deadline = time.monotonic() + 30
        while self._thread.is_alive() and not self._watch.execute(waits.encode()).fetchone():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def end(self) -> None:
        assert self._thread.ident is not None, "nothing was committed slowly"
        self._thread.join()


@pytest.fixture
def other(house: House, database_url: str, clock: HandClock) -> Iterator[Other]:
    with closing(Database(database_url)) as database, psycopg.connect(database_url, autocommit=True) as watch:
        database.clock = clock.now
        yield Other(house, database, watch)


def due(house: House) -> None:
    """Make the queue due."""
    with house.database.transaction() as tx:
        tx.run("touch_queue", at=house.clock.now())


def has_started(house: House, pod: PodRecord) -> None:
    """Process the queue, and fail unless the pod has started: it was due, as the clock of these tests stands still."""
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_new_order_makes_the_queue_due(house: House, other: Other) -> None:
    """Nodes are free for it."""
    due(house)
    store = Store(other.slow("touch_queue"))
    service = Service(Desk(store, house.keeper, Policy(), house.time, house.listener, house.pulse))
    view = service.pods.create(house.request(), make("next", 2, queue=True))
    other.end()
    has_started(house, house.store.pods.find(view.id, None))


def test_withdrawn_order_makes_the_queue_due(house: House, other: Other, clock: HandClock) -> None:
    """Its nodes were booked, and another order can have them now."""
    start = clock.now() + timedelta(hours=1)
    booked = house.order(make("booked", 16, start=start, duration="1h"))
    pod = queue(house, "next", 16, duration="8h")
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PENDING
    due(house)
    Store(other.slow("release_pod")).release(booked.id, "not needed")
    other.end()
    has_started(house, pod)


def test_ended_release_makes_the_queue_due(house: House, other: Other) -> None:
    """Its nodes are free from then on."""
    first = house.ready(make("first", 16))
    pod = queue(house, "next", 16)
    house.worker.tend_queue()
    house.release(first)
    due(house)
    worker = house.new_worker("slow", database=other.slow("release_held"))
    while look(house, first).state is not PodState.RELEASED:
        worker.run_once()
    other.end()
    has_started(house, pod)
