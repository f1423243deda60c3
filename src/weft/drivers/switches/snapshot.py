"""One reading of an Ethernet fabric's switches: their VLANs and ports, in weft's terms. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.looks import SettingsSeen
from weft.drivers.switches.vlans import DEFAULT, PortVlans, SwitchState
from weft.model.fabric import Configured, Membership, Place, PortSeen, Snapshot
from weft.model.fabrictypes import Level, Mode
from weft.model.site import Site
from weft.model.specs import SegmentSpec


class EthernetSnapshot(Snapshot):
    """Every switch's VLANs and ports.

    Attributes:
        states: switch -> what was read of it; `unread`: switch -> why it could not be.
        names: VLAN -> name from weft's records, for switches that store no names, or another's.
        write_only: switches that can't be read back: their states are what they accepted.
        settings: the switches' settings for RoCE; None: the site wants none.
        by_neutron: Neutron sets the VLANs, and may define them and have links carry them at any time. Only
        hosts' ports count.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        began: float,
        cabling: Cabling,
        states: Mapping[str, SwitchState],
        unread: Mapping[str, str],
        names: Mapping[int, str],
        write_only: frozenset[str] = frozenset(),
        settings: SettingsSeen | None = None,
    ) -> None:
        self.site, self.cabling, self.states, self.unread, self.names = site, cabling, states, unread, names
        self.write_only, self.settings = write_only, settings
        self._range = site.fabrics[fabric].segments
        self.by_neutron = site.fabrics[fabric].is_neutrons
        read = {s: self._defined(s, state) for s, state in states.items()}
        super().__init__(fabric, began, Configured("", read, unread), self._ports)

    def _defined(self, switch: str, state: SwitchState) -> dict[int, str]:
        """VLAN -> its name, for the VLANs of a switch."""
        if not self.by_neutron:
            return {n: name or self.names.get(n, "") for n, name in state.vlans.items()}
        links = {end.partition("/")[2] for end in self.cabling.uplinks if switch_of(end) == switch}
        used = frozenset[int]().union(*(v.numbers for p, v in state.ports.items() if p not in links))
        return {n: self.names.get(n, state.vlans[n]) for n in state.vlans if n in used or n in self.names}

    @property
    def segments(self) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for vlans in self.configured.read.values():
            for number, name in vlans.items():
                found[number] = found.get(number) or name
        return found

    def given(self, number: int) -> frozenset[str]:
        """Names of a VLAN on switches and in weft's records."""
        return frozenset(n for vlans in self.configured.read.values() if (n := vlans.get(number)))

    def coming(self, number: int, port: str | None = None) -> list[str]:
        """Switches with a change in progress that contains a VLAN, where that counts.

        Args:
            port: only changes that have it on this port, at one of its ends.
        """
        ends = None if port is None else self.cabling.ends(port)

        def has(switch: str, state: SwitchState) -> bool:
            if ends is None and not self.by_neutron:
                return state.has(number)
            on = (f"{switch}/{p}" for p, vlans in state.ports.items() if number in vlans.numbers)
            return any(end in ends if ends is not None else end not in self.cabling.uplinks for end in on)

        return sorted(s for s, state in self.states.items() if any(has(s, c) for c in state.coming))

    @cached_property
    def ends(self) -> Mapping[str, PortVlans]:
        """Every port of every switch that was read."""
        return {f"{s}/{p}": vlans for s, state in self.states.items() for p, vlans in state.ports.items()}

    def numbers_at(self, end: str) -> frozenset[int]:
        """VLANs of a switch's port, including those that it forwards beyond its configuration."""
        switch, _, port = end.partition("/")
        return self.ends[end].numbers | self.states[switch].beyond.get(port, frozenset())

    def level(self, port: str) -> Level:
        """The lowest level at which a port was read at any of its ends."""
        levels = {self.states[s].level for e in self.cabling.ends(port) if (s := switch_of(e)) in self.states}
        return next((level for level in Level if level in levels), Level.CONFIGURATION)

    @cached_property
    def carriers(self) -> Mapping[int, frozenset[str]]:
        """VLAN -> ends of links between switches that carry it."""
        found: dict[int, set[str]] = {}
        for end in self.cabling.uplinks & self.ends.keys():
            for number in self.numbers_at(end):
                found.setdefault(number, set()).add(end)
        return {n: frozenset(ends) for n, ends in found.items()}

    @cached_property
    def chosen(self) -> frozenset[int]:
        """VLANs that hosts' ports were explicitly put into. A port that carries the whole range has its
        default configuration."""
        every = frozenset(self._range.numbers())
        return frozenset[int]().union(*(p.numbers for p in self.ports.values() if not every <= {*p.numbers}))

    def named(self, port: str) -> tuple[str, str]:
        """Name of a port for people, and its node."""
        if machine := self.site.machine_by_port.get((self.fabric, port)):
            return f"{machine.name}/rnic", machine.name
        found = self.site.port_by_id.get((self.fabric, port))
        return (f"{found[0].name}/{found[1].name}", found[0].name) if found else (f"unknown port {port}", "")

    def is_write_only(self, port: str) -> bool:
        """Whether a port can't be read back at one of its ends at least: only what weft requested is
        known."""
        return any(switch_of(end) in self.write_only for end in self.cabling.ends(port))

    def why_unread(self, port: str) -> str:
        """Why a port could not be read at some end; empty if it was."""
        for end in self.cabling.ends(port):
            switch = switch_of(end)
            if switch in self.unread:
                return self.unread[switch]
            if end not in self.ends:
                return f"{switch} {self.states[switch].lacks(end.partition('/')[2])}"
        return ""

    def mode(self, member: Membership, number: int) -> str:
        """Mode of a port in a VLAN; if its ends differ, that is said instead."""
        if self.why_unread(member.port):
            return "not readable"
        ends = self.cabling.ends(member.port)
        if any(number in self.states[switch_of(end)].suspended for end in ends):
            return "suspended with its VLAN"
        found = {_mode(self.ends[end], number) for end in ends}
        return found.pop() if len(found) == 1 else "a member at some of its ends"

    def beside(self, member: Membership, number: int) -> frozenset[int]:
        """VLANs that a member's port is in and must not be. On a shared port each pod has its tag, by which
        the host separates its virtual functions; the host's own VLANs may be there, too."""
        others = self.numbers(member.port) - {number}
        if member.mode is not Mode.TRUNK:
            return others
        untagged = {self.ends[e].untagged for e in self.cabling.ends(member.port) if e in self.ends}
        return (others & untagged) - {DEFAULT}

    def numbers(self, port: str) -> frozenset[int]:
        """VLANs of a port at any of its ends."""
        read = (self.numbers_at(e) for e in self.cabling.ends(port) if e in self.ends)
        return frozenset().union(*read)

    def exposed(self, port: str) -> bool:
        """Whether a port, at any of its ends that could be read, is in a parking VLAN where hosts reach each other."""
        ends = (end.partition("/")[::2] for end in self.cabling.ends(port))
        return any(p in self.states[s].exposed for s, p in ends if s in self.states)

    def unsaved(self, port: str) -> list[str]:
        """Switches at a port's ends that would lose weft's last change in a restart."""
        switches = {switch_of(end) for end in self.cabling.ends(port)}
        return sorted(s for s in switches & self.states.keys() if self.states[s].unsaved)

    def _ports(self) -> Mapping[str, PortSeen]:
        known = (*self.site.port_by_id, *self.site.machine_by_port)
        described = {p for f, p in known if f == self.fabric and not self.is_write_only(p)}
        strangers = self.ends.keys() - self.cabling.uplinks - self.cabling.member.keys()
        inside = {
            p
            for p in strangers
            if not self.is_write_only(p) and any(n in self._range for n in self.numbers_at(p))
        }
        return {port: self._seen(port) for port in sorted(described | inside)}

    def _seen(self, port: str) -> PortSeen:
        name, node = self.named(port)
        if why := self.why_unread(port):
            return PortSeen(port, name, node, unread=why)
        ends = self.cabling.ends(port)
        return PortSeen(
            port,
            name,
            node,
            tuple(Place(f"switch port {end} of {name}", self.numbers_at(end)) for end in ends),
        )

    def strangers(self, segment: SegmentSpec) -> list[str]:
        """Ports in the VLAN that aren't members, and links that don't lead to a member's switch."""
        return sorted(self.ports_in.get(segment.number, frozenset()) - segment.ports)

    def needless(self, segment: SegmentSpec) -> list[str]:
        """Ends of links that carry the VLAN needlessly."""
        needed = self.cabling.spread(segment.ports)
        wanted = {end for ends in needed.values() for end in ends}
        return sorted(self.carriers.get(segment.number, frozenset()) - wanted)

    def lacking(self, segment: SegmentSpec) -> list[str]:
        """Ends of links that must carry the VLAN and, as far as they could be read, don't, or where it is suspended."""
        needed = self.cabling.spread(segment.ports)
        wanted = {end for ends in needed.values() for end in ends if switch_of(end) not in self.unread}
        suspended = {s for s, state in self.states.items() if segment.number in state.suspended}
        carry = {e for e in self.carriers.get(segment.number, ()) if switch_of(e) not in suspended}
        return sorted(wanted - carry)


def _mode(vlans: PortVlans, number: int) -> str:
    if number == vlans.untagged:
        # An access port with further VLANs on it would let its host into those, too: `check` reports them.
        return Mode.ACCESS
    return Mode.TRUNK if number in vlans.tagged else "no member"
