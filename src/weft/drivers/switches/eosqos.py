"""QoS settings of an Arista switch, from the text of its running configuration. Pure.

Packets of a switched port get their priority from the VLAN tag unless it says otherwise, DSCP values lead to an eighth
of themselves except that the lowest two classes are swapped, and traffic class and transmit queue have the same number.
Source: EOS manual, "Quality of Service" (qos trust, qos map, tx-queue, random-detect ecn, QoS profiles) and "DCBX and
Flow Control" (priority-flow-control).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from weft.planning.fabric.qos import PortQos, SwitchQos, numbers

Block = dict[str, "Block"]
"""A line of the configuration -> the lines that are indented below it."""

DSCP = {n: {0: 1, 1: 0}.get(n // 8, n // 8) for n in range(64)}
TRUST = {"dscp": frozenset({"dscp"}), "cos": frozenset({"pcp"}), "no": frozenset[str]()}


def eos_qos(text: str, interfaces: Mapping[str, Any]) -> SwitchQos:
    """Args:
    text: of `show running-config`.
    interfaces: of `show interfaces`, as JSON. Raises KeyError, TypeError or ValueError if it is something else.
    """
    whole = blocks(text)
    dscp, queues = dict(DSCP), {n: n for n in range(8)}
    for line in whole:
        if match := re.fullmatch(r"qos map dscp ([\d ,-]+) to traffic-class (\d)", line):
            dscp |= dict.fromkeys(numbers(match[1]), int(match[2]))
        elif match := re.fullmatch(r"qos map traffic-class ([\d ,-]+) to (?:uc-)?tx-queue (\d)", line):
            queues |= dict.fromkeys(numbers(match[1]), int(match[2]))
    ports: dict[str, PortQos] = {}
    members = {
        n: tuple(sorted(row["memberInterfaces"]))
        for n, row in interfaces.items()
        if "memberInterfaces" in row
    }
    above = {member: lag for lag, inside in members.items() for member in inside}
    for name, row in interfaces.items():
        own = _lines(whole, name)
        if name in above:  # what is said of the aggregation goes for its links
            own = _lines(whole, above[name]) | own
        mtu = int(row["mtu"]) if "mtu" in row else None  # such as Vxlan1 has none
        if name in members:  # flow control and queues are those of its links
            ports[name] = PortQos(mtu=mtu)
            continue
        marking = {n for n, queue in queues.items() if _marks(own, queue)}
        ports[name] = PortQos(_paused(own), frozenset(marking), TRUST[_trust(own) or "cos"], dscp, mtu)
    return SwitchQos(ports, members)


def blocks(text: str) -> Block:
    """The configuration by its indentation."""
    top: Block = {}
    path: list[tuple[int, Block]] = [(-1, top)]
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("!"):
            continue
        depth = len(raw) - len(raw.lstrip())
        while path[-1][0] >= depth:
            path.pop()
        path.append((depth, path[-1][1].setdefault(line, {})))
    return top


def _lines(whole: Block, interface: str) -> Block:
    """An interface's own lines, after those of the QoS profile that it names."""
    own = whole.get(f"interface {interface}", {})
    profiles = [line.removeprefix("service-profile ") for line in own if line.startswith("service-profile ")]
    below: Block = {}
    for profile in profiles:
        below |= whole.get(f"qos profile {profile}", {})
    return below | own


def _trust(lines: Block) -> str | None:
    """`dscp`, `cos`, `no`, or None: not said. What an interface says itself counts for more than its profile."""
    said = [m for line in lines if (m := re.fullmatch(r"(no )?qos trust(?: (cos|dscp))?", line))]
    return None if not said else said[-1][2] or "no"


def _paused(lines: Block) -> frozenset[int]:
    if not lines.keys() & {"priority-flow-control on", "priority-flow-control mode on"}:
        return frozenset()
    pattern = re.compile(r"priority-flow-control priority (\d) no-drop")
    return frozenset(int(m[1]) for line in lines if (m := pattern.fullmatch(line)))


def _marks(lines: Block, queue: int) -> bool:
    below = {**lines.get(f"tx-queue {queue}", {}), **lines.get(f"uc-tx-queue {queue}", {})}
    return any(line.startswith("random-detect ecn minimum-threshold") for line in below)
