"""Configuration of libvirtd, and of the nova-computes whose servers run."""

from __future__ import annotations

import shlex
from pathlib import Path

from weftlab.config import Sections
from weftlab.layout import Layout
from weftlab.switches.openvswitch import SWITCHES, Ovs

FOLDERS = {
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
"""Libvirtd's own folders, over which the lab's are mounted for it alone."""
KVM = "/dev/kvm"
DHCP = "dhcp"
"""Namespace in which every network's DHCP server is."""
ACCOUNTS = ("libvirt-qemu", "kvm", "libvirt")
"""Accounts that libvirtd looks up; Debian's looks up the first one even if another is configured."""

LIBVIRTD = """\
listen_tls = 0
listen_tcp = 0
auth_unix_rw = "none"
unix_sock_dir = "{sockets}"
log_outputs = "3:file:{log}"
"""
QEMU = """\
user = "root"
group = "root"
security_driver = "none"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""


def folder(layout: Layout) -> Path:
    """Everything of libvirtd and its guests."""
    return layout.state / "virt"


def socket(layout: Layout) -> Path:
    """libvirtd's socket."""
    return folder(layout) / "sock" / "libvirt-sock"


def overlay(layout: Layout) -> Path:
    """Where Nova's processes find the module `libvirt`, which isn't in their environment."""
    return layout.etc / "nova" / "libvirt"


def write_libvirtd(layout: Layout) -> None:
    """Write libvirtd's configuration and create its folders."""
    here = folder(layout)
    for name in (*FOLDERS, "etc", "sock", "lib/images", "log/qemu"):
        (here / name).mkdir(parents=True, exist_ok=True)
    (here / "no-kvm").touch()
    log = layout.log("libvirtd-own")
    (here / "etc/libvirtd.conf").write_text(LIBVIRTD.format(sockets=here / "sock", log=log))
    (here / "etc/qemu.conf").write_text(QEMU)
    for file in ("passwd", "group"):
        lines = Path("/etc", file).read_text().splitlines()
        own = [line for line in lines if line.partition(":")[0] not in ACCOUNTS]
        users = [f"{ACCOUNTS[0]}:x:64055:64055::/:/usr/sbin/nologin"]
        groups = [f"{name}:x:{64055 + n}:" for n, name in enumerate(ACCOUNTS)]
        (here / file).write_text("\n".join([*own, *(users if file == "passwd" else groups)]) + "\n")


def libvirtd(layout: Layout, ovs: Ovs) -> tuple[str, ...]:
    """Command line: in the switches' network namespace, since vswitchd must see the guests' taps, with folders of its
    own, and in a process namespace, so that guests, which leave its session, end with it.

    Its shell is the namespace's first process and reaps what libvirtd doesn't wait for: libvirtd takes a guest that is
    a zombie for one that can't be ended. A KVM that is there and doesn't work is hidden.
    """
    here = folder(layout)
    binds = {**{here / name: path for name, path in FOLDERS.items()}, here / "etc": "/etc/libvirt"}
    binds |= {here / "passwd": "/etc/passwd", here / "group": "/etc/group", here / "no-kvm": KVM}
    lines = ["mkdir -p " + " ".join(p for s, p in binds.items() if s.is_dir())]
    lines += [
        f"[ ! -e {path} ] || mount --bind {shlex.quote(str(source))} {path}" for source, path in binds.items()
    ]
    # What may be opened for writing counts as a KVM, and while it has found none libvirtd looks again and again.
    lines += [f"[ ! -e {KVM} ] || mount -o remount,bind,ro {KVM}"]
    lines += ["libvirtd -f /etc/libvirt/libvirtd.conf -p /run/libvirt/libvirtd.pid & wait $!"]
    unshare = [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]
    words = shlex.join([*unshare, "/bin/sh", "-c", "\n".join(lines)])
    return (
        "/bin/sh",
        "-c",
        f'exec nsenter --net="$(cat {shlex.quote(str(ovs.folder))}/{SWITCHES}.space)" {words}',
    )


def plugging(layout: Layout, ovs: Ovs) -> dict[str, str]:
    """Environment of the program that replaces the hosts' agents, where ports are plugged."""
    return {
        **ovs.environment,
        "WEFT_LAB_OVSDB": f"unix:{ovs.socket}",
        "WEFT_LAB_SWITCHES": str(ovs.folder / f"{SWITCHES}.space"),
        "WEFT_LAB_DHCP_SPACE": str(ovs.folder / f"{DHCP}.space"),
        "WEFT_LAB_DHCP": str(layout.data / "dhcp"),
    }


def compute(layout: Layout, ovs: Ovs) -> Sections:
    """Sections of a nova-compute whose servers run that differ from the others'."""
    return {
        "DEFAULT": {
            "compute_driver": "weftlab_libvirt.GuestDriver",
            "force_config_drive": True,
            "mkisofs_cmd": "genisoimage",
            "vif_plugging_timeout": 60,
            "default_ephemeral_format": "ext4",
        },
        "libvirt": {
            "virt_type": "qemu",
            "cpu_mode": "none",
            "connection_uri": f"qemu:///system?socket={socket(layout)}",
            "images_type": "qcow2",
            "inject_partition": -2,
            "num_pcie_ports": 0,
            "tb_cache_size": 32,
        },
        "os_vif_ovs": {"ovsdb_connection": f"unix:{ovs.socket}"},
        "vnc": {"enabled": False},
        "spice": {"enabled": False},
    }
