"""Converts NetBox's devices into records of hardware. Pure.

NetBox uses the same objects for planned and for existing hardware: what doesn't exist, or no longer exists,
is left out. Everything that is left out is reported.

Source: NetBox's models (`DeviceStatusChoices`, `IPAddressStatusChoices`, `IPAddressRoleChoices`,
`InterfaceTypeChoices`; `connected_endpoints_reachable`: whether every cable of the path has status connected).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_interface
from typing import Any

from weft.drivers.netboxfields import columns_of_custom_fields, custom_text, mac_of, rack_names, value_of
from weft.model.errors import InputError
from weft.model.hardware import Cell, HardwareRecord
from weft.model.site import DNS_NAMES, PORT_NAME, is_dns_name, plain_port
from weft.planning.hardware.columns import interface_called
from weft.planning.hardware.kinds import kind_of

Json = Mapping[str, Any]

DEVICE_STATUSES = frozenset({"active", "staged"})
"""Statuses of devices that exist."""
ADDRESS_STATUSES = frozenset({"active", "dhcp"})
"""Statuses of addresses that are in use."""
_NOT_ITS_OWN = frozenset({"anycast", "vip", "vrrp", "hsrp", "glbp", "carp", "secondary"})
"""Roles of addresses that an interface has besides its own, or shares."""
_LOGICAL = frozenset({"virtual", "bridge", "lag"})
"""Types of interfaces that no cable is plugged into."""
_CUSTOM_OF_INTERFACE = frozenset({"fabric", "guid", "port_guid", "pci", "network"})
"""Attributes that an interface's custom fields may fill."""
_SOME = 3
"""Most names listed in one sentence."""
_GUIDS = frozenset({"guid", "port_guid"})


@dataclass(slots=True)
class _Interface:
    """One interface with what is below it: the links of a bond, the ports of a bridge, the parent of a VLAN's."""

    json: Json
    name: str
    addresses: list[Json]
    below: list[_Interface] = field(default_factory=list)

    @property
    def custom(self) -> dict[str, str]:
        """Attribute -> text, from its custom fields."""
        found: dict[str, str] = {}
        for name, value in (self.json.get("custom_fields") or {}).items():
            if (attribute := _attribute(name)) and (text := custom_text(value)):
                found[attribute] = text
        return found

    @property
    def is_infiniband(self) -> bool:
        return str(value_of(self.json, "type")).startswith("infiniband")

    @property
    def is_said(self) -> bool:
        """Whether NetBox states the interface's purpose."""
        said = self.addresses or self.json.get("untagged_vlan") or self.is_infiniband
        return bool(said or self.custom.keys() & {"fabric", "network", *_GUIDS})

    def links(self, depth: int = 5) -> list[_Interface]:
        """The physical interfaces it consists of; itself, if it is physical."""
        if not self.below or not depth:
            return [self]
        return [one for inner in self.below for one in inner.links(depth - 1)]


