"""Guests as jobs of the lab's graph."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from weft.model.site import Site
from weftlab import checks
from weftlab.bootstrap import connect
from weftlab.environment import Say
from weftlab.hypervisor import config, image
from weftlab.hypervisor.bridges import DOOR, guest_hosts, make_bridges
from weftlab.layout import LabError, Layout
from weftlab.service import Job, Service, Step
from weftlab.switches.labsite import lab_ovs

PACKAGES = {
    "libvirtd": "libvirt-daemon",
    "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so": "libvirt-daemon-driver-qemu",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "genisoimage": "genisoimage",
    "ssh": "openssh-client",
    "dnsmasq": "dnsmasq-base",
}
MODULE = "python3-libvirt"
MODULES = Path("/usr/lib/python3/dist-packages")
SPACES = (DOOR, config.DHCP)
"""Namespaces beside those of switches and hosts."""


def module_files() -> tuple[str, str]:
    """Debian's libvirt module: its Python part, and the binary for this version of Python."""
    return (
        "libvirt.py",
        f"libvirtmod.cpython-{sys.version_info.major}{sys.version_info.minor}-x86_64-linux-gnu.so",
    )


def packages() -> dict[str, str]:
    """What to install: program or file -> package."""
    return {**PACKAGES, str(MODULES / module_files()[1]): MODULE}


def ensure(cache: Path, say: Say) -> None:
    """The guests' image. Raises `LabError`."""
    for name in module_files():
        if not (MODULES / name).exists():
            raise LabError(f"--guests needs Debian 12's Python: its package {MODULE} has no {name}")
    image.ensure(cache, say)


def write(layout: Layout) -> None:
    """Write libvirtd's configuration, and link Debian's libvirt module for Nova's environment."""
    config.write_libvirtd(layout)
    overlay = config.overlay(layout)
    overlay.mkdir(parents=True, exist_ok=True)
    for name in module_files():
        (overlay / name).unlink(missing_ok=True)
        (overlay / name).symlink_to(MODULES / name)


def upload(
    layout: Layout,
    name: str = image.NAME,
    line: str = image.COMMAND_LINE,
    drivers: str = image.DRIVERS,
    **more: Any,
) -> None:
    """Upload an image that boots the guests' kernel and initramfs; a second call changes nothing.

    Args:
        line: of the kernel.
        drivers: of the initramfs.
        more: of the image, as openstacksdk has it; without `filename` or `data` its disk is empty.
    """
    glance: Any = connect(layout).image
    if glance.find_image(name):
        return
    found = image.ensure(layout.cache, lambda _: None, drivers)
    usual: dict[str, Any] = {"visibility": "public", "allow_duplicates": True, "wait": True}

    def part(kind: str, path: Path) -> str:
        usual_of_part = {"disk_format": kind, "container_format": kind, **usual}
        return glance.create_image(f"{name}-{kind}", data=path.read_bytes(), **usual_of_part).id

    disk = {} if "filename" in more else {"data": bytes(1 << 20)}
    glance.create_image(
        name,
        disk_format="raw",
        container_format="bare",
        kernel_id=part("aki", found.kernel),
        ramdisk_id=part("ari", found.initrd),
        os_command_line=line,
        # The kernel has no driver for IDE.
        hw_cdrom_bus="scsi",
        hw_scsi_model="virtio-scsi",
        # Nothing in the guest hears the power button.
        os_shutdown_timeout="1",
        **{**usual, **disk, **more},
    )


def hypervisor_jobs(layout: Layout, site: Site, after: tuple[str, ...]) -> tuple[Job, ...]:
    """`host-bridges`, `libvirtd`, `guest-image`. Args: after: jobs after which vswitchd takes bridges."""
    ovs, socket = lab_ovs(layout), config.socket(layout)
    hosts = [n.nova_host for n in guest_hosts(site)]
    return (
        Step("host-bridges", lambda: make_bridges(ovs, hosts), after=after),
        Service(
            name="libvirtd",
            argv=config.libvirtd(layout, ovs),
            env=ovs.environment,  # its ovs-vsctl finds the lab's database by this
            log=layout.log("libvirtd"),
            logs=(layout.log("libvirtd-own"),),
            cwd=layout.work / "libvirtd",
            ready=checks.accepts(socket),
            after=("host-bridges",),
            stop=signal.SIGKILL,  # the process namespace ends with it, and every guest in it
        ),
        Step("guest-image", lambda: upload(layout), after=("policies",)),
    )
