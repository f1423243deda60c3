"""Migrations in two halves: made once whatever happens, and older processes are out before the second half begins."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from tests.helpers.turns import new_database
from weft.app.upgrades import Upgrade
from weft.engine.base import schema
from weft.engine.base.admission import AGAIN
from weft.engine.base.database import Database
from weft.engine.base.documents import EARLIEST, latest, write_version, writes
from weft.engine.base.postgres import connecting
from weft.engine.base.sql import in_order
from weft.engine.watch.versionkeeper import VersionKeeper
from weft.model.errors import ConflictError, OutdatedError, PermanentError, TemporaryError

FIRST, SECOND = "29990101T0001_first.after.sql", "29990101T0002_second.after.sql"
PLANTED = {FIRST: "CREATE TABLE first (it integer)", SECOND: "CREATE TABLE second (it integer)"}


class Killed(BaseException):
    """A process's end as by SIGKILL: only PostgreSQL tidies up, when the session ends."""


@pytest.fixture
def url(postgres: str) -> Generator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture
def empty(postgres: str) -> Generator[str]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft_halves")
        yield postgres.replace("/postgres?", "/weft_halves?")
        connection.execute("DROP DATABASE weft_halves WITH (FORCE)")


@pytest.fixture
def old(url: str) -> Generator[Database]:
    """A process of this version, at work before the next one comes."""
    database = Database(url, connections=2)
    database._pool.timeout = 1.0  # pyright: ignore[reportPrivateUsage]
    yield database
    database.close()


@contextmanager
def session(url: str) -> Iterator[psycopg.Connection[DictRow]]:
    settings = connecting(url)
    with psycopg.Connection[DictRow].connect(
        url, **settings, autocommit=True, row_factory=dict_row
    ) as connection:
        yield connection


