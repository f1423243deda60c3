"""Whoever follows an owner is told of its events after they were written, and no write waits for that."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from typing import Any

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.engine.test_takes import ONE, sql, work
from tests.helpers.statements import on_statements
from weft.engine.database import Database
from weft.engine.held import Held
from weft.engine.takes import take_work
from weft.engine.teller import Teller
from weft.model.errors import TemporaryError

LONG = 60.0


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def heard(connection: psycopg.Connection[Any]) -> set[str]:
    """Of which owners was told until now."""
    connection.execute("SELECT pg_notify('weft_event', 'the last')")
    told: set[str] = set()
    for notice in connection.notifies():
        if notice.payload == "the last":
            return told
        told.add(notice.payload)
    raise AssertionError("it was not heard")


def test_a_write_is_over_before_anybody_is_told_of_it(house: House) -> None:
    """PostgreSQL commits transactions that notify one after the other, however long the disk takes for each."""
    pods = [house.order(ORDER.model_copy(update={"name": n, "nodes": ONE})) for n in ("a", "b", "c")]
    sql(house, "UPDATE pod SET next_at = now()")
    begun, goes_on, sent = threading.Event(), threading.Event(), list[Any]()

    def before(name: str, values: Mapping[str, Any]) -> None:
        if name == "tell":
            sent.append(values["owners"])
            begun.set()
            assert goes_on.wait(LONG)

    house.database.wait_until_told()
    with (
        psycopg.connect(house.database.url, autocommit=True) as listening,
        on_statements(house.database) as mine,
    ):
        mine.before = before
        listening.execute("LISTEN weft_event")
        held = take_work(mine, "w", 0.0, 9, 0, threading.Event()).readable
        for one in held:
            one.say("step", "it goes on")
            assert begun.wait(LONG)
        said = "SELECT count(*) FROM event WHERE message = 'it goes on'"
        assert sql(house, said) == [(3,)] and not heard(listening)
        goes_on.set()
        mine.wait_until_told()
        assert heard(listening) == {str(p.id) for p in pods}
        assert [len(owners) for owners in sent] == [1, 2], "those that came meanwhile are one statement"


def test_who_writes_nothing_that_is_an_event_tells_nobody(house: House) -> None:
    house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    sql(house, "UPDATE pod SET next_at = now()")
    house.database.wait_until_told()
    (held,) = work(house)
    with psycopg.connect(house.database.url, autocommit=True) as listening:
        listening.execute("LISTEN weft_event")
        _note_a_look(held)
        house.database.wait_until_told()
        assert not heard(listening)


def _note_a_look(held: Held) -> None:
    held.note(())
    held._notes.watch({}, None, "")  # pyright: ignore[reportPrivateUsage]
    held.flush()


def test_what_can_not_be_told_ends_nothing() -> None:
    """Whoever follows finds it by itself; the next ones are told."""
    told: list[list[str]] = []

    def send(owners: Any) -> None:
        told.append(list(owners))
        if len(told) == 1:
            raise TemporaryError("talk to the database", "pg", "away")
        if len(told) == 2:
            raise RuntimeError("nobody expects this")

    teller = Teller(send)
    for name in ("a", "b", "c"):
        teller.tell(name)
        teller.wait()
    teller.close()
    teller.tell("after the end")
    assert told == [["a"], ["b"], ["c"]]
