"""`weft upgrade`: how far a database's upgrade is, and its second half; without the API, on weft's host."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow, dict_row

from weft.app.backups import database_url
from weft.app.settings import ServeSettings
from weft.engine.base import schema
from weft.engine.base.postgres import address_of, connecting, outside_error
from weft.model.errors import ConflictError
from weft.model.messages import outside


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How far it is.

    Attributes:
        processes: those at work; `older` of them know fewer after-halves than this version.
    """

    state: schema.State
    processes: tuple[schema.Process, ...]

    @property
    def older(self) -> tuple[schema.Process, ...]:
        return tuple(one for one in self.processes if one.halves < schema.known_after())


def look(settings: ServeSettings) -> Upgrade:
    """Read it; nothing is changed. Raises `ConflictError` for a database without this version's tables, and
    `OutsideError`."""
    with _session(settings) as (connection, url):
        found = connection.execute("SELECT to_regclass('version_seen') AS it").fetchone()
        if found is None or found["it"] is None:
            raise ConflictError(outside.NO_VERSIONS_YET(database=address_of(url)))
        return Upgrade(schema.state(connection), tuple(schema.processes(connection)))


def finish(settings: ServeSettings) -> tuple[str, ...]:
    """Make the after-halves; returns their names. Raises `ConflictError`, `OutsideError`; see `schema.finish`."""
    with _session(settings) as (connection, url):
        return schema.finish(connection, url)


@contextmanager
def _session(settings: ServeSettings) -> Generator[tuple[psycopg.Connection[DictRow], str]]:
    with database_url(settings, made=False) as url:
        try:
            with psycopg.Connection[DictRow].connect(
                url, **connecting(url), autocommit=True, row_factory=dict_row
            ) as connection:
                yield connection, url
        except psycopg.Error as error:
            raise outside_error(url, error) from error