@contextmanager
def next_version(more: Mapping[str, str] = PLANTED) -> Iterator[None]:
    """Within it, code runs as a version that has further halves."""
    known = dict(sorted({**schema.halves(), **more}.items(), key=lambda one: in_order(one[0])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "halves", lambda: known)
        yield


def named(url: str, table: str = "migration") -> set[str]:
    with session(url) as connection:
        return {row["name"] for row in connection.execute(f"SELECT name FROM {table}".encode())}


def test_empty_database_gets_all_halves_once_from_two_processes(empty: str) -> None:
    """They start at the same moment; nothing is left to finish."""
    made: list[Database] = []
    with next_version():
        threads = [
            threading.Thread(target=lambda: made.append(Database(empty, connections=1))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(made) == 2 and named(empty) == set(schema.halves())
        with session(empty) as connection:
            assert schema.state(connection).unfinished == () and schema.finish(connection, empty) == ()
    for one in made:
        one.close()


def test_migration_killed_between_statements_leaves_the_database_as_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = {"29990101T0001_one.sql": "CREATE TABLE one (it integer)", "29990101T0002_two.sql": "SELECT 1"}
    make, before = schema._make, named(url)  # pyright: ignore[reportPrivateUsage]

    def killed(connection: schema.Connection, name: str, statements: str) -> None:
        if name.endswith("two.sql"):
            raise Killed
        make(connection, name, statements)

    with next_version(halves):
        with monkeypatch.context() as patch, session(url) as connection, pytest.raises(Killed):
            patch.setattr(schema, "_make", killed)
            schema.migrate(connection, url)
        assert named(url) == before
        with session(url) as connection:
            schema.migrate(connection, url)
        assert named(url) == before | halves.keys()


def test_finish_ends_the_sessions_of_older_processes(url: str, old: Database) -> None:
    """Also one that is in the middle of a transaction, whose writes are lost; it can't write afterwards."""
    with old.transaction() as tx:
        tx.run("touch_queue", at=tx.now())
        with next_version(), session(url) as connection:
            assert schema.finish(connection, url) == (FIRST, SECOND)
        with pytest.raises(psycopg.OperationalError):
            tx.row("time")
    with pytest.raises(OutdatedError):
        old.now()


def test_finish_is_refused_while_an_older_process_is_at_work(url: str, old: Database) -> None:
    """By its heartbeat; nothing is made or announced, and the process goes on."""
    old.learn_versions("host/1", "worker")
    first_half = "29990101T0001_first.sql"
    with next_version({first_half: "SELECT 1", **PLANTED}), session(url) as connection:
        with pytest.raises(ConflictError, match=r"worker host/1 \("):
            schema.finish(connection, url)
        assert first_half not in named(url)
        found = Upgrade(schema.state(connection), tuple(schema.processes(connection)))
        assert [one.name for one in found.older] == ["host/1"] and found.state.unfinished == (FIRST, SECOND)
        assert found.state.announced == () and old.now()
        old.sign_off("host/1")
        assert schema.finish(connection, url) == (FIRST, SECOND)


def test_finish_is_left_to_the_newest_version_at_work(url: str, old: Database) -> None:
    """An older command line finds nothing to make, and must not say that the upgrade is finished."""
    with next_version(), session(url) as connection:
        schema.lives(connection, "host/2", "server")
    with session(url) as connection:
        with pytest.raises(ConflictError, match=r"newer weft .* server host/2 \("):
            schema.finish(connection, url)
        schema.ends(connection, "host/2")
        assert schema.finish(connection, url) == ()


def test_half_that_fails_admits_older_processes_again(url: str, old: Database) -> None:
    """If it is the first one: an operator can go back."""
    with next_version({FIRST: "SELECT 1 / 0"}), session(url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            schema.finish(connection, url)
        assert named(url, "finishing") == set() and FIRST not in named(url)
    Database(url, connections=1).close()


def test_finish_waits_for_the_locks_of_others(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as those of a backup, which reads all tables; briefly, and again."""
    monkeypatch.setattr(schema, "LOCK_SECONDS", 1)
    half = {FIRST: "ALTER TABLE queue ADD COLUMN planted text"}
    with next_version(half), session(url) as connection, session(url) as reader:
        reader.execute("BEGIN; LOCK TABLE queue IN ACCESS SHARE MODE")
        monkeypatch.setattr(schema.time, "sleep", lambda _: reader.execute("COMMIT"))
        assert schema.finish(connection, url) == (FIRST,)
    assert "the schema's migration waits" in caplog.text


def test_process_that_starts_while_a_newer_version_finishes_is_refused_at_once(url: str) -> None:
    """It names the reason, and doesn't wait for sessions that never come."""
    with session(url) as connection:
        connection.execute("INSERT INTO finishing (name) VALUES (%s)", [FIRST])
    with pytest.raises(OutdatedError, match="newer weft was finished"):
        Database(url)


def test_processes_of_containers_on_one_host_are_distinguished(url: str, old: Database) -> None:
    """They share its name, and each begins to count processes for itself."""
    keepers = [VersionKeeper(old, role) for role in ("server", "worker")]
    for keeper in keepers:
        keeper._turn_()  # pyright: ignore[reportPrivateUsage]
    with session(url) as connection:
        assert [one.role for one in schema.processes(connection)] == ["server", "worker"]


def test_finish_is_run_again_after_it_was_cut_off(
    url: str, old: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its halves: the older version is out by then, and what was made isn't made again."""
    make = schema._make  # pyright: ignore[reportPrivateUsage]

    def killed(connection: schema.Connection, name: str, statements: str) -> None:
        make(connection, name, statements)
        if name == SECOND:
            raise Killed

    with next_version():
        with monkeypatch.context() as patch, session(url) as connection, pytest.raises(Killed):
            patch.setattr(schema, "_make", killed)
            schema.finish(connection, url)
        assert FIRST in named(url) and SECOND not in named(url) and named(url, "finishing") == {SECOND}
    with pytest.raises(TemporaryError):
        old.now()
    with pytest.raises(OutdatedError, match="newer weft was finished"):
        Database(url)
    with next_version(), session(url) as connection:
        assert schema.finish(connection, url) == (SECOND,)
        assert named(url, "finishing") == set()


def test_finish_killed_before_any_statement_is_run_again(url: str) -> None:
    """The older version is refused before anything is made that it can't bear, and has a way on at each point."""
    at, seen = 0, set[tuple[bool, bool]]()
    while kill(url, at):
        half = {FIRST, SECOND} & named(url)
        try:
            Database(url, connections=1).close()
            admitted = True
        except OutdatedError:
            admitted = False
        assert not (half and admitted), "older processes would meet what they can't bear"
        seen.add((bool(half), admitted))
        with next_version(), session(url) as connection:
            schema.finish(connection, url)
            assert named(url) >= PLANTED.keys() and named(url, "finishing") == set()
            connection.execute("DROP TABLE first, second; DELETE FROM migration WHERE name LIKE '2999%'")
        at += 1
    assert seen == {(False, True), (False, False), (True, False)}


def kill(url: str, at: int) -> bool:
    """Run `finish` in a process that dies before its statement number `at`; False if it had fewer."""
    with next_version(), session(url) as connection:
        run, left = connection.execute, iter(range(at))

        def execute(*given: Any, **more: Any) -> psycopg.Cursor[DictRow]:
            if next(left, None) is None:
                raise Killed  # it runs no later statement either
            return run(*given, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "execute", execute)
            try:
                schema.finish(connection, url)
            except Killed:
                return True
    return False


def test_second_concurrent_finish_of_an_upgrade_is_refused(url: str) -> None:
    with session(url) as other, session(url) as connection, next_version():
        other.execute("SELECT pg_advisory_lock(%s)", [schema.MIGRATION_LOCK])
        with (
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(ConflictError, match="another process migrates"),
        ):
            patch.setattr(schema, "migrate", lambda *_: None)
            schema.finish(connection, url)
    assert FIRST not in named(url)


def test_sessions_that_cannot_be_ended_withdraw_the_announcement(
    url: str, old: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example if PostgreSQL's user may not end them: the older process is admitted again."""
    monkeypatch.setattr(schema, "_end_sessions", lambda *_: ["weft old/1 (user other)"])
    with next_version(), session(url) as connection, pytest.raises(ConflictError, match="old/1"):
        schema.finish(connection, url)
    assert named(url, "finishing") == set() and old.now()


def test_refused_process_looks_again(url: str, old: Database) -> None:
    """An announcement may be withdrawn; until then no session waits for anything."""
    admission = old._admission  # pyright: ignore[reportPrivateUsage]
    with session(url) as connection:
        connection.execute("INSERT INTO finishing (name) VALUES (%s)", [FIRST])
        with pytest.raises(OutdatedError):
            admission.enter(connection)
        with pytest.raises(OutdatedError):
            old.now()
        connection.execute("DELETE FROM finishing")
        with pytest.raises(OutdatedError):
            old.now()
        admission._at -= AGAIN  # pyright: ignore[reportPrivateUsage]
        assert old.now()


def test_half_that_needs_an_unfinished_one_refuses_to_start(url: str) -> None:
    needing = {FIRST: PLANTED[FIRST], "29990102T0000_more.sql": f"-- needs: {FIRST}\nSELECT 1"}
    before = named(url)
    with next_version(needing):
        with pytest.raises(PermanentError, match=f"29990102T0000_more.sql needs {FIRST}"):
            Database(url)
        assert named(url) == before
    with next_version({FIRST: PLANTED[FIRST]}), session(url) as connection:
        schema.finish(connection, url)
    with next_version(needing):
        Database(url).close()
    assert "29990102T0000_more.sql" in named(url)


def test_column_added_meanwhile_fails_no_statement(url: str, old: Database) -> None:
    """PostgreSQL refuses statements that were prepared before; a transaction is repeated by its caller."""
    nothing = {"owners": [UUID(int=0)], "at": None}
    for _ in range(3):
        with old.statement() as tx:
            tx.rows("resources_of", **nothing)
    with session(url) as connection:
        connection.execute("ALTER TABLE resource ADD COLUMN planted text")
        with old.statement() as tx:
            assert tx.rows("resources_of", **nothing) == []
        connection.execute("ALTER TABLE resource ADD COLUMN other text")
        failed = 0
        for _ in range(3):
            try:
                with old.transaction() as tx:
                    tx.rows("resources_of", **nothing)
            except TemporaryError:
                failed += 1
        assert failed <= 1


def test_documents_are_written_in_the_databases_version(url: str) -> None:
    """A restored database, from before the end of the upgrade, has the earlier one again."""
    database = Database(url)
    try:
        assert writes() == database.learn_versions("host/1", "server").documents == EARLIEST == latest()
    finally:
        write_version(latest())
        database.close()
