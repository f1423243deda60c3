"""The controller's state in one SQLite file.

Every change is one transaction, fully synchronised to disk with a rollback journal: after ``kill -9`` at
any point the file holds the state before or after the change, never a half. One process holds the file
at a time (an exclusive lock that the kernel drops with the process).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from openvipu.model.codec import decode, encode
from openvipu.model.errors import StateError
from openvipu.model.partition import Partition
from openvipu.model.site import Agent, Allocation, Cluster, User
from openvipu.model.state import Settings, State

KINDS: Mapping[str, type] = MappingProxyType(
    {
        "agents": Agent,
        "clusters": Cluster,
        "allocations": Allocation,
        "users": User,
        "partitions": Partition,
    }
)
VERSION = 1
"""Layout of the file. A file of another layout is refused."""

Step = Callable[[str], None]
"""Called with the name of each step; the crash tests kill the process in it."""


class Store:
    """The state file, open."""

    def __init__(self, path: Path, connection: sqlite3.Connection, state: State, step: Step) -> None:
        self.path = path
        self.state = state
        self._connection = connection
        self._step = step

    @classmethod
    def create(cls, path: Path, settings: Settings) -> None:
        """Make a new file (mode 0600); StateError if there is one already."""
        if path.exists():
            raise StateError(f"state file {path} exists already; remove it to start from nothing")
        unfinished = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.unlink(missing_ok=True)
            unfinished.touch(mode=0o600)
            cls._fill(unfinished, settings)
            unfinished.rename(path)
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"state file {path} can't be made: {error}") from None

    @staticmethod
    def _fill(path: Path, settings: Settings) -> None:
        connection = _connect(path)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, body TEXT NOT NULL)")
            connection.execute(
                "CREATE TABLE thing (kind TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, id))"
            )
            rows = {"version": VERSION, "settings": encode(settings), "generation": 0}
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)", [(key, json.dumps(body)) for key, body in rows.items()]
            )
        connection.close()

    @classmethod
    def open(cls, path: Path, step: Step = lambda _: None) -> Store:
        """Open and read the file; StateError with one sentence if it isn't there, locked or damaged."""
        if not path.exists():
            raise StateError(f"state file {path} doesn't exist; make it with --init")
        try:
            connection = _connect(path)
            state = _read_or_close(connection, str(path))
        except sqlite3.OperationalError as error:
            raise StateError(f"state file {path} can't be used: {error}") from None
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # SQLite's own words may quote bytes of a damaged file that are no text
            raise StateError(f"state file {path} is damaged: {error}") from None
        return cls(path, connection, state, step)

    def save(self, new: State) -> None:
        """Write the difference to ``new`` in one transaction, then make it the current state."""
        self._step("before-transaction")
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                if new.generation != self.state.generation:
                    self._put_meta("generation", new.generation)
                for kind in KINDS:
                    self._save_kind(kind, getattr(self.state, kind), getattr(new, kind))
                self._step("in-transaction")
        except sqlite3.Error as error:
            raise StateError(f"state file {self.path} can't be written: {error}") from None
        self._step("after-transaction")
        self.state = new

    def close(self) -> None:
        self._connection.close()

    def _save_kind(self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        if old is new:
            return
        gone = [(kind, id_) for id_ in old if id_ not in new]
        changed = [
            (kind, id_, json.dumps(encode(value))) for id_, value in new.items() if old.get(id_) is not value
        ]
        self._connection.executemany("DELETE FROM thing WHERE kind = ? AND id = ?", gone)
        self._connection.executemany("INSERT OR REPLACE INTO thing VALUES (?, ?, ?)", changed)

    def _put_meta(self, key: str, body: Any) -> None:
        self._connection.execute("UPDATE meta SET body = ? WHERE key = ?", (json.dumps(body), key))


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


def _read_or_close(connection: sqlite3.Connection, where: str) -> State:
    try:
        return _read(connection, where)
    except BaseException:
        connection.close()
        raise


def _read(connection: sqlite3.Connection, where: str) -> State:
    meta = {
        str(key): _json(body, f"{where}: {key}")
        for key, body in connection.execute("SELECT key, body FROM meta")
    }
    if meta.get("version") != VERSION:
        raise StateError(f"{where}: layout {meta.get('version')!r} is not the {VERSION} of this program")
    generation = meta.get("generation")
    if not isinstance(generation, int) or isinstance(generation, bool) or generation < 0:
        raise StateError(f"{where}: generation must be a whole number, found {generation!r}")
    things: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for kind, id_, body in connection.execute("SELECT kind, id, body FROM thing ORDER BY rowid"):
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
