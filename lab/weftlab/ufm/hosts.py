"""Imitates the hosts' side of virtual functions: what UFM would see of them once their servers have booted.

ibsim has no virtual ports. On a real host Nova sets a function's GUID from the port's MAC address, and its subnet
manager sees the virtual port behind the adapter once the guest has loaded its driver. This program reads the real
Neutron's bound ports (MAC address, host, PCI address that the real Nova chose) and reports them to that stand-in.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from weft.app.sitefile import load_site
from weft.model.site import Site
from weft.planning.fabric.functions import adapter_at, guid_of
from weftlab.ufm.control import UfmControl
from weftlab.ufm.inventory import VirtualPort

LOOK = 1.0
"""Seconds between looks at Neutron's ports."""


def virtual_ports(site: Site, ports: Iterable[Any]) -> list[VirtualPort]:
    """The virtual ports of servers' functions among openstacksdk's ports."""
    nodes = {n.nova_host: n for n in site.nodes}
    found: list[VirtualPort] = []
    for port in ports:
        slot = (port.binding_profile or {}).get("pci_slot")
        node = nodes.get(port.binding_host_id or "")
        if port.binding_vnic_type != "direct" or port.status != "ACTIVE" or not slot or node is None:
            continue
        name = adapter_at(node, str(slot))
        hca = next((h for h in node.hcas if h.name == name), None)
        if hca is not None:
            found.append(VirtualPort(f"{guid_of(port.mac_address):016x}", f"{hca.port_guid:016x}"))
    return sorted(found, key=lambda v: v.guid)


def main(argv: Sequence[str]) -> int:
    """Report virtual functions of started servers until SIGTERM; `argv`: site file, the control's port."""
    import openstack

    site, control, before = load_site(Path(argv[0])), UfmControl(int(argv[1])), None
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    cloud: Any = None
    while not ended.wait(LOOK):
        try:
            cloud = cloud or openstack.connect()
            seen = virtual_ports(site, cloud.network.ports())
            if seen != before:
                control.virtual(seen)
                before = seen
                print(f"{time.strftime('%H:%M:%S')} {len(seen)} virtual ports", flush=True)
        except Exception as error:  # services may be starting; what was left is seen at the next look
            cloud = None
            print(f"{time.strftime('%H:%M:%S')} {type(error).__name__}: {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
