"""A server's adapters: when Nova has started a server on a host, the host's namespaces get its ports' addresses.

An adapter that is passed through belongs to the guest alone, so its namespace here is the guest's: its
MAC address and its IP addresses are those of the port that Neutron has bound to it. When the server is stopped or
deleted, the adapter is down and has no address, as in a machine without a guest. A virtual function has no
namespace: its adapter is up from then on, and tests send frames with the function's VLAN tag themselves. What switches
let through is not this program's affair.

`python -m weftlab.switches.nics STATE CACHE PORTS`
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.model.site import Site
from weftlab.config import function_address
from weftlab.guests import LOOK, started_folder
from weftlab.layout import LabError, Layout, load
from weftlab.site import make_site
from weftlab.switches.labsite import FABRIC, host_name, lab_ovs
from weftlab.switches.openvswitch import Ovs

Port = Mapping[str, Any]


class Adapters:
    """The adapters of running servers: server -> names of the namespaces that stand for them.

    Args:
        ports: a server's ports, as Neutron's API has them (`binding:host_id`, `binding:profile`, `fixed_ips`, …),
            each fixed address with the length of its subnet's prefix as `prefix`, and the network's `mtu`.
    """

    def __init__(self, site: Site, ovs: Ovs, ports: Callable[[str], Sequence[Port]]) -> None:
        self._ovs, self._ports = ovs, ports
        self._by_slot = {
            (node.nova_host, str(hca.pci)): host_name(node.name, hca.name)
            for node in site.nodes
            for hca in node.hcas_on(FABRIC)
        }
        self._of_function = {
            (node.nova_host, function_address(hca, i)): host_name(node.name, hca.name)
            for node in site.nodes
            for hca in node.hcas_on(FABRIC)
            for i in range(hca.vfs)
        }
        self._mine: dict[str, tuple[str, ...]] = {}

    def look(self, running: set[str]) -> None:
        """Bring the namespaces in line with the servers that run now."""
        for server in sorted(set(self._mine) - running):
            for name in self._mine.pop(server):
                self._off(name)
            say(f"{server}: off")
        for server in sorted(running - set(self._mine)):
            ports = self._ports(server)
            self._mine[server] = tuple(self._on(port, name) for port, name in _bound(ports, self._by_slot))
            parts = [name for _, name in _bound(ports, self._of_function)]
            for name in parts:
                self._ovs.inside(name, ["ip", "-batch", "-"], "link set dev eth0 up")
            words = [*self._mine[server], *(f"a function of {name}" for name in parts)]
            say(f"{server}: {', '.join(words) or 'no adapter of this fabric'}")

    def _on(self, port: Port, name: str) -> str:
        self._off(name)
        lines = [f"link set dev eth0 address {port['mac_address']} mtu {port['mtu']}"]
        lines += [f"address add {a['ip_address']}/{a['prefix']} dev eth0" for a in port["fixed_ips"]]
        self._ovs.inside(name, ["ip", "-batch", "-"], "\n".join([*lines, "link set dev eth0 up"]))
        return name

    def _off(self, name: str) -> None:
        lines = ["link set dev eth0 down", "address flush dev eth0", "neigh flush dev eth0"]
        self._ovs.inside(name, ["ip", "-batch", "-"], "\n".join(lines))


def _bound(ports: Sequence[Port], by_slot: Mapping[tuple[str, str], str]) -> list[tuple[Port, str]]:
    """Ports with the namespace that their PCI address belongs to."""
    found: list[tuple[Port, str]] = []
    for port in ports:
        slot = str((port["binding:profile"] or {}).get("pci_slot"))
        name = by_slot.get((port["binding:host_id"], slot))
        if name is not None:
            found.append((port, name))
    return found


def running_servers(layout: Layout) -> set[str]:
    """Ids of servers that the virt driver says are on."""
    found: set[str] = set()
    folder = started_folder(layout)
    for entry in os.scandir(folder) if folder.exists() else ():
        with contextlib.suppress(FileNotFoundError):
            if "." not in entry.name and Path(entry.path).read_text().strip() == "on":
                found.add(entry.name)
    return found


def ports_by(network: Callable[[], Any]) -> Callable[[str], Sequence[Port]]:
    """Reads ports as administrator; `network` connects again each time, as the catalog may be filled later."""

    def ports(server: str) -> Sequence[Port]:
        neutron = network()
        found: list[dict[str, Any]] = neutron.get(f"/ports?device_id={server}").json()["ports"]
        for port in found:
            port["mtu"] = neutron.get(f"/networks/{port['network_id']}").json()["network"]["mtu"]
            for address in port["fixed_ips"]:
                subnet = neutron.get(f"/subnets/{address['subnet_id']}").json()["subnet"]
                address["prefix"] = subnet["cidr"].partition("/")[2]
        return found

    return ports


def say(line: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main(argv: Sequence[str]) -> int:
    """Follow servers until SIGTERM or SIGINT; `argv`: state folder, cache, first port."""
    import openstack

    state, cache, first = argv
    layout = Layout(Path(state), Path(cache), int(first))
    settings = load(layout.state)
    if settings is None:
        raise LabError(f"no lab in {state}")
    network = ports_by(lambda: openstack.connect().network)
    adapters = Adapters(make_site(settings, layout), lab_ovs(layout), network)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(LOOK):
        try:
            adapters.look(running_servers(layout))
        except Exception as error:  # Neutron may be starting; what was started is there at the next look
            say(f"{type(error).__name__}: {error}")
            ended.wait(1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
