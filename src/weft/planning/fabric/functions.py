"""Virtual functions of adapters (SR-IOV): their names, addresses and GUIDs, and which adapter each belongs to. Pure.

weft counts the functions of an adapter from 0 and calls them `mlx5_0/3`. That isn't the index on the host: Nova takes
any free function of the physical network for a port. What weft fixes is the function's identity, the MAC address that
the port asks for; on InfiniBand the GUID follows from it, so that a segment has its member before there is a function.

Sources: SR-IOV 1.1 §2.1.2 (routing ids), networking-mlnx (MAC to GUID: two zero bytes in the middle).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from weft.model.ids import format_guid, parse_guid
from weft.model.site import MOST_VFS, Hca, Node, Site
from weft.planning.fabric.addressing import mac_of_guid

_LOCAL = 0x02
"""First byte of a locally administered unicast MAC address (IEEE 802-2014 §8.4)."""


def named(hca: Hca, number: int) -> str:
    """weft's name of a function."""
    return f"{hca.name}/{number}"


def parsed(name: str) -> tuple[str, int]:
    """Name of the adapter and number of a function."""
    hca, _, number = name.rpartition("/")
    return hca, int(number)


def first_mac(hca: Hca) -> int:
    """MAC address of its function 0; the others follow one by one."""
    if hca.vf_mac is not None:
        return int(hca.vf_mac.replace(":", ""), 16)
    digest = hashlib.sha256(format_guid(hca.port_guid).encode()).digest()
    return int.from_bytes(bytes((_LOCAL, *digest[:4])), "big") * MOST_VFS


def mac_of(hca: Hca, number: int) -> str:
    """MAC address of a function."""
    return ":".join(f"{byte:02x}" for byte in (first_mac(hca) + number).to_bytes(6, "big"))


@lru_cache(maxsize=1 << 16)
def mac_behind(port: str) -> str:
    """MAC address of the Neutron port whose function would have this port id; empty: none has."""
    try:
        guid = parse_guid(port)
    except ValueError:
        return ""
    mac = mac_of_guid(guid)
    return mac if guid_of(mac) == guid else ""


def guid_of(mac: str) -> int:
    """Port GUID of an InfiniBand function with this MAC address."""
    whole = bytes.fromhex(mac.replace(":", ""))
    return int.from_bytes((*whole[:3], 0, 0, *whole[3:]), "big")


def own_ports(site: Site, fabric: str) -> dict[str, str]:
    """Id of the port of each virtual function that has one of its own on a fabric -> `node/adapter/number`."""
    if not site.fabrics[fabric].type.row.function_ports:
        return {}
    hcas = ((node, hca) for node in site.nodes for hca in node.hcas_on(fabric))
    return {
        format_guid(guid_of(mac_of(hca, number))): f"{node.name}/{named(hca, number)}"
        for node, hca in hcas
        for number in range(hca.vfs)
    }


def adapter_at(node: Node, slot: str) -> str | None:
    """Name of the adapter that has the function at this PCI address; None: the site doesn't say."""
    address = routing_id(slot)
    for hca in node.hcas:
        if hca.vf_pci is not None and 0 <= address - routing_id(hca.vf_pci) < hca.vfs:
            return hca.name
    return None


def routing_id(pci: str) -> int:
    """domain:bus:slot.function as one number, which the functions of an adapter count up."""
    domain, bus, rest = pci.split(":")
    slot, function = rest.split(".")
    return int(domain, 16) << 16 | int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)


def pci_address(number: int) -> str:
    """domain:bus:slot.function of a routing id: the inverse of `routing_id`."""
    return f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
