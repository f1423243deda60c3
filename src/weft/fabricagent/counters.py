"""How much ports send, receive and wait: PortCounters and PortCountersExtended of all cabled ports, read periodically.

Only the last three readings are kept, which give two rates of each port; a longer history is Prometheus's task. Nothing
is ever reset.
Counters: IBA 1.4 §16.1.3.5 (PortCounters, XmitWait), §16.1.4.11 (PortCountersExtended), §16.3.1 (ClassPortInfo).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from struct import unpack_from
from typing import NamedTuple

from weft.fabricagent.mad import MadClient, MadError
from weft.fabricagent.madbatch import Answer, Question
from weft.fabricagent.wire import Wire
from weft.model.agentlinks import Counters
from weft.model.errors import UnknownError
from weft.planning.fabric.ibnetdiscover import Discovery

EVERY = 15.0
"""Seconds between readings, once there are three."""
FIRST = 2.0
"""Seconds between the first ones, so that rates are known soon."""
LEAST = 1.0
"""Least number of seconds over which a rate is measured."""
MOST_SHARE = 0.02
"""Share of a processor that readings may take; the pause after each follows from it."""
READ_SECONDS = 20.0
FULL_32 = 0xFFFFFFFF
"""The value at which counters of 32 bits stop."""
WORD = 4
"""Bytes in one unit of XmitData and RcvData."""
CLASS_PORT_INFO, PORT_COUNTERS, PORT_COUNTERS_EXTENDED = 0x01, 0x12, 0x1D
_EXTENDED, _WAIT = 0x0600, 0x1000
"""Bits of ClassPortInfo.CapabilityMask: counters of 64 bits, with or without those of the IETF; XmitWait."""

Port = tuple[int, int]
"""GUID of the node, and number of the port."""


class PortCounts(NamedTuple):
    """Counters of a port since they were last reset.

    Attributes:
        sent, received: words of 4 bytes; `sent_packets`, `received_packets`: packets.
        wait: ticks; None: the port doesn't count them.
        most: the value at which the counters of data and packets stop.
        errors: error counters, in the order of `weft.fabricagent.mad.ERROR_COUNTERS`.
    """

    sent: int
    received: int
    sent_packets: int
    received_packets: int
    wait: int | None
    most: int
    errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CountersReading:
    """One reading of all ports. Args: at: monotonic time when it began; unread: cabled ports that didn't answer."""

    at: float
    ports: Mapping[Port, PortCounts]
    unread: int
    discovery: Discovery


class Grown(NamedTuple):
    """What was added to a counter. `value`: None: not known; `least`: it may have been more."""

    value: int | None
    least: bool = False


def grown(before: int, now: int, most: int) -> Grown:
    """What a counter that stops at `most` counted between two readings; after a reset, what it has counted since
    then."""
    if now >= most:
        return Grown(None) if before >= most else Grown(now - before, True)
    return Grown(now - before) if now >= before else Grown(now, True)


