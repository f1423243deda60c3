"""The schema of a database: migrations in two halves, and which versions of weft may work with it.

Before: `20261129T2215_x.sql` (and all `NNNN_x.sql`), made by each process that starts. It only adds what the previous
version of weft tolerates, which continues beside this one. After: `20261129T2215_x.after.sql`, made by `weft upgrade
--finish`: what that version can't bear. A new version of documents (`weft.engine.base.documents`) is an after-half
without statements: from then on documents are written in it.

A process works with a database whose after-halves it knows, whatever else was added. Finishing first announces its
halves (`finishing`), then ends the sessions of older processes, so that none of them writes any more: each session
holds a shared advisory lock whose number says how many after-halves its process knows, taken before it reads what was
announced. Decision: docs/decisions/rolling-upgrades.md.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import LiteralString, TypeVar, cast

import psycopg
from psycopg.rows import DictRow, dict_row

import weft
from weft.engine.base.documents import EARLIEST, STORED, latest
from weft.engine.base.postgres import address_of, connecting, outside_error
from weft.engine.base.sql import AFTER, migrations
from weft.model.errors import ConflictError, OutdatedError, PermanentError
from weft.model.messages import outside

log = logging.getLogger(__name__)

Connection = psycopg.Connection[DictRow]
T = TypeVar("T")

MIGRATION_LOCK = 7_265_674
"""Advisory lock of a process that migrates, and the class of the locks of sessions; the same for every weft."""
_NEEDS = re.compile(r"^-- needs: (\S+)$", re.MULTILINE)
PATIENCE = 120.0
"""Seconds for which a migration waits for others' locks, or for another migration."""
LOCK_SECONDS = 4
"""Seconds of one attempt: statements that want the table meanwhile wait behind it."""
SEEN_SECONDS = 60.0
"""Processes with a heartbeat within this time are at work."""
ENDING_SECONDS = 20.0
"""Seconds for the sessions of older processes to end."""
SHOWN = 5
"""Most processes that an error names."""


@dataclass(frozen=True, slots=True)
class WeftProcess:
    """A process at work, by its last heartbeat.

    Attributes:
        role: `server` or `worker`.
        halves: how many after-halves it knows.
    """

    name: str
    role: str
    version: str
    halves: int


@dataclass(frozen=True, slots=True)
class State:
    """How far a database is.

    Attributes:
        pending: before-halves that it lacks.
        unfinished: after-halves that it lacks.
        newer: before-halves that this version doesn't know, and tolerates.
        barred: after-halves, made or announced, that this version doesn't know: it must not work with the database.
        announced: after-halves that some process has begun to make.
        newer_weft: whether a version of weft has worked with it after this one did first.
        documents: the version in which documents are written.
    """

    pending: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    announced: tuple[str, ...] = ()
    newer_weft: bool = False
    documents: int = EARLIEST


def is_after(name: str) -> bool:
    """Whether a migration is the second half of an upgrade."""
    return name.removesuffix(".sql").endswith(AFTER)


def documents_half(version: int) -> str:
    """Name of the after-half with which documents of a version begin."""
    return f"documents-{version:04d}{AFTER}"


@cache
def halves() -> Mapping[str, str]:
    """All migrations that this version knows, in order: name -> statements."""
    files = migrations()
    documents = [(documents_half(n), "") for n in range(EARLIEST + 1, latest() + 1)]
    return dict([*files, *documents])


def known_after() -> int:
    """How many after-halves this version knows: what its sessions and its processes' rows say."""
    return sum(map(is_after, halves()))


@cache
def reader() -> str:
    """Which documents this version can read, as a digest: another one may read others."""
    shapes = [repr(kind.model_json_schema()) for kind in STORED]
    return sha256("\n".join([str(latest()), *shapes]).encode()).hexdigest()[:32]


# -- at each start ---------------------------------------------------------------------------------------------------


def migrate(connection: Connection, url: str) -> State:
    """Make the before-halves that are missing, and in an empty database all halves; each start does.

    Raises `OutdatedError` for a database of a newer weft, `PermanentError` for one whose last upgrade must be finished
    first, `psycopg.Error`. Nothing is changed then.
    """
    return _patiently(connection, lambda: _migrate(connection, url))


