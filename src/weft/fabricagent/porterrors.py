"""Error counters of the fabric's cabled ports, and which of them grow: a bad cable or adapter, or refused packets.

Counters are sums since their last reset, so a high one may be old; growth within the last hour shows a
current problem. A full counter can't grow, so it counts as bad until it is reset. Nothing is ever reset here:
other tools of the site read the same counters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.fabricagent.mad import MadError, MadTimeoutError
from weft.fabricagent.wire import Wire
from weft.model.errors import UnknownError
from weft.model.fabric import PortErrors
from weft.model.ids import format_guid
from weft.model.observedfabric import End
from weft.planning.fabric.ibnetdiscover import Discovery

EVERY = 60.0
"""Seconds between readings; a fabric of 800 hosts is read in a tenth of one."""
SILENT_AGAIN = 600.0
"""Seconds until a port that didn't answer twice in a row is queried again: each such request waits for its
time-out."""
BREATH = 0.1
"""Seconds without a request after a time-out, so that P_Key readings, which share the client, get their turn."""
WINDOW = 3600.0
SHOWN = 50
"""Most ports that are reported, the worst first."""
THRESHOLDS: Mapping[str, int] = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 10,
    "PortRcvErrors": 10,
    "PortRcvRemotePhysicalErrors": 100,
    "PortRcvSwitchRelayErrors": 100,
    "PortXmitDiscards": 100,
    "PortXmitConstraintErrors": 100,
    "PortRcvConstraintErrors": 100,
    "LocalLinkIntegrityErrors": 10,
    "ExcessiveBufferOverrunErrors": 10,
    "VL15Dropped": 100,
}
"""The thresholds suggested by infiniband-diags (`/etc/infiniband-diags/error_thresholds`), applied to one
hour's growth."""
_FULL: Mapping[str, int] = {
    "LinkErrorRecoveryCounter": 255,
    "LinkDownedCounter": 255,
    "PortXmitConstraintErrors": 255,
    "PortRcvConstraintErrors": 255,
    "LocalLinkIntegrityErrors": 15,
    "ExcessiveBufferOverrunErrors": 15,
}
_FULL_OTHERS = 0xFFFF
"""The values at which counters stop, by their widths in PortCounters (IBA 1.4 §16.1.3.5): a full one can't grow any
more."""

Port = tuple[int, int]
"""GUID of the node, and number of the port."""
Counters = Mapping[str, int]


@dataclass(slots=True)
class History:
    """Ports' counters within the last hour. Not thread-safe.

    Attributes:
        readings: (when, port -> counters), the oldest first; the first may be older than the window, to compare with.
    """

    readings: list[tuple[float, Mapping[Port, Counters]]] = field(
        default_factory=list[tuple[float, Mapping[Port, Counters]]]
    )

    def add(self, now: float, counters: Mapping[Port, Counters]) -> None:
        """Add a reading; ports that didn't answer are not in it."""
        self.readings.append((now, counters))
        while len(self.readings) > 2 and self.readings[1][0] <= now - WINDOW:
            del self.readings[0]

    def known(self) -> int:
        """Number of ports in both the first and the last reading: all that they counted in between is known."""
        return len(self.readings[0][1].keys() & self.readings[-1][1].keys()) if self.readings else 0

    def grown(self, port: Port) -> dict[str, int]:
        """What was added to each counter within the window; after a reset, what it has counted since then."""
        found: dict[str, int] = {}
        before: Counters | None = None
        for _, counters in self.readings:
            now = counters.get(port)
            if now is None:
                continue
            for name, value in now.items():
                # The first reading is only a base for comparison.
                was = value if before is None else before.get(name, 0)
                added = value - was if value >= was else value
                if added:
                    found[name] = found.get(name, 0) + added
            before = now
        return found


class PortErrorSummary(NamedTuple):
    """Results of the last reading.

    Attributes:
        ports: the `SHOWN` worst ports with errors, the worst first; None: nothing was read yet, or nothing could be
            read.
        bad: how many ports have a counter that grew by more than its threshold or is full; None as for `ports`.
        problems: each a sentence.
        unread: how many cabled ports weren't read now, or at the beginning of the window: whether their errors grew
            isn't known. None as for `ports`.
    """

    ports: tuple[PortErrors, ...] | None
    bad: int | None
    problems: tuple[str, ...] = ()
    unread: int | None = None


@dataclass(slots=True)
class _Silence:
    """How often in a row a port didn't answer, and from when on it is queried again (monotonic time)."""

    times: int = 0
    until: float = 0.0


