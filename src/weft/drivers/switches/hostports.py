"""What is wrong with switch ports of hosts, BMCs and other hardware, whatever pod they are in or not. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.drivers.switches.cabling import switch_of
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY

FIXED = frozenset({"bmc", "gateway", "infrastructure"})
"""Roles of networks whose interfaces stay in them: a machine's boot port is in several, one after the other."""


def port_troubles(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """Of one switch that was read, one sentence each."""
    yield from _open(switch, seen)
    yield from _misplaced(switch, seen)


def _open(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """An Open vSwitch port without a tag, and what networking-generic-switch leaves without ngs_port_default_vlan.

    Of all ports that the site says something is cabled to, adapters, boot ports and BMCs alike.
    """
    named = seen.cabling.member.keys() | seen.cabling.others
    for end in sorted(named & seen.ends.keys()):
        if switch_of(end) == switch and seen.ends[end].tagged == EVERY:
            yield f"host port {end} is a trunk of every VLAN: put it into the parking VLAN"


def _misplaced(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """Whoever shares a VLAN with a BMC can take the machine over."""
    for one in seen.site.interfaces:
        network, end = seen.site.networks.get(one.network), f"{one.switch}/{one.port}"
        if one.switch != switch or one.port is None or network is None or network.vlan is None:
            continue
        if not {s.role for s in network.subnets.values()} & FIXED:
            continue
        if end not in seen.ends:
            of = f"{one.device}'s {one.name}"
            yield f"port {end} of {of} isn't known to its switch: name it as the switch does"
            continue
        if seen.ends[end].tagged == EVERY:
            continue  # told already
        if others := sorted(seen.ends[end].numbers - {network.vlan}):
            listed = ", ".join(map(str, others[:5])) + (" …" if len(others) > 5 else "")
            of = f"{one.device}'s {one.name}"
            yield f"port {end} of {of} is in VLAN {listed}; network {one.network} has {network.vlan}"