def _patiently(connection: Connection, work: Callable[[], T]) -> T:
    """The result of a migration in one transaction, which waits for others' locks briefly, and again: statements that
    want the table wait behind a migration that waits for it.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with connection.transaction():
                connection.execute(
                    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0".encode()
                )
                return work()
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            if time.monotonic() > until:
                raise
            log.warning("the schema's migration waits: %s", str(error).partition("\n")[0])
            time.sleep(1.0)


def _migrate(connection: Connection, url: str) -> State:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
    connection.execute(
        "CREATE TABLE IF NOT EXISTS migration (name text PRIMARY KEY, at timestamptz DEFAULT now())"
    )
    done = _done(connection)
    if barred := _barred(done):
        raise outdated(url, barred)
    empty = not done
    for name, statements in halves().items():
        if name in done or (is_after(name) and not empty):
            continue
        if needed := [one for one in _NEEDS.findall(statements) if one not in done]:
            raise PermanentError(
                "bring the database's schema up to date",
                address_of(url),
                outside.UPGRADE_UNFINISHED(migration=name, needed=needed[0]),
                "nothing was changed; stop the processes of older versions, then run weft upgrade --finish",
            )
        _make(connection, name, statements)
        done.add(name)
    connection.execute(
        "INSERT INTO version_seen (reader, version) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [reader(), weft.__version__],
    )
    return state(connection)


def _make(connection: Connection, name: str, statements: str) -> None:
    if statements:
        connection.execute(cast(LiteralString, statements))
    connection.execute("INSERT INTO migration (name) VALUES (%s)", [name])


def outdated(url: str, barred: Sequence[str]) -> OutdatedError:
    """The error of a process that is too old for its database."""
    return OutdatedError(
        outside.TALK_TO_DATABASE(),
        address_of(url),
        outside.SCHEMA_NEWER(migration=barred[0]),
        "stop this process, and start one of the version that finished the upgrade",
        30.0,
    )


# -- of each session -------------------------------------------------------------------------------------------------


def enter(connection: Connection, url: str) -> None:
    """Begin a session that may write: it can be recognized as one of this version, and ends when that is too old. Its
    setting `weft.reader` says what it can read, for statements that leave owners to others.

    Raises `OutdatedError`.
    """
    connection.execute(
        "SELECT pg_advisory_lock_shared(%s, %s), set_config('weft.reader', %s, false)",
        [MIGRATION_LOCK, known_after(), reader()],
    )
    # After the lock: what is announced from now on ends this session.
    if barred := _barred(_named(connection)):
        raise outdated(url, barred)


def state(connection: Connection) -> State:
    """How far a database with weft's tables is."""
    done, named = _done(connection), _named(connection)
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM version_seen o JOIN version_seen mine ON mine.reader = %s "
        "WHERE o.first_seen > mine.first_seen) AS newer",
        [reader()],
    ).fetchone()
    assert row is not None
    finished = [n for n in range(EARLIEST + 1, latest() + 1) if documents_half(n) in done]
    return State(
        pending=tuple(n for n in halves() if n not in done and not is_after(n)),
        unfinished=tuple(n for n in halves() if n not in done and is_after(n)),
        newer=tuple(sorted(n for n in done - halves().keys() if not is_after(n))),
        barred=tuple(_barred(named)),
        announced=tuple(sorted(named - done)),
        newer_weft=bool(row["newer"]),
        documents=max(finished, default=EARLIEST),
    )


def _done(connection: Connection) -> set[str]:
    return {str(row["name"]) for row in connection.execute("SELECT name FROM migration")}


def _named(connection: Connection) -> set[str]:
    """Migrations that were made, or announced."""
    rows = connection.execute("SELECT name FROM migration UNION ALL SELECT name FROM finishing")
    return {str(row["name"]) for row in rows}


def _barred(named: set[str]) -> list[str]:
    return sorted(name for name in named - halves().keys() if is_after(name))


# -- heartbeats ---------------------------------------------------------------------------------------------------


def lives(connection: Connection, name: str, role: str) -> None:
    """Record that a process is at work; rows of those that ended without a notice go after a day."""
    connection.execute(
        "WITH ended AS (DELETE FROM process_seen WHERE name <> %(name)s "
        "AND seen_at < clock_timestamp() - interval '1 day') "
        "INSERT INTO process_seen (name, role, version, reader, halves, seen_at) "
        "VALUES (%(name)s, %(role)s, %(version)s, %(reader)s, %(halves)s, clock_timestamp()) "
        "ON CONFLICT (name) DO UPDATE SET role = excluded.role, version = excluded.version, "
        "reader = excluded.reader, halves = excluded.halves, seen_at = excluded.seen_at",
        {
            "name": name,
            "role": role,
            "version": weft.__version__,
            "reader": reader(),
            "halves": known_after(),
        },
    )


def ends(connection: Connection, name: str) -> None:
    """Record that a process ends in order."""
    connection.execute("DELETE FROM process_seen WHERE name = %s", [name])


