"""Recent use of projects, which decides their turns in the queue."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.queue.test_queue import Counted
from tests.engine.timehouse import HandClock, make, queue, release
from weft.engine.base.sql import queries
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.store.store import Store

HOUR = 3600.0


def used(house: House, half_life: float) -> dict[str, float]:
    with house.database.transaction() as tx:
        rows = tx.rows("use_of_projects", at=house.clock.now(), half_life=half_life)
    return {r["project_id"]: float(r["seconds"]) for r in rows}


def test_earlier_use_counts_less(house: House, clock: HandClock) -> None:
    """Two nodes for an hour, two hours later, and pods without nodes; in the end it isn't counted at all."""
    pod = house.ready(make("run", 2))
    house.order(make("later", 3, start=clock.now().replace(year=2027), duration="1h"))
    clock.forward(hours=1)
    assert used(house, 1e9) == {"team-a": pytest.approx(2 * HOUR, rel=1e-3)}
    release(house, pod)
    clock.forward(hours=1)
    decayed = 2 * HOUR / math.log(2) * (0.5**1 - 0.5**2)
    assert used(house, HOUR) == {"team-a": pytest.approx(decayed)}
    clock.forward(hours=8)
    assert used(house, HOUR)["team-a"] == pytest.approx(decayed / 2**8)
    clock.forward(hours=2)
    assert used(house, HOUR) == {}


def test_use_of_projects_is_read_once_per_run_of_the_queue(house: House) -> None:
    """Not for each start, and never while others wait for the lock."""
    for n in range(3):
        queue(house, f"q{n}", 2)
    counted = Counted(house.database)
    store = Store(counted)  # type: ignore[arg-type]
    dispatcher = Dispatcher(store, house.keeper.world)
    assert len(dispatcher.run()) == 3
    assert counted.asked.count("use_of_projects") == 1
    assert counted.asked.index("use_of_projects") < counted.asked.index("start_pod")


def test_use_is_read_from_indexes(house: House, database_url: str) -> None:
    """Rows of pods are never removed: reading all of them would take longer every year."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        query = f"EXPLAIN (FORMAT json) {queries()['use_of_projects']}"
        row = connection.execute(query.encode(), {"at": house.clock.now(), "half_life": HOUR}).fetchone()
    assert row is not None
    scans = _scans(row[0][0]["Plan"])
    assert "pod_released" in scans and "Seq Scan" not in scans


def _scans(plan: dict[str, Any]) -> list[str]:
    """Indexes used by a plan, and tables that it scans."""
    here = [plan.get("Index Name", plan["Node Type"])]
    return [*here, *(s for p in plan.get("Plans", ()) for s in _scans(p))]
