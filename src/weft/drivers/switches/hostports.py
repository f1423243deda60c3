"""Problems of switch ports of hosts, BMCs and other hardware, in a pod or not. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from weft.drivers.switches.cabling import switch_of
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY
from weft.model.site import Site

ISOLATE = (
    "suspend the VLAN, on Open vSwitch set the port's column protected, elsewhere take the port out of it"
)
FIXED = frozenset({"bmc", "gateway", "infrastructure"})
"""Roles of networks whose interfaces stay in one VLAN; a machine's boot port, by contrast, is in several in turn."""


def port_troubles(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """Problems of one switch that was read, one sentence each."""
    yield from _open(switch, seen)
    yield from _misplaced(switch, seen)


def missing_ports(seen: EthernetSnapshot) -> Iterator[str]:
    """Problems of ports that the site names, one sentence each; only for switches that were read."""
    for switch, state in sorted(seen.states.items()):
        for port in sorted(seen.cabling.ports(switch)):
            if why := state.lacks(port):
                yield f"switch {switch} {why}, which the site names"


def parking_notes(seen: EthernetSnapshot) -> Iterator[str]:
    """Warnings of others' ports in a parking VLAN that forwards: an operator who has configured a VLAN that is in use
    should know before weft's first change."""
    for switch, state in sorted(seen.states.items()):
        if others := sorted(state.exposed - seen.cabling.ports(switch)):
            listed = ", ".join(others[:5]) + (" …" if others[5:] else "")
            parks = "weft parks unused ports there, and suspends the VLAN on Arista at each change"
            yield f"switch {switch} forwards in the parking VLAN, which has others' ports ({listed}): {parks}"


def _open(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """Ports that are open to every VLAN: an Open vSwitch port without a tag, or one that
    networking-generic-switch left without ngs_port_default_vlan. Covers all ports that the site has cables
    for: adapters, boot ports and BMCs.
    """
    named = seen.cabling.member.keys() | seen.cabling.others
    exposed = seen.states[switch].exposed
    for end in sorted(named & seen.ends.keys()):
        if switch_of(end) == switch and seen.ends[end].tagged == EVERY:
            yield f"host port {end} is a trunk of every VLAN: put it into the parking VLAN"
        if switch_of(end) == switch and end.partition("/")[2] in exposed:
            yield f"host port {end} is in the parking VLAN, and reaches others in it: {ISOLATE}"
    known = named | seen.cabling.uplinks
    for end in sorted(e for e in seen.ends.keys() - known if switch_of(e) == switch):
        if seen.ends[end].tagged == EVERY:
            yield f"port {end}, where the site has no adapter, carries every VLAN: take those for pods off it"


def _misplaced(switch: str, seen: EthernetSnapshot) -> Iterator[str]:
    """BMCs' and gateways' ports in a wrong VLAN: anyone who shares a VLAN with a BMC can take the machine
    over."""
    shared = _vlans_at(seen.site)
    for one in _fixed(seen.site):
        if switch_of(one.end) != switch:
            continue
        if one.end not in seen.ends:
            yield f"port {one.end} of {one.of} isn't known to its switch: name it as the switch does"
            continue
        if seen.ends[one.end].tagged == EVERY:
            continue  # reported already
        if others := sorted(seen.ends[one.end].numbers - {one.vlan} - shared.get(one.end, set())):
            listed = ", ".join(map(str, others[:5])) + (" …" if len(others) > 5 else "")
            yield f"port {one.end} of {one.of} is in VLAN {listed}; {one.network} has {one.vlan}"


def _vlans_at(site: Site) -> dict[str, set[int]]:
    """Port -> VLANs of the networks whose interfaces are there: a BMC may share its host's port."""
    found: dict[str, set[int]] = {}
    for one in site.interfaces:
        network = site.networks.get(one.network)
        if network is None or network.vlan is None:
            continue
        for switch, port in one.ends:
            found.setdefault(f"{switch}/{port}", set()).add(network.vlan)
    return found


class _Fixed(NamedTuple):
    """A port that stays in one VLAN.

    Attributes:
        end: switch/port.
        of: its owner.
    """

    end: str
    of: str
    network: str
    vlan: int


def _fixed(site: Site) -> Iterator[_Fixed]:
    """Fixed ports of hardware's interfaces, and of BMCs and gateways of IPU-Machines."""
    for one in site.interfaces:
        network = site.networks.get(one.network)
        if network is None or network.vlan is None:
            continue
        if {s.role for s in network.subnets.values()} & FIXED:
            for switch, port in one.ends:
                of = f"{one.device}'s {one.name}"
                yield _Fixed(f"{switch}/{port}", of, f"network {one.network}", network.vlan)
    for machine in site.ipu_machines:
        pod = site.ipu_pods[machine.ipu_pod]
        if machine.bmc_switch and machine.bmc_port:
            end, network = (
                f"{machine.bmc_switch}/{machine.bmc_port}",
                f"the BMCs' network of {machine.ipu_pod}",
            )
            yield _Fixed(end, f"{machine.name}'s BMC", network, pod.bmc.vlan)
        if machine.gw_switch and machine.gw_port:
            end, network = (
                f"{machine.gw_switch}/{machine.gw_port}",
                f"the gateways' network of {machine.ipu_pod}",
            )
            yield _Fixed(end, f"{machine.name}'s IPU-Gateway", network, pod.gateway.vlan)
