"""The database that tests share in turn: rows are removed, and a test that leaves more causes a new database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow

from tests.helpers.turns import Turns
from weft.engine.base.database import Database


@pytest.fixture
def turns(postgres: str) -> Iterator[Turns]:
    turns = Turns(postgres)
    yield turns
    turns.close()


def do(database: Database, statement: str) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(statement.encode())


def value_of(database: Database, query: str) -> object:
    with psycopg.connect(database.url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row and row[0]


def test_rows_of_one_test_are_gone_in_the_next(turns: Turns) -> None:
    """Few rows, many rows, rows changed by migrations, and sequences."""
    seen = "SELECT (SELECT count(*) FROM secret), (SELECT array_agg(q)::text FROM queue q)"
    with turns.one() as first:
        before = value_of(first, f"SELECT t::text FROM ({seen}) t")
        do(
            first,
            "INSERT INTO secret SELECT 'many' || n, decode(md5(n::text), 'hex') FROM generate_series(1, 9000) n",
        )
        do(first, "UPDATE queue SET next_at = now() + interval '1 day'")
    with turns.one() as second:
        assert second is first, turns.replaced
        assert value_of(second, f"SELECT t::text FROM ({seen}) t") == before
    assert turns.replaced == []


def test_connection_being_made_is_waited_for(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool opens them in the background, and counts them before they exist."""
    connect = psycopg.Connection[DictRow].connect
    making, go = threading.Event(), threading.Event()

    def slow(*args: Any, **settings: Any) -> psycopg.Connection[Any]:
        making.set()
        go.wait(30)
        return connect(*args, **settings)

    def let_go() -> None:
        time.sleep(0.2)
        go.set()

    # A thread of a pool may still be there when the database is looked at; one of its own might be about to end.
    later = ThreadPoolExecutor()
    with turns.one() as first:
        pool = first._pool  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(psycopg.Connection, "connect", slow)
        with ThreadPoolExecutor() as threads:
            with pool.connection():
                asked = threads.submit(first.now)
                assert making.wait(30)
            asked.result()  # by the connection that came back
        assert pool.get_stats()["pool_size"] == 2
        later.submit(let_go)
    with turns.one() as second:
        assert second is first
    assert turns.replaced == []
    later.shutdown()


def _column(database: Database) -> None:
    do(database, "ALTER TABLE pod ADD COLUMN strange text")


def _setting(database: Database) -> None:
    name = database.url.partition("?")[0].rpartition("/")[2]
    do(database, f"ALTER DATABASE {name} SET work_mem = '8MB'")


def _statistics(database: Database) -> None:
    do(database, "ANALYZE queue")


def _closed(database: Database) -> None:
    database.close()


@pytest.mark.parametrize("spoil", [_column, _setting, _statistics, _closed])
def test_schema_changes_require_a_new_database(turns: Turns, spoil: Callable[[Database], None]) -> None:
    with turns.one() as first:
        spoil(first)
    with turns.one() as second:
        assert second is not first and second.url != first.url
        assert second.now()
    assert len(turns.replaced) == 1


def test_open_transaction_requires_a_new_database(turns: Turns) -> None:
    with turns.one() as first:
        left = psycopg.connect(first.url)
        left.execute("SELECT 1 FROM queue")
    with turns.one() as second:
        assert second is not first
    left.close()
