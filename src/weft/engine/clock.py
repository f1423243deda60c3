"""The machine's own time, and the database's."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from weft.engine.database import Database
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
    """The time is the database's, whatever this machine's clock says; pauses are measured here.

    Asks the database at each `now`: inside a transaction use `Tx.now`.
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
