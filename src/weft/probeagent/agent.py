"""One round on the adapters of this host: each end sends, and reports what it heard."""

from __future__ import annotations

import contextlib
import errno
import selectors
import threading
import time
from collections.abc import Collection, Generator
from ipaddress import IPv4Address

from weft.model.errors import TemporaryError
from weft.model.probeapi import MOST_ENDS, EndResult, ProbeStatus, RoundEnd, RoundQuery, RoundResult
from weft.probeagent.config import ProbeConfig
from weft.probeagent.filter import program
from weft.probeagent.interface import RawInterface, by_pci
from weft.probeagent.packets import HeardFrame, broadcast, ping, read, who_has

EVERY = 0.1
"""Seconds between an end's broadcasts, of which some may get lost."""
SEEK_EVERY = 5
"""Broadcasts between two requests for the same address."""
MOST_ROUNDS = 8
"""Most concurrent rounds. Further ones are refused: a round that begins late is useless."""
MOST_FRAMES = 1000
"""Most frames read at a time, so that a flood doesn't keep the round from sending or ending."""
MOST_TURNS = 20
"""Most such readings at the end, to read everything that has arrived by then."""
PASSING = (errno.EMSGSIZE, errno.ENOBUFS, errno.EAGAIN)
"""Errors that don't end a round: a frame larger than the interface's MTU, which isn't sent; a full queue."""


class ProbeAgent:
    """Runs rounds on this host's adapters. Thread-safe."""

    def __init__(self, config: ProbeConfig) -> None:
        self._config = config
        self._places = threading.BoundedSemaphore(MOST_ROUNDS)

    def status(self) -> ProbeStatus:
        return ProbeStatus(name=self._config.name)

    def round(self, query: RoundQuery) -> RoundResult:
        """Run a round. An end that can't be opened, or fails, is unknown, and doesn't affect the others.

        Raises `TemporaryError` if there are too many rounds.
        """
        if not self._places.acquire(blocking=False):
            raise TemporaryError("hold a round", "the probe agent", f"it holds {MOST_ROUNDS} already")
        try:
            return self._round(query)
        finally:
            self._places.release()

    def _round(self, query: RoundQuery) -> RoundResult:
        found: dict[str, EndResult] = {}
        ends: list[_End] = []
        with contextlib.ExitStack() as stack:
            for wanted in query.ends:
                try:
                    interface = self._open(wanted, bytes.fromhex(query.number))
                except OSError as error:
                    found[wanted.adapter] = EndResult(adapter=wanted.adapter, unknown=_words(error))
                    continue
                stack.callback(interface.close)
                ends.append(_End(wanted, query, interface))
            _run(ends, query.seconds)
            found |= {end.wanted.adapter: end.result() for end in ends}
        return RoundResult(name=self._config.name, ends=tuple(found[e.adapter] for e in query.ends))

    def _open(self, wanted: RoundEnd, number: bytes) -> RawInterface:
        own, nodes = self._config.adapters.get(wanted.adapter), self._config.nodes
        if nodes and wanted.adapter.partition("/")[0] not in nodes:
            raise OSError(f"{wanted.adapter} is of none of the agent's nodes ({', '.join(nodes)})")
        takes = program(number, bool(wanted.asked or wanted.sought))
        if own is not None:
            return RawInterface(own.interface, own.namespace, takes)
        if wanted.pci is None:
            raise OSError(f"{wanted.adapter} isn't among the agent's adapters, and has no PCI address")
        # Hosts of one model have the same PCI addresses.
        return RawInterface(by_pci(wanted.pci), None, takes, wanted.mac)


