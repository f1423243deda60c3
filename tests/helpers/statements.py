"""A database connection with hooks before and after statements: to kill the caller, or let others act first."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.engine.base.database import Database, Tx

Happens = Callable[[str, Mapping[str, Any]], object]
"""Called with the name of a statement and its values."""


def _nothing(name: str, values: Mapping[str, Any]) -> None:
    pass


class OnStatements(Database):
    """A separate pool of connections to the same database.

    Attributes:
        before, after: called before PostgreSQL gets a statement, and after it has answered; their exceptions reach
            the caller.
    """

    before: Happens = staticmethod(_nothing)
    after: Happens = staticmethod(_nothing)

    def once(self, statement: str, happens: Callable[[], object]) -> None:
        """Calls `happens` once, right before the next statement of this name."""

        def before(name: str, values: Mapping[str, Any]) -> None:
            if name == statement:
                self.before = _nothing
                happens()

        self.before = before

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        with super().transaction() as tx:
            yield _Watched(tx, self)

    @contextmanager
    def statement(self) -> Generator[Tx]:
        with super().statement() as tx:
            yield _Watched(tx, self)


class _Watched(Tx):
    def __init__(self, tx: Tx, database: OnStatements) -> None:
        super().__init__(tx._connection, tx._clock, tx.kept)  # pyright: ignore[reportPrivateUsage]
        self._database = database

    def _execute(self, name: str, values: Mapping[str, object]) -> Any:
        self._database.before(name, values)
        answer = super()._execute(name, values)
        self._database.after(name, values)
        return answer


@contextmanager
def on_statements(database: Database) -> Generator[OnStatements]:
    """A separate pool of connections to the database of `database`."""
    beside = OnStatements(database.url)
    beside.clock = database.clock
    try:
        yield beside
    finally:
        beside.close()
