"""The database shows every process which workers live, and counts overdue pods without any worker."""

from __future__ import annotations

from datetime import timedelta

import psycopg

import weft
from tests.engine.house import House
from tests.helpers.waiting import wait_for
from weft.app.metrics import StoreCollector


def metrics(house: House) -> dict[str, float]:
    """Name and values of labels -> value."""
    collector = StoreCollector(house.store, monotonic=iter(range(0, 10_000, 10)).__next__)
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_worker_is_counted_while_it_sends_heartbeats(house: House) -> None:
    """Not after it ended, and not a minute after its last heartbeat, by the database's clock."""
    health = house.service.health().checks
    assert (
        health["workers"].startswith("no worker sent a heartbeat for 60 s")
        and metrics(house)["weft_workers"] == 0
    )
    worker = house.new_worker("threads")
    worker.start()
    wait_for(lambda: house.store.count_workers() == 1)
    assert house.service.health().checks["workers"] == "ok" and metrics(house)["weft_workers"] == 1
    worker.stop()
    assert house.store.count_workers() == 0
    house.store.worker_lives("killed")
    assert house.store.count_workers() == 1
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE worker_seen SET seen_at = seen_at - interval '61 seconds'")
    assert house.store.count_workers() == 0


def test_rows_of_killed_workers_are_removed(house: House) -> None:
    """Another worker's heartbeat removes those of an hour ago."""
    for name in ("killed", "late", "alive"):
        house.store.worker_lives(name)
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "UPDATE worker_seen SET seen_at = seen_at - interval '2 hours' WHERE name = 'killed'"
        )
        connection.execute(
            "UPDATE worker_seen SET seen_at = seen_at - interval '2 minutes' WHERE name = 'late'"
        )
    with psycopg.connect(house.database.url) as connection:
        house.store.worker_lives("alive")
        rows = connection.execute("SELECT name FROM worker_seen ORDER BY name").fetchall()
    assert rows == [("alive",), ("late",)]


def test_overdue_pod_is_counted_without_a_worker(house: House) -> None:
    """An order that no worker takes: `weft_pods_overdue` rises, though no alarm is raised."""
    pod = house.order()
    assert metrics(house)["weft_pods_overdue PLACED"] == 0
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE pod SET since = since - %s WHERE id = %s", (timedelta(minutes=3), pod.id))
    assert metrics(house)["weft_pods_overdue PLACED"] == 1


def test_processes_are_counted_by_version(house: House) -> None:
    """While they send heartbeats; one that ends in order signs off."""
    name = f"weft_processes server {weft.__version__}"
    house.database.learn_versions("host/1", "server")
    assert metrics(house)[name] == 1 and metrics(house)["weft_upgrade_unfinished"] == 0
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE process_seen SET seen_at = seen_at - interval '61 seconds'")
    assert name not in metrics(house)
    house.database.learn_versions("host/1", "server")
    house.database.sign_off("host/1")
    assert name not in metrics(house)
