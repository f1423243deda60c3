"""Where an interface of a list belongs: its network, its VLAN, and an address if the list has none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from weft.model.site import IpuPod, SiteNetwork
from weft.planning.shapes.ipu.check import KEPT
from weft.planning.site.ranges import MAX_VLAN

_PCI = re.compile(r"(?:(?:0000)?(?P<domain>[0-9a-fA-F]{4}):)?(?P<rest>[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7])")
_BARE_MAC = re.compile(r"[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class AddressBlock:
    """A block of addresses that hardware may have.

    Attributes:
        excluded: first and last address of each range that is for others.
    """

    addresses: IPv4Network
    excluded: tuple[tuple[IPv4Address, IPv4Address], ...] = ()


@dataclass(slots=True)
class Addresses:
    """Gives out the lowest free addresses; the list's own are taken first."""

    taken: set[IPv4Address] = field(default_factory=set)
    _from: dict[AddressBlock, int] = field(default_factory=dict)
    """Where the next search begins: all below are taken or for others."""

    def note(self, texts: Iterable[str]) -> None:
        """Note addresses of the list as taken; invalid ones are reported elsewhere."""
        for text in texts:
            if (address := address_of(text)) is not None:
                self.taken.add(address)

    def take(self, block: AddressBlock) -> str | None:
        """Take the lowest free address; None if none is left."""
        number, last = self._from.get(block, int(block.addresses[0]) + 1), int(block.addresses[-1])
        while number < last:
            address = IPv4Address(number)
            inside = [end for start, end in block.excluded if start <= address <= end]
            if inside:
                number = int(max(inside)) + 1
                continue
            if address not in self.taken:
                self.taken.add(address)
                self._from[block] = number + 1
                return str(address)
            number += 1
        return None


def address_of(text: str | None) -> IPv4Address | None:
    """The address, None if it isn't one; with a prefix length, as inventories write it (10.1.0.5/24), without it."""
    try:
        return IPv4Interface(text or "").ip
    except ValueError:
        return None


def block_of(network: SiteNetwork, subnet: str) -> AddressBlock:
    """Addresses of a subnet that hardware may have."""
    one = network.subnets[subnet]
    excluded = [(one.pool.first, one.pool.last)] if one.pool else []
    excluded += [(one.gateway, one.gateway)] if one.gateway else []
    return AddressBlock(one.addresses, tuple(excluded))


def leg_of(pod: IpuPod, interface: str, networks: Mapping[str, SiteNetwork]) -> AddressBlock:
    """Addresses that an IPU-Machine's `bmc`, `gw` or `rnic` may have."""
    if interface == "rnic":
        data = pod.data.addresses
        return AddressBlock(data, ((data[-1 - KEPT], data[-1]),))
    addresses = pod.bmc.addresses if interface == "bmc" else pod.gateway.addresses
    excluded: list[tuple[IPv4Address, IPv4Address]] = []
    if interface == "gw":
        excluded += [(pod.gateway.controllers[0], pod.gateway.controllers[-1])]
        excluded += [(pod.gateway.managed_from[0], pod.gateway.managed_from[-1])]
    for network in networks.values():
        for name, subnet in network.subnets.items():
            if network.cloud == pod.cloud and subnet.addresses == addresses:
                excluded += block_of(network, name).excluded
    return AddressBlock(addresses, tuple(excluded))


def vlans_of(pod: IpuPod, interface: str) -> range:
    """VLANs that an IPU-Machine's interface may be in."""
    if interface == "rnic":
        # Of a fabric, the site file says which are weft's.
        return pod.data.segments.numbers() if pod.data.segments is not None else range(1, MAX_VLAN + 1)
    vlan = pod.bmc.vlan if interface == "bmc" else pod.gateway.vlan
    return range(vlan, vlan + 1)


def several(text: str) -> list[str]:
    """Values of a cell that holds several, separated by blanks, commas or semicolons."""
    return [word for word in re.split(r"[\s,;]+", text) if word]


def plain_pci(text: str) -> str:
    """`07:00.0`, as lspci writes it in domain 0, and `00000000:07:00.0` of nvidia-smi, with a domain of four digits;
    anything else as it is."""
    found = _PCI.fullmatch(text.strip())
    return f"{found['domain'] or '0000'}:{found['rest']}".lower() if found else text


def plain_mac(text: str) -> str:
    """`70-69-79-20-14-02`, `7069.7920.1402` and `706979201402` with colons; anything else as it is."""
    digits = re.sub(r"[-.:]", "", text.strip())
    if not _BARE_MAC.fullmatch(digits) or not re.fullmatch(
        r"[0-9a-fA-F]{1,12}([-.:]?[0-9a-fA-F]+)*", text.strip()
    ):
        return text
    return ":".join(digits[i : i + 2] for i in range(0, 12, 2)).lower()