def processes(connection: Connection) -> list[WeftProcess]:
    """Processes at work: with a heartbeat within `SEEN_SECONDS`."""
    rows = connection.execute(
        "SELECT name, role, version, halves FROM process_seen "
        "WHERE seen_at > clock_timestamp() - %s * interval '1 second' ORDER BY role, name",
        [SEEN_SECONDS],
    )
    return [WeftProcess(row["name"], row["role"], row["version"], row["halves"]) for row in rows]


# -- the end of an upgrade -------------------------------------------------------------------------------------------


def finish_at(url: str) -> tuple[str, ...]:
    """`finish` with a session of its own. Raises also `OutsideError`; run again, it continues where it was."""
    try:
        with Connection.connect(url, **connecting(url), autocommit=True, row_factory=dict_row) as connection:
            return finish(connection, url)
    except psycopg.Error as error:
        raise outside_error(url, error) from error


def finish(connection: Connection, url: str) -> tuple[str, ...]:
    """Make the after-halves that are missing; returns their names.

    From then on older versions are refused: first by what is announced, which each new session reads, and by the end of
    their sessions; only then is anything made, each half in one transaction. Cut off, it is run again. If the first
    half fails, older versions are admitted again.

    Args:
        connection: in autocommit.

    Raises `ConflictError` while older or newer processes are at work (nothing is changed then), or if the sessions of
    older ones don't end (no after-half is made then). `psycopg.Error`: the halves before it are made.
    """
    row = connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", [MIGRATION_LOCK]).fetchone()
    if row is None or not row["mine"]:
        raise ConflictError(outside.MIGRATED_BY_ANOTHER(database=address_of(url)))
    try:
        _check_alone(connection)
        migrate(connection, url)
        return _finish(connection, url)
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])


def _finish(connection: Connection, url: str) -> tuple[str, ...]:
    found = state(connection)
    if found.barred:
        raise outdated(url, found.barred)
    todo = found.unfinished
    if not todo:
        return ()
    with connection.transaction():
        for name in todo:
            connection.execute("INSERT INTO finishing (name) VALUES (%s) ON CONFLICT DO NOTHING", [name])
    try:
        if left := _end_sessions(connection, known_after()):
            raise ConflictError(outside.SESSIONS_LEFT(sessions=", ".join(left[:SHOWN])))
        for name in todo:
            _patiently(connection, lambda name=name: _announced(connection, name))
            log.info("made %s", name)
    except (ConflictError, psycopg.Error):
        # A half that was made keeps older versions out by itself.
        if not connection.broken:
            connection.execute("DELETE FROM finishing")
        raise
    return todo


def _announced(connection: Connection, name: str) -> None:
    _make(connection, name, halves()[name])
    connection.execute("DELETE FROM finishing WHERE name = %s", [name])


def _check_alone(connection: Connection) -> None:
    """Raise `ConflictError` if older processes are at work, or newer ones, whose upgrade isn't this version's."""
    known = connection.execute("SELECT to_regclass('process_seen') AS it").fetchone()
    if known is None or known["it"] is None:
        return
    found, mine = processes(connection), known_after()
    for others, code in (
        ([one for one in found if one.halves < mine], outside.OLDER_AT_WORK),
        ([one for one in found if one.halves > mine], outside.NEWER_AT_WORK),
    ):
        if others:
            said = ", ".join(f"{one.role} {one.name} ({one.version})" for one in others[:SHOWN])
            more = len(others) - SHOWN
            raise ConflictError(
                code(processes=said, more=more if more > 0 else None, seconds=round(SEEN_SECONDS))
            )


def _end_sessions(connection: Connection, mine: int) -> list[str]:
    """End the sessions of processes that know fewer halves; returns those that are left."""
    of = (
        "SELECT a.pid, coalesce(nullif(a.application_name, ''), 'unnamed') AS name, a.usename FROM pg_locks l "
        "JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.objsubid = 2 "
        "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
        "AND l.classid::bigint = %s AND l.objid::bigint < %s"
    )
    until, refused = time.monotonic() + ENDING_SECONDS, False
    while True:
        found = connection.execute(cast(LiteralString, of), [MIGRATION_LOCK, mine]).fetchall()
        if not found or refused or time.monotonic() > until:
            return [f"{one['name']} (user {one['usename']})" for one in found]
        for one in found:
            try:
                connection.execute("SELECT pg_terminate_backend(%s)", [one["pid"]])
            except psycopg.errors.InsufficientPrivilege:
                refused = True
        time.sleep(0.1)
