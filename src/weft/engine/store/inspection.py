"""Inspects a database for the doctor, without weft's pool, and without migrating or writing anything."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from weft.engine.base.database import Statements, Tx
from weft.engine.base.postgres import connecting, outside_error
from weft.engine.base.schema import State, WeftProcess, halves, processes, state
from weft.engine.base.sealing import Seal, SecretRow, secrets_of
from weft.engine.rows.siteparts import Sites
from weft.engine.store.store import WORKER_SECONDS
from weft.model.errors import NotFoundError
from weft.model.site import Site


@dataclass(frozen=True, slots=True)
class Restore:
    """A restore that no operator has accepted yet. Attributes: taken_at: when the backup was made."""

    at: datetime
    taken_at: datetime
    restored_by: str


@dataclass(frozen=True, slots=True)
class ImpossibleState:
    """A state that the schema permits and weft never writes. Attributes: code: of the doctor; some: of them."""

    code: str
    number: int
    some: Sequence[str]


class Inspection(Statements):
    """A connection that only reads. `inspecting` opens it; every method may raise `OutsideError`."""

    def __init__(self, connection: psycopg.Connection[DictRow], url: str) -> None:
        self._connection, self._url = connection, url

    @property
    def version(self) -> str:
        """PostgreSQL's, such as 16.2."""
        return str(self._row("SHOW server_version")["server_version"])

    @property
    def standby(self) -> bool:
        """Whether it is a standby, which can't be written to."""
        return bool(self._row("SELECT pg_is_in_recovery() AS it")["it"])

    def clock_ahead(self) -> tuple[timedelta, timedelta]:
        """How much the database's clock is ahead of this host's, and how exactly that is known."""
        before = datetime.now(UTC)
        at = cast(datetime, self._row("SELECT clock_timestamp() AS at")["at"])
        after = datetime.now(UTC)
        return at - (before + (after - before) / 2), (after - before) / 2

    def schema(self) -> State | None:
        """How far the schema is; None if it has no tables of weft's."""
        if self._row("SELECT to_regclass('migration') AS it")["it"] is None:
            return None
        if not self.has_versions():
            done = {str(row["name"]) for row in self._rows("SELECT name FROM migration")}
            return State(pending=tuple(name for name in halves() if name not in done))
        try:
            return state(self._connection)
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error

    def has_versions(self) -> bool:
        """Whether it has the tables by which versions work beside each other."""
        return self._row("SELECT to_regclass('version_seen') AS it")["it"] is not None

    def processes(self) -> list[WeftProcess]:
        """weft's processes at work, by their heartbeats."""
        try:
            return processes(self._connection)
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error

    def workers(self) -> Mapping[str, str]:
        """Name -> version of the workers with a heartbeat within `WORKER_SECONDS`; empty: an older one."""
        rows = self._rows(
            "SELECT name, version FROM worker_seen "
            "WHERE seen_at > clock_timestamp() - %s * interval '1 second' ORDER BY name",
            WORKER_SECONDS,
        )
        return {str(row["name"]): str(row["version"]) for row in rows}

    def secrets(self, seal: Seal) -> list[SecretRow]:
        """All secrets, and which key opens each."""
        try:
            return secrets_of(self._connection, seal)
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error

    def restored(self) -> Restore | None:
        """The restore that no operator has accepted; None if there is none."""
        return next(
            (Restore(**row) for row in self._rows("SELECT at, taken_at, restored_by FROM restored")), None
        )

    def site(self) -> Site | None:
        """The active site; None if there is none."""
        try:
            return Sites(cast(Any, self)).current().site
        except NotFoundError:
            return None

    def impossible(self, units: Collection[str] | None) -> list[ImpossibleState]:
        """Impossible states that some rows are in. Args: units: names in the active site; None: not known."""
        return self.all(ImpossibleState, "impossible_states", units=None if units is None else sorted(units))

    @contextmanager
    def statement(self) -> Generator[Tx]:
        """As `Database.statement`."""
        try:
            yield Tx(self._connection)
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error

    transaction = statement

    def _row(self, statement: str) -> DictRow:
        return self._rows(statement)[0]

    def _rows(self, statement: str, *values: object) -> list[DictRow]:
        try:
            return self._connection.execute(cast(Any, statement), values or None).fetchall()
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error


@contextmanager
def inspecting(url: str, seconds: float) -> Generator[Inspection]:
    """A look at a database. Raises `OutsideError` if it can't be reached.

    Args:
        seconds: limit for connecting, and for each statement.
    """
    settings = connecting(url)
    limits = f"-c default_transaction_read_only=on -c statement_timeout={max(1, int(seconds * 1000))}"
    settings["options"] = f"{settings['options']} {limits}"
    settings["connect_timeout"] = max(2, int(seconds))
    try:
        connection = psycopg.Connection[DictRow].connect(
            url, **settings, row_factory=dict_row, autocommit=True
        )
    except psycopg.Error as error:
        raise outside_error(url, error) from error
    try:
        yield Inspection(connection, url)
    finally:
        connection.close()