class Devices:
    """Args:
    devices: statuses of devices to include.
    addresses: statuses of addresses to include.
    left_out: called with what is left out, one sentence each.
    """

    def __init__(self, devices: Collection[str], addresses: Collection[str], left_out: list[str]) -> None:
        self._devices, self._addresses, self._left_out = devices, addresses, left_out
        self._absent: dict[int, str] = {}
        self._racks: dict[tuple[Any, str], str] = {}

    def _leave(self, where: str, what: str) -> None:
        self._left_out.append(f"{where}: {what}")

    def chosen(self, devices: Sequence[Json]) -> list[Json]:
        """The devices that exist, by their status."""
        taken: list[Json] = []
        for one in devices:
            status = value_of(one, "status")
            if status is None or status in self._devices:
                taken.append(one)
                continue
            self._absent[one["id"]] = str(status)
            self._leave(f"NetBox device {one['id']}", f"{one.get('name')} has status {status} (see --status)")
        self._racks = rack_names(taken, self._left_out)
        return taken

    def record(
        self, device: Json, interfaces: Sequence[Json], addresses: Mapping[int, Sequence[Json]]
    ) -> HardwareRecord:
        """Args: addresses: id of an interface -> its addresses. Raises `InputError`."""
        place = f"NetBox device {device['id']}"
        cells = {c: Cell(text, column, place) for c, text, column in self._of_device(device, place)}
        is_switch = kind_of(cells["kind"].text if "kind" in cells else "") == "switch"
        seen = self._read(device, interfaces, addresses)
        inside, silent = _inside(seen), list[str]()
        ports: dict[str, str] = {}
        names: dict[str, str] = {}
        macs: set[str] = set()
        for one in sorted(seen, key=lambda one: bool(one.below)):
            where = f"NetBox interface {one.json['id']}"
            hardware = value_of(one.json, "type") not in _LOGICAL
            if is_switch and not one.addresses and not one.json.get("mgmt_only") and hardware:
                self._port(one, where, device, ports)
            elif one.is_said and id(one) not in inside:
                cells |= self._cells(one, where, device, names, macs)
            elif hardware and id(one) not in inside:
                silent.append(one.name)
        if silent:
            some = ", ".join(silent[:_SOME]) + (" …" if silent[_SOME:] else "")
            what = f"interfaces of {device.get('name')} without address, untagged VLAN and fabric"
            self._leave(place, f"{len(silent)} {what}: {some}")
        if ports:
            cells["ports"] = Cell(" ".join(ports), "interfaces", place)
        return HardwareRecord(place, cells)

    def _of_device(self, device: Json, place: str) -> Iterator[tuple[str, str, str]]:
        """Column, text, and NetBox's name of the field."""
        if device.get("name"):
            yield "name", str(device["name"]), "name"
        # Its name until NetBox 3.6 was device_role.
        role = device.get("role") or device.get("device_role")
        if role:
            yield "kind", str(role["slug"]), "role"
        if rack := device.get("rack"):
            name = str(rack["name"])
            yield "rack", self._racks.get((rack.get("id"), name), name), "rack"
        custom, left = columns_of_custom_fields(device, str(role["slug"]) if role else "", place)
        yield from custom
        if left:
            self._leave(
                place,
                f"custom fields of {device.get('name')} that its kind has no column for: {', '.join(left)}",
            )

    def _read(
        self, device: Json, interfaces: Sequence[Json], addresses: Mapping[int, Sequence[Json]]
    ) -> list[_Interface]:
        """A device's interfaces with their addresses in use and what is below each."""
        by_id: dict[int, _Interface] = {}
        for one in interfaces:
            name = str(one["name"])
            mine = [a for a in addresses.get(one["id"], ()) if self._is_its_own(a, device, name)]
            by_id[one["id"]] = _Interface(one, name, mine)
        for one in by_id.values():
            for link in ("lag", "bridge"):
                if (above := by_id.get((one.json.get(link) or {}).get("id", 0))) and above is not one:
                    above.below.append(one)
            if (parent := by_id.get((one.json.get("parent") or {}).get("id", 0))) and parent is not one:
                one.below.append(parent)
        return list(by_id.values())

    def _is_its_own(self, address: Json, device: Json, interface: str) -> bool:
        where, text = f"NetBox address {address['id']}", str(address["address"])
        status, role, why = value_of(address, "status"), value_of(address, "role"), ""
        if status is not None and status not in self._addresses:
            why = f"has status {status} (see --status)"
        elif role in _NOT_ITS_OWN:
            why = f"has role {role}"
        elif (read := ip_interface(text)).version == 6:
            why = "is IPv6"
        elif read.is_link_local:
            why = "is link-local"
        if why:
            self._leave(where, f"{text} of {device.get('name')}'s {interface} {why}")
        return not why

    def _port(self, one: _Interface, where: str, device: Json, ports: dict[str, str]) -> None:
        """A switch port; weft writes its name without blanks."""
        name = plain_port(one.name)
        if not PORT_NAME.fullmatch(name):
            self._leave(
                where, f"port {one.name!r} of {device.get('name')}: its name has brackets or other letters"
            )
        elif (other := ports.setdefault(name, one.name)) != one.name:
            self._leave(where, f"port {one.name!r} of {device.get('name')}: {other!r} is {name} already")

    def _cells(
        self, one: _Interface, where: str, device: Json, names: dict[str, str], macs: set[str]
    ) -> dict[str, Cell]:
        """Column -> cell of one of the device's interfaces; empty if it is left out."""
        of = f"{device.get('name')}'s {one.name}"
        if one.is_infiniband and not one.custom.keys() & _GUIDS and not one.json.get("wwn"):
            self._leave(where, f"InfiniBand interface {of}: no custom fields guid, port_guid and pci")
            return {}
        links = one.links()
        mac = mac_of(one.json) or next((m for k in links if (m := mac_of(k.json))), None)
        if mac and one.below and str(mac).lower() in macs:
            self._leave(where, f"{of}: another interface of the device has its MAC address {mac}")
            return {}
        try:
            name = interface_called(one.name, names)
        except ValueError as error:
            field_ = f"name of an interface of {device.get('name')}"
            raise InputError(field_, one.name, str(error), where) from None
        texts = self._texts(one, of, where)
        if mac and not one.is_infiniband:
            macs |= {m.lower() for k in (one, *links) if (m := mac_of(k.json))}
            texts["mac"] = str(mac), "mac_address"
        texts |= self._cabled(links, mac, of, where, device)
        if "fabric" in texts:
            for gone in {"bond_macs", "bond_ports"} & texts.keys():
                self._leave(
                    where, f"{texts.pop(gone)[0]} of {of}: bonds of adapters are in the site file (bond_pci)"
                )
        return {
            f"{name}_{a}": Cell(text, f"{one.name}.{column}", where) for a, (text, column) in texts.items()
        }

    def _texts(self, one: _Interface, of: str, where: str) -> dict[str, tuple[str, str]]:
        """Attribute -> text and NetBox's name of the field."""
        texts: dict[str, tuple[str, str]] = {}
        if one.addresses:
            # Several addresses are passed on as written; the check of the site reports them.
            text = " ".join(str(a["address"]).partition("/")[0] for a in one.addresses)
            texts["address"] = text, "address"
            label = str(one.addresses[0].get("dns_name") or "").partition(".")[0]
            if label and is_dns_name(label):
                texts["dns_name"] = label, "dns_name"
            elif label:
                self._leave(where, f"dns_name {label!r} of {of}: not of {DNS_NAMES}")
        if one.json.get("untagged_vlan"):
            texts["vlan"] = str(one.json["untagged_vlan"]["vid"]), "untagged_vlan"
        if one.json.get("speed"):
            texts["rate_gbps"] = f"{int(one.json['speed']) / 1e6:g}", "speed"
        if one.is_infiniband and one.json.get("wwn"):
            texts["port_guid"] = str(one.json["wwn"]), "wwn"
        if one.is_infiniband:
            for gone in ("address", "vlan", "dns_name"):
                if gone in texts:
                    self._leave(where, f"{texts.pop(gone)[0]} of {of}: pods give InfiniBand adapters theirs")
        return texts | {a: (text, f"custom_fields.{a}") for a, text in one.custom.items()}

    def _cabled(
        self, links: Sequence[_Interface], mac: Any, of: str, where: str, device: Json
    ) -> dict[str, tuple[str, str]]:
        """The first link's cable; for a bond also the other links' ends, and all MAC addresses that differ
        from the bond's."""
        read = (self._end(link, f"{device.get('name')}'s {link.name}", where, device) for link in links)
        ends = [f"{switch}/{port}" for switch, port in filter(None, read)]
        texts: dict[str, tuple[str, str]] = {}
        if ends:
            switch, _, port = ends[0].partition("/")
            texts |= {"switch": (switch, "connected_endpoints"), "port": (port, "connected_endpoints")}
        others = dict.fromkeys(m for k in links if (m := mac_of(k.json)))
        if others := [m for m in others if m.lower() != str(mac).lower()]:
            texts["bond_macs"] = " ".join(others), "mac_address of its links"
        if ends[1:]:
            texts["bond_ports"] = " ".join(ends[1:]), "connected_endpoints of its links"
        return texts

    def _end(self, link: _Interface, of: str, where: str, device: Json) -> tuple[str, str] | None:
        """The switch and port it is cabled to."""
        ends, kind = link.json.get("connected_endpoints") or (), link.json.get("connected_endpoints_type")
        if not ends:
            if link.json.get("cable"):
                self._leave(where, f"cable of {of}: it leads to no interface")
            return None
        switch = str((ends[0].get("device") or {}).get("name")) if kind == "dcim.interface" else ""
        port = plain_port(str(ends[0].get("name")))
        target, why = f"{switch}/{port}", ""
        if kind != "dcim.interface":
            target, why = f"a {kind}", "an interface of a device is needed"
        elif len(ends) > 1:
            why = f"it has {len(ends)} ends"
        elif (
            link.json.get("connected_endpoints_reachable") is False
            and value_of(device, "status") != "planned"
        ):
            why = "a cable of the path isn't connected"
        elif status := self._absent.get((ends[0].get("device") or {}).get("id", 0)):
            why = f"{switch} has status {status}"
        elif link.is_infiniband:
            why = "the links of InfiniBand come from discovery (weft site check --fabric)"
        elif not PORT_NAME.fullmatch(port):
            why = "the port's name has brackets or other letters"
        if why:
            self._leave(where, f"cable of {of} to {target}: {why}")
            return None
        return switch, port


def _inside(seen: Sequence[_Interface]) -> set[int]:
    """`id()` of interfaces that aren't listed separately: those below others have no address of their own."""
    found: set[int] = set()
    waiting = [one for one in seen if one.is_said]
    while waiting:
        one = waiting.pop()
        for inner in one.below:
            is_parent = bool(one.json.get("parent"))
            if id(inner) not in found and not inner.addresses and not (is_parent and inner.is_said):
                found.add(id(inner))
                waiting.append(inner)
    return found


def _attribute(name: str) -> str | None:
    """The attribute of an interface that a custom field holds."""
    text = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    found = {"node_guid": "guid", "pci_address": "pci"}.get(text, text)
    return found if found in _CUSTOM_OF_INTERFACE else None
