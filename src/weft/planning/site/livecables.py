"""Cables of an Ethernet fabric, as its own switches hear them by LLDP, compared with the site. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.observedfabric import FabricDifference
from weft.model.site import Site
from weft.planning.fabric.topology import natural
from weft.planning.site.neighbours import LldpNeighbour, Names, Plug, PortNames, different, same

Members = Mapping[str, tuple[str, ...]]
"""Link aggregation of a switch -> the links that it is made of, possibly none."""


@dataclass
class _Heard:
    """What was heard on one end of a cable: on a port, or on each link of an aggregation."""

    links: dict[str, list[Plug]] = field(default_factory=dict[str, list[Plug]])


def live_differences(
    site: Site,
    fabric: str,
    links: Sequence[tuple[str, str]],
    heard: Mapping[str, Sequence[LldpNeighbour]],
    ends: Callable[[str], Sequence[str]],
    members: Mapping[str, Members],
) -> tuple[tuple[FabricDifference, ...], tuple[str, ...]]:
    """What differs, and what could not be compared (a sentence each).

    Hosts need not run LLDP: that none is heard on a port of one is no difference. An adapter's firmware may speak
    beside its host: one of a port's neighbours must match the site. Every link of an aggregation is compared
    separately.

    Args:
        links: both ends of each link between switches, as switch/port.
        heard: switch -> its neighbours; nothing is known of a switch that is missing here.
        ends: returns every end of the bond that a host's port belongs to.
        members: switch -> its aggregations; unknown for a switch that is missing here.
    """
    mine = {s.name for s in site.switches if s.fabric == fabric}
    names = Names((*mine, *(n.name for n in site.nodes), *(m.name for m in site.ipu_machines)))
    plugs = _fabric_plugs(site, fabric, ends)
    other = dict([*links, *((b, a) for a, b in links)])
    owner_of = {p.mac: p for p in _adapters(site, fabric) if p.mac}
    ports = PortNames(_known_ports((*plugs, *other), members))
    seen: dict[str, _Heard] = {}
    for switch, neighbours in heard.items():
        above = {link: lag for lag, inside in members[switch].items() for link in inside}
        for one in neighbours:
            far = names.find(one.device)
            plug = owner_of.get(one.mac or "") or Plug(far, ports.find(far, one), one.mac)
            direct = f"{switch}/{one.local}"
            end = (
                direct
                if direct in plugs or direct in other
                else f"{switch}/{above.get(one.local, one.local)}"
            )
            seen.setdefault(end, _Heard()).links.setdefault(one.local, []).append(plug)
    compared = _Compared(names, members)
    for end in sorted({*plugs, *other, *seen}, key=natural):
        switch, _, port = end.partition("/")
        if switch not in heard:
            continue
        there = seen.get(end, _Heard()).links
        if far := other.get(end):
            compared.link(switch, port, far, there)
        elif end in plugs:
            compared.host(switch, port, plugs[end], there)
        else:
            compared.stranger(switch, there)
    return tuple(compared.found), tuple(compared.notes())


def _known_ports(ends: Iterable[str], members: Mapping[str, Members]) -> Iterator[tuple[str, str]]:
    """Switch and port of all that the site or its switches name."""
    for end in ends:
        switch, _, port = end.partition("/")
        yield switch, port
    for switch, inside in members.items():
        for lag, links in inside.items():
            yield from ((switch, port) for port in (lag, *links))


class _Compared:
    """Differences, one after the other."""

    def __init__(self, names: Names, members: Mapping[str, Members]) -> None:
        self._names, self._members = names, members
        self.found: list[FabricDifference] = []
        self._unheard: dict[str, list[str]] = {}
        self._unsure: dict[str, list[str]] = {}
        self._empty: list[str] = []

    def notes(self) -> Iterator[str]:
        for switch, ports in sorted(self._unheard.items()):
            yield f"no LLDP neighbour on {len(ports)} host ports of {switch} ({_some(ports)})"
        for switch, ends in sorted(self._unsure.items()):
            yield f"ports of {switch} behind {_some(ends)} were not compared: it doesn't report its aggregations"
        if self._empty:
            yield f"cables of {_some(self._empty)} were not compared: no port is in the aggregation"

    def link(self, switch: str, port: str, far: str, there: Mapping[str, Sequence[Plug]]) -> None:
        """A cable to another switch, or an aggregation of several."""
        device, _, far_port = far.partition("/")
        described = Plug(device, far_port, None)
        inside = self._members[switch].get(port)
        if inside == () and not there:
            self._empty.append(f"{switch}/{port}")
            return
        for link in sorted({*(inside or (port,)), *there}, key=natural):
            plugs = there.get(link, ())
            fits = {self._ends_there(described, plug) for plug in plugs}
            if not plugs:
                self.found.append(different("missing cable", (switch, link), described, None))
            elif True not in fits and None in fits:
                self._unsure.setdefault(device, []).append(f"{switch}/{link}")
            elif True not in fits:
                self.found.append(different("moved cable", (switch, link), described, plugs[0]))

    def _ends_there(self, described: Plug, seen: Plug) -> bool | None:
        """Whether both ends match by name; None: unknown, since the neighbour gives a MAC address instead of its
        port."""
        if not self._names.may_be(described.device, seen.device):
            return False
        if seen.mac is not None or seen.interface == described.interface:
            return True
        far = self._members.get(described.device)
        return None if far is None else seen.interface in far.get(described.interface, ())

    def host(self, switch: str, port: str, described: Plug, there: Mapping[str, Sequence[Plug]]) -> None:
        if not there:
            self._unheard.setdefault(switch, []).append(port)
        for link, plugs in sorted(there.items()):
            if not any(same(described, plug, self._names) for plug in plugs):
                self.found.append(different("moved cable", (switch, link), described, plugs[0]))

    def stranger(self, switch: str, there: Mapping[str, Sequence[Plug]]) -> None:
        """Devices of the site where it has no cable."""
        for link, plugs in sorted(there.items()):
            if known := [plug for plug in plugs if plug.device in self._names]:
                self.found.append(different("unknown cable", (switch, link), None, known[0]))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _adapters(site: Site, fabric: str) -> Iterator[Plug]:
    for node in site.nodes:
        yield from (Plug(node.name, hca.name, hca.mac) for hca in node.hcas_on(fabric))
    for machine in site.ipu_machines:
        yield Plug(machine.name, "rnic", machine.rnic_mac)


def _fabric_plugs(site: Site, fabric: str, ends: Callable[[str], Sequence[str]]) -> Mapping[str, Plug]:
    """Switch port of the fabric -> the host's end that the site has there; all ends of a bond are of one adapter."""
    found: dict[str, Plug] = {}
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            for end in ends(hca.switch_port) if hca.switch_port else ():
                bonded = hca.bond_mode is not None or len(ends(end)) > 1
                # The links of a bond may report the MAC address of either of its functions.
                found[end] = Plug(node.name, hca.name, None if bonded else hca.mac, bonded)
    for (on, end), machine in site.machine_by_port.items():
        if on == fabric:
            found[end] = Plug(machine.name, "rnic", machine.rnic_mac)
    return found
