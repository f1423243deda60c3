"""A machine that boots, as QEMU's command line; nothing of the BMC emulator is needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MEMORY_MIB = 128
DISK_BYTES = 64 << 20
OFFLOADS = (
    "csum gso host_tso4 host_tso6 host_ecn host_ufo guest_csum guest_tso4 guest_tso6 guest_ecn guest_ufo"
)
"""Frames on Open vSwitch's userspace datapath need checksums: with offloads ping works, and TCP hangs."""


def command(
    tap: str, mac: str, disk: Path, media: Mapping[str, str], boot_device: str, serial: Path, log: Path
) -> list[str]:
    """QEMU without hardware virtualization, with a disk and what is in the virtual media devices.

    Args:
        tap: that its adapter is cabled to, in the network namespace that it runs in.
        mac: of the adapter.
        media: Redfish's virtual media device (`Cd`, `Floppy`) -> image. What is in `Floppy`, where Ironic puts its
            virtual USB sticks, is a second disk: the guests' kernel has no driver for USB.
        boot_device: Redfish's `Cd` or `Hdd`.
        serial: socket of its serial port; `log`: file that gets what it says there.
    """
    off = "".join(f",{name}=off" for name in OFFLOADS.split())
    words = ["qemu-system-x86_64", "-name", tap, "-machine", "pc", "-accel", "tcg,tb-size=32"]
    words += ["-m", str(MEMORY_MIB), "-nodefaults", "-vga", "std", "-display", "none"]
    port = f"socket,id=serial,path={serial},server=on,wait=off,logfile={log},logappend=on"
    words += ["-chardev", port, "-serial", "chardev:serial", "-drive", f"file={disk},format=raw,if=virtio"]
    if stick := media.get("Floppy"):
        words += ["-drive", f"file={stick},format=raw,if=virtio,readonly=on"]
    if disc := media.get("Cd"):
        # The guests' kernel has no driver for IDE, and an agent reads its network from there.
        words += ["-drive", f"file={disc},format=raw,if=none,id=cd,media=cdrom,readonly=on"]
        words += ["-device", "virtio-scsi-pci", "-device", "scsi-cd,drive=cd"]
    words += ["-boot", f"order={'dc' if boot_device == 'Cd' else 'c'}"]
    words += ["-netdev", f"tap,id=eno1,ifname={tap},script=no,downscript=no"]
    # Without a ROM to boot over the network: it would ask the tenant's network for one.
    return [*words, "-device", f"virtio-net-pci,netdev=eno1,mac={mac},romfile={off}"]
