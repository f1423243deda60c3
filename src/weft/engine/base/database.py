"""PostgreSQL: connections, migrations, notifications. For a server of weft's own see `weft.engine.base.embedded`."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, LiteralString, TypeVar, cast
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from weft.engine.base.admission import Admission
from weft.engine.base.documents import write_version
from weft.engine.base.listener import EVENT, WORK, Notification, joined
from weft.engine.base.notifier import Notifier
from weft.engine.base.postgres import LOCK_TIMEOUT, address_of, connecting, outside_error
from weft.engine.base.schema import State, ends, enter, lives, migrate, state
from weft.engine.base.sql import queries
from weft.engine.base.ungated import Gated, Ungated
from weft.engine.base.unreadable import NEWER_WEFT
from weft.model.errors import PermanentError

log = logging.getLogger(__name__)

Row = dict[str, Any]
T = TypeVar("T")


class Tx:
    """One transaction: runs named queries.

    Args:
        clock: replaces PostgreSQL's time, in tests.
        kept: this process's cache between transactions, by key; it may be emptied at any time.
    """

    def __init__(
        self,
        connection: psycopg.Connection[DictRow],
        clock: Callable[[], datetime] | None = None,
        kept: dict[Any, Any] | None = None,
    ) -> None:
        self._connection = connection
        self.kept = {} if kept is None else kept
        self._clock = clock
        self._now: datetime | None = None

    @property
    def given(self) -> datetime | None:
        """Time for statements that would ask PostgreSQL themselves; None except in tests."""
        return self._clock() if self._clock else None

    def now(self) -> datetime:
        """The database's time at the first call, the same for the whole transaction; all decisions use it.

        Clocks of servers and workers differ; whatever is compared with a time in a row must come from one clock. With
        `lock_capacity`, call it after acquiring the lock, or the time is from before the wait.
        """
        if self._now is None:
            self._now = self._clock() if self._clock else self._time()
        return self._now

    def begin_at(self, at: datetime) -> datetime:
        """Take this transaction's time from the result of a statement of its own."""
        self._now = at
        return at

    def learn(self, at: datetime) -> datetime:
        """Take this transaction's time from another statement's result, unless it has one already."""
        if self._now is None:
            self._now = self._clock() if self._clock else at
        return self._now

    def _time(self) -> datetime:
        row = self.row("time")
        assert row is not None
        return row["at"]

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """All rows of a query."""
        return self._execute(name, values).fetchall()

    def all(self, kind: Callable[..., T], name: str, /, **values: object) -> list[T]:
        """All rows of a query, each as a `kind`, whose fields are the query's columns."""
        return [kind(**row) for row in self.rows(name, **values)]

    def one(self, kind: Callable[..., T], name: str, /, **values: object) -> T:
        """The row of a query that always has exactly one, as a `kind`."""
        (found,) = self.all(kind, name, **values)
        return found

    def rows_after(self, first: str, name: str, /, **values: object) -> list[Row]:
        """All rows of a query that runs after another one without values: sent together, in one round trip."""
        with self._connection.pipeline():
            self._execute(first, {})
            cursor = self._execute(name, values)
        return cursor.fetchall()

    def row(self, name: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        return self._execute(name, values).fetchone()

    def run(self, name: str, /, **values: object) -> int:
        """Run a statement; returns the number of affected rows."""
        return self._execute(name, values).rowcount

    def many(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Run a statement once per row, pipelined."""
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_statement(name), rows)
            # psycopg may end a pipeline with a Flush, after which PostgreSQL counts no idle time: a process that is
            # stopped then would keep its locks. Any statement sets that right.
            self._connection.execute("SELECT")

    def _execute(self, name: str, values: Mapping[str, object]) -> psycopg.Cursor[DictRow]:
        try:
            return self._connection.execute(_statement(name), values or None)
        except psycopg.errors.FeatureNotSupported:
            # A newer weft has added a column since the statement was prepared; within a transaction all of it failed.
            if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                raise
            self._connection.execute("DEALLOCATE ALL", prepare=False)
            return self._connection.execute(_statement(name), values or None)


def _statement(name: str) -> LiteralString:
    return cast(LiteralString, queries()[name])


class Statements(ABC):
    """Runs single named queries, each in a transaction of its own."""

    @abstractmethod
    def statement(self) -> AbstractContextManager[Tx]:
        """A context whose statements are transactions of their own: for reads, and writes of one statement."""
        ...

    def rows(self, name: str, /, **values: object) -> list[Row]:
        """As `Tx.rows`, in a transaction of its own."""
        with self.statement() as tx:
            return tx.rows(name, **values)

    def all(self, kind: Callable[..., T], name: str, /, **values: object) -> list[T]:
        """As `Tx.all`, in a transaction of its own."""
        with self.statement() as tx:
            return tx.all(kind, name, **values)

    def one(self, kind: Callable[..., T], name: str, /, **values: object) -> T:
        """As `Tx.one`, in a transaction of its own."""
        with self.statement() as tx:
            return tx.one(kind, name, **values)

    def row(self, name: str, /, **values: object) -> Row | None:
        """As `Tx.row`, in a transaction of its own."""
        with self.statement() as tx:
            return tx.row(name, **values)

    def run(self, name: str, /, **values: object) -> int:
        with self.statement() as tx:
            return tx.run(name, **values)


class Database(Statements):
    """A connection pool of one PostgreSQL; the schema is migrated at startup.

    Args:
        url: `postgresql://…`; see `embedded` for a server of weft's own.
        connections: maximum connections of this process.

    Attributes:
        clock: replaces PostgreSQL's time; only tests set it.
        monotonic: this process's own clock, in seconds; only tests set another.
        gate: decides whether anything outside may be changed on the basis of this database.
        losses: how often a connection was lost, or led to another server than the one before (a failover).
    """

    def __init__(self, url: str, connections: int = 16) -> None:
        self.url = url
        self.clock: Callable[[], datetime] | None = None
        self.monotonic: Callable[[], float] = time.monotonic
        self._kept: dict[Any, Any] = {}
        self._placing = threading.Lock()
        self.gate: Gated = Ungated()
        self.losses = 0
        self._server: tuple[Any, ...] | None = None
        self._admission = Admission(url, time.monotonic)
        settings = connecting(url)
        try:
            self._migrate(settings)  # first: the pool would retry silently
            self._pool = ConnectionPool(
                url,
                min_size=1,
                max_size=connections,
                # Transactions begin explicitly: a single statement then costs one round trip, not three. There are few
                # statements, and each costs more to plan than to run.
                kwargs={**settings, "row_factory": dict_row, "autocommit": True, "prepare_threshold": 1},
                connection_class=psycopg.Connection[DictRow],
                configure=self._connected,
                open=True,
                timeout=10,
            )
            self._pool.wait(timeout=10)
        except (psycopg.Error, PoolTimeout) as error:
            raise PermanentError(
                "connect to the database",
                address_of(url),
                str(error).strip(),
                "check --database and that it runs",
            ) from error
        self._notifier = Notifier(self._send)

    def close(self) -> None:
        self._notifier.close()
        self._pool.close()

    def notify(self, owner_id: UUID) -> None:
        """Notify followers of an owner soon of events that a finished transaction has written."""
        self._notifier.notify((EVENT, str(owner_id)))

    def notify_workers(self) -> None:
        """Notify workers that a finished transaction has made an owner due, which no trigger does here."""
        self._notifier.notify((WORK, ""))

    def wait_until_notified(self) -> None:
        """Wait until no notification is left to send."""
        self._notifier.wait()

    def _send(self, notifications: Sequence[Notification]) -> None:
        with self.statement() as tx:
            tx.rows("send_notifications", notifications=Jsonb(joined(notifications)))

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        """A transaction. Raises `TemporaryError` or `PermanentError` for database errors."""
        with self._connection() as connection, connection.transaction():
            yield Tx(connection, self.clock, self._kept)

    @contextmanager
    def placing(self, lock: bool = True) -> Generator[Tx]:
        """A transaction that holds `lock_capacity`, one at a time in this process, so that waiting threads take no
        connections from others, and the same few connections run the same statements.

        Args:
            lock: False: the caller's first statement takes the lock.
        """
        if not self._placing.acquire(timeout=LOCK_TIMEOUT):
            raise outside_error(self.url, psycopg.errors.LockNotAvailable("other orders are being placed"))
        try:
            with self.transaction() as tx:
                if lock:
                    tx.row("lock_capacity")
                yield tx
        finally:
            self._placing.release()

    @contextmanager
    def statement(self) -> Generator[Tx]:
        """Like `transaction`, but each statement is a transaction of its own: for reads, and writes of one statement.

        Nothing is lost by it: under READ COMMITTED each statement of a transaction sees what is committed by then.
        """
        with self._connection() as connection:
            yield Tx(connection, self.clock, self._kept)

    @contextmanager
    def _connection(self) -> Generator[psycopg.Connection[DictRow]]:
        self._admission.check()
        try:
            with self._pool.connection() as connection:
                try:
                    yield connection
                except psycopg.errors.ReadOnlySqlTransaction:
                    connection.close()  # after a failover the next connection may find the new primary
                    raise
                except psycopg.errors.FeatureNotSupported:
                    connection.close()  # its prepared statements are older than a migration
                    raise
                except psycopg.IntegrityError:
                    self.forget()  # the decision may rest on a wrong cache
                    raise
                finally:
                    if connection.closed:  # the next connection may lead to another server
                        self.losses += 1
                        self.forget()
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            if self._admission.refused is not None:
                raise self._admission.refused from error
            raise outside_error(self.url, error) from error

    def learn_versions(self, process: str, role: str) -> State:
        """Record a heartbeat of this process, and read how far the database is, and which versions of weft work with
        it: documents are written accordingly from then on.

        Args:
            process: its name; role: `server` or `worker`.
        """
        with self._connection() as connection:
            lives(connection, process, role)
            found = state(connection)
        self._learn(found)
        return found

    def sign_off(self, process: str) -> None:
        """Record that this process ends in order."""
        with self._connection() as connection:
            ends(connection, process)

    @staticmethod
    def _learn(found: State) -> None:
        write_version(found.documents)
        (NEWER_WEFT.set if found.newer_weft else NEWER_WEFT.clear)()

    def _connected(self, connection: psycopg.Connection[DictRow]) -> None:
        """Check whether a new connection leads to another server than the last one."""
        self._admission.enter(connection)
        row = connection.execute(_statement("server")).fetchone()
        assert row is not None
        server = tuple(row.values())
        if self._server not in (None, server):
            self.losses += 1
            self.forget()
        self._server = server

    def forget(self) -> None:
        """Empty the cache between transactions; one that is under way keeps its own."""
        self._kept = {}

    def now(self) -> datetime:
        """The database's time; inside a transaction use `Tx.now`."""
        with self.statement() as tx:
            return tx.now()

    def _migrate(self, settings: Mapping[str, Any]) -> None:
        with psycopg.Connection[DictRow].connect(
            self.url, **settings, autocommit=True, row_factory=dict_row
        ) as connection:
            try:
                found = migrate(connection, self.url)
                enter(connection, self.url)  # an upgrade may be about to be finished
            except psycopg.Error as error:
                raise PermanentError(
                    "bring the database's schema up to date",
                    address_of(self.url),
                    str(error).strip(),
                    "nothing was changed; fix the cause and start weft again",
                ) from error
        self._learn(found)
        if found.newer:
            log.info(
                "a newer weft has migrated the database (%s): this version goes on beside it", found.newer[-1]
            )
