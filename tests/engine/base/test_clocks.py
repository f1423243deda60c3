"""Clocks differ: decisions use the database's time, whatever a worker's or a server's own clock says."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.timehouse import look, make
from weft.engine.base.database import Database
from weft.model.errors import RefusedError
from weft.model.pod import PodState

AHEAD = timedelta(hours=2)


class WrongClock:
    """A machine whose clock is two hours ahead; its pauses have the usual length."""

    def now(self) -> datetime:
        return datetime.now(UTC) + AHEAD

    def monotonic(self) -> float:
        return datetime.now(UTC).timestamp()

    def sleep(self, seconds: float) -> None:
        pass


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url, clock=WrongClock())
    database.clock = None  # as in production: PostgreSQL says what time it is
    yield house
    house.close()


def near(moment: datetime | None, **span: float) -> bool:
    """Within a minute of so long from now."""
    assert moment is not None
    return abs(moment - datetime.now(UTC) - timedelta(**span)) < timedelta(minutes=1)


def test_worker_with_a_fast_clock_ends_no_lease(house: House) -> None:
    """A fresh lease of an hour lasts an hour, and everything written has the database's time."""
    pod = house.ready(make("short", 2, duration="1h"))
    assert near(pod.lease_end, hours=1) and near(pod.created_at) and near(pod.since)
    assert house.store.end_leases() == []
    house.worker.tend_queue()
    assert look(house, pod).wanted == "present"
    assert not [e for e in house.store.records.events(pod.id, 0) if e.type == "lease"], (
        "nor is it warned too early"
    )
    assert all(near(e.at) for e in house.store.records.events(pod.id, 0))


def test_release_limit_uses_the_databases_clock(house: House) -> None:
    """No nodes are quarantined, and no alarm is raised, because a worker's clock is ahead."""
    pod = house.ready(make("short", 2))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and near(receipt.receipt.released_at)
    assert all(near(item.at) for item in receipt.receipt.items)
    assert not [e for e in house.store.records.events(pod.id, 0) if e.type in ("alarm", "quarantine")]


def test_bookings_and_reservations_use_the_databases_clock(house: House) -> None:
    """An order for in an hour is later, not past; a reservation begins now, not in two hours."""
    start = datetime.now(UTC) + timedelta(hours=1)
    pod = house.order(make("later", 16, start=start, duration="1h"))
    assert pod.state is PodState.PENDING and pod.not_before == start
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PENDING
    with pytest.raises(RefusedError):
        house.order(make("open", 1))
    house.order(make("fits", 1, duration="30m"))


def test_hold_runs_out_by_the_databases_clock(house: House) -> None:
    """Holds are written and compared only there."""
    house.order()
    with house.database.transaction() as tx:
        assert tx.row("claim_work", worker="w", hold=30.0, late=0.0, most=1, releases=1)
    with psycopg.connect(house.database.url) as connection:
        left = connection.execute("SELECT held_until, held_until > now() FROM pod").fetchone()
    assert left is not None and near(left[0], seconds=30) and left[1]
