"""Capacity and queue over time: what workers record, and who may read it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from httpx import Client
from psycopg.types.json import Jsonb

from tests.helpers.doors import ORDER, DoorsHouse
from weft.app.capacitykeeper import CapacityKeeper
from weft.engine.watch.retention import Retention
from weft.testing.callers import by

PATH = "/v1/capacity/history"
OLGA = by("operator")


def note(doors: DoorsHouse) -> None:
    CapacityKeeper(doors.store, lambda: doors.site).note()


def ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


def points(api: Client, **given: object) -> list[Any]:
    answer = api.get(PATH, params={"since": ago(days=1), **given}, headers=OLGA)
    assert answer.status_code == 200, answer.text
    return answer.json()["points"]


def past(doors: DoorsHouse, days: float, busy: int, waiting: int) -> None:
    """Inserts a record that is `days` old."""
    with psycopg.connect(doors.database.url) as connection:
        connection.execute(
            "INSERT INTO capacity_sample SELECT date_bin('10 minutes', t, '2000-01-01T00:00Z'), t, %s, %s "
            "FROM (SELECT now() - %s * interval '1 day' AS t) AS moment",
            [Jsonb({"h100": {"busy": busy, "free": 16 - busy}}), waiting, days],
        )


def test_state_of_nodes_and_queue_is_recorded_once_a_period(api: Client, doors: DoorsHouse) -> None:
    """Nodes are counted by type and state; the first record of a period stays, whichever worker writes."""
    api.post("/v1/pods", json=ORDER)
    doors.store.quarantine("gpu09", "fan")
    api.post(
        "/v1/pods", json={**ORDER, "name": "later", "queue": True, "nodes": {**ORDER["nodes"], "count": 16}}
    )
    note(doors)
    doors.store.clear_quarantine("gpu09")
    note(doors)
    (point,) = points(api)
    states = {one["type"]: one["states"] for one in point["nodes"]}
    assert states["h100"] == {"busy": 2, "quarantined": 1, "free": 13}
    assert states["ipu"] == {"free": 4} and point["waiting"] == 1
    assert [one["total"] for one in point["nodes"] if one["type"] == "h100"] == [16]


def test_long_period_is_summed_up_in_steps(api: Client, doors: DoorsHouse) -> None:
    """Each step has the last record's nodes and the longest queue; records outside the period are left out."""
    for hours, busy, waiting in ((30, 9, 9), (20, 1, 5), (19, 2, 1), (3, 3, 0), (2, 4, 2)):
        past(doors, hours / 24, busy, waiting)
    found = points(api, points=2, until=ago())
    assert [(one["nodes"][0]["states"]["busy"], one["waiting"]) for one in found] == [(2, 5), (4, 2)]
    assert len(points(api, until=ago())) == 4 and points(api, until=ago(hours=18))[-1]["waiting"] == 1


def test_records_older_than_their_retention_are_removed(api: Client, doors: DoorsHouse) -> None:
    past(doors, 1096, 1, 1)
    past(doors, 1000, 2, 2)
    removed, _, failed = Retention(doors.database, lambda: doors.site).run(doors.site.retention)
    assert removed["records of capacity"] == 1 and not failed
    assert [one["waiting"] for one in points(api, since=ago(days=1200))] == [2]


def test_period_is_the_last_week_by_default(api: Client, doors: DoorsHouse) -> None:
    """The period ends now, by the database's clock, and begins a week before its end."""
    for days, waiting in ((8, 1), (6, 2)):
        past(doors, days, 1, waiting)
    note(doors)
    answer = api.get(PATH, params={"until": ago()}, headers=OLGA).json()
    assert [one["waiting"] for one in answer["points"]] == [2]
    now = api.get(PATH, headers=OLGA).json()
    assert [one["waiting"] for one in now["points"]] == [0]
    assert datetime.fromisoformat(now["until"]) - datetime.fromisoformat(now["since"]) == timedelta(days=7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"since": "x"}, "since"),
        ({"since": "2100-01-01T00:00Z"}, "before the end"),
        ({"since": "2026-01-01T00:00Z", "points": "0"}, "points"),
    ],
)
def test_invalid_period_is_refused(still_api: Client, given: dict[str, str], said: str) -> None:
    answer = still_api.get(PATH, params=given, headers=OLGA)
    assert answer.status_code == 400 and said in answer.text


def test_history_of_capacity_is_for_operators(still_api: Client) -> None:
    assert still_api.get(PATH, params={"since": ago(days=1)}).status_code == 403
    assert still_api.get(PATH, params={"since": ago(days=1)}, headers=by("system-reader")).status_code == 200
