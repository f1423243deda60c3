"""Which frames a round's socket accepts: a program for the kernel, so that floods aren't read frame by frame.
Pure.

Source: Linux, Documentation/networking/filter.rst (classic BPF), and linux/filter.h for the numbers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from weft.probeagent.packets import ARP, EXPERIMENT, IPV4, NAME, VLANS

LOAD_HALF, LOAD_WORD, LOAD_BYTE, SET_X = 0x48, 0x40, 0x50, 0x01
"""Loads are relative to X, which is where the EtherType is."""
IF_EQUAL, RETURN = 0x15, 0x06
MOST_TAGS = 3
"""Most tags in a received frame, besides the outermost one, which the kernel strips."""
TYPE_AT = 12
REPLY, ICMP = 2, 1


@dataclass(frozen=True, slots=True)
class _Step:
    code: int
    value: int = 0
    then: str = ""
    otherwise: str = ""
    label: str = ""


def program(number: bytes, answers: bool) -> bytes:
    """The filter as an array of `struct sock_filter`.

    Args:
        number: of the round, 8 octets: other rounds' broadcasts aren't accepted.
        answers: whether answers to ARP, and ICMP, are accepted too.
    """
    steps: list[_Step] = []
    for depth in range(MOST_TAGS + 1):
        steps += [_Step(SET_X, TYPE_AT + 4 * depth, label=f"tag{depth}"), _Step(LOAD_HALF)]
        if depth < MOST_TAGS:
            steps += [_Step(IF_EQUAL, vlan, f"tag{depth + 1}") for vlan in VLANS]
        steps += [_Step(IF_EQUAL, EXPERIMENT, "mark")]
        if answers:
            steps += [_Step(IF_EQUAL, ARP, "arp"), _Step(IF_EQUAL, IPV4, "ip")]
        steps.append(_Step(RETURN))
    words = struct.unpack("!3I", NAME + number)
    for i, word in enumerate(words):
        steps += [_Step(LOAD_WORD, 2 + 4 * i, label="" if i else "mark"), _Step(IF_EQUAL, word, "", "none")]
    steps.append(_Step(RETURN, 0xFFFFFFFF))
    for label, load, at, value in (("arp", LOAD_HALF, 8, REPLY), ("ip", LOAD_BYTE, 11, ICMP)):
        steps += [_Step(load, at, label=label), _Step(IF_EQUAL, value, "", "none"), _Step(RETURN, 0xFFFFFFFF)]
    steps.append(_Step(RETURN, label="none"))
    at = {s.label: i for i, s in enumerate(steps) if s.label}

    def jump(label: str, here: int) -> int:
        return at[label] - here - 1 if label else 0

    return b"".join(
        struct.pack("HBBI", s.code, jump(s.then, i), jump(s.otherwise, i), s.value)
        for i, s in enumerate(steps)
    )
