"""A database of an earlier weft, with pods in it, is taken over."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.engine.house import House

from weft.engine.clock import SystemClock
from weft.engine.database import Database
from weft.engine.sql import migrations
from weft.engine.store import Store
from weft.model.pod import PodState
from weft.planning.place.sharing import Terms

pytestmark = pytest.mark.database


def test_pods_of_the_first_version_are_taken_over(
    database: Database, database_url: str, postgres: str
) -> None:
    """Their order is read out of the plan; lists, leases and retries know them afterwards."""
    house = House(database, database_url)
    plan = house.order().plan
    house.close()
    document = plan.model_dump(mode="json")
    for part, fields in (
        ("nodes", ["spare"]),
        ("fabric", ["bisection_gbps"]),
        ("locality", ["exclusive", "apart_from"]),
    ):
        for name in fields:
            del document["order"][part][name]
    del document["placement"]["spares"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE first_version")
    url = postgres.replace("/postgres?", "/first_version?")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE migration (name text PRIMARY KEY, at timestamptz DEFAULT now())")
        for name, statements in migrations()[:2]:
            connection.execute(statements.encode())
            connection.execute("INSERT INTO migration (name) VALUES (%s)", [name])
        connection.execute(
            "INSERT INTO pod (id, project_id, name, created_by, created_at, plan, state, since, next_at)"
            " VALUES (%s, 'team-a', 'train', 'alice', now(), %s, 'FAILED', now(), now())",
            [plan.pod_id, Jsonb(document)],
        )
        connection.execute(
            "INSERT INTO node_hold (node, pod_id, since) VALUES ('gpu01', %s, now())", [plan.pod_id]
        )
    taken_over = Database(url)
    try:
        store = Store(taken_over, SystemClock())
        pod = store.find_pod("train", "team-a")
        assert pod.order == plan.order and pod.placed == plan
        assert [(p.name, p.nodes) for p in store.summaries("team-a")] == [("train", 2)]
        lease = store.capacity().book().leases[0]
        assert (lease.nodes, lease.asks) == (("gpu01",), Terms("team-a"))
        assert pod.spares == () and pod.held == pod.nodes
        assert store.retry(pod.id, "retry asked") is PodState.DEGRADED
    finally:
        taken_over.close()
