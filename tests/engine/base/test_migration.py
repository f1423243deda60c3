"""A database of an earlier weft, with pods in it, is migrated."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from ipaddress import IPv4Network

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine.house import ORDER, House
from weft.engine.base.database import Database
from weft.engine.base.documents import STEPS
from weft.engine.base.schema import is_after
from weft.engine.base.sql import in_order, migrations
from weft.engine.store.store import Store
from weft.model.order import NetworkOrder
from weft.model.pod import PodState
from weft.model.versions import FIELD, newest
from weft.model.views import PodSearch
from weft.planning.place.sharing import Terms

_DATED = re.compile(r"20\d\d[01]\d[0-3]\dT[0-2]\d[0-5]\d_[a-z][a-z0-9_]*(\.after)?\.sql")


def test_pods_of_the_first_version_are_migrated(database: Database, database_url: str, postgres: str) -> None:
    """Their order is read out of the plan; lists, leases and retries know them afterwards."""
    house = House(database, database_url)
    plan = house.order().plan
    house.close()
    document = {FIELD: newest(STEPS), **plan.model_dump(mode="json")}
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
        store = Store(taken_over)
        pod = store.pods.find("train", "team-a")
        assert pod.order == plan.order and pod.placed == plan
        assert [(p.name, p.nodes) for p in store.pods.summaries(PodSearch(), "team-a")] == [("train", 2)]
        (lease,) = store.capacity().book().leases
        assert (lease.nodes, lease.asks) == (("gpu01",), Terms("team-a"))
        assert pod.spares == () and pod.held == pod.nodes
        assert store.retry(pod.id, "retry requested") is PodState.DEGRADED
    finally:
        taken_over.close()


def test_migration_numbers_are_unique() -> None:
    """Two with one number could be applied in either order. Databases record the earlier
    ones by their names.
    """
    numbers = [name[:4] for name, _ in migrations() if not _DATED.fullmatch(name)]
    twice = {n for n in numbers if numbers.count(n) > 1}
    assert twice == {"0012", "0015", "0016"}, "give the newer one the next free number"


def test_migrations_are_named_by_date_and_half() -> None:
    """After those with a number, the last of which is known: a date never collides with another branch's."""
    names = [name for name, _ in migrations()]
    numbered = [name for name in names if not _DATED.fullmatch(name)]
    assert names[: len(numbered)] == numbered and numbered[-1] == "0102_known_machines.sql"
    stems = {in_order(name)[0] for name in names[len(numbered) :]}
    assert len({stem[:13] for stem in stems}) == len(stems), "two of one minute: give the newer one the next"
    assert not any(map(is_after, numbered)), "all of them belong to the first half"


def test_halves_of_one_name_are_made_in_their_order() -> None:
    """An empty database gets all of them: the second one relies on the first, though it is earlier in the alphabet."""
    made = ["20261129T2216_y.sql", "20261129T2215_x.after.sql", "20261129T2215_x.sql", "0102_known.sql"]
    assert sorted(made, key=in_order) == [*reversed(made[2:]), made[1], made[0]]


def test_each_needed_after_half_exists_and_is_earlier() -> None:
    """An after-half that a before-half says it needs."""
    names = [name for name, _ in migrations()]
    for name, statements in migrations():
        for needed in re.findall(r"^-- needs: (.*)$", statements, re.MULTILINE):
            assert is_after(needed) and needed in names and needed < name and not is_after(name)


def test_rows_beyond_the_bounds_are_migrated(database: Database, database_url: str, postgres: str) -> None:
    """A date of the year 10000, durations of millennia: they are cut to what is allowed, and everything is read."""
    house = House(database, database_url)
    pods = {name: house.order(ORDER.model_copy(update={"name": name})) for name in ("far", "long", "plain")}
    own = ORDER.model_copy(
        update={"name": "own", "network": NetworkOrder(management=IPv4Network("10.64.0.0/12"))}
    )
    pods["own"] = house.order(own)
    house.close()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE fourth_version")
    url = postgres.replace("/postgres?", "/fourth_version?")
    lease = {
        "far": {"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59-12:00", "duration": None},
        "long": {"start": None, "end": None, "duration": "9999999h"},
    }
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE migration (name text PRIMARY KEY, at timestamptz DEFAULT now())")
        for name, statements in migrations()[:4]:
            connection.execute(statements.encode())
            connection.execute("INSERT INTO migration (name) VALUES (%s)", [name])
        for name, pod in pods.items():
            document = {FIELD: newest(STEPS), **pod.plan.model_dump(mode="json")}
            document["order"]["lease"] = lease.get(name, document["order"]["lease"])
            connection.execute(
                "INSERT INTO pod (id, project_id, name, created_by, created_at, plan, ordered, state, since, next_at,"
                " placed_at, lease_end, expected_start) VALUES"
                " (%s, 'team-a', %s, 'alice', now(), %s, %s, 'READY', now(), now(), now(), %s, 'infinity')",
                [
                    pod.id,
                    name,
                    Jsonb(document),
                    Jsonb(document["order"]),
                    "9999-12-31 23:59:59-12" if name == "far" else None,
                ],
            )
    taken_over = Database(url)
    try:
        store = Store(taken_over)
        read, unreadable = store.pods.every_live()
        found = {p.name: p for p in read}
        assert found.keys() == pods.keys() and not unreadable
        assert found["far"].lease_end == datetime(2400, 1, 1, tzinfo=UTC)
        assert found["far"].order.lease.end == datetime(2200, 1, 1, tzinfo=UTC)
        assert found["far"].placed and found["far"].placed.order == found["far"].order
        assert found["long"].order.lease.duration == "36500d"
        assert found["plain"].placed == pods["plain"].placed
        used = store.capacity().used.management_cidrs["lab"]
        assert used == {pods[n].plan.allotment.management_cidr for n in ("far", "long", "plain")}
        with taken_over.statement() as tx:
            homes = {home.name: (home.fabric, home.cloud) for home in store.pods.homes(tx)}
        assert homes == dict.fromkeys(pods, ("ib0", "lab"))
    finally:
        taken_over.close()


def test_process_of_an_earlier_weft_cannot_insert_a_pod_without_units(
    database: Database,
) -> None:
    """Its INSERT names no units: it fails, rather than count as 0 in the shares of projects."""
    with (
        psycopg.connect(database.url) as connection,
        pytest.raises(psycopg.errors.NotNullViolation, match="units"),
    ):
        connection.execute(
            "INSERT INTO pod (id, project_id, name, created_by, created_at, ordered, state, since, next_at)"
            " VALUES (gen_random_uuid(), 'team-a', 'old', 'alice', now(), '{}', 'PLACED', now(), now())"
        )
