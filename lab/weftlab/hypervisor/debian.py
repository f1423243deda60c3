"""A whole guest: Debian with systemd, cloud-init and OpenSSH, on a disk, for those who can wait a few minutes.

It boots with the small guest's kernel and initramfs, which has the drivers, and gives way to the system on the disk.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from weftlab.environment import Say, lock
from weftlab.hypervisor import image
from weftlab.layout import LabError

NAME = "debian"
"""Name of the image in Glance."""
PACKAGES = {"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"}
COMMAND_LINE = f"{image.COMMAND_LINE} root=/dev/vda"
BOOT = 1200.0
"""Seconds until it is all up, without hardware virtualization, on a busy machine: far more than it takes."""
MEMORY_MIB = 512
SIZE_MIB = 1000
DRIVERS = f"{image.DRIVERS} md_mod raid0 autofs4 nfs nfsv4"
"""Its disk has no modules: what pods' storage needs is loaded before it."""
INSIDE = (
    "cloud-init",
    "openssh-server",
    "systemd-sysv",
    "iproute2",
    "iputils-ping",
    "udev",
    "netbase",
    "ca-certificates",
    "e2fsprogs",
    "mdadm",
    "nfs-common",
)
SETTINGS = """\
datasource_list: [ConfigDrive]
disable_root: false
locale: false
system_info: {network: {renderers: [networkd]}}
"""
"""Root may log in: Debian's own images have another user for it."""
HOOKS = (
    'systemctl --root="$1" enable systemd-networkd',
    'systemctl --root="$1" mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer',
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/usr/share/doc/* "$1"/usr/share/locale/*',
    'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname',
)


def image_of(disk: Path) -> dict[str, Any]:
    """Arguments of `weftlab.hypervisor.jobs.upload`."""
    return {
        "name": NAME,
        "line": COMMAND_LINE,
        "drivers": DRIVERS,
        "filename": str(disk),
        "min_ram": MEMORY_MIB,
    }


def ensure(cache: Path, say: Say) -> Path:
    """The disk, a raw image of an ext4 without partitions. Raises `LabError`."""
    key = hashlib.sha256(repr((INSIDE, SETTINGS, HOOKS, SIZE_MIB)).encode()).hexdigest()[:12]
    disk = cache / f"debian-{key}.raw"
    if disk.exists():
        return disk
    with lock(cache / "debian.lock"):
        if not disk.exists():
            say(f"making a guest with Debian and cloud-init: {disk}")
            with tempfile.TemporaryDirectory(dir=cache) as work:
                _make(Path(work), disk)
    return disk


def _make(work: Path, disk: Path) -> None:
    root, settings = work / "root", work / "90-lab.cfg"
    settings.write_text(SETTINGS)
    hooks = [*HOOKS, f'cp {settings} "$1"/etc/cloud/cloud.cfg.d/']
    _run(
        [
            *("mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(INSIDE)}"),
            *('--aptopt=APT::Install-Recommends "false"', "--dpkgopt=force-unsafe-io"),
            *(f"--customize-hook={hook}" for hook in hooks),
            *("bookworm", str(root)),
        ]
    )
    unfinished = disk.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    _run(["mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(root), str(unfinished), f"{SIZE_MIB}M"])
    unfinished.replace(disk)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{command[0]} failed: {done.stderr.strip()[-800:]}")
