"""Released owners, page by page: a large site may have any number of them in a day, and none is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from weft.engine.base.database import Database, Row
from weft.engine.base.postgres import FIRST, LAST
from weft.engine.base.unreadable import UnreadableError
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord

PAGE = 200
"""Rows read at once; a pod's contains its plan."""
R = TypeVar("R")
_LOWEST, _HIGHEST = UUID(int=0), UUID(int=(1 << 128) - 1)


def released_pods(database: Database, since: datetime) -> Iterator[PodRecord]:
    """Pods that had anything outside and were released since then, the last one first; without unreadable rows."""
    return _pages(database, "pods_released_since", PodRecord.of, LAST, _HIGHEST, since=since)


def released_owners(database: Database, since: datetime) -> Iterator[OwnerRecord]:
    """As `released_pods`, for owners other than pods."""
    return _pages(database, "owners_released_since", OwnerRecord.of, LAST, _HIGHEST, since=since)


def released_pods_with_numbers(database: Database) -> Iterator[PodRecord]:
    """Abandoned pods with numbers that have not been seen free since; the first one first."""
    return _pages(database, "released_pods_with_numbers", PodRecord.of, FIRST, _LOWEST)


def released_owners_with_numbers(database: Database) -> Iterator[OwnerRecord]:
    """The same for owners other than pods."""
    return _pages(database, "released_owners_with_numbers", OwnerRecord.of, FIRST, _LOWEST)


def _pages(
    database: Database, name: str, read: Callable[[Row], R], at: datetime, last: UUID, **values: object
) -> Iterator[R]:
    """All rows, page by page. Args: at, last: time and id of the row before the first one."""
    while True:
        rows = database.rows(name, at=at, last=last, limit=PAGE, **values)
        for row in rows:
            try:
                yield read(row)
            except UnreadableError:
                continue  # the worker has parked it, and reports it
        if len(rows) < PAGE:
            return
        at, last = rows[-1]["released_at"], rows[-1]["id"]
