"""The controller's state in one SQLite file.

Every change is one transaction, fully synchronised to disk with a rollback journal: after ``kill -9`` at
any point the file holds the state before or after the change, never a half. One process holds the file
at a time (an exclusive lock that the kernel drops with the process).

Each row carries a digest of itself, and one row the sum of all the others' digests: a file that its disk damaged is
refused, whatever the damage made of it, and never read as another state. Digests are no signatures: programs that may
write the file may write any state.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from openvipu.model.codec import decode, encode
from openvipu.model.errors import StateError
from openvipu.model.partition import Partition, RemovedPartition
from openvipu.model.site import Agent, Allocation, Cluster, User
from openvipu.model.state import Settings, State

KINDS: Mapping[str, type] = MappingProxyType(
    {
        "agents": Agent,
        "clusters": Cluster,
        "allocations": Allocation,
        "users": User,
        "partitions": Partition,
        "removed": RemovedPartition,
    }
)
VERSION = 2
"""Layout of the file. Digests are added to a file of layout 1 when it is opened; other layouts are refused."""

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE thing (kind TEXT, id TEXT, body TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (kind, id))",
)
TABLES_1 = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE thing (kind TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, id))",
)

SUM = "sum"
"""The row of ``meta`` with the sum of all other rows' digests."""

StoredRow = tuple[str, str, str]
"""Kind ("meta" for the table of that name), id and body."""
Digests = dict[tuple[str, str], int]
"""Digests of all rows by kind and id, but that of their sum."""

Step = Callable[[str], None]
"""Called with the name of each step; the crash tests kill the process in it."""


class Store:
    """The state file, open."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, state: State, digests: Digests, step: Step
    ) -> None:
        self.path = path
        self.state = state
        self._digests = digests
        self._connection = connection
        self._step = step

    @classmethod
    def create(cls, path: Path, settings: Settings, generation: int = 0) -> None:
        """Make a new file (mode 0600); StateError if there is one already. ``generation``: see :class:`State`."""
        if path.exists():
            raise StateError(f"state file {path} exists already; remove it to start from nothing")
        unfinished = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.unlink(missing_ok=True)
            unfinished.touch(mode=0o600)
            cls._fill(unfinished, settings, generation)
            unfinished.rename(path)
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"state file {path} can't be made: {error}") from None

    @staticmethod
    def _fill(path: Path, settings: Settings, generation: int) -> None:
        connection = _connect(path)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for table in TABLES:
                connection.execute(table)
            digests: Digests = {}
            meta = {"version": VERSION, "settings": encode(settings), "generation": generation}
            _put(connection, [("meta", key, json.dumps(body)) for key, body in meta.items()], digests)
        connection.close()

    @classmethod
    def open(cls, path: Path, step: Step = lambda _: None) -> Store:
        """Open and read the file; StateError with one sentence if it isn't there, locked or damaged."""
        if not path.exists():
            raise StateError(f"state file {path} doesn't exist; make it with --init")
        try:
            connection = _connect(path)
            state, digests = _read_or_close(connection, str(path))
        except sqlite3.OperationalError as error:
            raise StateError(f"state file {path} can't be used: {error}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # SQLite's own words may quote bytes of a damaged file that aren't text
            raise StateError(f"state file {path} is damaged: {error}") from None
        return cls(path, connection, state, digests, step)

    def save(self, new: State) -> None:
        """Write the difference to ``new`` in one transaction, then make it the current state."""
        self._step("before-transaction")
        digests = dict(self._digests)
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                rows: list[StoredRow] = []
                if new.generation != self.state.generation:
                    rows.append(("meta", "generation", json.dumps(new.generation)))
                for kind in KINDS:
                    rows += self._changes(kind, getattr(self.state, kind), getattr(new, kind), digests)
                _put(self._connection, rows, digests)
                self._step("in-transaction")
        except sqlite3.Error as error:
            raise StateError(f"state file {self.path} can't be written: {error}") from None
        self._step("after-transaction")
        self.state, self._digests = new, digests

    def close(self) -> None:
        self._connection.close()

    def _changes(
        self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any], digests: Digests
    ) -> list[StoredRow]:
        """The rows to be written; what is gone is deleted here, in ``digests`` too."""
        if old is new:
            return []
        gone = [(kind, id_) for id_ in old if id_ not in new]
        self._connection.executemany("DELETE FROM thing WHERE kind = ? AND id = ?", gone)
        for key in gone:
            del digests[key]
        return [
            (kind, id_, json.dumps(encode(value))) for id_, value in new.items() if old.get(id_) is not value
        ]


def _digest(row: StoredRow) -> str:
    """Hex SHA-256 of a row; JSON keeps its parts apart."""
    return hashlib.sha256(json.dumps(row).encode()).hexdigest()


def _total(digests: Iterable[int]) -> str:
    """The sum of digests: it doesn't depend on their order, and shows a row that is missing."""
    return f"{sum(digests) % (1 << 256):064x}"


def _put(connection: sqlite3.Connection, rows: Iterable[StoredRow], digests: Digests) -> None:
    """Write these rows, and the sum of all digests."""
    for row in rows:
        _write(connection, row)
        digests[row[:2]] = int(_digest(row), 16)
    _write(connection, ("meta", SUM, json.dumps(_total(digests.values()))))


def _write(connection: sqlite3.Connection, row: StoredRow) -> None:
    if row[0] == "meta":
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (*row[1:], _digest(row)))
    else:
        connection.execute("INSERT OR REPLACE INTO thing VALUES (?, ?, ?, ?)", (*row, _digest(row)))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError):
        connection.close()
        raise
    return connection


