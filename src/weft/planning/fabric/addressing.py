"""InfiniBand ports as Ethernet tools, DHCP and Ironic know them: by 48-bit MAC, client id and IPoIB address. Pure.

An IPoIB hardware address has 20 bytes (RFC 4391 §9.1.1): flags and queue pair number (4), subnet prefix (8), port
GUID (8). Where only 48 bits fit, a physical port is known by its GUID without the two middle bytes; that can't be
undone. A virtual function goes the other way: its GUID is its MAC address with two zero bytes in the middle
(`weft.planning.fabric.functions`).

Sources: ironic-python-agent (`hardware_managers/mlnx.py`: MAC, client id), networking-mlnx (client id of a virtual
function), cloud-init (`net.get_ib_interface_hwaddr`: MAC and DHCP client id of an interface).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LINK_LOCAL_PREFIX = 0xFE80_0000_0000_0000
"""Default subnet prefix of a fabric (IBA §4.1.1)."""
HARDWARE_BYTES = 20
_HARDWARE = re.compile(rf"[0-9a-fA-F]{{2}}(:[0-9a-fA-F]{{2}}){{{HARDWARE_BYTES - 1}}}")
MOST_QPN = (1 << 24) - 1
_IRONIC_CLIENT_ID = bytes.fromhex("ff000000000002000002c900")
"""What Ironic's agent puts before a physical port's GUID."""


@dataclass(frozen=True, slots=True)
class IPoIBAddress:
    """The hardware address of an IPoIB interface: 20 bytes.

    Attributes:
        flags: first byte: 0x80 or'ed with others says that connected mode is possible.
        qpn: queue pair number, 24 bits; a new one each time the interface comes up.
        prefix: subnet prefix, 64 bits.
        guid: port GUID.
    """

    qpn: int
    guid: int
    prefix: int = LINK_LOCAL_PREFIX
    flags: int = 0x80

    def __post_init__(self) -> None:
        for name, value, most in (
            ("flags", self.flags, 0xFF),
            ("queue pair number", self.qpn, MOST_QPN),
            ("subnet prefix", self.prefix, (1 << 64) - 1),
            ("GUID", self.guid, (1 << 64) - 1),
        ):
            if not 0 <= value <= most:
                raise ValueError(f"{name} {value:#x} of an IPoIB address: 0 to {most:#x}")

    @classmethod
    def parse(cls, text: str) -> IPoIBAddress:
        """Read 20 hex pairs with colons, as `ip link` and sysfs print them. Raises ValueError."""
        if not _HARDWARE.fullmatch(text.strip()):
            raise ValueError(f"IPoIB address {text!r}: {HARDWARE_BYTES} hex pairs with colons between them")
        whole = bytes.fromhex(text.strip().replace(":", ""))
        prefix, guid = int.from_bytes(whole[4:12], "big"), int.from_bytes(whole[12:], "big")
        return cls(int.from_bytes(whole[1:4], "big"), guid, prefix, whole[0])

    @property
    def text(self) -> str:
        """Its 20 bytes in hexadecimal, with colons."""
        parts = (self.flags, 1), (self.qpn, 3), (self.prefix, 8), (self.guid, 8)
        return _pairs(b"".join(value.to_bytes(size, "big") for value, size in parts))


def mac_of_guid(guid: int) -> str:
    """48-bit MAC address by which a physical port is known: the GUID without its two middle bytes."""
    whole = guid.to_bytes(8, "big")
    return _pairs(whole[:3] + whole[5:])


def client_id(guid: int) -> str:
    """DHCP client id of a physical port: `extra.client-id` of its port in Ironic."""
    return _pairs(_IRONIC_CLIENT_ID + guid.to_bytes(8, "big"))


def _pairs(whole: bytes) -> str:
    return whole.hex(":")
