"""Machines that boot: a QEMU without hardware virtualization behind each BMC, with its adapter on Open vSwitch.

Ironic boots them from virtual media. The bridge `mgmt` is the switch that they are cabled to: Neutron's
networking-generic-switch, with weft's own driver as its device type, puts each port into Ironic's networks and the
tenant's in turn, and into the parking VLAN in between.
"""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path

import weft
from weft.model.site import Site
from weftlab.config import Sections
from weftlab.environment import Say, install_overlay, lock
from weftlab.hypervisor.bridges import MANAGEMENT
from weftlab.layout import Layout
from weftlab.metal.enroll import SWITCH_MAC
from weftlab.metal.machines import PHYSICAL_NETWORK, machines
from weftlab.switches.front import PARKING
from weftlab.switches.openvswitch import SWITCHES, Ovs

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "/usr/lib/ISOLINUX/isolinux.bin": "isolinux",
    "/usr/lib/syslinux/modules/bios/ldlinux.c32": "syslinux-common",
}
GENERIC_SWITCH = "networking-generic-switch==10.2.0"
IMPORTED = (
    "annotated-types",
    "h11",
    "httpcore",
    "httpx",
    "pydantic",
    "pydantic-core",
    "typing-inspection",
)
"""What weft's drivers of switches import and Neutron's environment lacks, in the versions that weft runs with."""
DEVICE = "[generic_switch.devices]\nweft = weft.drivers.switches.ngs:WeftSwitch\n"
"""Entry point of weft's own distribution, which isn't installed in Neutron's environment."""


def _packages() -> tuple[str, ...]:
    return (GENERIC_SWITCH, *(f"{name}=={metadata.version(name)}" for name in IMPORTED))


def overlay_path(cache: Path) -> Path:
    """Folder of networking-generic-switch for the lab's Neutron."""
    return cache / GENERIC_SWITCH.replace("==", "-")


def overlay(layout: Layout) -> tuple[str, ...]:
    """What Neutron's processes find beside their environment: the package, and weft as it is here."""
    return str(overlay_path(layout.cache)), str(Path(weft.__file__).parents[1])


def ensure_overlay(cache: Path, env: Path, say: Say) -> None:
    """Install networking-generic-switch, once for all labs. Raises `LabError`."""
    path, wanted = overlay_path(cache), json.dumps(_packages())
    mark = path / "complete"
    with lock(cache / "environment.lock"):
        if mark.exists() and mark.read_text() == wanted:
            return
        say(f"installing {GENERIC_SWITCH} into {path}")
        shutil.rmtree(path, ignore_errors=True)
        install_overlay(env, path, *_packages())
        mark.write_text(wanted)


def with_switch(sections: Sections, ovs: Ovs) -> Sections:
    """Neutron's configuration with the machines' switch."""
    drivers = f"genericswitch,{sections['ml2']['mechanism_drivers']}"
    return {
        **sections,
        "ml2": {**sections["ml2"], "mechanism_drivers": drivers},
        f"genericswitch:{MANAGEMENT}": {
            "device_type": "weft",
            "weft_interface": "ovs",
            "weft_url": f"unix:{ovs.socket}",
            "ngs_mac_address": SWITCH_MAC,
            "ngs_physical_networks": PHYSICAL_NETWORK,
            "ngs_port_default_vlan": PARKING,
            "ngs_manage_vlans": False,
        },
    }


def cable(ovs: Ovs, site: Site) -> None:
    """A tap for each machine, on a parked port of the management switch; a second call changes nothing."""
    known = ovs.inside(SWITCHES, ["ip", "-json", "link", "show"])
    there = {row["ifname"] for row in json.loads(known)}
    words: list[str] = []
    for node in machines(site):
        if node.name in there:
            continue
        ovs.inside(SWITCHES, ["ip", "tuntap", "add", "dev", node.name, "mode", "tap"])
        ovs.inside(SWITCHES, ["ip", "link", "set", "dev", node.name, "up"])
        words += ["--", "--may-exist", "add-port", MANAGEMENT, node.name, "--", "set", "port", node.name]
        words += ["vlan_mode=access", f"tag={PARKING}", "protected=true"]
    if words:
        ovs.vsctl(*words[1:])
