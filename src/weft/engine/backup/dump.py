"""Makes a backup while weft runs: facts and dump are of one snapshot of the database."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg.sql import SQL, Identifier

import weft
from weft.engine.backup.file import FORMAT, Manifest, write
from weft.engine.backup.programs import connection_of, program, running
from weft.engine.base.postgres import address_of, connecting, outside_error
from weft.engine.base.schema import halves, is_after
from weft.model.errors import PermanentError

ASKED = "back up the database"
LEFT_OUT = ("web_session", "worker_seen", "process_seen", "last_backup")
"""Tables whose rows aren't dumped: the console's sessions, which a restore would revive; workers and processes that
are alive; when the newest backup was taken, since a restored database has none yet."""
LOCK_SECONDS = 60
"""How long pg_dump waits for a table that is being migrated."""
Connection = psycopg.Connection[DictRow]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Facts:
    taken_at: datetime
    site: str | None
    epochs: Mapping[str, int]
    pods: int
    migrations: tuple[str, ...]
    namespace: str
    rows: Mapping[str, int]
    snapshot: str


def back_up(url: str, into: IO[bytes], spool: Path) -> Manifest:
    """Write a backup of a database.

    Args:
        spool: a folder for the dump until it is whole; the file there has no name.

    Raises `OutsideError`; `OSError` if nothing can be written.
    """
    with _snapshot(url) as connection, tempfile.TemporaryFile(dir=spool) as dump:
        server = connection.info.server_version
        found = program("pg_dump", server // 10_000, ASKED, address_of(url))
        facts = _facts(connection, url)
        sha256, size = hashlib.sha256(), 0
        arguments, environment = connection_of(url)
        wanted = ["--format=custom", "--encoding=UTF8", "--no-owner", "--no-privileges", "--no-publications"]
        wanted += ["--no-subscriptions", "--no-security-labels", "--no-tablespaces"]
        wanted += [f"--snapshot={facts.snapshot}", f"--lock-wait-timeout={LOCK_SECONDS}s"]
        wanted += [f"--schema={quoted(facts.namespace)}"]
        wanted += [f"--exclude-table-data={quoted(facts.namespace)}.{name}" for name in LEFT_OUT]
        failed = partial(PermanentError, ASKED, address_of(url), then="nothing was written")
        with running(found, [*wanted, *arguments], environment, failed=failed) as under_way:
            for chunk in under_way.output:
                sha256.update(chunk)
                size += len(chunk)
                dump.write(chunk)
        manifest = Manifest(
            format=FORMAT,
            weft=weft.__version__,
            taken_at=facts.taken_at,
            site=facts.site,
            epochs=facts.epochs,
            pods=facts.pods,
            migrations=facts.migrations,
            namespace=facts.namespace,
            rows=facts.rows,
            postgresql=_version(server),
            pg_dump=found.version,
            size=size,
            sha256=sha256.hexdigest(),
        )
        dump.seek(0)
        write(into, manifest, cast(Any, dump))
    return manifest


def note(url: str, taken_at: datetime) -> None:
    """Record in the database when its newest backup was taken; without effect in one of an older schema, or that can't
    be written to."""
    try:
        with psycopg.connect(url, **connecting(url)) as connection:
            connection.execute(
                "INSERT INTO last_backup (taken_at) VALUES (%s) ON CONFLICT (singleton) "
                "DO UPDATE SET taken_at = greatest(last_backup.taken_at, excluded.taken_at)",
                [taken_at],
            )
    except psycopg.Error as error:
        log.warning("the time of the backup isn't recorded in the database: %s", str(error).strip())


@contextmanager
def _snapshot(url: str) -> Generator[Connection]:
    """A transaction that reads, and stays open as long as pg_dump may need."""
    settings = connecting(url)
    settings["options"] += " -c idle_in_transaction_session_timeout=0 -c statement_timeout=600s"
    try:
        with psycopg.Connection[DictRow].connect(url, **settings, row_factory=dict_row) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection
    except psycopg.Error as error:
        raise outside_error(url, error) from error


def _facts(connection: Connection, url: str) -> _Facts:
    namespace = namespace_of(connection)
    if namespace is None:
        raise PermanentError(ASKED, address_of(url), "it has no tables of weft's", "check --database")
    row = connection.execute("SELECT clock_timestamp() AS at, pg_export_snapshot() AS snapshot").fetchone()
    assert row is not None
    done = [str(one["name"]) for one in connection.execute("SELECT name FROM migration ORDER BY name")]
    if newer := [name for name in done if is_after(name) and name not in halves()]:
        answer = f"the upgrade to a newer weft was finished ({max(newer)})"
        raise PermanentError(ASKED, address_of(url), answer, "back it up with that version")
    if not done:
        raise PermanentError(ASKED, address_of(url), "its tables aren't made yet", "start weft serve first")
    site = connection.execute("SELECT name FROM site ORDER BY generation DESC LIMIT 1").fetchone()
    pods = connection.execute("SELECT count(*) AS n FROM pod WHERE state <> 'RELEASED'").fetchone()
    assert pods is not None
    rows = row_counts(connection, namespace)
    epochs = connection.execute("SELECT cloud, number FROM epoch").fetchall() if "epoch" in rows else []
    return _Facts(
        taken_at=row["at"],
        site=site["name"] if site else None,
        epochs={one["cloud"]: one["number"] for one in epochs},
        pods=pods["n"],
        migrations=tuple(done),
        namespace=namespace,
        rows={name: 0 if name in LEFT_OUT else number for name, number in rows.items()},
        snapshot=row["snapshot"],
    )


def namespace_of(connection: Connection) -> str | None:
    """PostgreSQL's schema with weft's tables; None: there are none."""
    row = connection.execute(
        "SELECT n.nspname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = to_regclass('migration')"
    ).fetchone()
    return str(row["name"]) if row else None


def row_counts(connection: Connection, namespace: str) -> dict[str, int]:
    """Table -> number of its own rows."""
    tables = connection.execute(
        "SELECT tablename AS name FROM pg_tables WHERE schemaname = %s ORDER BY 1", [namespace]
    ).fetchall()
    found: dict[str, int] = {}
    for table in tables:
        name = Identifier(namespace, table["name"])
        row = connection.execute(SQL("SELECT count(*) AS n FROM ONLY {}").format(name)).fetchone()
        assert row is not None
        found[table["name"]] = row["n"]
    return found


def quoted(name: str) -> str:
    """A name in quotes, which in pg_dump's patterns stands for itself."""
    return '"' + name.replace('"', '""') + '"'


def _version(number: int) -> str:
    return f"{number // 10_000}.{number % 10_000}"
