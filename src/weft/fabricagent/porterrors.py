"""Error counters of the fabric's cabled ports, and which of them grow: a bad cable or adapter, or refused packets.

Counters are sums since somebody last reset them, so that a high one may be old; what has been added within the last
hour says that something is wrong now. Nothing is ever reset here: other tools of the site read the same counters.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from weft.fabricagent.mad import MadError
from weft.fabricagent.wire import Wire
from weft.model.errors import UnknownError
from weft.model.fabric import End, PortErrors
from weft.model.ids import format_guid

EVERY = 60.0
"""Seconds between readings; a fabric of 800 hosts is read in a tenth of one."""
WINDOW = 3600.0
SHOWN = 50
"""Ports that are told, the worst first."""
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
"""The suggestions of infiniband-diags (`/etc/infiniband-diags/error_thresholds`), here for what an hour adds."""

Port = tuple[int, int]
"""GUID of the node, and number of the port."""
Counters = Mapping[str, int]


@dataclass(slots=True)
class History:
    """What ports said within the last hour. Not thread-safe.

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

    def grown(self, port: Port) -> dict[str, int]:
        """What was added to each counter; after a reset, what it counts since."""
        found: dict[str, int] = {}
        before: Counters | None = None
        for _, counters in self.readings:
            now = counters.get(port)
            if now is None:
                continue
            for name, value in now.items():
                # The first reading is only compared with.
                was = value if before is None else before.get(name, 0)
                added = value - was if value >= was else value
                if added:
                    found[name] = found.get(name, 0) + added
            before = now
        return found


class PortErrorWatch:
    """Reads all cabled ports from time to time. Thread-safe."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._history, self._lock = wire, History(), threading.Lock()
        self._unread = 0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()

    def _go_on(self) -> None:
        """Read from now on, whether anybody asks or not: what an hour adds is known only to who reads all the time."""
        while not self._closed.wait(EVERY):
            with suppress(MadError, UnknownError):
                self.look(time.monotonic())

    def look(self, now: float) -> tuple[tuple[PortErrors, ...], tuple[str, ...]]:
        """Ports with errors, the worst first, and problems, each a sentence.

        Args:
            now: monotonic time.

        Raises `MadError` or `UnknownError` if nothing can be read at all.
        """
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="port-errors", daemon=True)
                self._thread.start()
            discovery = self._wire.discover(EVERY)
            if not self._history.readings or now - self._history.readings[-1][0] >= EVERY:
                self._read(now)
            counters = self._history.readings[-1][1]
            names = {n.guid: n.name for n in discovery.fabric.nodes}
            peers = {(a.guid, a.port): b for link in discovery.fabric.links for a, b in (link, link[::-1])}
            found: list[PortErrors] = []
            for port, errors in counters.items():
                grown = self._history.grown(port)
                if not errors and not grown:
                    continue
                found.append(
                    PortErrors(
                        node=names.get(port[0], "") or format_guid(port[0]),
                        port=port[1],
                        peer=_peer(peers.get(port), names),
                        counters=dict(errors),
                        grown=grown,
                        over=tuple(n for n, added in grown.items() if added > THRESHOLDS[n]),
                    )
                )
            unread = self._unread
        found.sort(key=lambda p: (not p.over, -sum(p.grown.values()), -sum(p.counters.values())))
        bad = [p for p in found if p.over]
        problems = [p.sentence() for p in bad[:SHOWN]]
        if len(bad) > SHOWN:
            problems.append(f"{len(bad) - SHOWN} more ports have as many errors")
        if unread:
            problems.append(f"error counters of {unread} cabled ports can't be read")
        return tuple(found[:SHOWN]), tuple(problems)

    def _read(self, now: float) -> None:
        discovery, client = self._wire.discover(EVERY), self._wire.client
        ends = {(e.guid, e.port): (f.guid, f.port) for x in discovery.fabric.links for e, f in (x, x[::-1])}
        hosts = {ends.get((at.peer_guid, at.peer_port)): at.lid for at in discovery.hosts.values()}
        found: dict[Port, Counters] = {}
        self._unread, last = 0, MadError("no port is cabled")
        for end in sorted(ends):
            lid = hosts.get(end) or discovery.switch_lids.get(end[0])
            try:
                if not lid:
                    raise MadError("it has no LID")
                found[end] = client.port_errors(lid, end[1])
            except MadError as error:
                self._unread, last = self._unread + 1, error
        if not found:
            raise last
        self._history.add(now, found)


def _peer(end: End | None, names: Mapping[int, str]) -> str:
    return f"{names.get(end.guid, '') or format_guid(end.guid)}[{end.port}]" if end is not None else ""
