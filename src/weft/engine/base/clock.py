"""The local clock, and the database's."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from weft.engine.base.database import Database
from weft.ports.clock import Clock


class SystemClock:
    """See `weft.ports.clock.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class DatabaseClock:
    """The time is the database's, whatever the local clock says; pauses are measured locally.

    Each `now` queries the database: inside a transaction use `Tx.now`.
    """

    def __init__(self, database: Database, pauses: Clock | None = None) -> None:
        self._database = database
        self._pauses: Clock = pauses or SystemClock()

    def now(self) -> datetime:
        return self._database.now()

    def monotonic(self) -> float:
        return self._pauses.monotonic()

    def sleep(self, seconds: float) -> None:
        self._pauses.sleep(seconds)
