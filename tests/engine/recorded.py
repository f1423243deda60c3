"""Loads recorded rows of an earlier version (`record_rows.py`) into an empty database and into the fakes."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from tests.engine.ipuhouse import IpuHouse
from tests.helpers.paths import RECORDED
from weft.engine.base.sql import migrations
from weft.engine.store.store import Store
from weft.model.mark import Mark
from weft.model.resources import Kind, Resource
from weft.ports.occupants import Ended, Ending
from weft.ports.witness import Witness
from weft.testing.cloud_state import Thing, wanted_fields
from weft.testing.vipu import FakeController


@cache
def read(version: str, name: str) -> dict[str, Any]:
    """`tables` or `outside` of the rows of a version, which is the number of its newest migration."""
    return json.loads((RECORDED / f"rows-{version}" / f"{name}.json").read_text())


def load(url: str, version: str) -> None:
    """Create the tables as they were at that version, in an empty database, and fill them."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE migration (name text PRIMARY KEY, at timestamptz DEFAULT now())")
        for name, statements in migrations():
            if name[:4] <= version:
                connection.execute(statements.encode())
        for table, rows in read(version, "tables").items():
            connection.execute(f'DELETE FROM "{table}"'.encode())
            for row in rows:
                _insert(connection, table, row)
            _move_sequences(connection, table)


def _insert(connection: psycopg.Connection[Any], table: str, row: dict[str, Any]) -> None:
    columns = ", ".join(row)
    connection.execute(
        f'INSERT INTO "{table}" ({columns}) OVERRIDING SYSTEM VALUE'
        f' SELECT {columns} FROM jsonb_populate_record(NULL::"{table}", %s)'.encode(),
        [Jsonb(row)],
    )


def _move_sequences(connection: psycopg.Connection[Any], table: str) -> None:
    """Let new rows' numbers follow those that were loaded."""
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_identity = 'YES'",
        [table],
    ).fetchall()
    for (column,) in found:
        connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
            f' greatest((SELECT max({column}) FROM "{table}"), 1))'.encode()
        )


def restore(house: IpuHouse, version: str) -> None:
    """Put what was outside then into the fakes, under the names, marks and ids that were written then."""
    seen = read(version, "outside")
    house.clock.seconds = datetime.fromisoformat(seen["now"]).timestamp()  # type: ignore[attr-defined]
    with psycopg.connect(house.database.url) as connection:
        pods = [row[0] for row in connection.execute("SELECT id FROM pod WHERE plan IS NOT NULL").fetchall()]
    wanted = {pod: {r.key: r for r in house.store.pods.resources(pod)} for pod in pods}
    today: dict[str, dict[str, object]] = {}
    for records in wanted.values():
        ids = {key: r.outside_id for key, r in records.items() if r.outside_id}
        today |= {r.outside_id: wanted_fields(r.resource, ids) for r in records.values() if r.outside_id}
    for number, thing in enumerate(seen["things"]):
        house.cloud.bring_back(_thing(thing, number, today.get(thing["id"], {})))
    house.cloud._sequence = len(seen["things"])
    house.cloud._endings |= {
        server: Ending(Ended(e["how"]), e["text"], e["at"] and datetime.fromisoformat(e["at"]))
        for server, e in seen["endings"].items()
    }
    house.cloud.witnesses |= {
        site: Witness(UUID(w["life"]), w["number"]) for site, w in seen["witnesses"].items()
    }
    for manager in house.fabric.managers:
        manager.text = seen["partition_files"][manager.name]
    house.fabric.wire.sweep()
    house.vipu.owners |= seen["machines"]
    for pod, keys in seen["controllers"].items():
        has: dict[str, Resource] = {key: wanted[UUID(pod)][key].resource for key in keys}
        house.vipu.controllers[pod] = FakeController(has)


def _thing(seen: dict[str, Any], number: int, today: dict[str, object]) -> Thing:
    """A resource as it was recorded. Fields that specs got later are today's: a cloud has them whatever weft calls
    them."""
    fields = {name: _tuples(value) for name, value in seen["fields"].items()}
    thing = Thing(
        Kind(seen["kind"]), seen["id"], seen["name"], seen["project_id"], Mark.parse(seen["mark"]), number,
        {**today, **fields}, _tuples(seen["facts"]), broken=seen["broken"],
        created=datetime.fromisoformat(seen["created"]),
    )  # fmt: skip
    thing.undeletable = seen["gone"]
    return thing


def _tuples(value: Any) -> Any:
    """Tuples instead of lists: JSON has no tuples, and the fakes compare with them."""
    if isinstance(value, list):
        return tuple(_tuples(v) for v in cast(list[Any], value))
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in cast(dict[str, Any], value).items()}
    return value


def every_document(store: Store) -> dict[str, int]:
    """Read all documents through the product's own readers; returns how many of each kind. Raises `UnreadableError`."""
    with psycopg.connect(store.database.url) as connection:
        pods = [row[0] for row in connection.execute("SELECT id FROM pod").fetchall()]
    read = {"pod": 0, "plan": 0, "resource": 0, "receipt": 0, "event": 0}
    for pod_id in pods:
        pod = store.pods.find(str(pod_id), None)
        read["pod"] += 1
        read["plan"] += pod.placed is not None
        read["resource"] += len(store.pods.resources(pod_id))
        read["receipt"] += store.records.receipt(pod_id) is not None
        read["event"] += len(store.records.events(pod_id, 0))
    return read