class CounterWatch:
    """Reads all ports' counters in a thread of its own, which starts with the first request. Thread-safe."""

    def __init__(self, wire: Wire, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wire, self._monotonic = wire, monotonic
        self._turn = threading.Lock()
        """Held while ports are read; guards `_capabilities`."""
        self._lock = threading.Lock()
        self._readings: tuple[CountersReading, ...] = ()
        self._failed = ""
        self._capabilities: dict[int, int] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop reading."""
        self._closed.set()

    def start(self) -> None:
        """Read periodically from now on; idempotent."""
        with self._lock:
            if not self._closed.is_set() and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._go_on, name="counters", daemon=True)
                self._thread.start()

    def _go_on(self) -> None:
        while not self._closed.is_set():
            began = self._monotonic()
            self.read(0.0)
            took = self._monotonic() - began
            pause = FIRST if len(self._readings) < 3 else EVERY
            self._closed.wait(max(pause, took / MOST_SHARE))

    def readings(self) -> tuple[CountersReading, ...]:
        """The last ones, newest first. Raises `UnknownError` if the last attempt failed, or there was none."""
        with self._lock:
            if self._failed or not self._readings:
                said = self._failed or "they are read for the first time"
                raise UnknownError("read the counters of ports", "the fabric", said)
            return self._readings

    def look(self, max_age: float) -> Counters:
        """Rates computed from the last readings; the newest is at most `max_age` seconds old. Raises `UnknownError`."""
        self.start()
        self.read(max_age)
        readings = self.readings()
        return rates(readings, self._monotonic() - readings[0].at)

    def read(self, max_age: float) -> None:
        """Read all ports, unless the last reading is younger; `readings` raises what failed."""
        with self._turn:
            now = self._monotonic()
            last = self._readings[0] if self._readings else None
            if last is not None and now - last.at < max(max_age, LEAST):
                return
            try:
                reading = self._read(now)
            except (MadError, UnknownError) as error:
                with self._lock:
                    self._failed = str(error)
                return
            with self._lock:
                self._readings, self._failed = (reading, *self._readings[:2]), ""

    def _read(self, now: float) -> CountersReading:
        discovery = self._wire.discover(60.0)
        client = self._wire.client
        lids = dict(_lids(discovery))
        self._learn(client, lids)
        able = {end: self._capabilities[end[0]] for end in lids if end[0] in self._capabilities}
        questions: list[Question] = []
        for end, capabilities in able.items():
            questions.append(Question(lids[end], PORT_COUNTERS, port=end[1]))
            if capabilities & _EXTENDED:
                questions.append(Question(lids[end], PORT_COUNTERS_EXTENDED, port=end[1]))
        answers = iter(client.batch(questions, attempts=1, within=READ_SECONDS))
        found: dict[Port, PortCounts] = {}
        why = "no port is cabled"
        for end, capabilities in able.items():
            plain, wide = next(answers), next(answers) if capabilities & _EXTENDED else None
            counted = _counted(plain, wide, bool(capabilities & _WAIT))
            if isinstance(counted, PortCounts):
                found[end] = counted
            else:
                why = str(counted)
        if not found:
            raise UnknownError("read the counters of ports", "the fabric", why)
        return CountersReading(now, found, len(lids) - len(found), discovery)

    def _learn(self, client: MadClient, lids: Mapping[Port, int]) -> None:
        """Find out what each node counts. One that doesn't answer is asked again with the next reading."""
        new = {guid: (lid, port) for (guid, port), lid in lids.items() if guid not in self._capabilities}
        questions = [Question(lid, CLASS_PORT_INFO, port=port) for lid, port in new.values()]
        answers = client.batch(questions, attempts=1, within=READ_SECONDS / 2)
        for guid, answer in zip(new, answers, strict=True):
            if not isinstance(answer, MadError):
                [self._capabilities[guid]] = unpack_from(">H", answer, 2)


def _lids(discovery: Discovery) -> Iterator[tuple[Port, int]]:
    """Each cabled port with the LID that is asked about it."""
    hosts = {(at.peer_guid, at.peer_port): at.lid for at in discovery.hosts.values()}
    for a, b in discovery.fabric.links:
        for end, other in ((a, b), (b, a)):
            lid = discovery.switch_lids.get(end.guid) or hosts.get((other.guid, other.port))
            if lid:
                yield (end.guid, end.port), lid


def _counted(plain: Answer, wide: Answer | None, waits: bool) -> PortCounts | MadError:
    if isinstance(plain, MadError):
        return plain
    if isinstance(wide, MadError):
        return wide
    *first, constraint_in, nibbles, dropped = unpack_from(">HBBHHHHBBxBxxH", plain, 4)
    errors = (*first, constraint_in, nibbles >> 4, nibbles & 0x0F, dropped)
    sent, received, packets, packets_in, wait = unpack_from(">5I", plain, 24)
    most = FULL_32
    if wide is not None:
        sent, received, packets, packets_in = unpack_from(">4Q", wide, 8)
        most = (1 << 64) - 1
    return PortCounts(sent, received, packets, packets_in, wait if waits else None, most, errors)


def rates(readings: tuple[CountersReading, ...], age: float) -> Counters:
    """Rates of all ports of the newest reading."""
    newest, *before = readings
    ends = sorted(newest.ports)
    columns = [_rate(end, newest, before[0] if before else None) for end in ends]
    earlier = [_rate(end, *before[:2]) if len(before) > 1 else _UNKNOWN for end in ends]
    return Counters(
        age=max(0.0, age),
        seconds=tuple(a.at - b.at for a, b in zip(readings, before, strict=False)),
        node=tuple(guid for guid, _ in ends),
        port=tuple(port for _, port in ends),
        sent=tuple(c.sent for c in columns),
        received=tuple(c.received for c in columns),
        waiting=tuple(c.waiting for c in columns),
        waiting_before=tuple(c.waiting for c in earlier),
        at_least=tuple(
            i for i, both in enumerate(zip(columns, earlier, strict=True)) if any(c.least for c in both)
        ),
        full=tuple(i for i, end in enumerate(ends) if newest.ports[end].wait == FULL_32),
        unread=newest.unread,
    )


class _Rate(NamedTuple):
    sent: float | None = None
    received: float | None = None
    waiting: float | None = None
    least: bool = False


_UNKNOWN = _Rate()


def _rate(end: Port, newer: CountersReading, older: CountersReading | None) -> _Rate:
    now, was = newer.ports.get(end), older.ports.get(end) if older else None
    if older is None or now is None or was is None or now.most != was.most:
        return _UNKNOWN
    seconds = newer.at - older.at
    sent, received = grown(was.sent, now.sent, now.most), grown(was.received, now.received, now.most)
    wait = Grown(None) if now.wait is None or was.wait is None else grown(was.wait, now.wait, FULL_32)
    share = None
    if wait.value is not None and sent.value is not None:
        share = wait.value / (wait.value + sent.value) if wait.value else 0.0
    return _Rate(
        None if sent.value is None else sent.value * WORD / seconds,
        None if received.value is None else received.value * WORD / seconds,
        share,
        sent.least or received.least or wait.least,
    )
