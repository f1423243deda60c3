"""Rows of `sdn_journal` in Neutron's database that networking-mlnx's driver `mlnx_sdn_assist` has abandoned
by accident. The driver sets a row to `processing`, sends it, and sets it to its next state. If there was no
answer, if it came too late, or if Neutron ended midway, the row stays `processing` forever: its own
maintenance, which would set such rows to `pending` again after `processing_timeout`, has failed in every run
since Neutron dropped the session that it uses. This module does what that maintenance would do
(networking-mlnx 21, `db.reset_processing_rows` and `db.delete_rows_by_state_and_time`): completed rows, some
for every change of a port, are never removed either.

It uses SQLAlchemy because Neutron's configuration has the database as an SQLAlchemy URL, whatever the server.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    MetaData,
    String,
    Table,
    and_,
    create_engine,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, ProgrammingError, SQLAlchemyError

from weft.model.errors import InputError, PermanentError, UnknownError
from weft.model.extras import installation

LONGEST_CONNECT = 10
"""Seconds to wait for the database."""
_PROCESSING, _PENDING, _COMPLETED = "processing", "pending", "completed"
_JOURNAL = Table(
    "sdn_journal",
    MetaData(),
    Column("id", String(36), primary_key=True),
    Column("object_type", String(36)),
    Column("object_uuid", String(36)),
    Column("operation", String(36)),
    Column("state", String(10)),
    Column("created_at", DateTime),
    Column("last_retried", DateTime),
)


@dataclass(frozen=True, slots=True)
class StuckRow:
    """A notice that the driver will never send.

    Attributes:
        operation: POST, PUT or DELETE; of the object `object_type` (`Network`, `Port`) `object_id`.
        seconds: time since it was last changed.
    """

    id: str
    object_type: str
    object_id: str
    operation: str
    seconds: int


class SdnJournal:
    """The journal of one Neutron.

    Args:
        url: SQLAlchemy's URL, `[database] connection` of Neutron's configuration. Raises `InputError`.
    """

    def __init__(self, url: str) -> None:
        more = {"connect_timeout": LONGEST_CONNECT} if url.startswith(("mysql", "postgresql")) else {}
        try:
            self._engine: Engine = create_engine(url, connect_args=more)
        except (ArgumentError, NoSuchModuleError, ValueError):  # whose text may contain the password
            allowed = "a URL such as mysql+pymysql://neutron:PASSWORD@HOST/neutron"
            raise InputError("[database] connection", "what is there", allowed) from None
        except ModuleNotFoundError as error:
            allowed = f"a database whose driver is installed ({error.name} isn't; MariaDB's: {installation('neutron')})"
            raise InputError("[database] connection", url.partition(":")[0], allowed) from None

    def close(self) -> None:
        self._engine.dispose()

    def stuck(self, older: int) -> Sequence[StuckRow]:
        """Rows that are `processing` for more than `older` seconds, oldest first.

        Raises `UnknownError` if the database can't be queried; `PermanentError` if it has no such table;
        `InputError` if its driver rejects the URL's parameters.
        """
        asked = "read sdn_journal"
        try:
            with self._connected() as connection:
                now = _now(connection)
                rows = connection.execute(
                    select(_JOURNAL)
                    .where(_stuck(now - timedelta(seconds=older)))
                    .order_by(_JOURNAL.c.last_retried, _JOURNAL.c.id)
                ).all()
        except SQLAlchemyError as error:
            raise self._error(asked, error) from None
        return [
            StuckRow(
                r.id, r.object_type, r.object_uuid, r.operation, int((now - r.last_retried).total_seconds())
            )
            for r in rows
        ]

    def free(self, rows: Collection[StuckRow], older: int) -> int:
        """Have the driver send these rows again; returns how many were still stuck. Raises as `stuck`."""
        try:
            with self._connected() as connection, connection.begin():
                now = _now(connection)
                changed = connection.execute(
                    update(_JOURNAL)
                    .where(_stuck(now - timedelta(seconds=older)), _JOURNAL.c.id.in_([r.id for r in rows]))
                    .values(state=_PENDING, last_retried=func.now())
                )
                return changed.rowcount
        except SQLAlchemyError as error:
            raise self._error("set rows of sdn_journal to pending", error) from None

    def prune(self, older: int) -> int:
        """Remove rows that are `completed` for more than `older` seconds; returns how many. Raises as
        `stuck`."""
        try:
            with self._connected() as connection, connection.begin():
                before = _now(connection) - timedelta(seconds=older)
                done = and_(_JOURNAL.c.state == _COMPLETED, _JOURNAL.c.last_retried < before)
                return connection.execute(delete(_JOURNAL).where(done)).rowcount
        except SQLAlchemyError as error:
            raise self._error("remove completed rows of sdn_journal", error) from None

    @contextmanager
    def _connected(self) -> Generator[Connection]:
        """A connection to the database. Drivers get the URL's parameters when they connect, and may raise any exception
        for one that they reject."""
        try:
            connection = self._engine.connect()
        except (TypeError, ValueError, LookupError, AttributeError, OSError) as error:
            names = ", ".join(sorted(self._engine.url.query)) or "none"
            allowed = f"parameters with values that its driver takes ({type(error).__name__})"
            raise InputError("[database] connection, parameters", names, allowed) from None
        with connection:
            yield connection

    def _error(self, asked: str, error: SQLAlchemyError) -> UnknownError | PermanentError:
        seen = " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())[:300]
        url = self._engine.url.set(query={})  # the text of which may have a password, too
        of = f"Neutron's database {url.render_as_string(hide_password=True)}"
        missing = isinstance(error, ProgrammingError) or "no such table" in seen
        if missing and "sdn_journal" in seen:
            then = "create it: neutron-db-manage --subproject networking-mlnx upgrade head"
            return PermanentError(asked, of, seen, then)
        return UnknownError(asked, of, seen, "check the URL, the database and the rights of its user")


def _now(connection: Connection) -> datetime:
    """The database's time in its session's zone, without the zone, as `last_retried` is; PostgreSQL's has one."""
    return connection.execute(select(func.now())).scalar_one().replace(tzinfo=None)


def _stuck(before: object) -> ColumnElement[bool]:
    return and_(_JOURNAL.c.state == _PROCESSING, _JOURNAL.c.last_retried < before)
