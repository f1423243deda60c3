"""QoS settings of an Arista switch, from the text of its running configuration. Pure.

By default packets of a switched port get their priority from the VLAN tag, those of a routed port from DSCP.
A DSCP value maps to an eighth of itself, except that the lowest two classes are swapped; traffic class and
transmit queue have the same number. Sources: EOS manual, "Quality of Service" (qos trust, qos map, tx-queue,
random-detect ecn, QoS profiles) and "DCBX and Flow Control" (priority-flow-control); how the configuration
writes it: Arista's own generator, aristanetworks/avd (`eos/qos.j2`, `qos-profiles.j2`,
`ethernet-interface-uc-tx-queues.j2`). The manual's defaults (the map of DSCP values, trust in CoS on switched
ports) are known from quotations, which agree for every platform family, and not from the manual itself, of
which only the beginning of the chapter could be read; openconfig/featureprofiles' test configurations for EOS
set DSCP 0 to 7 and 8 to 15 as if these two were swapped otherwise. So they are reported as `ASSUMED`. Policy
maps aren't interpreted: the class of packets of a port with one is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from weft.planning.fabric.qos import PortQos, SwitchQos, numbers

Block = dict[str, "Block"]
"""A line of the configuration -> the lines that are indented below it."""

DSCP = {n: {0: 1, 1: 0}.get(n // 8, n // 8) for n in range(64)}
ASSUMED = (
    "what its configuration doesn't say is taken from EOS's defaults, as others quote Arista's manual: switched "
    "ports trust CoS, DSCP values lead to an eighth of themselves; `show qos interfaces trust` and `show qos maps` "
    "tell what is so"
)
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
    members = _members(whole, interfaces)
    above = {member: lag for lag, inside in members.items() for member in inside}
    for name, row in interfaces.items():
        own = _lines(whole, name)
        if name in above:  # an aggregation's settings apply to its links
            own = _after(_lines(whole, above[name]), own)
        mtu = int(row["mtu"]) if "mtu" in row else None  # Vxlan1, for example, has none
        if name in members:  # flow control and queues are set on its links
            ports[name] = PortQos(mtu=mtu)
            continue
        marking = frozenset(n for n, queue in queues.items() if _marks(own, queue))
        if maps := tuple(filter(None, map(_policy_map, own))):
            why = f"policy map {', '.join(maps)} may give its packets another class, and weft reads no policy maps"
            ports[name] = PortQos(_paused(own), marking, mtu=mtu, unsure=(why,))
        else:
            usual = "dscp" if "no switchport" in own else "cos"
            ports[name] = PortQos(_paused(own), marking, TRUST[_trust(own) or usual], dscp, mtu)
    return SwitchQos(ports, members, ASSUMED)


def _members(whole: Block, interfaces: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Aggregation -> its links. The answer about interfaces has only links that LACP has activated."""
    found = {n: {*row["memberInterfaces"]} for n, row in interfaces.items() if "memberInterfaces" in row}
    for name in interfaces:
        if name.startswith("Port-Channel"):
            found.setdefault(name, set())
        for line in whole.get(f"interface {name}", {}):
            if match := re.fullmatch(r"channel-group (\d+) mode (?:on|active|passive)", line):
                found.setdefault(f"Port-Channel{match[1]}", set()).add(name)
    return {lag: tuple(sorted(inside)) for lag, inside in found.items()}


def blocks(text: str) -> Block:
    """Parse the configuration by its indentation."""
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
    return _after(below, own)


def _after(first: Block, then: Block) -> Block:
    """Merge two blocks: the second one takes precedence; queues in both are merged."""
    kept = {line: inner for line, inner in first.items() if line not in then}
    return kept | {line: _after(first.get(line, {}), inner) for line, inner in then.items()}


def _policy_map(line: str) -> str:
    """Name of the policy map that a line applies to incoming packets; empty if none."""
    match = re.fullmatch(r"service-policy (?:type \S+ )?input (.+)", line)
    return match[1] if match else ""


def _trust(lines: Block) -> str | None:
    """`dscp`, `cos`, `no`, or None if not set. An interface's own setting takes precedence over its
    profile's."""
    said = [m for line in lines if (m := re.fullmatch(r"(no )?qos trust(?: (cos|dscp))?", line))]
    return None if not said else said[-1][2] or "no"


def _paused(lines: Block) -> frozenset[int]:
    """Priorities with flow control; an interface's own lines (`drop`, `no priority-flow-control`) override
    its profile."""
    on, paused = False, set[int]()
    for line in lines:
        if match := re.fullmatch(r"(no )?priority-flow-control(?: (?:mode )?(on|off))?", line):
            on = match[1] is None and match[2] == "on"
        elif match := re.fullmatch(r"priority-flow-control priority (\d) (no-drop|drop)", line):
            (paused.add if match[2] == "no-drop" else paused.discard)(int(match[1]))
    return frozenset(paused) if on else frozenset()


def _marks(lines: Block, queue: int) -> bool:
    marks = False
    for line in (*lines.get(f"tx-queue {queue}", {}), *lines.get(f"uc-tx-queue {queue}", {})):
        if re.match(r"(no )?random-detect ecn(?! count)", line):
            marks = line.startswith("random-detect ecn minimum-threshold")
    return marks
