"""Ethernet cables by LLDP: the neighbours that devices report, compared with the site's description. Pure.

Source: IEEE 802.1AB (chassis and port ids). `weft.planning.site.lldpfiles` reads what tools have written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.model.observedfabric import FabricDifference
from weft.model.site import Site, plain_port, port_names
from weft.planning.fabric.topology import natural

MAX_NAME = 255
"""Bytes of a system name or a port id, IEEE 802.1AB 8.5."""
Port = tuple[str, str]
"""A switch's name, and the port's name on it."""


@dataclass(frozen=True, slots=True)
class LldpNeighbour:
    """What a device heard on one of its interfaces. The neighbour may be a tenant's, so its texts are reduced to plain
    printable lines.

    Attributes:
        local: the device's own name of the interface.
        device: system name of the neighbour; empty: it has none, like adapters' firmware, and only a MAC address.
        port: the neighbour's name of its port: its port id, or its description where the id is a MAC address.
        mac: the neighbour's port id if it is a MAC address.
        described: its description of its port, which may be the port's name where the id is an alias.
    """

    local: str
    device: str
    port: str
    mac: str | None = None
    described: str | None = None

    def __post_init__(self) -> None:
        for name in ("device", "port", "described"):
            said: str | None = getattr(self, name)
            if said is not None:
                object.__setattr__(
                    self, name, "".join(c if c.isprintable() else "?" for c in said[:MAX_NAME])
                )


def neighbour(local: str, device: str, port: str, described: str | None = None) -> LldpNeighbour:
    """A neighbour by a port id of unknown kind: MAC addresses look different from ports' names."""
    digits = re.sub(r"[:.-]", "", port).lower()
    mac = None
    if re.fullmatch(r"[0-9a-f]{12}", digits) and len(port) > len(digits):
        mac = ":".join(digits[i : i + 2] for i in range(0, 12, 2))
    return LldpNeighbour(local, device, mac or port, mac, None if mac else described)


@dataclass(frozen=True, slots=True)
class Plug:
    """One end of hardware in a switch port, as the site describes it, or as it was heard.

    Attributes:
        bonded: its port may be a link aggregation, of which LLDP names the links.
    """

    device: str
    interface: str
    mac: str | None
    bonded: bool = False


class Names:
    """Devices of a site by the system names that they announce.

    A name matches with or without its domain, and in any case.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = frozenset(known)
        self._folded = {name.casefold(): name for name in self._known}
        self._shorter: dict[str, set[str]] = {}
        for name in self._known:
            for short in _shorter(name.casefold()):
                self._shorter.setdefault(short, set()).add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def find(self, said: str) -> str:
        """The site's name; the given one if it isn't one of the site's, or could be several of them."""
        if said in self._known:
            return said
        folded = said.casefold()
        for name in (folded, *_shorter(folded)):  # the longest first: gpu1.bmc isn't gpu1
            if name in self._folded:
                return self._folded[name]
        longer = self._shorter.get(folded, set())
        return next(iter(longer)) if len(longer) == 1 else said

    def may_be(self, described: str, said: str) -> bool:
        """Whether a device with this name is, or could be, the one that the site describes."""
        if said in self._known:
            return said == described
        return described in self._shorter.get(said.casefold(), ())


