"""Ethernet cables by LLDP: what devices say of their neighbours against the site's description. Pure.

Sources: IEEE 802.1AB (chassis and port ids); lldpd's `lldpcli -f json0 show neighbors`; the `parsed-lldp` hook of
Ironic's inspection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weft.model.fabric import FabricDifference
from weft.model.site import Site, port_names
from weft.planning.fabric.topology import natural

Port = tuple[str, str]
"""A switch's name, and the port's name on it."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What a device heard on one of its interfaces.

    Attributes:
        local: the device's own name of the interface.
        device: system name of the neighbour.
        port: the neighbour's name of its port: its port id, or its description where the id is a MAC address.
        mac: the neighbour's port id if it is a MAC address.
    """

    local: str
    device: str
    port: str
    mac: str | None = None


def neighbour(local: str, device: str, port: str) -> Neighbour:
    """By a port id whose kind isn't told: MAC addresses look like none of a port's names."""
    digits = re.sub(r"[:.-]", "", port).lower()
    mac = None
    if re.fullmatch(r"[0-9a-f]{12}", digits) and len(port) > len(digits):
        mac = ":".join(digits[i : i + 2] for i in range(0, 12, 2))
    return Neighbour(local, device, mac or port, mac)


@dataclass(frozen=True, slots=True)
class _Plug:
    """One end of hardware in a switch port, as the site describes it."""

    device: str
    interface: str
    mac: str | None


def neighbours_of(document: Any) -> tuple[Neighbour, ...]:
    """From lldpcli's json0, or from Ironic's inspection data. Raises ValueError for anything else."""
    if not isinstance(document, Mapping):
        raise ValueError("a mapping")
    try:
        if "lldp" in document:
            return tuple(_of_lldpcli(document["lldp"]))
        if "inventory" in document or "plugin_data" in document:
            return tuple(_of_ironic(document.get("plugin_data") or {}))
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"no {error.args[0]}") from None
    raise ValueError("neither lldp nor inventory is in it")


def _of_lldpcli(document: Any) -> Iterator[Neighbour]:
    if not isinstance(document, list):
        raise TypeError("list in lldp: that is another format than json0")
    for one in (i for part in document for i in part.get("interface", ())):
        if one.get("via") != "LLDP" or "name" not in one["chassis"][0]:
            continue
        port = one["port"][0]
        kind, value = port["id"][0]["type"], str(port["id"][0]["value"])
        mac = value.lower() if kind == "mac" else None
        described = str(port["descr"][0]["value"]) if "descr" in port else value
        name = value if kind in ("ifname", "local") else described
        yield Neighbour(str(one["name"]), str(one["chassis"][0]["name"][0]["value"]), name, mac)


def _of_ironic(plugins: Mapping[str, Any]) -> Iterator[Neighbour]:
    if plugins.get("parsed_lldp") is None:
        raise KeyError("parsed_lldp: Ironic's hook parsed-lldp was off")  # nothing was heard isn't known
    for local, heard in plugins["parsed_lldp"].items():
        device, port = heard.get("switch_system_name"), heard.get("switch_port_id")
        if not device or not port:
            continue
        mac = str(port).lower() if str(port).count(":") == 5 else None
        described = heard.get("switch_port_description")
        yield Neighbour(str(local), str(device), str(described if mac and described else port), mac)


def cable_differences(site: Site, heard: Mapping[str, Sequence[Neighbour]]) -> tuple[FabricDifference, ...]:
    """Missing, moved and unknown cables of the devices that were asked.

    Args:
        heard: device -> its neighbours; of a device that isn't there nothing is known.
    """
    described = dict(_described(site))
    switches = {s.name for s in site.switches} | {d.name for d in site.devices if d.kind == "switch"}
    found = dict(_observed(heard, switches, described))
    told = [*_unknown_devices(site, heard)]
    for port, plug in sorted(described.items(), key=lambda i: natural(f"{i[0][0]}/{i[0][1]}")):
        if port in found:
            if not _same(plug, found[port]):
                told.append(_different("moved cable", port, plug, found[port]))
        elif port[0] in heard or (plug.device in heard and plug.interface != "bmc"):
            # What a BMC hears, its host doesn't: only the switch knows of that cable.
            told.append(_different("missing cable", port, plug, None))
    for port, plug in sorted(found.items(), key=lambda i: natural(f"{i[0][0]}/{i[0][1]}")):
        if port not in described and not (plug.device in switches and port[0] in switches):
            told.append(_different("unknown cable", port, None, plug))
    return tuple(told)


def _unknown_devices(site: Site, heard: Mapping[str, object]) -> Iterator[FabricDifference]:
    rows = (*site.switches, *site.devices, *site.nodes, *site.ipu_machines)
    for name in sorted(heard.keys() - {r.name for r in rows}, key=natural):
        yield FabricDifference(
            kind="unknown node", subject=name, what=f"{name} was asked, but isn't in the site"
        )


def _described(site: Site) -> Iterator[tuple[Port, _Plug]]:
    ports = {d.name: port_names(d.ports) for d in site.devices if d.kind == "switch"}

    def at(switch: str | None, port: str | int | None, plug: _Plug) -> Iterator[tuple[Port, _Plug]]:
        if switch is None or port is None:
            return
        names, text = ports.get(switch, ()), str(port)
        numbered = text not in names and text.isdecimal() and 1 <= int(text) <= len(names)
        yield (switch, names[int(text) - 1] if numbered else text), plug

    for one in site.interfaces:
        yield from at(one.switch, one.port, _Plug(one.device, one.name, one.mac))
    for machine in site.ipu_machines:
        for leg in ("bmc", "gw", "rnic"):
            plug = _Plug(machine.name, leg, getattr(machine, f"{leg}_mac"))
            # An RNIC's switch may be described nowhere: then nothing of it can be compared.
            if leg != "rnic" or machine.rnic_switch in ports:
                yield from at(getattr(machine, f"{leg}_switch"), getattr(machine, f"{leg}_port"), plug)
    for node in site.nodes:
        for hca in node.hcas:
            switch, _, port = (hca.switch_port or "").partition("/")
            yield from at(switch or None, port or None, _Plug(node.name, hca.name, hca.mac))


def _observed(
    heard: Mapping[str, Sequence[Neighbour]], switches: set[str], described: Mapping[Port, _Plug]
) -> Iterator[tuple[Port, _Plug]]:
    """By the hosts first, so that what a switch itself says of its port counts."""
    owner_of = {plug.mac: plug for plug in described.values() if plug.mac}
    for device, neighbours in sorted(heard.items(), key=lambda i: i[0] in switches):
        for one in neighbours:
            if device not in switches:
                yield (one.device, one.port), _Plug(device, one.local, None)
                continue
            # A BMC or a PDU often has a system name of its own making, but never another's MAC address.
            known = owner_of.get(one.mac or "")
            yield (device, one.local), known or _Plug(one.device, one.port, one.mac)


def _same(plug: _Plug, seen: _Plug) -> bool:
    """By MAC address if both are known; otherwise by the device, whose interfaces hosts name as they like."""
    if plug.mac and seen.mac:
        return plug.mac == seen.mac
    return plug.device == seen.device


def _different(
    kind: Literal["missing cable", "moved cable", "unknown cable"],
    port: Port,
    plug: _Plug | None,
    seen: _Plug | None,
) -> FabricDifference:
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


def live_differences(
    site: Site,
    fabric: str,
    links: Sequence[tuple[str, str]],
    heard: Mapping[str, Sequence[Neighbour]],
    ends: Callable[[str], Sequence[str]],
) -> tuple[tuple[FabricDifference, ...], tuple[str, ...]]:
    """Cables of an Ethernet fabric by its own switches: what differs, and where nobody is heard (a sentence a switch).

    Hosts need not run LLDP: that none is heard on a port of one is no difference.

    Args:
        links: both ends of each link between switches, as switch/port.
        heard: switch -> its neighbours; of a switch that isn't there nothing is known.
        ends: every end of the bond that a host's port is of.
    """
    mine = {s.name for s in site.switches if s.fabric == fabric}
    known = mine | {n.name for n in site.nodes} | {m.name for m in site.ipu_machines}
    plugs = _fabric_plugs(site, fabric, ends)
    owner_of = {plug.mac: plug for plug in plugs.values() if plug.mac}
    other = dict([*links, *((b, a) for a, b in links)])
    found: list[FabricDifference] = []
    unheard: dict[str, list[str]] = {}
    seen: dict[str, _Plug] = {}
    for switch, neighbours in heard.items():
        for one in neighbours:
            device = _short(one.device, known)
            plug = owner_of.get(one.mac or "") or _Plug(device, one.port, one.mac)
            seen[f"{switch}/{one.local}"] = plug
    for end in sorted({*plugs, *other, *seen}, key=natural):
        switch, _, port = end.partition("/")
        if switch not in heard:
            continue
        far = other.get(end)
        device, _, far_port = (far or "").partition("/")
        described = _Plug(device, far_port, None) if far else plugs.get(end)
        plug = seen.get(end)
        if plug is None and not far:
            unheard.setdefault(switch, []).append(port)
        elif plug is None:
            found.append(_different("missing cable", (switch, port), described, None))
        elif described is None:
            if plug.device in known:
                found.append(_different("unknown cable", (switch, port), None, plug))
        elif not (_ends_there(described, plug) if far else _same(described, plug)):
            found.append(_different("moved cable", (switch, port), described, plug))
    silent = tuple(
        f"nobody is heard by LLDP on {len(ports)} host ports of {switch} ({', '.join(ports[:4])}"
        f"{' …' if len(ports) > 4 else ''})"
        for switch, ports in sorted(unheard.items())
    )
    return tuple(found), silent


def _fabric_plugs(site: Site, fabric: str, ends: Callable[[str], Sequence[str]]) -> Mapping[str, _Plug]:
    """What the site has on each of the fabric's host ports; all ends of a bond are the same adapter's."""
    found: dict[str, _Plug] = {}
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            for end in ends(hca.switch_port) if hca.switch_port else ():
                found[end] = _Plug(node.name, hca.name, hca.mac if end == hca.switch_port else None)
    for (on, end), machine in site.machine_by_port.items():
        if on == fabric:
            found[end] = _Plug(machine.name, "rnic", machine.rnic_mac)
    return found


def _short(device: str, known: Collection[str]) -> str:
    """A system name with or without its domain, as the site has it."""
    short = device.partition(".")[0]
    return short if device not in known and short in known else device


def _ends_there(described: _Plug, seen: _Plug) -> bool:
    """A link between switches: both by name, unless the neighbour says a MAC address instead of its port."""
    return seen.device == described.device and (seen.mac is not None or seen.interface == described.interface)
