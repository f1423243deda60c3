"""Restores a backup in one transaction: afterwards the database is the backup's, or what it was before.

It also closes the gate (`weft.engine.base.gate`): a row in `restored` does so until an operator accepts the database.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from weft.engine.backup.dump import Connection, namespace_of, quoted, row_counts
from weft.engine.backup.file import Backup
from weft.engine.backup.programs import Program, program
from weft.engine.backup.script import carry_out, contents
from weft.engine.backup.things import remove_all, things
from weft.engine.base.postgres import address_of, connecting
from weft.engine.base.schema import MIGRATION_LOCK, halves, is_after
from weft.engine.base.sql import migrations
from weft.engine.store.store import WORKER_SECONDS
from weft.model.errors import ConflictError, InputError, PermanentError

ASKED = "restore the database"
SHOWN = 5
"""Most connections that an error names."""


@dataclass(frozen=True, slots=True)
class CheckedBackup:
    """A backup that this version can restore.

    Attributes:
        pending: migrations that it lacks, which `weft serve` makes.
    """

    backup: Backup
    pending: tuple[str, ...]
    program: Program
    contents: bytes


def check(backup: Backup) -> CheckedBackup:
    """Check without a database whether a backup can be restored: its schema, and that pg_restore reads it.

    Raises `InputError`; `PermanentError` if there is no pg_restore for it.
    """
    known = [*halves()]
    done = backup.manifest.migrations
    if newer := sorted(set(done) - set(known)):
        allowed = f"a backup of this version of weft: weft {backup.manifest.weft} is newer ({newer[-1]})"
        raise InputError("FILE", backup.name, allowed)
    major = int(backup.manifest.pg_dump.partition(".")[0])
    found = program("pg_restore", major, ASKED, backup.name)
    return CheckedBackup(
        backup,
        tuple(name for name in known if name not in done and not is_after(name)),
        found,
        contents(found, backup),
    )


def restore(url: str, checked: CheckedBackup, replace: bool, older: bool, by: str) -> None:
    """Restore a backup; nothing is changed unless all of it is there afterwards.

    Args:
        replace: remove what is in the database, if that is one of weft's, and of the same site.
        older: also a backup with an older schema.
        by: who does it, for the record.

    Raises `InputError`, `ConflictError`, `OutsideError`.
    """
    manifest = checked.backup.manifest
    if checked.pending and not older:
        allowed = (
            f"a backup with the schema of this weft: it lacks {checked.pending[0]}"
            f"{f' and {len(checked.pending) - 1} more' if len(checked.pending) > 1 else ''}; "
            "with --older it is restored, and weft serve migrates it"
        )
        raise InputError("FILE", checked.backup.name, allowed)
    with _transaction(url) as connection:
        _check_target(connection, url, checked, replace)
        carry_out(connection, checked.program, checked.backup, checked.contents)
        connection.execute("SELECT set_config('search_path', %s, true)", [quoted(manifest.namespace)])
        _compare(connection, url, checked)
        connection.execute(cast(Any, dict(migrations())["0074_restored.sql"]))
        connection.execute(
            "INSERT INTO restored (at, taken_at, restored_by) VALUES (clock_timestamp(), %s, %s) "
            "ON CONFLICT (one) DO UPDATE SET (at, taken_at, restored_by) = "
            "(excluded.at, excluded.taken_at, excluded.restored_by)",
            [manifest.taken_at, by],
        )
        connection.execute("ANALYZE")


@contextmanager
def _transaction(url: str) -> Generator[Connection]:
    settings = connecting(url)
    settings["options"] += " -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
    try:
        with psycopg.Connection[DictRow].connect(url, **settings, row_factory=dict_row) as connection:
            yield connection
    except psycopg.errors.LockNotAvailable:
        raise ConflictError(f"{address_of(url)}: another process uses its tables or migrates it") from None
    except psycopg.Error as error:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        then = "it is the backup's, or as it was before: weft doctor" if lost else "it is as it was before"
        said = (str(error).strip() or type(error).__name__).partition("\n")[0][:300]
        raise PermanentError(ASKED, address_of(url), said, then) from error


def _check_target(connection: Connection, url: str, checked: CheckedBackup, replace: bool) -> None:
    """Raise unless the database may be filled; with `replace` it is empty afterwards."""
    manifest, of = checked.backup.manifest, address_of(url)
    row = _row(connection, "SELECT pg_is_in_recovery() AS standby, current_schema() AS first")
    if row["standby"]:
        raise PermanentError(ASKED, of, "it is a standby", "name the primary by --database")
    # No other weft begins with this database until the transaction ends.
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATION_LOCK])
    _check_alone(connection, of)
    namespace = namespace_of(connection)
    if (namespace or row["first"]) != manifest.namespace:
        allowed = (
            f"a backup of the schema {namespace or row['first']}, which is the first in the database's search_path: "
            f"this one is of {manifest.namespace}"
        )
        raise InputError("FILE", checked.backup.name, allowed)
    found = things(connection)
    if not found:
        return
    what = f"{of} isn't empty ({', '.join(found[:3])}{' …' if len(found) > 3 else ''})"
    if namespace is None:
        raise ConflictError(f"{what}, and has no tables of weft's: restore into an empty database")
    if not replace:
        raise ConflictError(
            f"{what}: restore into an empty database, or replace all that is in it by --replace"
        )
    _check_site(connection, of, manifest.site)
    _check_workers(connection, of)
    remove_all(connection, namespace)


def _check_alone(connection: Connection, of: str) -> None:
    # PostgreSQL may hide everything but the user of other roles' connections; these count, too.
    rows = connection.execute(
        "SELECT coalesce(nullif(application_name, ''), 'unnamed') AS name, coalesce(usename, '?') AS usename, "
        "CASE WHEN backend_type IS NULL THEN 'an unknown address' "
        "ELSE coalesce(host(client_addr), 'a local socket') END AS address, pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND usesysid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend' "
        "ORDER BY backend_start"
    ).fetchall()
    if rows:
        shown = [f"{one['name']} (user {one['usename']} from {one['address']})" for one in rows]
        said = ", ".join(dict.fromkeys(shown[:SHOWN])) + (
            f" and {len(rows) - SHOWN} more" * (len(rows) > SHOWN)
        )
        raise ConflictError(
            f"{of} is in use by {said}: stop weft serve, weft worker and what else is connected"
        )


def _check_workers(connection: Connection, of: str) -> None:
    if _row(connection, "SELECT to_regclass('worker_seen') AS it")["it"] is None:
        return
    rows = connection.execute(
        "SELECT name FROM worker_seen WHERE seen_at > clock_timestamp() - %s * interval '1 second' ORDER BY name",
        [WORKER_SECONDS],
    ).fetchall()
    if rows:
        said = ", ".join(str(one["name"]) for one in rows[:SHOWN])
        raise ConflictError(
            f"{of}: worker {said} sent a heartbeat within {WORKER_SECONDS:.0f} s: stop it, or wait as long"
        )


def _check_site(connection: Connection, of: str, site: str | None) -> None:
    row = connection.execute("SELECT name FROM site ORDER BY generation DESC LIMIT 1").fetchone()
    if row and site and row["name"] != site:
        raise ConflictError(
            f"{of} has the site {row['name']}, the backup {site}: restore into an empty database"
        )


def _compare(connection: Connection, url: str, checked: CheckedBackup) -> None:
    """Raise unless the tables have the migrations and numbers of rows of the manifest."""
    manifest = checked.backup.manifest
    failed = partial(PermanentError, ASKED, address_of(url), then="it is as it was before")
    done = [str(one["name"]) for one in connection.execute("SELECT name FROM migration ORDER BY name")]
    if tuple(done) != manifest.migrations:
        raise failed("the backup's migrations aren't those of its manifest")
    rows = row_counts(connection, manifest.namespace)
    if rows != dict(manifest.rows):
        wrong = sorted(
            name for name in rows.keys() | manifest.rows.keys() if rows.get(name) != manifest.rows.get(name)
        )
        raise failed(f"the backup's rows aren't those of its manifest: {', '.join(wrong[:5])}")


def _row(connection: Connection, statement: str) -> DictRow:
    row = connection.execute(cast(Any, statement)).fetchone()
    assert row is not None
    return row
