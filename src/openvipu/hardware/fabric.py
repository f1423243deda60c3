"""The simulated fabric: boards, cables, switches, faults, and packets that are let through or not.

The simulation knows nothing of partitions' rules. A packet crosses a link only if both ends have opened
it, both IPUs live and the cable is good. So a probe shows what the controller's rules really opened.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from openvipu.model.hardware import Setting
from openvipu.rules.board import DOWN, GATEWAY, INNER, SYNC, UP, opposite, port_position, position_of

Node = tuple[str, int]
"""An IPU: (machine serial, board position)."""

CableEnd = tuple[str, str]
"""(machine or switch serial, port)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A planted fault. ``unit`` is an IPU number or a port; ``seconds`` is for ``slow-reset``."""

    kind: str
    machine: str
    unit: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class Board:
    """One machine as the fabric has it."""

    serial: str
    name: str
    settings: dict[str, Setting] = field(default_factory=dict[str, Setting])

    def opens(self, link: str) -> bool:
        """Whether a setting of the machine opens the link."""
        return any(link in setting.open_links for setting in self.settings.values())


class Fabric:
    """Boards joined by cables. Every method is safe to call from any thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.boards: dict[str, Board] = {}
        self.faults: set[Fault] = set()
        self._cables: dict[CableEnd, CableEnd] = {}

    def add(self, board: Board) -> None:
        """Add a machine's board, or replace the one with its serial number."""
        self.boards[board.serial] = board

    def plug(self, one: CableEnd, other: CableEnd) -> None:
        """Join two ends; whatever was in them is unplugged."""
        with self.lock:
            for end in (one, other):
                self._cables.pop(self._cables.pop(end, end), None)
            self._cables[one] = other
            self._cables[other] = one

    def peer(self, serial: str, port: str) -> CableEnd:
        """The other end of the cable in ``port``; empty strings when there is none."""
        return self._cables.get((serial, port), ("", ""))

    def ipu_fault(self, serial: str, number: int) -> str:
        """Why the IPU doesn't work; empty if it does."""
        dead = Fault("dead-ipu", self.boards[serial].name, str(number))
        return f"IPU {number} doesn't respond" if dead in self.faults else ""

    def is_cable_good(self, serial: str, port: str) -> bool:
        """Is there a cable whose ends are both good?"""
        other = self.peer(serial, port)
        if not other[0]:
            return False
        ends = [(serial, port), other]
        return not any(
            Fault("bad-cable", self.boards[end].name, name) in self.faults
            for end, name in ends
            if end in self.boards
        )

    def gateway_reaches(self, serial: str, peer: str) -> bool:
        """Is there a good GW-Link cable from one machine to the other, straight or over a switch?"""
        for port in GATEWAY:
            end, end_port = self.peer(serial, port)
            if not self.is_cable_good(serial, port):
                continue
            if end == peer:
                return True
            if end not in self.boards and any(
                self.peer(peer, other)[0] == end and self.is_cable_good(peer, other) for other in GATEWAY
            ):
                return end_port != ""
        return False

    def probe(self, source: Node, target: Node) -> int | None:
        """Links that a packet crosses from one IPU to another; None if it can't get there."""
        return self.reach(source).get(target)

    def reach(self, source: Node) -> dict[Node, int]:
        """Every IPU that a packet from ``source`` can get to, with the links that it crosses."""
        with self.lock:
            if not self._lives(source):
                return {}
            hops = {source: 0}
            waiting = deque([source])
            while waiting:
                node = waiting.popleft()
                for following in self._neighbours(node):
                    if following not in hops:
                        hops[following] = hops[node] + 1
                        waiting.append(following)
            return hops

    def link_fault(self, serial: str, link: str) -> str:
        """Why an IPU-Link that this machine opened doesn't train; empty if it does."""
        if link in INNER:
            return ""
        peer, peer_port = self.peer(serial, link)
        if not self.is_cable_good(serial, link):
            return f"IPU-Link {link} is down"
        if not self.boards[peer].opens(peer_port):
            return f"IPU-Link {link} is blocked at the other end ({self.boards[peer].name}:{peer_port})"
        return ""

    def gateway_fault(self, serial: str, partition_id: str, peer: str) -> str:
        """Why GW-Link traffic with ``peer`` doesn't flow for this partition; empty if it does."""
        if peer not in self.boards or not self.gateway_reaches(serial, peer):
            return f"GW-Link to {peer} is down"
        setting = self.boards[peer].settings.get(partition_id)
        if setting is None or serial not in setting.gateway_peers:
            return f"GW-Link is blocked at the other end ({self.boards[peer].name})"
        return ""

    def _lives(self, node: Node) -> bool:
        serial, position = node
        return serial in self.boards and not self.ipu_fault(serial, position_of(position))

    def _neighbours(self, node: Node) -> Iterator[Node]:
        for following in (*self._on_board(node), *self._by_cable(node), *self._by_gateway(node)):
            if self._lives(following):
                yield following

    def _on_board(self, node: Node) -> Iterator[Node]:
        serial, position = node
        for link, ends in INNER.items():
            if position in ends and self.boards[serial].opens(link):
                yield serial, ends[1] if ends[0] == position else ends[0]

    def _by_cable(self, node: Node) -> Iterator[Node]:
        serial, position = node
        for port in UP + DOWN:
            if port_position(port) != position or not self.boards[serial].opens(port):
                continue
            peer, peer_port = self.peer(serial, port)
            if self.is_cable_good(serial, port) and self.boards[peer].opens(peer_port):
                yield peer, port_position(peer_port)

    def _by_gateway(self, node: Node) -> Iterator[Node]:
        """A gateway carries what its own IPUs send to the peers of their setting, and lets in likewise."""
        serial, position = node
        for setting in self.boards[serial].settings.values():
            if all(position_of(ipu.number) != position for ipu in setting.ipus):
                continue
            for peer in setting.gateway_peers:
                if peer not in self.boards or not self.gateway_reaches(serial, peer):
                    continue
                for other in self.boards[peer].settings.values():
                    if serial in other.gateway_peers:
                        yield from ((peer, position_of(ipu.number)) for ipu in other.ipus)


def wire_ring(fabric: Fabric, serials: list[str], closed: bool) -> None:
    """Cable IPU-Links and Sync-Links of one IPU-Link domain: up to down, the ends too if ``closed``."""
    pairs = list(zip(serials, serials[1:] + serials[:1], strict=True))
    for one, other in pairs if closed and len(serials) > 1 else pairs[:-1]:
        for port in (*UP, *(port for port in SYNC if port.startswith("sync-up"))):
            fabric.plug((one, port), (other, opposite(port)))


def wire_gateways(fabric: Fabric, domains: list[list[str]], switched: bool) -> None:
    """Cable GW-Links between domains: machine i to machine i in a loop, or all of them to switch i."""
    if len(domains) < 2:
        return
    for place in range(len(domains[0])):
        for ild, domain in enumerate(domains):
            if switched:
                for port in GATEWAY:
                    fabric.plug((domain[place], port), (f"switch-{place}", f"{domain[place]}-{port}"))
            else:
                following = domains[(ild + 1) % len(domains)]
                fabric.plug((domain[place], "gw0"), (following[place], "gw1"))
