"""The forwarding tables of all switches, read from the switches themselves.

Tables are read one after the other, not as a snapshot. So a reading during which a sweep ended is made once more, and
one that is older than the last sweep isn't used again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.fabricagent.discovery import Map
from weft.fabricagent.mad import SWITCH_INFO, MadError
from weft.fabricagent.madbatch import Question
from weft.fabricagent.opensm import Log
from weft.fabricagent.wire import Wire
from weft.model.agentlinks import NO_ROUTE, RoutedPort, Routes, RoutesQuery, SwitchCable, SwitchTable
from weft.model.errors import UnknownError
from weft.model.ids import format_guid

LINEAR_FORWARDING_TABLE = 0x19
LIDS_A_BLOCK = 64
MOST_LID = 0xBFFF
"""The last unicast LID (IBA 1.4 §4.1.3)."""
READ_SECONDS = 12.0
"""Seconds after which no further request is sent, and what is missing counts as not read."""
_SWEPT = "a sweep ended while the tables were read, twice: they may be from before and after it"


@dataclass(frozen=True, slots=True)
class _Reading:
    """Tables of one reading.

    Attributes:
        began: monotonic time; `sweeps`: number of completed sweeps in opensm's log when the reading ended.
        tables: switch GUID -> its table, up to its last LID.
    """

    began: float
    sweeps: int
    map: Map
    tables: Mapping[int, bytes]
    unread: Mapping[int, str]
    partial: tuple[str, ...] = ()
    digests: dict[int, str] = field(default_factory=dict[int, str])

    def digest(self, guid: int) -> str:
        if guid not in self.digests:
            self.digests[guid] = hashlib.sha256(self.tables[guid]).hexdigest()
        return self.digests[guid]


class RouteReader:
    """Reads and keeps the tables. Thread-safe: concurrent callers share one reading."""

    def __init__(self, wire: Wire, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wire, self._log, self._monotonic = wire, log, monotonic
        self._lock = threading.Lock()
        self._last: _Reading | None = None

    def read(self, query: RoutesQuery) -> Routes:
        """The tables, and which switches weren't read. Raises `UnknownError` if none was, or no port is found."""
        with self._lock:
            last, now = self._last, self._monotonic()
            sweeps = self._log.sweeps()
            if last is None or now - last.began >= query.max_age or last.sweeps != sweeps or last.partial:
                swept = last is not None and last.sweeps != sweeps
                self._last = last = self._twice_at_most(0.0 if swept else query.max_age)
            age = self._monotonic() - last.began
        return _document(last, query, age)

    def _twice_at_most(self, map_age: float) -> _Reading:
        try:
            reading = self._reading(map_age)
            if reading.partial:
                reading = self._reading(0.0)
        except MadError as error:
            raise UnknownError("read the forwarding tables", "the fabric", str(error)) from error
        if not reading.tables:
            why = next(iter(reading.unread.values()), "no switch was found")
            raise UnknownError("read the forwarding tables", "the fabric", why)
        return reading

    def _reading(self, map_age: float) -> _Reading:
        before, began = self._log.sweeps(), self._monotonic()
        known = self._wire.finder.map(map_age)
        tables, unread = self._tables(known, began + READ_SECONDS)
        sweeps = self._log.sweeps()
        return _Reading(began, sweeps, known, tables, unread, (_SWEPT,) if sweeps != before else ())

    def _tables(self, known: Map, end: float) -> tuple[dict[int, bytes], dict[int, str]]:
        """(switch GUID -> its table, switch GUID -> why its table wasn't read completely)."""
        client, unread = self._wire.client, dict[int, str]()
        unread |= {guid: "it has no LID" for guid, lid in known.switch_lids.items() if not lid}
        lids = {guid: lid for guid, lid in sorted(known.switch_lids.items()) if lid}
        answers = client.batch([Question(lid, SWITCH_INFO) for lid in lids.values()], within=READ_SECONDS / 2)
        tops: dict[int, int] = {}
        for guid, answer in zip(lids, answers, strict=True):
            if isinstance(answer, MadError):
                unread[guid] = str(answer)
            else:
                tops[guid] = min(int.from_bytes(answer[6:8], "big"), MOST_LID)
        tables = {guid: bytearray() for guid in tops}
        asked = [(g, block) for g, top in tops.items() for block in range(top // LIDS_A_BLOCK + 1)]
        questions = [Question(lids[g], LINEAR_FORWARDING_TABLE, block) for g, block in asked]
        answers = client.batch(questions, within=max(0.0, end - self._monotonic()))
        for (guid, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, MadError):
                unread.setdefault(guid, str(answer))
            else:
                tables[guid] += answer  # in order: a table with a gap isn't used at all
        return {g: bytes(t[: tops[g] + 1]) for g, t in tables.items() if g not in unread}, unread


def _document(reading: _Reading, query: RoutesQuery, age: float) -> Routes:
    known, fabric = reading.map, reading.map.discovery.fabric
    kinds = {node.guid: node for node in fabric.nodes}
    switches = tuple(
        SwitchTable(
            guid=guid,
            name=known.name(guid),
            lid=known.switch_lids[guid],
            ports=kinds[guid].ports if guid in kinds else NO_ROUTE - 1,
            digest=reading.digest(guid),
            table=None if query.have.get(format_guid(guid)) == reading.digest(guid) else table,
        )
        for guid, table in reading.tables.items()
    )
    rates = {end: rate for ends, rate in known.discovery.rates.items() for end in ends}
    return Routes(
        age=max(0.0, age),
        switches=switches,
        ports=tuple(_ports(known)),
        cables=tuple(_cables(known, rates)),
        host_gbps={
            format_guid(guid): rate
            for guid, at in known.hosts.items()
            if (rate := rates.get((at.peer_guid, at.peer_port)))
        },
        unread={format_guid(guid): why for guid, why in reading.unread.items()},
        partial=(*known.doubts, *reading.partial),
    )


def _ports(known: Map) -> Iterator[RoutedPort]:
    of_port = {guid: n.guid for n in known.discovery.fabric.nodes for guid in n.port_guids}
    for guid, at in known.hosts.items():
        if at.lid:
            yield RoutedPort.trusted(
                {
                    "port_guid": guid,
                    "lid": at.lid,
                    "lmc": at.lmc,
                    "node_guid": of_port.get(guid, 0),
                    "port": at.port,
                    "switch_guid": at.peer_guid,
                    "switch_port": at.peer_port,
                }
            )


def _cables(known: Map, rates: Mapping[tuple[int, int], int]) -> Iterator[SwitchCable]:
    for a, b in known.discovery.fabric.links:
        if a.guid in known.switch_lids and b.guid in known.switch_lids:
            gbps = rates.get((a.guid, a.port), 0)
            ends = {"a": a.guid, "a_port": a.port, "b": b.guid, "b_port": b.port}
            yield SwitchCable.trusted({**ends, "gbps": gbps})
