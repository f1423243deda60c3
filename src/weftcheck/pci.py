"""PCI devices as sysfs shows them, and what their configuration space says.

Layouts: PCI Express Base Specification, 7.5.3 (PCI Express capability), 7.7.11 (ACS), 10.5.1 (ATS).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weftcheck.expected import Link
from weftcheck.host import Host, MissingError, UnreadableError

FOLDER = "sys/bus/pci/devices"
NVIDIA = 0x10DE
MELLANOX = 0x15B3
QEMU = 0x1B36
"""Vendor of QEMU's own bridges, which have no link and no payload of their own."""
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
_SPACE = 4096
_PCIE, _ACS, _ATS = 0x10, 0x0D, 0x0F
ROOT_PORT, UPSTREAM, DOWNSTREAM = 4, 5, 6


class Device(NamedTuple):
    """A PCI function."""

    address: str
    path: str
    """Its folder, relative to the host's root, without links."""
    vendor: int
    kind: int
    """Class and subclass, such as 0x0302."""
    virtual: bool
    """A virtual function of an adapter of this host."""
    rdma: tuple[str, ...]
    """Names of its RDMA devices, such as mlx5_0."""

    @property
    def is_gpu(self) -> bool:
        """Whether it is a VGA (0300) or 3D (0302) controller of NVIDIA's."""
        return self.vendor == NVIDIA and self.kind in (0x0300, 0x0302)

    @property
    def is_hca(self) -> bool:
        """Whether it is an RDMA adapter of any maker, or NVIDIA's in InfiniBand mode without its driver."""
        return bool(self.rdma) or (self.vendor == MELLANOX and self.kind == 0x0207)

    @property
    def chain(self) -> list[str]:
        """The host bridge, then the addresses of all bridges down to the device."""
        parts = self.path.split("/")
        first = next((i for i, part in enumerate(parts) if part.startswith("pci")), len(parts) - 1)
        return parts[first:-1]


def devices(host: Host) -> list[Device]:
    """All functions. Raises UnreadableError."""
    return [_device(host, name) for name in host.names(FOLDER) if _ADDRESS.match(name)]


def _device(host: Host, address: str) -> Device:
    path = host.target(f"{FOLDER}/{address}")
    rdma = host.names(f"{path}/infiniband") if host.exists(f"{path}/infiniband") else []
    return Device(
        address,
        path,
        host.number(f"{path}/vendor"),
        host.number(f"{path}/class") >> 8,
        host.exists(f"{path}/physfn"),
        tuple(rdma),
    )


def driver(host: Host, device: Device) -> str | None:
    """Name of the driver that is bound to it; None: no driver."""
    link = f"{device.path}/driver"
    return host.target(link).rpartition("/")[2] if host.exists(link) else None


def bridges(host: Host, device: Device) -> Iterator[str]:
    """Folders of the bridges above it, the nearest first."""
    folder = device.path.rpartition("/")[0]
    while _ADDRESS.match(folder.rpartition("/")[2]):
        yield folder
        folder = folder.rpartition("/")[0]


def link(host: Host, folder: str, when: str) -> Link | None:
    """Its link (`when`: `current` or `max`); None: it has none, as the kernel says. Raises UnreadableError."""
    speed = host.text(f"{folder}/{when}_link_speed")
    width = host.text(f"{folder}/{when}_link_width")
    found = re.match(r"(\d+(?:\.\d+)?) GT/s", speed)
    if not found or not width.isdigit() or int(width) in (0, 63, 255):
        return None
    return Link(float(found[1]), int(width))


def distance(one: Sequence[str], other: Sequence[str], same_node: bool) -> tuple[str, str]:
    """How far two chains are apart (PIX, PXB, PHB, NODE, SYS), and what they have in common."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    if common == 0:
        return ("NODE", "the NUMA node") if same_node else ("SYS", "nothing but the link between NUMA nodes")
    if common == 1:
        return "PHB", f"host bridge {one[0]}"
    single = max(len(one), len(other)) - common <= 1
    return "PIX" if single else "PXB", f"bridge {one[common - 1]}"


class Space:
    """A function's configuration space."""

    def __init__(self, source: str, data: bytes) -> None:
        self.source = source
        self.data = data

    @property
    def lost(self) -> bool:
        """Whether every byte is 0xff: the function doesn't answer."""
        return bool(self.data) and not self.data.strip(b"\xff")

    def payload(self) -> tuple[int, int]:
        """MaxPayload and MaxReadReq in bytes. Raises UnreadableError."""
        control = self._word(self._pcie() + 8)
        return 128 << (control >> 5 & 7), 128 << (control >> 12 & 7)

    def port_type(self) -> int:
        """Device/port type of the PCI Express capability. Raises UnreadableError."""
        return self._word(self._pcie() + 2) >> 4 & 15

    def ats(self) -> bool | None:
        """Whether ATS is enabled; None: the function doesn't have it. Raises UnreadableError."""
        at = self._extended(_ATS)
        return None if at is None else bool(self._word(at + 6) & 0x8000)

    def acs(self) -> bool | None:
        """Whether requests or completions are redirected; None: no ACS. Raises UnreadableError."""
        at = self._extended(_ACS)
        return None if at is None else bool(self._word(at + 6) & 0b1100)

    def _pcie(self) -> int:
        if len(self.data) <= 64:
            raise UnreadableError(self.source, "only its first 64 bytes can be read: needs root")
        if not self._word(0x06) & 0x10:
            raise UnreadableError(self.source, "has no capabilities")
        at, seen = self.data[0x34] & 0xFC, 0
        while at >= 0x40 and seen < 48:
            if self._word(at) & 0xFF == _PCIE:
                return at
            at, seen = self._word(at) >> 8 & 0xFC, seen + 1
        raise UnreadableError(self.source, "has no PCI Express capability")

    def _extended(self, wanted: int) -> int | None:
        self._pcie()
        if len(self.data) < _SPACE:
            raise UnreadableError(
                self.source, f"has {len(self.data)} bytes: no extended capabilities visible"
            )
        at = 0x100
        for _ in range((_SPACE - 0x100) // 4):
            header = struct.unpack_from("<I", self.data, at)[0]
            if header & 0xFFFF == wanted:
                return at
            at = header >> 20 & 0xFFC
            if header in (0, 0xFFFFFFFF) or at < 0x100:
                return None
        raise UnreadableError(self.source, "its list of extended capabilities doesn't end")

    def _word(self, at: int) -> int:
        if at + 2 > len(self.data):
            raise UnreadableError(self.source, f"ends at byte {len(self.data)}, before a value at {at}")
        return int(struct.unpack_from("<H", self.data, at)[0])


def space(host: Host, folder: str) -> Space:
    """The configuration space of a function. Raises UnreadableError."""
    path = f"{folder}/config"
    data = host.data(path, _SPACE)
    if not data:
        raise MissingError(f"/{path}", "is empty")
    return Space(f"/{path}", data)
