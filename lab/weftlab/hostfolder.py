"""A host as weft-check reads it: a folder with sysfs and procfs, and commands with recorded output.

Two sockets, each with a root port and a PCIe switch that has a GPU and an adapter, as HGX boards have them:
root port, upstream port, two downstream ports. Layouts and texts follow public captures: sysfs of Linux 5.15 to 6.8,
`nvidia-smi -q -x` of the drivers that `weftlab.smioutput` names.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

GPUS = ("0000:1b:00.0", "0000:9b:00.0")
HCAS = ("0000:1c:00.0", "0000:9c:00.0")
SOCKETS = ("1", "9")
JOURNAL_COMMAND = "journalctl -k -b -q --no-pager -o short-monotonic"
JOURNAL = "[    0.000000] gpu1 kernel: Linux version 6.8.0\n"
CHRONY_COMMAND = "chronyc -n tracking"
CHRONY = """Reference ID    : C0A80101 (ntp1.example.org)
Stratum         : 3
Ref time (UTC)  : Fri Aug 21 09:00:00 2026
System time     : 0.000012345 seconds slow of NTP time
Last offset     : -0.000010000 seconds
Leap status     : Normal
"""


def space(
    *,
    kind: int = 0,
    payload: int = 256,
    request: int = 4096,
    ats: bool | None = None,
    acs: int | None = None,
    size: int = 4096,
) -> bytes:
    """A configuration space: PCI Express capability at 0x60 behind another one, then ATS and ACS where given."""
    data = bytearray(4096)
    struct.pack_into("<H", data, 0x06, 0x10)
    data[0x34] = 0x48
    struct.pack_into("<BB", data, 0x48, 0x05, 0x60)
    struct.pack_into("<BBH", data, 0x60, 0x10, 0, kind << 4 | 2)
    control = (payload.bit_length() - 8) << 5 | (request.bit_length() - 8) << 12
    struct.pack_into("<H", data, 0x68, control)
    at, extended = 0x100, [(0x01, 0)]
    extended += [] if ats is None else [(0x0F, 0x8000 if ats else 0)]
    extended += [] if acs is None else [(0x0D, acs)]
    for i, (number, value) in enumerate(extended):
        following = at + 0x40 if i + 1 < len(extended) else 0
        struct.pack_into("<IHH", data, at, number | 1 << 16 | following << 20, 0, value)
        at += 0x40
    return bytes(data[:size])


class HostFolder:
    """Makes the folder; what is wrong is written into it afterwards.

    Args:
        root: what the host has at `/`.
        adapter_sockets: the socket that each adapter is plugged in at; each GPU is at its own.
    """

    def __init__(self, root: Path, name: str = "gpu1", adapter_sockets: Sequence[int] = (0, 1)) -> None:
        self.root, self._adapter_sockets = root, adapter_sockets
        self.write("proc/sys/kernel/hostname", f"{name}\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-60-generic\n")
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz ro iommu=pt\n")
        self.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        (root / "sys/kernel/iommu_groups").mkdir(parents=True)
        self.write("sys/module/nvidia_peermem/refcnt", "0")
        for number, socket in enumerate(SOCKETS):
            self.write(f"sys/devices/system/node/node{number}/meminfo", "")
            self._socket(number, socket)

    def _socket(self, number: int, socket: str) -> None:
        bus = f"sys/devices/pci0000:{socket}5"
        for name, kind in ((f"0000:{socket}5:01.0", 4), (f"0000:{socket}6:00.0", 5)):
            bus = f"{bus}/{name}"
            self._function(bus, "0x1000", "0x060400", number, space(kind=kind, acs=0 if kind == 4 else None))
        adapters = [one for one, at in enumerate(self._adapter_sockets) if at == number]
        for port, address in enumerate((GPUS[number], *(HCAS[one] for one in adapters))):
            bridge = f"{bus}/0000:{socket}7:{port:02}.0"
            vendor, class_ = ("0x15b3", "0x020700") if port else ("0x10de", "0x030200")
            self._function(bridge, "0x1000", "0x060400", number, space(kind=6, acs=0))
            self._function(f"{bridge}/{address}", vendor, class_, number, space(ats=False))
            if port:
                self._adapter(f"{bridge}/{address}", adapters[port - 1])

    def _function(self, path: str, vendor: str, class_: str, node: int, data: bytes) -> None:
        files = {"vendor": vendor, "class": class_, "numa_node": str(node)}
        for when in ("current", "max"):
            files |= {f"{when}_link_speed": "32.0 GT/s PCIe", f"{when}_link_width": "16"}
        for name, text in files.items():
            self.write(f"{path}/{name}", f"{text}\n")
        (self.root / path / "config").write_bytes(data)
        self.link(f"sys/bus/pci/devices/{path.rpartition('/')[2]}", path)

    def _adapter(self, path: str, number: int) -> None:
        device = f"{path}/infiniband/mlx5_{number}"
        self.link(f"sys/class/infiniband/mlx5_{number}", device)
        guid = f"a088:c203:0012:345{number}"
        for name, text in {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "link_layer": "InfiniBand",
            "gids/0": f"fe80:0000:0000:0000:{guid}",
            "gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
            "pkeys/0": "0x7fff",
            "pkeys/1": "0x8101",
            "pkeys/2": "0x0000",
        }.items():
            self.write(f"{device}/ports/1/{name}", f"{text}\n")

    def write(self, path: str, text: str) -> None:
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """A relative link, as sysfs has them."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.root / target, file.parent))

    def device(self, address: str) -> Path:
        """A function's folder."""
        return (self.root / "sys/bus/pci/devices" / address).resolve()

    def bridge(self, address: str) -> Path:
        """Folder of the port above a function."""
        return self.device(address).parent

    def port(self, number: int) -> Path:
        """Folder of an adapter's port."""
        return self.root / f"sys/class/infiniband/mlx5_{number}/ports/1"
