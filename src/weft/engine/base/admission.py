"""Whether this process may still work with its database: a newer weft may have finished an upgrade meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
from psycopg.rows import DictRow, dict_row

from weft.engine.base.postgres import connecting, outside_error
from weft.engine.base.schema import enter
from weft.model.errors import OutdatedError

AGAIN = 5.0
"""Seconds after which a process that was refused looks again: an upgrade that can't be finished is withdrawn."""


class Admission:
    """Decides on each session when it begins. Thread-safe.

    Args:
        monotonic: this process's own clock, in seconds.

    Attributes:
        refused: why no session of this process may begin; None: they may.
    """

    def __init__(self, url: str, monotonic: Callable[[], float]) -> None:
        self._url, self._monotonic = url, monotonic
        self._lock, self._at = threading.Lock(), float("-inf")
        self.refused: OutdatedError | None = None

    def enter(self, connection: psycopg.Connection[DictRow]) -> None:
        """Begin a session. Raises `OutdatedError`."""
        try:
            enter(connection, self._url)
        except OutdatedError as error:
            self.refused, self._at = error, self._monotonic()
            raise

    def check(self) -> None:
        """Raise `OutdatedError` while sessions are refused, without waiting for one; look again now and then."""
        if self.refused is None:
            return
        with self._lock:
            if self._monotonic() - self._at >= AGAIN:
                self.refused = self._look()
            if self.refused is not None:
                raise self.refused

    def _look(self) -> OutdatedError | None:
        self._at = self._monotonic()
        settings = connecting(self._url)
        try:
            with psycopg.Connection[DictRow].connect(
                self._url, **settings, autocommit=True, row_factory=dict_row
            ) as one:
                enter(one, self._url)
        except OutdatedError as error:
            return error
        except psycopg.Error as error:
            raise outside_error(self._url, error) from error
        return None
