"""Builds the frames of a round (broadcasts with a mark, ARP requests, pings), and parses received ones. Pure.

Sources: IEEE Std 802-2014, clause 9.2.4 (EtherType for local experiments); RFC 826 (ARP), RFC 5227 (a request without a
sender's address); RFC 791, RFC 792 (ping), RFC 1071 (checksum).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address

EXPERIMENT, ARP, IPV4, VLAN = 0x88B5, 0x0806, 0x0800, 0x8100
VLANS = (VLAN, 0x88A8, 0x9100)
"""EtherTypes of tags: IEEE Std 802.1Q-2018, 9.5, and those that some switches use for outer tags."""
BROADCAST = b"\xff" * 6
TAGGED = tuple(struct.pack("!H", vlan) for vlan in VLANS)
NAME = b"weft"
LEAST = 60
"""Octets of the smallest Ethernet frame, without its checksum."""
PING, PONG, DONT_FRAGMENT = 8, 0, 0x4000


def broadcast(source: bytes, number: bytes, mark: bytes, tags: Iterable[int]) -> bytes:
    """An Ethernet frame to all stations with a round's number and a sender's mark, under VLAN tags from outside in."""
    return _frame(BROADCAST, source, tags, EXPERIMENT, NAME + number + mark)


def who_has(source: bytes, own: IPv4Address | None, asked: IPv4Address, tags: Iterable[int]) -> bytes:
    """An ARP request. Args: own: the sender's address; None: it has none, which receivers accept."""
    body = struct.pack("!HHBBH", 1, IPV4, 6, 4, 1) + source + (own or IPv4Address(0)).packed
    return _frame(BROADCAST, source, tags, ARP, body + bytes(6) + asked.packed)


def ping(
    source: bytes, to: bytes, own: IPv4Address, asked: IPv4Address, name: int, size: int, tags: Iterable[int]
) -> bytes:
    """An ICMP echo request. Args: name: identifier of the pings of one round; size: of the IP packet, which
    must not be fragmented."""
    data = bytes(n % 256 for n in range(size - 28))
    icmp = struct.pack("!BBHHH", PING, 0, 0, name, 1) + data
    icmp = icmp[:2] + struct.pack("!H", _checksum(icmp)) + icmp[4:]
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, size, name, DONT_FRAGMENT, 64, 1, 0, own.packed, asked.packed
    )
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    return _frame(to, source, tags, IPV4, head + icmp)


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """A parsed frame: a mark of the round, an answer to ARP (`has` and its `mac`), or an answer to a ping."""

    mark: bytes = b""
    has: IPv4Address | None = None
    mac: bytes = b""
    pong: IPv4Address | None = None


def read(frame: bytes, number: bytes, name: int) -> HeardFrame | None:
    """Parse a frame; None if it isn't of this round. Any number of tags in front are skipped."""
    at = 12
    while frame[at : at + 2] in TAGGED:
        at += 4
    kind, body = frame[at : at + 2], frame[at + 2 :]
    if kind == struct.pack("!H", EXPERIMENT):
        whole = NAME + number
        return HeardFrame(mark=body[12:20]) if body.startswith(whole) and len(body) >= 20 else None
    if kind == struct.pack("!H", ARP) and len(body) >= 28 and body[6:8] == b"\0\2":
        return HeardFrame(has=IPv4Address(body[14:18]), mac=body[8:14])
    if kind == struct.pack("!H", IPV4) and len(body) >= 28 and body[9] == 1:
        icmp = body[4 * (body[0] & 15) :]
        if len(icmp) >= 8 and icmp[0] == PONG and icmp[4:6] == struct.pack("!H", name):
            return HeardFrame(pong=IPv4Address(body[12:16]))
    return None


def _frame(to: bytes, source: bytes, tags: Iterable[int], kind: int, body: bytes) -> bytes:
    between = b"".join(struct.pack("!HH", VLAN, tag) for tag in tags)
    return (to + source + between + struct.pack("!H", kind) + body).ljust(LEAST, b"\0")


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
