"""How weft connects to PostgreSQL: waits are bounded, out-of-range times readable, errors mapped to weft's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from socket import gethostname
from typing import Any
from uuid import UUID

import psycopg
import psycopg.conninfo
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_dumps
from psycopg_pool import PoolClosed, PoolTimeout
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from weft.model.errors import OutsideError, PermanentError, TemporaryError
from weft.model.messages import outside
from weft.model.storable import storable

LOCK_TIMEOUT = 10
"""Seconds for which a statement waits for a lock."""
SESSION = {
    "timezone": "UTC",
    "lock_timeout": f"{LOCK_TIMEOUT}s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "120s",
}
"""For each connection; `options` in the operator's URL win. Waiting for a lock (`lock_capacity` too) fails after 10 s
with a request to retry; a worker that stalls inside a transaction loses it, and its locks, after two minutes."""

TCP = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""A peer that is silently gone is noticed after a minute (libpq's parameters, seconds; the last in milliseconds)."""

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Values for times in the database that Python can't represent: one row must not make all others unreadable."""

_BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected, errors.SerializationFailure)
_OURS = (psycopg.DataError, psycopg.IntegrityError)


class _BoundedTime(Loader):
    def load(self, data: Buffer) -> datetime:
        try:  # nearly all times; three times as fast as parsing by a pattern
            return datetime.fromisoformat(str(data, "ascii"))
        except ValueError:
            return self._load_slowly(data)

    def _load_slowly(self, data: Buffer) -> datetime:
        try:
            # Made only here: it looks for the session's time zone, for each column of each result.
            return TimestamptzLoader(self.oid, self.connection).load(data)
        except (psycopg.DataError, OverflowError, ValueError):
            return _beyond(bytes(data).decode())


def time_in_json(text: str) -> datetime:
    """A timestamptz in a JSON document made by PostgreSQL."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return _beyond(text)


def timed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in such a document, with its times and its pod's id converted."""
    return {k: read(v) if v is not None and (read := _READ.get(k)) else v for k, v in row.items()}


def _beyond(text: str) -> datetime:
    return FIRST if text.startswith("-") or text.endswith("BC") else LAST


_TIMES = ("at", "since", "until_at", "tests_from", "start_at", "end_at", "created_at")
_READ: Mapping[str, Callable[[str], Any]] = {**dict.fromkeys(_TIMES, time_in_json), "pod_id": UUID}


class Stored(dict[str, Any]):
    """A JSON object with its text as it came from the database, the key of the cache in
    `weft.engine.base.documents`."""

    __slots__ = ("text",)
    text: bytes


def stored(text: bytes | str) -> Any:
    """The JSON value of a text, as a row has it."""
    # Documents are most of what is read; this parser takes half as long as Python's.
    value = from_json(text)
    if not isinstance(value, dict):
        return value
    found = Stored(value)
    found.text = text if isinstance(text, bytes) else text.encode()
    return found


class _StoredLoader(Loader):
    def load(self, data: Buffer) -> Any:
        text = bytes(data)
        if text == b"[]":  # the value of most lists in rows
            return []
        return {} if text == b"{}" else stored(text)


def storable_json(value: Any) -> bytes:
    """JSON for PostgreSQL: with text as it can hold it."""
    try:
        text = to_json(value)
    except PydanticSerializationError:  # half of a surrogate pair, or no JSON at all
        text = None
    if text is not None and rb"\u0000" not in text:
        return text
    return to_json(storable(to_jsonable_python(value)))  # models and sets contain text, too


def connecting(url: str) -> dict[str, Any]:
    """Arguments of `psycopg.connect` besides the URL; what the URL itself says wins."""
    given: dict[str, Any] = {}
    with suppress(psycopg.Error):
        given = psycopg.conninfo.conninfo_to_dict(url)
    own = " ".join(f"-c {name}={value}" for name, value in SESSION.items())
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_loader("timestamptz", _BoundedTime)
    adapters.register_loader("jsonb", _StoredLoader)
    set_json_dumps(storable_json, _Context(adapters))
    return {
        **{name: value for name, value in TCP.items() if name not in given},
        "application_name": given.get("application_name") or f"weft {gethostname()[:40]}/{os.getpid()}",
        "options": f"{own} {given.get('options') or ''}".strip(),
        "context": _Context(adapters),
    }


class _Context:
    """psycopg's `AdaptContext`, for connections that don't exist yet."""

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters
        self.connection = None


def address_of(url: str) -> str:
    """The address without its password."""
    with suppress(psycopg.Error):
        parts = psycopg.conninfo.conninfo_to_dict(url)
        return outside.DATABASE(address=f"{parts.get('host', 'local socket')}/{parts.get('dbname', '')}")
    return outside.DATABASE()


def outside_error(url: str, error: Exception) -> OutsideError:
    """An exception of psycopg or its pool as one of weft's errors.

    Nearly all of them pass: a failover, a full disk, a lock held by others, a schema that an upgrade is changing. Only
    values that the database refuses need a correction in weft.
    """
    of, answer = address_of(url), _sentence(error)
    if isinstance(error, PoolTimeout):
        then = "will be retried; raise the number of connections if this persists"
        return TemporaryError(outside.TALK_TO_DATABASE(), of, outside.NO_CONNECTION(text=answer), then, 2.0)
    if isinstance(error, PoolClosed):
        return TemporaryError(outside.TALK_TO_DATABASE(), of, "weft is shutting down", delay=2.0)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        then = "will be retried; let --database name the primary (target_session_attrs=read-write)"
        return TemporaryError(outside.WRITE_TO_DATABASE(), of, outside.READ_ONLY(text=answer), then, 5.0)
    if isinstance(error, _BUSY):
        return TemporaryError(outside.TALK_TO_DATABASE(), of, outside.LOCKED(text=answer), delay=2.0)
    if isinstance(error, errors.DiskFull | errors.OutOfMemory | errors.InsufficientResources):
        then = "will be retried; free disk space"
        return TemporaryError(outside.WRITE_TO_DATABASE(), of, answer, then, 30.0)
    if isinstance(error, _OURS):
        then = "nothing was written; please report it with the log"
        return PermanentError(outside.WRITE_TO_DATABASE(), of, answer, then)
    return TemporaryError(outside.TALK_TO_DATABASE(), of, answer, delay=2.0)


def _sentence(error: Exception) -> str:
    """The first line: the rest may quote a whole row."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
