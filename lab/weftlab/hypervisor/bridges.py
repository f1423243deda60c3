"""Hosts' integration bridges, cabled to one bridge for the management network, and a door into it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence

from weft.model.site import Node, Site
from weftlab import config
from weftlab.layout import LabError
from weftlab.switches.openvswitch import SWITCHES, Ovs

MANAGEMENT = "mgmt"
"""Bridge in place of the switches between hosts' management adapters: every host's cable to it carries all VLANs."""
DOOR = "door"
"""Namespace, and interface in it, from which one VLAN is reached."""
LONGEST = 15
"""Bytes of an interface's name, IFNAMSIZ without the final zero."""


def guest_hosts(site: Site) -> tuple[Node, ...]:
    """The nodes whose servers run: not those on Ethernet switches, whose adapters are namespaces and no guest's."""
    wired = {name for name, fabric in site.fabrics.items() if fabric.manager.driver == "switches"}
    return tuple(
        n
        for n in config.compute_nodes(site)
        if n.role == "compute" and wired.isdisjoint(h.fabric for h in n.hcas)
    )


def bridge_of(host: str) -> str:
    """A host's integration bridge. Raises `LabError` for a name that is too long."""
    name = f"int-{host}"
    if len(name) > LONGEST:
        raise LabError(f"host {host}: {name!r} is too long: an interface's name has {LONGEST} bytes")
    return name


def make_bridges(ovs: Ovs, hosts: Sequence[str]) -> None:
    """Create all hosts' bridges in one transaction; a second call changes nothing."""
    words: list[str] = _bridge(MANAGEMENT)
    for host in hosts:
        bridge = bridge_of(host)
        words += _bridge(bridge)
        words += _patch(bridge, f"{bridge}-up", f"{bridge}-down")
        words += _patch(MANAGEMENT, f"{bridge}-down", f"{bridge}-up")
    ovs.vsctl(*words[1:])


def _bridge(name: str) -> list[str]:
    added = ["--", "--may-exist", "add-br", name]
    return [*added, "--", "set", "bridge", name, "datapath_type=netdev", "fail_mode=standalone"]


def _patch(bridge: str, name: str, peer: str) -> list[str]:
    added = ["--", "--may-exist", "add-port", bridge, name]
    return [*added, "--", "set", "interface", name, "type=patch", f"options:peer={peer}"]


@contextlib.contextmanager
def entered(ovs: Ovs, vlan: int, address: str, bridge: str = MANAGEMENT) -> Generator[None]:
    """While it lasts, the namespace `door` has an interface in a VLAN of the management network.

    Args:
        address: with the length of its prefix.
        bridge: that it is plugged into, such as a host's.
    """
    added = ["--may-exist", "add-port", bridge, DOOR, f"tag={vlan}"]
    ovs.vsctl("--if-exists", "del-port", DOOR, "--", *added, "--", "set", "interface", DOOR, "type=internal")
    try:
        ovs.inside(SWITCHES, ["ip", "link", "set", "dev", DOOR, "netns", ovs.space(DOOR)])
        batch = ["link set lo up", f"address add {address} dev {DOOR}", f"link set dev {DOOR} up"]
        ovs.inside(DOOR, ["ip", "-batch", "-"], "\n".join(batch))
        # Frames of the userspace datapath need their checksums: without this ping works, and TCP hangs.
        ovs.inside(DOOR, ["ethtool", "-K", DOOR, "tx", "off"])
        yield
    finally:
        ovs.vsctl("--if-exists", "del-port", DOOR)
