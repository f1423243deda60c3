"""What a lab's Ethernet fabric is made of, as values: switches with ports by vendor names, cables, hosts.

A port is identified by its switch and number. A vendor's name for it (`Ethernet7`, `swp7`) appears only in the
switch's own API; Open vSwitch knows it as `interface`, since all bridges share one network namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from weftlab.layout import LabError

Speaks = Literal["ovs", "eos", "nvue", "sonic"]

MAX_INTERFACE = 15
"""Bytes of a network interface's name without the final zero, IFNAMSIZ in linux/if.h."""

NAMES: Mapping[Speaks, str] = {
    "ovs": "{switch}p{n}",
    "eos": "Ethernet{n}",
    "nvue": "swp{n}",
    "sonic": "Ethernet{x4}",
}
"""A port's name in each interface; SONiC counts lanes, of which a port of 100 Gb/s has four."""

LAGS: Mapping[Speaks, str] = {
    "ovs": "{switch}p{n}",
    "eos": "Port-Channel{n}",
    "nvue": "bond{n}",
    "sonic": "PortChannel{n}",
}


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """One switch.

    Attributes:
        speaks: interface that it is managed by.
        ports: how many it has, numbered from 1.
        lags: numbers of ports that are a link aggregation of one link here; with the same `lacp_system` on two
            switches a host's bond may end on both (MLAG).
        lacp_system: MAC address that its LACP announces.
        root: it is to be the root of the spanning tree.
    """

    name: str
    speaks: Speaks = "ovs"
    ports: int = 16
    lags: frozenset[int] = frozenset()
    lacp_system: str = ""
    root: bool = False

    def interface(self, number: int) -> str:
        """Name of the port in Open vSwitch and in the kernel."""
        name = f"{self.name}p{number}"
        if len(name) > MAX_INTERFACE:
            raise LabError(
                f"switch {self.name}: {name!r} is too long: an interface's name has {MAX_INTERFACE} bytes"
            )
        return name

    def port(self, number: int) -> str:
        """What the switch calls the port that VLANs are set on: the port itself, or its link aggregation."""
        form = (LAGS if number in self.lags else NAMES)[self.speaks]
        return form.format(switch=self.name, n=number, x4=4 * (number - 1))

    def link(self, number: int) -> str:
        """The port itself, also where it is the only link of an aggregation."""
        return NAMES[self.speaks].format(switch=self.name, n=number, x4=4 * (number - 1))

    def members(self) -> dict[str, str]:
        """Aggregation -> its link."""
        return {self.port(n): self.link(n) for n in sorted(self.lags)}

    def by_name(self) -> dict[str, int]:
        """Vendor's name -> number of every port."""
        return {self.port(n): n for n in range(1, self.ports + 1)}


@dataclass(frozen=True, slots=True)
class End:
    """A port of a switch."""

    switch: str
    number: int


@dataclass(frozen=True, slots=True)
class Cable:
    """Between two switches."""

    a: End
    b: End
    peer: bool = False
    """It is the peer link of an MLAG pair."""


@dataclass(frozen=True, slots=True)
class HostPlan:
    """A host, which is a network namespace with `eth0`: cabled to one port, or a bond of two.

    Attributes:
        index: its number, from 1; its addresses are made of it.
    """

    name: str
    index: int
    ends: tuple[End, ...]

    @property
    def mac(self) -> str:
        """MAC address of the host's adapter, by its index."""
        return f"02:00:00:00:{self.index // 256:02x}:{self.index % 256:02x}"

    @property
    def address(self) -> str:
        """Address on the fabric, by its index."""
        return f"10.9.{self.index // 256}.{self.index % 256}"


@dataclass(frozen=True, slots=True)
class FabricPlan:
    """A whole fabric: switches, cables and hosts."""

    switches: tuple[SwitchPlan, ...]
    cables: tuple[Cable, ...]
    hosts: tuple[HostPlan, ...]
    mtu: int = 9000
    by_name: Mapping[str, SwitchPlan] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {s.name: s for s in self.switches})
        taken: set[End] = set()
        for end in self.ends():
            switch = self.by_name.get(end.switch)
            if switch is None or not 1 <= end.number <= switch.ports:
                raise LabError(f"there is no port {end.number} of switch {end.switch}")
            if end in taken:
                raise LabError(f"port {end.number} of switch {end.switch} has two cables")
            taken.add(end)

    def ends(self) -> list[End]:
        """Every port that has a cable."""
        between = [end for c in self.cables for end in (c.a, c.b)]
        return between + [end for h in self.hosts for end in h.ends]

    def heard(self, switch: str) -> dict[str, tuple[str, str]]:
        """What a switch hears by LLDP: its own name of a port -> system name and port id of the neighbour.

        Hosts' adapters say their MAC address, as their firmware does.
        """
        mine = self.by_name[switch]
        found = {
            mine.link(near.number): (far.switch, self.by_name[far.switch].link(far.number))
            for c in self.cables
            for near, far in ((c.a, c.b), (c.b, c.a))
            if near.switch == switch
        }
        hosts = {
            mine.link(e.number): (h.name, h.mac) for h in self.hosts for e in h.ends if e.switch == switch
        }
        return found | hosts

    def port(self, end: End) -> str:
        """`switch/port`, as a site names it."""
        return f"{end.switch}/{self.by_name[end.switch].port(end.number)}"


def leaf_spine(
    speaks: Mapping[str, Speaks] | Speaks = "ovs",
    leaves: int = 2,
    spines: int = 2,
    hosts_each: int = 4,
    mlag: bool = False,
) -> FabricPlan:
    """Leaves, each cabled to each spine, with hosts on them; `host1` and so on are on the first leaf.

    Args:
        speaks: interface of every switch, or of each by name.
        mlag: the first two leaves are a pair, with one more host, `bonded`, that has a bond to both.
    """

    def one(name: str, root: bool) -> SwitchPlan:
        chosen: Speaks = speaks if isinstance(speaks, str) else speaks[name]
        pair = mlag and name in ("leaf1", "leaf2")
        lags = frozenset({hosts_each + 1}) if pair else frozenset[int]()
        system = "02:00:00:00:fe:01" if pair else ""
        return SwitchPlan(name, chosen, hosts_each + spines + 3, lags, system, root)

    names = [f"leaf{i + 1}" for i in range(leaves)]
    tops = [f"spine{i + 1}" for i in range(spines)]
    switches = [one(n, False) for n in names] + [one(n, i == 0) for i, n in enumerate(tops)]
    up = hosts_each + 2
    cables = [Cable(End(n, up + j), End(s, 1 + i)) for i, n in enumerate(names) for j, s in enumerate(tops)]
    hosts = [
        HostPlan(f"host{i * hosts_each + k + 1}", i * hosts_each + k + 1, (End(n, k + 1),))
        for i, n in enumerate(names)
        for k in range(hosts_each)
    ]
    if mlag:
        last = up + spines
        cables.append(Cable(End("leaf1", last), End("leaf2", last), peer=True))
        both = (End("leaf1", hosts_each + 1), End("leaf2", hosts_each + 1))
        hosts.append(HostPlan("bonded", len(hosts) + 1, both))
    return FabricPlan(tuple(switches), tuple(cables), tuple(hosts))