class PortErrorWatch:
    """Reads all cabled ports periodically in its own thread, so that no caller waits for a reading.
    Thread-safe."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        """Guards the results of readings; never held while a port is queried."""
        self._history = History()
        self._discovery: Discovery | None = None
        self._unread, self._failed = 0, ""
        self._silent: dict[Port, _Silence] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()

    def _go_on(self) -> None:
        """Read periodically, also without requests: an hour's growth is known only from continuous reading."""
        while not self._closed.is_set():
            self.read(time.monotonic())
            self._closed.wait(EVERY)

    def look(self) -> PortErrorSummary:
        """Results of the last reading; starts the reading thread, and returns at once."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._go_on, name="port-errors", daemon=True)
                self._thread.start()
            if self._failed:
                return PortErrorSummary(
                    None, None, (f"error counters of ports can't be read: {self._failed}",)
                )
            if self._discovery is None:
                return PortErrorSummary(None, None)
            found, unread = self._found(self._discovery), self._unread
            unknown = unread + len(self._history.readings[-1][1]) - self._history.known()
        found.sort(key=lambda p: (not p.over, -sum(p.grown.values()), -sum(p.counters.values())))
        bad = [p for p in found if p.over]
        problems = [p.sentence() for p in bad[:SHOWN]]
        if len(bad) > SHOWN:
            problems.append(f"{len(bad) - SHOWN} more ports have such errors")
        if unread:
            problems.append(f"error counters of {unread} cabled ports can't be read")
        return PortErrorSummary(tuple(found[:SHOWN]), len(bad), tuple(problems), unknown)

    def _found(self, discovery: Discovery) -> list[PortErrors]:
        """Ports with errors in the last reading, or whose errors grew."""
        names = {n.guid: n.name for n in discovery.fabric.nodes}
        peers = {(a.guid, a.port): b for link in discovery.fabric.links for a, b in (link, link[::-1])}
        found: list[PortErrors] = []
        for port, errors in self._history.readings[-1][1].items():
            grown = self._history.grown(port)
            full = tuple(n for n, value in errors.items() if value >= _FULL.get(n, _FULL_OTHERS))
            if not errors and not grown:
                continue
            found.append(
                PortErrors(
                    node=names.get(port[0], "") or format_guid(port[0]),
                    port=port[1],
                    peer=_peer(peers.get(port), names),
                    guid=port[0],
                    peer_guid=end.guid if (end := peers.get(port)) is not None else None,
                    counters=dict(errors),
                    grown=grown,
                    over=tuple(n for n in THRESHOLDS if grown.get(n, 0) > THRESHOLDS[n] or n in full),
                    full=full,
                )
            )
        return found

    def read(self, now: float) -> None:
        """Query every cabled port once, except silent ones; `look` reports failures.

        Args:
            now: monotonic time.
        """
        try:
            discovery = self._wire.discover(EVERY)
            found, unread = self._ask(discovery, now)
        except (MadError, UnknownError) as error:
            with self._lock:
                self._failed = str(error)
            return
        with self._lock:
            self._history.add(now, found)
            self._discovery, self._unread, self._failed = discovery, unread, ""

    def _ask(self, discovery: Discovery, now: float) -> tuple[dict[Port, Counters], int]:
        """(counters of the ports that answered, number of the others). Raises `MadError` if none answered."""
        client = self._wire.client
        ends = {(e.guid, e.port): (f.guid, f.port) for x in discovery.fabric.links for e, f in (x, x[::-1])}
        hosts = {ends.get((at.peer_guid, at.peer_port)): at.lid for at in discovery.hosts.values()}
        found: dict[Port, Counters] = {}
        unread, why = 0, "no port is cabled"
        self._silent = {port: silence for port, silence in self._silent.items() if port in ends}
        for end in sorted(ends):
            lid = hosts.get(end) or discovery.switch_lids.get(end[0])
            silence = self._silent.get(end)
            try:
                if not lid:
                    raise MadError("it has no LID")
                if silence and now < silence.until:
                    raise MadError("no port answers")
                found[end] = client.port_errors(lid, end[1])
                self._silent.pop(end, None)
            except MadError as error:
                unread, why = unread + 1, str(error)
                if isinstance(error, MadTimeoutError):
                    self._note_silence(end, now)
        if not found:
            raise MadError(why)
        return found, unread

    def _note_silence(self, port: Port, now: float) -> None:
        """One datagram may get lost; a port without an answer twice is left alone for a while."""
        silence = self._silent.setdefault(port, _Silence())
        silence.times += 1
        if silence.times > 1:
            silence.until = now + SILENT_AGAIN
        self._closed.wait(BREATH)


def _peer(end: End | None, names: Mapping[int, str]) -> str:
    return f"{names.get(end.guid, '') or format_guid(end.guid)}[{end.port}]" if end is not None else ""
