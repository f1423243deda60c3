"""One round on the adapters of this host: everybody sends, and tells whom it heard."""

from __future__ import annotations

import contextlib
import errno
import select
import threading
import time
from collections.abc import Generator
from ipaddress import IPv4Address

from weft.model.probeapi import EndResult, ProbeStatus, RoundEnd, RoundQuery, RoundResult
from weft.probeagent.config import ProbeConfig
from weft.probeagent.interface import Interface, by_pci
from weft.probeagent.packets import Heard, broadcast, ping, read, who_has

EVERY = 0.1
"""Seconds between an end's broadcasts: a lost one is no silence."""
SEEK_EVERY = 5
"""Broadcasts between two requests for the same address."""
MOST_ROUNDS = 8
"""At the same time."""
MOST_FRAMES = 1000
"""That are read at a time: whoever floods an adapter keeps nobody from sending, nor from ending."""
PASSING = (errno.EMSGSIZE, errno.ENOBUFS)
"""A ping that is larger than the interface's MTU, which isn't answered then; a queue that is full."""


class ProbeAgent:
    """Thread-safe."""

    def __init__(self, config: ProbeConfig) -> None:
        self._config = config
        self._places = threading.BoundedSemaphore(MOST_ROUNDS)

    def status(self) -> ProbeStatus:
        return ProbeStatus(name=self._config.name)

    def round(self, query: RoundQuery) -> RoundResult:
        """What can't be opened, or fails meanwhile, is unknown, and keeps no other from being tried."""
        with self._places, contextlib.ExitStack() as stack:
            found: dict[str, EndResult] = {}
            ends: dict[int, _End] = {}
            for wanted in query.ends:
                try:
                    interface = self._open(wanted)
                except OSError as error:
                    found[wanted.adapter] = EndResult(adapter=wanted.adapter, unknown=_words(error))
                    continue
                stack.callback(interface.close)
                ends[interface.fileno()] = _End(wanted, query, interface)
            _run(ends, query.seconds)
            found |= {end.wanted.adapter: end.result() for end in ends.values()}
        return RoundResult(name=self._config.name, ends=tuple(found[e.adapter] for e in query.ends))

    def _open(self, wanted: RoundEnd) -> Interface:
        own = self._config.adapters.get(wanted.adapter)
        if own is not None:
            return Interface(own.interface, own.namespace)
        if wanted.pci is None:
            raise OSError(f"{wanted.adapter} isn't among the agent's adapters, and has no PCI address")
        return Interface(by_pci(wanted.pci), None)


class _End:
    """One adapter while a round lasts."""

    def __init__(self, wanted: RoundEnd, query: RoundQuery, interface: Interface) -> None:
        self.wanted, self._interface = wanted, interface
        self._number, self._mark = bytes.fromhex(query.number), bytes.fromhex(wanted.mark)
        self._name, self._size = int(wanted.mark[:4], 16), query.size
        self._frames = [broadcast(interface.mac, self._number, self._mark, tags) for tags in wanted.tags]
        self._tags = wanted.tags[0] if wanted.tags else ()
        self._asked = {IPv4Address(a) for a in wanted.asked}
        self._sought = {IPv4Address(s.address): bytes.fromhex(s.mac.replace(":", "")) for s in wanted.sought}
        self._found = set[IPv4Address]()
        self._spoken = 0
        self._macs: dict[IPv4Address, bytes] = {}
        self._sent, self._heard, self._echoed = False, set[bytes](), set[IPv4Address]()
        self.failed = ""

    def speak(self) -> None:
        own, mac = self._interface.address, self._interface.mac
        with self._failing():
            for frame in self._frames:
                self._interface.send(frame)
            if self._spoken % SEEK_EVERY == 0:
                for sought in sorted(self._sought.keys() - self._found):
                    for tags in self.wanted.tags:
                        self._interface.send(who_has(mac, None, sought, tags))
            self._spoken += 1
            for asked in sorted(self._asked - self._echoed):
                if asked not in self._macs:
                    self._interface.send(who_has(mac, own, asked, self._tags))
                elif own is not None:
                    to = self._macs[asked]
                    with contextlib.suppress(BlockingIOError):
                        self._interface.send(ping(mac, to, own, asked, self._name, self._size, self._tags))

    def listen(self) -> None:
        with self._failing():
            for _ in range(MOST_FRAMES):
                if (got := self._interface.receive()) is None:
                    return
                frame, own = got
                seen = read(frame, self._number, self._name)
                if seen is None:
                    continue
                if seen.mark:
                    self._sent |= own and seen.mark == self._mark
                    if not own and seen.mark != self._mark:
                        self._heard.add(seen.mark)
                elif not own:
                    self._answered(seen)

    def _answered(self, seen: Heard) -> None:
        if seen.has is not None and seen.has in self._asked:
            self._macs[seen.has] = seen.mac
        if seen.has is not None and self._sought.get(seen.has) == seen.mac:
            self._found.add(seen.has)
        if seen.pong is not None and seen.pong in self._asked:
            self._echoed.add(seen.pong)

    def result(self) -> EndResult:
        if self.failed:
            return EndResult(adapter=self.wanted.adapter, unknown=self.failed)
        return EndResult(
            adapter=self.wanted.adapter,
            sent=self._sent,
            heard=tuple(sorted(mark.hex() for mark in self._heard)),
            echoed=tuple(str(a) for a in sorted(self._echoed)),
            found=tuple(str(a) for a in sorted(self._found)),
        )

    @contextlib.contextmanager
    def _failing(self) -> Generator[None]:
        """What doesn't pass by itself ends the end's part."""
        try:
            yield
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in PASSING:
                self.failed = _words(error)


def _run(ends: dict[int, _End], seconds: float) -> None:
    begun = time.monotonic()
    spoken = begun - EVERY
    while (now := time.monotonic()) < begun + seconds:
        alive = {number: end for number, end in ends.items() if not end.failed}
        if not alive:
            return
        if now - spoken >= EVERY:
            spoken = now
            for end in alive.values():
                end.speak()
        ready, _, _ = select.select(list(alive), [], [], EVERY / 4)
        for number in ready:
            alive[number].listen()


def _words(error: OSError) -> str:
    return f"{error.strerror or error}"[:200]
