"""Secrets that weft keeps in the database, encrypted if there are keys for that."""

from __future__ import annotations

from weft.engine.base.database import Database, Tx
from weft.engine.base.sealing import Seal


class Secrets:
    """Reads and writes secrets by name."""

    def __init__(self, database: Database, seal: Seal) -> None:
        self._database, self._seal = database, seal

    def of(self, name: str, first: bytes) -> bytes:
        """A secret kept in the database; `first` is stored if there is none yet. Raises `InputError` if it is encrypted
        and no key opens it."""
        with self._database.transaction() as tx:
            return self.of_in(tx, name, first)

    def of_in(self, tx: Tx, name: str, first: bytes) -> bytes:
        """As `of`, in a transaction of the caller."""
        if (row := tx.row("secret", name=name)) is None:
            seal = self._seal.newest()  # the process's first key may be gone from the file by now
            tx.run("insert_secret", name=name, value=seal.close(name, first), sealed=seal.seals)
            row = tx.row("secret", name=name)
        assert row is not None
        return self._seal.open(name, bytes(row["value"]), row["sealed"])

    def known(self, name: str) -> bytes | None:
        """A secret that is kept in the database; None: it isn't. Raises as `of`."""
        row = self._database.row("secret", name=name)
        return self._seal.open(name, bytes(row["value"]), row["sealed"]) if row else None

    def check(self) -> int:
        """Raise `InputError` unless the keys open all secrets; returns how many aren't encrypted."""
        rows = self._database.rows("secrets")
        for row in rows:
            self._seal.open(row["name"], bytes(row["value"]), row["sealed"])
        return sum(not row["sealed"] for row in rows)
