"""Finds what a site's description has under a name, GUID, MAC address, IPv4 address or Ironic's id. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from weft.model.site import Site

_NUMBER = re.compile(r"(?:(?:vlan|p_?key|segment)[ :=]*)?(0x[0-9a-f]{1,4}|[0-9]{1,5})", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{12}|[0-9a-f]{16}")
_SHORT_GUID = re.compile(r"[0-9a-f]{13,15}")
"""A GUID as ibnetdiscover's attributes have it, without zeros in front: caguid=0x2c90300300010."""
Named = tuple[str, str, str, str, str]
"""Value, kind and name of a thing, which of its values it is, and the node or machine that it belongs to."""


@dataclass(frozen=True, slots=True)
class SiteHit:
    """Something of the site.

    Attributes:
        kind: node, adapter, switch …
        what: which of its values is the one that was searched for.
        unit: node or IPU-Machine that it is, or that it is in; empty: neither.
    """

    kind: str
    name: str
    what: str
    unit: str = ""


def plain(text: str) -> str:
    """The value in its normal form: lower case; GUIDs and MAC addresses as hexadecimal digits alone."""
    lower = text.strip().lower()
    digits = re.sub(r"[:.-]", "", lower.removeprefix("0x"))
    if _SHORT_GUID.fullmatch(digits) and digits == lower.removeprefix("0x"):
        return digits.zfill(16)
    return digits if _HEX.fullmatch(digits) else lower


def numbers_of(text: str) -> list[int]:
    """A P_Key or VLAN as people write it, also a P_Key with its bit for full membership (0x8000)."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return []
    digits = found[1].lower()
    number = int(digits, 16) if digits.startswith("0x") else int(digits)
    return [number, number - 0x8000] if digits.startswith("0x8") and number >= 0x8000 else [number]


def search_site(site: Site, text: str, limit: int) -> list[SiteHit]:
    """What has exactly this value; no more than `limit`, in the site's order."""
    wanted = plain(text)
    is_hex = _HEX.fullmatch(wanted) is not None
    guid = int(wanted, 16) if is_hex and len(wanted) == 16 else None
    mac = ":".join(wanted[i : i + 2] for i in range(0, 12, 2)) if is_hex and len(wanted) == 12 else None
    found = (
        hit
        for part in (_adapters(site, guid, mac, wanted), _named(site, guid, mac, wanted, text))
        for hit in part
    )
    return list(islice(found, limit))


def _adapters(site: Site, guid: int | None, mac: str | None, wanted: str) -> Iterator[SiteHit]:
    """Adapters of hosts; there are many of them, so each is compared by one kind of value only."""
    for node in site.nodes:
        for hca in node.hcas:
            what = ""
            if guid is not None:
                what = "port GUID" if hca.port_guid == guid else "node GUID" if hca.guid == guid else ""
            elif mac is not None:
                what = "MAC address" if hca.mac is not None and hca.mac.lower() == mac else ""
            elif hca.switch_port is not None and hca.switch_port.lower() == wanted:
                what = "switch port"
            if what:
                yield SiteHit("adapter", f"{node.name}/{hca.name}", f"{what} on {hca.fabric}", node.name)


def _named(site: Site, guid: int | None, mac: str | None, wanted: str, text: str) -> Iterator[SiteHit]:
    for switch in site.switches:
        if guid is not None and switch.guid == guid:
            yield SiteHit("switch", switch.name, f"node GUID, {switch.level} of {switch.fabric}")
    same = {wanted, mac, text.strip().lower()}
    for value, kind, name, what, unit in _values(site):
        if value and value.lower() in same:
            yield SiteHit(kind, name, what, unit)


def _values(site: Site) -> Iterator[Named]:
    for node in site.nodes:
        yield node.name, "node", node.name, "name", node.name
        yield node.host or "", "node", node.name, "host in Nova", node.name
        yield node.machine or "", "node", node.name, "id in Ironic", node.name
    for one in site.ipu_machines:
        yield one.name, "IPU-Machine", one.name, "name", one.name
        for leg in ("rnic", "bmc", "gw"):
            yield getattr(one, f"{leg}_mac"), "IPU-Machine", one.name, f"MAC address ({leg})", one.name
            yield str(getattr(one, f"{leg}_address")), "IPU-Machine", one.name, f"address ({leg})", one.name
    for switch in site.switches:
        yield switch.name, "switch", switch.name, f"name, {switch.level} of {switch.fabric}", ""
    for rack in site.racks:
        yield rack.name, "rack", rack.name, "name", ""
    for device in site.devices:
        yield device.name, device.kind, device.name, "name", ""
    units = site.units
    for one in site.interfaces:
        unit, name = one.device if one.device in units else "", f"{one.device}/{one.name}"
        yield one.mac, "interface", name, f"MAC address on {one.network}", unit
        yield str(one.address), "interface", name, f"address on {one.network}", unit
        yield one.dns_name or "", "interface", name, "DNS name", unit