def _shorter(name: str) -> Iterator[str]:
    """`a.b` and `a` of `a.b.c`."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


class PortNames:
    """Ports of a site's switches by the names that they announce.

    A switch may announce an alias as its port's id (SONiC: etp5), and the name in its configuration and the site as its
    description. A description counts only if the id isn't a name in the site, nor of the same form: an administrator
    may write anything there, even another port's name. Blanks and case don't matter.
    """

    def __init__(self, known: Iterable[Port]) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._forms: dict[str, set[str]] = {}
        for device, name in known:
            self._known.setdefault(device, {})[_folded(name)] = name
            self._forms.setdefault(device, set()).add(_form(name))

    def find(self, device: str, said: LldpNeighbour) -> str:
        """The site's name of a port; the announced one if unknown. Args: device: the site's name of the switch."""
        known = self._known.get(device, {})
        if (name := known.get(_folded(said.port))) is not None:
            return name
        if said.described is not None and _form(said.port) not in self._forms.get(device, ()):
            return known.get(_folded(said.described), said.port)
        return said.port


def _folded(name: str) -> str:
    return plain_port(name).casefold()


def _form(name: str) -> str:
    """`ethernet#/#` of Ethernet7/1."""
    return re.sub(r"\d+", "#", _folded(name))


def cable_differences(
    site: Site, heard: Mapping[str, Sequence[LldpNeighbour]]
) -> tuple[FabricDifference, ...]:
    """Missing, moved and unknown cables of the devices that were queried.

    Args:
        heard: device -> its neighbours; nothing is known of a device that is missing here.
    """
    names = Names(r.name for r in (*site.switches, *site.devices, *site.nodes, *site.ipu_machines))
    by_name: dict[str, list[LldpNeighbour]] = {}
    for device, neighbours in heard.items():
        by_name.setdefault(names.find(device), []).extend(neighbours)
    heard = by_name
    described: dict[Port, list[Plug]] = {}
    for port, plug in _described(site):
        described.setdefault(port, []).append(plug)
    known = {*described, *((d.name, port) for d in site.devices for port in port_names(d.ports))}
    ports = PortNames(known)
    switches = {s.name for s in site.switches} | {d.name for d in site.devices if d.kind == "switch"}
    found = _observed(heard, switches, described, names, ports)
    found_differences = [*_unknown_devices(names, heard)]
    links: set[Port] = set()
    for port, plugs in sorted(described.items(), key=_in_order):
        plug = plugs[0]
        if port in found:
            if not any(same(one, seen, names) for one in plugs for seen in found[port]):
                found_differences.append(different("moved cable", port, plug, found[port][0]))
        elif plug.bonded and (mine := _links(port, plug, found, described, names)):
            links |= mine
        elif port[0] in heard or any(one.device in heard and one.interface != "bmc" for one in plugs):
            # What a BMC hears, its host doesn't: only the switch knows of that cable.
            found_differences.append(different("missing cable", port, plug, None))
    for port, plugs in sorted(found.items(), key=_in_order):
        between = port[0] in switches and plugs[0].device in switches
        if port not in described and port not in links and not between:
            found_differences.append(different("unknown cable", port, None, plugs[0]))
    return tuple(found_differences)


def _in_order(item: tuple[Port, object]) -> tuple[tuple[int, int | str], ...]:
    return natural(f"{item[0][0]}/{item[0][1]}")


def _links(
    port: Port, plug: Plug, found: Mapping[Port, Sequence[Plug]], described: Collection[Port], names: Names
) -> set[Port]:
    """Ports of the same switch where a bond's host is seen although the site has nothing there: the links of the
    aggregation that the site names."""
    return {
        at
        for at, plugs in found.items()
        if at[0] == port[0]
        and at not in described
        and any(names.may_be(plug.device, p.device) for p in plugs)
    }


def _unknown_devices(names: Names, heard: Mapping[str, object]) -> Iterator[FabricDifference]:
    for name in sorted((n for n in heard if n not in names), key=natural):
        yield FabricDifference(
            kind="unknown node", subject=name, what=f"{name} was queried, but isn't in the site"
        )


def _described(site: Site) -> Iterator[tuple[Port, Plug]]:
    ports = {d.name: port_names(d.ports) for d in site.devices if d.kind == "switch"}

    def at(switch: str | None, port: str | int | None, plug: Plug) -> Iterator[tuple[Port, Plug]]:
        if switch is None or port is None:
            return
        names, text = ports.get(switch, ()), str(port)
        numbered = text not in names and text.isdecimal() and 1 <= int(text) <= len(names)
        yield (switch, names[int(text) - 1] if numbered else text), plug

    for one in site.interfaces:
        macs = (one.mac,) if not one.bond_ports else (None,)
        for switch, port in one.ends:
            # Each link of a bond announces a MAC address of its own; which one isn't known.
            yield from at(switch, port, Plug(one.device, one.name, *macs))
    for machine in site.ipu_machines:
        for leg in ("bmc", "gw", "rnic"):
            plug = Plug(machine.name, leg, getattr(machine, f"{leg}_mac"))
            # An RNIC's switch need not be described: then it can't be compared.
            if leg != "rnic" or machine.rnic_switch in ports:
                yield from at(getattr(machine, f"{leg}_switch"), getattr(machine, f"{leg}_port"), plug)
    for node in site.nodes:
        for hca in node.hcas:
            bond = _bonds(site, hca.fabric).get(hca.switch_port or "", ())
            for end in bond or ((hca.switch_port,) if hca.switch_port else ()):
                switch, _, port = end.partition("/")
                mac = hca.mac if end == hca.switch_port else None
                plug = Plug(node.name, hca.name, mac, bool(bond) or hca.bond_mode is not None)
                yield from at(switch, port or None, plug)


def _bonds(site: Site, fabric: str) -> Mapping[str, tuple[str, ...]]:
    """All ends of a bond by each end."""
    switching = site.fabrics[fabric].manager.switching
    return {end: b.ports for b in switching.bundles for end in b.ports} if switching else {}


def _observed(
    heard: Mapping[str, Sequence[LldpNeighbour]],
    switches: set[str],
    described: Mapping[Port, Sequence[Plug]],
    names: Names,
    ports: PortNames,
) -> Mapping[Port, Sequence[Plug]]:
    """What is in each port; several where an adapter's firmware speaks beside its host. A switch's own report of its
    port takes precedence over what hosts report."""
    owner_of = {plug.mac: plug for plugs in described.values() for plug in plugs if plug.mac}
    by_hosts: dict[Port, list[Plug]] = {}
    by_switch: dict[Port, list[Plug]] = {}
    for device, neighbours in heard.items():
        for one in neighbours:
            if not one.device and (device not in switches or one.mac not in owner_of):
                continue
            if device not in switches:
                switch = names.find(one.device)
                at = (switch, ports.find(switch, one))
                by_hosts.setdefault(at, []).append(Plug(device, one.local, None))
                continue
            # A BMC or a PDU often makes up its system name, but never has another's MAC address.
            known = owner_of.get(one.mac or "")
            plug = known or Plug(names.find(one.device), one.port, one.mac)
            by_switch.setdefault((device, one.local), []).append(plug)
    return by_hosts | by_switch


def same(plug: Plug, seen: Plug, names: Names) -> bool:
    """Whether both are the same end: by MAC address if both are known; otherwise by device, since hosts name interfaces
    freely."""
    if plug.mac and seen.mac:
        return plug.mac == seen.mac
    return names.may_be(plug.device, seen.device)


def different(
    kind: Literal["missing cable", "moved cable", "unknown cable"],
    port: Port,
    plug: Plug | None,
    seen: Plug | None,
) -> FabricDifference:
    """A difference at a port: what the site has there, and what was seen; None: nothing."""
    subject, where = f"{port[0]}/{port[1]}", f"port {port[1]} of {port[0]}"
    described = f"{plug.device}/{plug.interface}" if plug else ""
    observed = f"{seen.device}/{seen.interface}" if seen else ""
    if not observed:
        what = f"{described} isn't seen on {where}"
    elif not described:
        what = f"{observed} is on {where}, where the site has no cable"
    else:
        what = f"{observed} is on {where}, where the site has {described}"
    return FabricDifference(kind=kind, subject=subject, described=described, observed=observed, what=what)
