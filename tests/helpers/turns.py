"""One database that tests use in turn: emptied after each, replaced if a test left more than rows.

A new database takes PostgreSQL longer than most tests: files are copied, and each connection reads the catalogue
again.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

from weft.engine.base.database import Database
from weft.engine.base.ungated import Ungated

TEMPLATE, EMPTYING = "template_weft", "emptying"
_LARGE = 256 << 10
"""Bytes of a table above which it is truncated: slower than deleting a few rows, but leaves no dead ones."""
_SCHEMA = """
    SELECT (SELECT sum(hashtextextended(relname, oid::bigint * 2048 + relnatts)::numeric)
            + sum(greatest(reltuples, 0)::bigint * oid::bigint)
            FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind <> 'S'),
           (SELECT sum(hashtextextended(relname, oid::bigint)::numeric)
            FROM pg_class WHERE relnamespace = 'public'::regnamespace),
           (SELECT sum(hashtextextended(attname, attrelid::bigint * 2048 + attnum)::numeric)
            FROM pg_attribute WHERE attrelid >= 16384),
           (SELECT sum(oid::bigint) FROM pg_constraint), (SELECT sum(oid::bigint) FROM pg_trigger),
           (SELECT sum(oid::bigint) FROM pg_proc WHERE oid >= 16384), (SELECT sum(oid::bigint) FROM pg_attrdef),
           (SELECT jsonb_agg(setconfig) FROM pg_db_role_setting), (SELECT jsonb_agg(name ORDER BY name) FROM migration),
           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint <> 7265674)
"""
"""What a test may leave behind beside rows: tables, columns, constraints, triggers, settings, migrations, locks (each
session of weft has one of class 7265674: `weft.engine.base.schema.enter`). Sums of hashes: sorted texts of all columns
took PostgreSQL four times as long."""
_number = itertools.count()


@contextmanager
def new_database(postgres: str) -> Generator[str]:
    """A new database with weft's tables."""
    name = f"weft_{next(_number)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")  # type: ignore[arg-type]
        yield postgres.replace("/postgres?", f"/{name}?")
        # Connections that the test left open must not be seen by the next test.
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


class Turns:
    """See the module's docstring; used as `with turns.one() as database`."""

    def __init__(self, postgres: str) -> None:
        self._postgres = postgres
        self._kept: tuple[Any, Database, Emptying] | None = None
        self.replaced: list[str] = []

    @contextmanager
    def one(self) -> Generator[Database]:
        """The database for one test."""
        if self._kept is None:
            context = new_database(self._postgres)
            database = Database(context.__enter__(), connections=20)
            self._kept = context, database, Emptying(database.url)
        _, database, emptying = self._kept
        threads = set(threading.enumerate())
        try:
            yield database
        finally:
            if why := self._remains(database, threads) or emptying.empty():
                self.replaced.append(why)
                self.close()

    def _remains(self, database: Database, before: set[threading.Thread]) -> str:
        """Why the next test can't use this database; empty if it can."""
        database.wait_until_notified()
        database.clock, database.gate = None, Ungated()
        database.forget()  # its rows are removed by another connection
        pool = database._pool  # pyright: ignore[reportPrivateUsage]
        if pool.closed or not _all_back(pool):
            return "its pool is closed or in use"
        pool.check()
        if others := [t.name for t in set(threading.enumerate()) - before if not _waits(t)]:
            return f"threads go on: {others}"
        return ""

    def close(self) -> None:
        if self._kept is not None:
            context, database, emptying = self._kept
            self._kept = None
            emptying.close()
            database.close()
            context.__exit__(None, None, None)


def _all_back(pool: ConnectionPool[Any], seconds: float = 10.0) -> bool:
    """Whether the pool has all its connections back. Those that are being opened in the background count as in
    use."""
    until = time.monotonic() + seconds
    while True:
        stats = pool.get_stats()
        if stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting"):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


def _waits(thread: threading.Thread) -> bool:
    """Whether the thread only waits for work: of an executor, of the pool, or of a server that tests share."""
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", "") == "concurrent.futures.thread" or thread.name.startswith(
        ("pool-", "AnyIO worker thread")
    )


class Emptying:
    """A connection that restores the rows of a new database."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, application_name=EMPTYING)
        tables = self._column(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        )
        self._tables = [t for t in tables if t != "migration"]
        self._sequences = self._column("SELECT sequencename FROM pg_sequences WHERE schemaname = 'public'")
        self._first = {t: rows for t in self._tables if (rows := self._copied(t))}
        self._schema = self._connection.execute(_SCHEMA.encode()).fetchone()

    def empty(self) -> str:
        """Empties the database; why that isn't possible, or an empty text."""
        try:
            if others := self._at_work():
                return f"connections are at work: {others}"
            self._empty()
            if self._connection.execute(_SCHEMA.encode()).fetchone() != self._schema:
                return "its tables aren't what they were"
        except psycopg.Error as error:
            return str(error)
        return ""

    def _at_work(self, seconds: float = 2.0) -> list[str]:
        """What clients still run, after waiting for those that have just closed. Autovacuum isn't a client."""
        until = time.monotonic() + seconds
        while True:
            others = self._column(
                "SELECT application_name || query FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND state <> 'idle' AND backend_type = 'client backend'"
            )
            if not others or time.monotonic() > until:
                return others
            time.sleep(0.05)

    def _empty(self) -> None:
        sizes = "SELECT relname FROM pg_class WHERE oid = ANY(%s::regclass[]) AND pg_relation_size(oid) > %s"
        large = self._column(sizes, self._tables, _LARGE)
        # In this role PostgreSQL runs no triggers and checks no references.
        todo = ["SET session_replication_role = replica", *(f"DELETE FROM {t}" for t in self._tables)]
        todo += [f"TRUNCATE {', '.join(large)} CASCADE"] * bool(large)
        todo += [f"SELECT setval('{s}', 1, false)" for s in self._sequences]
        with self._connection.transaction():
            self._connection.execute("; ".join(todo).encode())
            self._connection.execute("SELECT pg_stat_force_next_flush()")
            for table, rows in self._first.items():
                with self._connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    copy.write(rows)

    def _copied(self, table: str) -> bytes:
        with self._connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
            return b"".join(bytes(part) for part in copy)

    def _column(self, query: str, *values: object) -> list[str]:
        return [row[0] for row in self._connection.execute(query.encode(), values or None)]

    def close(self) -> None:
        self._connection.close()
