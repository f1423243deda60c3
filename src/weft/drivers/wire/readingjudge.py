"""Whether a reading of the fabric is credible: an agent that sees nothing finds no key anywhere, which doesn't prove
that a fabric is clean.

Each reading contains its own proof. Every port has the default partition's key (OpenSM adds it to all and removes it
from none), the manager's own port is a full member of it, and ports that responded a moment ago do not all vanish at
once. A table without that key was not really read; a reading without the rest is unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from weft.model.agentapi import Paths, PortReading, Tables
from weft.model.errors import UnknownError
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid

EMPTY = (
    "its table was read without the default partition's key, which every port has: the reading is discarded"
)
AGAIN_SECONDS = 1.0
"""The loss of many ports is only accepted if a second reading, at least this much later, confirms it."""
_FEW = 2


class ReadingJudge:
    """Judges readings of one fabric. Thread-safe.

    Args:
        ports: port GUIDs that the site describes on it.
    """

    def __init__(
        self, fabric: str, ports: frozenset[int], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fabric, self._ports, self._monotonic = fabric, ports, monotonic
        self._lock = threading.Lock()
        self._last: frozenset[int] = frozenset()
        self._doubt: tuple[float, frozenset[int]] | None = None

    def some(self, tables: Tables, asked: Sequence[int], by: str) -> Tables:
        """The tables of the requested ports. Raises `UnknownError` if they are for others."""
        if sorted(p.port_guid for p in tables.ports) != sorted(set(asked)):
            raise self._unknown(
                by, f"{len(tables.ports)} tables, and not those of the {len(asked)} ports asked for"
            )
        return _believed(tables)

    def all(self, tables: Tables, by: str) -> Tables:
        """The tables of every host port. Raises `UnknownError` if the reading isn't credible."""
        tables = _believed(tables)
        ports = {p.port_guid: p for p in tables.ports}
        read = frozenset(g for g, p in ports.items() if not p.unreachable)
        if len(ports) != len(tables.ports):
            raise self._unknown(by, "the table of one port twice")
        own = ports.get(tables.own_port or 0)
        if own is None or own.unreachable or DEFAULT_PKEY | FULL_MEMBER not in own.keys:
            name = format_guid(tables.own_port) if tables.own_port else "not named"
            raise self._unknown(
                by, f"its own port ({name}) is not among them as full member of the default partition"
            )
        if self._ports and not read & self._ports:
            raise self._unknown(by, f"none of the {len(self._ports)} ports that the site describes")
        self._check_not_fewer(read, by)
        return tables

    def paths(self, paths: Paths, pairs: Sequence[tuple[int, int]], by: str) -> Paths:
        """The results for the requested pairs, in their order. Raises `UnknownError` if they are for others."""
        if [(p.source, p.destination) for p in paths.paths] != [tuple(pair) for pair in pairs]:
            raise self._unknown(
                by, f"{len(paths.paths)} paths, and not those of the {len(pairs)} pairs asked for"
            )
        return paths

    def _check_not_fewer(self, read: frozenset[int], by: str) -> None:
        """Ports disappear individually, or a rack at a time; if most are gone at once, that is checked twice."""
        now = self._monotonic()
        with self._lock:
            gone = self._last - read
            if len(gone) <= max(_FEW, len(self._last) // 2):
                self._last, self._doubt = read, None
                return
            if self._doubt is not None and now - self._doubt[0] >= AGAIN_SECONDS and gone <= self._doubt[1]:
                self._last, self._doubt = read, None
                return
            before = len(self._last)
            if self._doubt is None or not gone <= self._doubt[1]:
                self._doubt = now, gone
        raise self._unknown(by, f"{len(gone)} of the {before} ports that answered a moment ago are gone")

    def _unknown(self, by: str, what: str) -> UnknownError:
        return UnknownError(
            "read the fabric",
            f"{self._fabric} by way of {by}",
            what,
            "it is read again; check the agent and its port",
        )


def _believed(tables: Tables) -> Tables:
    return tables.model_copy(update={"ports": tuple(map(_judged, tables.ports))})


def _judged(port: PortReading) -> PortReading:
    leaf = port.leaf_keys is None or _has_default(port.leaf_keys)
    if port.unreachable or (leaf and _has_default(port.keys)):
        return port
    return PortReading(port_guid=port.port_guid, leaf=port.leaf, leaf_port=port.leaf_port, unreachable=EMPTY)


def _has_default(keys: Sequence[int]) -> bool:
    return DEFAULT_PKEY in keys or DEFAULT_PKEY | FULL_MEMBER in keys