class _End:
    """One adapter during a round.

    Attributes:
        failed: why it can't continue; empty if it can.
    """

    def __init__(self, wanted: RoundEnd, query: RoundQuery, interface: RawInterface) -> None:
        self.wanted, self._interface = wanted, interface
        self._number, self._mark = bytes.fromhex(query.number), bytes.fromhex(wanted.mark)
        self._name, self._size = int(wanted.mark[:4], 16), query.size
        self._frames = [broadcast(interface.mac, self._number, self._mark, tags) for tags in wanted.tags]
        self._tags = wanted.tags[0] if wanted.tags else ()
        # An ARP request without a sender's address looks like a probe for a free address (RFC 5227).
        self._asked = {IPv4Address(a) for a in wanted.asked} if interface.address else set[IPv4Address]()
        self._sought = {IPv4Address(s.address): bytes.fromhex(s.mac.replace(":", "")) for s in wanted.sought}
        self._spoken, self._was_down = 0, False
        self._macs: dict[IPv4Address, bytes] = {}
        self._left, self._heard = set[bytes](), set[bytes]()
        self._found, self._echoed = set[IPv4Address](), set[IPv4Address]()
        self.failed = ""

    def fileno(self) -> int:
        return self._interface.fileno()

    def speak(self) -> None:
        mac = self._interface.mac
        with self._failing():
            self._was_down |= not self._interface.running
            self._send(self._frames)
            if self._spoken % SEEK_EVERY == 0:
                for sought in sorted(self._sought.keys() - self._found):
                    self._send([who_has(mac, None, sought, tags) for tags in self.wanted.tags])
            self._spoken += 1
            for asked in sorted(self._asked - self._echoed):
                self._send([self._question(asked)])

    def _question(self, asked: IPv4Address) -> bytes:
        mac, own, to = self._interface.mac, self._interface.address, self._macs.get(asked)
        if to is None or own is None:
            return who_has(mac, own, asked, self._tags)
        return ping(mac, to, own, asked, self._name, self._size, self._tags)

    def _send(self, frames: Collection[bytes]) -> None:
        """Send frames; one that can't be sent now doesn't stop the others."""
        for frame in frames:
            try:
                self._interface.send(frame)
            except OSError as error:
                if error.errno not in PASSING:
                    raise

    def listen(self) -> bool:
        """Read frames; returns whether more may have arrived."""
        with self._failing():
            for _ in range(MOST_FRAMES):
                if (got := self._interface.receive()) is None:
                    return False
                frame, own = got
                if own:
                    self._left.update({frame}.intersection(self._frames))
                elif (seen := read(frame, self._number, self._name)) is not None:
                    self._take(seen)
                if len(self._heard) > MOST_ENDS:
                    self.failed = "someone else sends broadcasts of this round"
                    return False
            return True
        return False

    def _take(self, seen: HeardFrame) -> None:
        if seen.mark and seen.mark != self._mark:
            self._heard.add(seen.mark)
        if seen.has is not None and seen.has in self._asked:
            self._macs[seen.has] = seen.mac
        if seen.has is not None and self._sought.get(seen.has) == seen.mac:
            self._found.add(seen.has)
        if seen.pong is not None and seen.pong in self._asked:
            self._echoed.add(seen.pong)

    def finish(self) -> None:
        """Decide whether hearing nothing proves something: only if the end had a link all the time and read
        everything."""
        unread = all(self.listen() for _ in range(MOST_TURNS))
        with self._failing():
            lost = self._interface.lost()
            self._was_down |= not self._interface.running
            if self._was_down:
                self.failed = self.failed or "its interface had no link"
            # Fewer lost frames than the broadcasts of one end in half a round can't be all of an end's.
            if unread or lost >= self._spoken / 2:
                self.failed = self.failed or f"it got more frames than it could read ({lost} were lost)"

    def result(self) -> EndResult:
        return EndResult(
            adapter=self.wanted.adapter,
            mac=self._interface.mac.hex(":"),
            sent=bool(self._frames) and self._left.issuperset(self._frames),
            heard=tuple(sorted(mark.hex() for mark in self._heard)),
            asked=tuple(str(a) for a in sorted(self._asked)),
            echoed=tuple(str(a) for a in sorted(self._echoed)),
            found=tuple(str(a) for a in sorted(self._found)),
            unknown=self.failed,
        )

    @contextlib.contextmanager
    def _failing(self) -> Generator[None]:
        """An error, unless it is one of those that don't end a round, ends this end's part in the round."""
        try:
            yield
        except OSError as error:
            self.failed = self.failed or _words(error)


def _run(ends: Collection[_End], seconds: float) -> None:
    begun = time.monotonic()
    spoken = begun - EVERY
    with selectors.DefaultSelector() as waiting:
        for end in ends:
            waiting.register(end, selectors.EVENT_READ, end)
        while (now := time.monotonic()) < begun + seconds:
            for end in [e for e in ends if e.failed and e.fileno() in waiting.get_map()]:
                waiting.unregister(end)
            if not waiting.get_map():
                break
            if now - spoken >= EVERY:
                spoken = now
                for end in ends:
                    if not end.failed:
                        end.speak()
            for key, _ in waiting.select(EVERY / 4):
                key.data.listen()
    for end in ends:
        end.finish()


def _words(error: OSError) -> str:
    return f"{error.strerror or error}"[:200]