def _read_or_close(connection: sqlite3.Connection, where: str) -> tuple[State, Digests]:
    try:
        _check_database(connection, where)
        return _read(connection, where)
    except BaseException:
        connection.close()
        raise


def _check_database(connection: sqlite3.Connection, where: str) -> None:
    """SQLite's own check, then the tables as they were made; a file of layout 1 becomes one of this layout."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise StateError(f"state file {where} is damaged: {str(found)[:200]!r}")
    order = "SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY name"
    tables = tuple(sql for (sql,) in connection.execute(order))
    if tables == TABLES_1:
        _add_digests(connection, where)
    elif tables != TABLES:
        raise StateError(f"state file {where} is damaged: its tables are not those of layout {VERSION}")


def _add_digests(connection: sqlite3.Connection, where: str) -> None:
    """From layout 1, in one transaction: what can't be read as a state there is refused before anything is changed."""
    meta = dict(connection.execute("SELECT key, body FROM meta"))
    things = list(connection.execute("SELECT kind, id, body FROM thing ORDER BY rowid"))
    if meta.get("version") != "1":
        raise StateError(f"{where}: layout {meta.get('version')!r} is not the 1 of its tables")
    _state_of({str(key): _json(body, f"{where}: {key}") for key, body in meta.items()}, things, where)
    meta["version"] = json.dumps(VERSION)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for name, table in zip(("meta", "thing"), TABLES, strict=True):
            connection.execute(f"DROP TABLE {name}")
            connection.execute(table)
        _put(connection, [*(("meta", key, body) for key, body in meta.items()), *things], {})


_EVERY_ROW = """
    SELECT kind, id, body, digest FROM (SELECT 'meta' AS kind, key AS id, body, digest, rowid AS place FROM meta
    UNION ALL SELECT kind, id, body, digest, rowid FROM thing) ORDER BY place
"""


def _read(connection: sqlite3.Connection, where: str) -> tuple[State, Digests]:
    rows: list[StoredRow] = []
    digests: Digests = {}
    meta: dict[str, Any] = {}
    for kind, id_, body, digest in connection.execute(_EVERY_ROW):
        row = (kind, id_, body)
        if not all(isinstance(part, str) for part in row) or _digest(row) != digest:
            raise StateError(f"{where}: {str(kind)[:20]} {str(id_)[:140]!r} doesn't fit its digest")
        digests[kind, id_] = int(digest, 16)
        if kind == "meta":
            meta[id_] = _json(body, f"{where}: {id_}")
        else:
            rows.append(row)
    if meta.get("version") != VERSION:
        raise StateError(f"{where}: layout {meta.get('version')!r} is not the {VERSION} of this program")
    digests.pop(("meta", SUM), None)
    if meta.get(SUM) != _total(digests.values()):
        raise StateError(f"{where}: rows are missing, or are of another time than the rest")
    return _state_of(meta, rows, where), digests


def _state_of(meta: Mapping[str, Any], rows: Iterable[StoredRow], where: str) -> State:
    generation = meta.get("generation")
    if not isinstance(generation, int) or isinstance(generation, bool) or generation < 0:
        raise StateError(f"{where}: generation must be a whole number, found {generation!r}")
    things: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for kind, id_, body in rows:
        if kind not in KINDS:
            raise StateError(f"{where}: unknown kind {kind!r}")
        value = decode(KINDS[kind], _json(body, f"{where}: {kind} {id_!r}"), f"{where}: {kind} {id_!r}")
        if getattr(value, fields(KINDS[kind])[0].name) != id_:
            raise StateError(f"{where}: {kind} {id_!r} has another id inside")
        things[kind][str(id_)] = value
    settings = decode(Settings, meta.get("settings"), f"{where}: settings")
    frozen = {kind: MappingProxyType(entries) for kind, entries in things.items()}
    state = State(settings=settings, generation=generation, **frozen)
    check_consistency(state, where)
    return state


def check_consistency(state: State, where: str) -> None:
    """Every name in the state must lead somewhere; StateError names the first that doesn't."""
    for cluster in state.clusters.values():
        _all_known(cluster.agent_ids, state.agents, f"{where}: cluster {cluster.id!r}")
        if cluster.ilds < 1 or not cluster.agent_ids or len(cluster.agent_ids) % cluster.ilds:
            raise StateError(f"{where}: cluster {cluster.id!r} has no whole IPU-Link domains")
    for allocation in state.allocations.values():
        _all_known((allocation.cluster_id,), state.clusters, f"{where}: allocation {allocation.id!r}")
        _all_known(allocation.agent_ids, state.agents, f"{where}: allocation {allocation.id!r}")
    for partition in state.partitions.values():
        here = f"{where}: partition {partition.id!r}"
        _all_known((partition.cluster_id,), state.clusters, here)
        _all_known(partition.agent_ids, state.agents, here)
        if partition.allocation_id:
            _all_known((partition.allocation_id,), state.allocations, here)
        if (
            len(partition.ipus) != partition.shape.size
            or min(partition.shape.segments, partition.shape.gcds) < 1
        ):
            raise StateError(f"{here}: its IPUs are not those of its size")


def _all_known(names: tuple[str, ...], known: Mapping[str, Any], where: str) -> None:
    for name in names:
        if name not in known:
            raise StateError(f"{where} names {name!r}, which doesn't exist")


def _json(body: Any, where: str) -> Any:
    try:
        return json.loads(body)
    except (TypeError, ValueError, RecursionError):
        raise StateError(f"{where}: the text is not JSON") from None
