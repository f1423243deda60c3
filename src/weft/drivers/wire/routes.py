"""Forwarding tables and counters as an agent read them; a table that didn't change isn't sent again."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from weft.drivers.wire.agents import NoSuchCallError, RemoteFabricAgent
from weft.model.agentlinks import Counters, CountersQuery, Routes, RoutesQuery, SwitchTable
from weft.model.errors import UnknownError
from weft.model.ids import format_guid, parse_guid
from weft.model.linkreading import PortRate, RouteReading, TimedRates, TimedRoutes

T = TypeVar("T")


class Asks(Protocol):
    """Asks an agent of the fabric: the master's, or one after the other until one answers. Raises what they raise."""

    def __call__(self, ask: Callable[[RemoteFabricAgent], T], /) -> T: ...


class RouteKeeper:
    """The last reading of one fabric. Thread-safe."""

    def __init__(self, asks: Asks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._asks, self._monotonic = asks, monotonic
        self._lock = threading.Lock()
        self._last: tuple[float, RouteReading] | None = None
        self._tables: dict[int, tuple[str, bytes]] = {}

    def read(self, max_age: float) -> TimedRoutes:
        """Forwarding tables, read at most `max_age` seconds ago. Raises `UnknownError` and `PermanentError`."""
        with self._lock:
            now = self._monotonic()
            if self._last is None or now - self._last[0] >= max_age:
                have = {format_guid(guid): digest for guid, (digest, _) in self._tables.items()}
                query = RoutesQuery(max_age=max_age, have=have)

                def ask(agent: RemoteFabricAgent) -> tuple[Routes, str]:
                    return _asked(agent, lambda: agent.routes(query)), agent.name

                answer, name = self._asks(ask)
                began = self._monotonic() - answer.age
                reading = self._merged(answer, name)
                if (
                    self._last is not None
                    and self._last[1] == reading
                    and self._last[1].partial == reading.partial
                ):
                    reading = self._last[1]  # the same object, so that what was computed from it stays valid
                self._last = began, reading
            began, reading = self._last
            return TimedRoutes(reading, max(0.0, self._monotonic() - began))

    def _merged(self, answer: Routes, agent: str) -> RouteReading:
        tables = {s.guid: (s.digest, self._table(s, agent)) for s in answer.switches}
        self._tables = tables
        whole = hashlib.sha256()
        for switch in sorted(answer.switches, key=lambda s: s.guid):
            whole.update(f"{switch.guid:x} {switch.name} {switch.digest}\n".encode())
        for thing in (*answer.ports, *answer.cables):
            whole.update(f"{tuple(thing.__dict__.values())}\n".encode())
        whole.update(repr((sorted(answer.unread), answer.engine, answer.configured)).encode())
        return RouteReading(
            digest=whole.hexdigest(),
            tables={guid: table for guid, (_, table) in tables.items()},
            names={s.guid: s.name for s in answer.switches},
            ports=answer.ports,
            cables=answer.cables,
            host_gbps={parse_guid(guid): rate for guid, rate in answer.host_gbps.items()},
            unread={parse_guid(guid): why for guid, why in answer.unread.items()},
            partial=answer.partial,
            engine=answer.engine,
            configured=answer.configured,
        )

    def _table(self, switch: SwitchTable, agent: str) -> bytes:
        """A switch's table: the one that was sent, or the kept one. Raises `UnknownError` if its digest isn't the one
        in the answer."""
        kept_digest, kept = self._tables.get(switch.guid, ("", b""))
        table = kept if switch.table is None else switch.table
        known = kept_digest if switch.table is None else hashlib.sha256(table).hexdigest()
        if known != switch.digest:
            said = f"a table of {switch.name} that isn't the one it names"
            raise UnknownError("read the forwarding tables", f"fabric agent {agent}", said)
        return table


class RateKeeper:
    """The last rates of one fabric's ports. Thread-safe."""

    def __init__(self, asks: Asks, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._asks, self._monotonic = asks, monotonic
        self._lock = threading.Lock()
        self._last: tuple[float, TimedRates] | None = None

    def read(self, max_age: float) -> TimedRates:
        """Rates whose newest reading is at most `max_age` seconds old. Raises `UnknownError` and `PermanentError`."""
        with self._lock:
            now = self._monotonic()
            if self._last is None or now - self._last[0] >= max_age:
                query = CountersQuery(max_age=max_age)
                answer = self._asks(lambda agent: _asked(agent, lambda: agent.counters(query)))
                self._last = self._monotonic() - answer.age, _rates(answer)
            began, rates = self._last
            return replace(rates, age=max(0.0, self._monotonic() - began))


def _rates(answer: Counters) -> TimedRates:
    least, full = set(answer.at_least), set(answer.full)
    ends = zip(answer.node, answer.port, strict=True)
    columns = zip(answer.sent, answer.received, answer.waiting, answer.waiting_before, strict=True)
    ports = {
        end: PortRate(*column, at_least=i in least, full=i in full)
        for i, (end, column) in enumerate(zip(ends, columns, strict=True))
    }
    return TimedRates(ports, answer.seconds, answer.age, answer.unread)


def _asked(agent: RemoteFabricAgent, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except NoSuchCallError as error:
        raise UnknownError(
            "read its links",
            f"fabric agent {agent.name}",
            "it is older than weft and can't read them",
            "upgrade the agent",
        ) from error
