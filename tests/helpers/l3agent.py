"""The real neutron-l3-agent beside a lab with guests: its routers in namespaces, and a host on the external
network. Only the plugging of its interfaces is ours: into the lab's management bridge, with the VLAN of their
network. The external network is flat in Neutron; here it is a VLAN of that bridge.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

from openstack.exceptions import ConflictException

from tests.helpers.neutronagent import SPACES, agent_at, neutron_agent
from weftlab.environment import install_packages
from weftlab.hypervisor.bridges import MANAGEMENT
from weftlab.lab import Lab
from weftlab.switches.labsite import lab_ovs
from weftlab.switches.openvswitch import SWITCHES, Ovs

HOST = "routers"
PACKAGES = {"iptables": "iptables", "sysctl": "procps", "conntrack": "conntrack"}
OUTSIDE = 3999
"""VLAN of the external network."""
ADDRESS, PORT = "203.0.113.250", 8000
"""Address and port of the external host, which answers each connection with its source address."""
PLUG = """
import json
import os
import subprocess

import openstack
from neutron.agent.linux import interface, ip_lib

WIRES = json.loads(os.environ["WEFT_WIRES"])


class Plug(interface.LinuxInterfaceDriver):
    def plug_new(self, network_id, port_id, device_name, mac_address, bridge=None, namespace=None, prefix=None,
                 mtu=None, link_up=True):
        with openstack.connect(cloud="operator") as cloud:
            vlan = cloud.network.get_network(network_id).provider_segmentation_id or WIRES["outside"]
        ours, theirs = ip_lib.IPWrapper().add_veth(wire(device_name), device_name, namespace2=namespace)
        theirs.link.set_address(mac_address)
        theirs.link.set_mtu(mtu or 1500)
        inside = ["nsenter", f"--net={WIRES['switches']}"]
        subprocess.run(["ip", "link", "set", "dev", ours.name, "netns", WIRES["switches"]], check=True)
        subprocess.run([*inside, "ip", "link", "set", "dev", ours.name, "mtu", str(mtu or 1500), "up"], check=True)
        subprocess.run([*WIRES["vsctl"], "add-port", WIRES["bridge"], ours.name, f"tag={vlan}"], check=True)
        # Frames of the userspace datapath need their checksums.
        subprocess.run(["ip", "netns", "exec", namespace, "ethtool", "-K", device_name, "tx", "off"], check=True,
                       capture_output=True)
        theirs.link.set_up()

    def unplug(self, device_name, bridge=None, namespace=None, prefix=None):
        subprocess.run([*WIRES["vsctl"], "--if-exists", "del-port", wire(device_name)], check=True)
        ip_lib.IPDevice(device_name, namespace=namespace).link.delete()


def wire(device_name):
    return "x" + device_name[1:]
"""
SERVER = """
import socket
server = socket.create_server(("", {port}))
while True:
    client, (address, _) = server.accept()
    client.sendall(address.encode())
    client.close()
"""
CALL = """
import socket, sys
source = (sys.argv[2], 0) if sys.argv[2:] else None
with socket.create_connection((sys.argv[1], {port}), timeout=5, source_address=source) as call:
    print(call.recv(100).decode())
"""


class Routers:
    """The lab's routers and a host on the external network.

    Attributes:
        served: ids of routers that were scheduled to the agent.
    """

    def __init__(self, ovs: Ovs, cloud: Any, space: str) -> None:
        self._ovs, self._cloud, self._space = ovs, cloud, space
        self.served: set[str] = set()

    def serve(self, router: str) -> bool:
        """Whether the agent is alive and has this router with an external gateway; schedules it if needed."""
        agent = agent_at(self._cloud, HOST)
        if agent is None:
            return False
        self.served.add(router)
        if router not in {r.id for r in self._cloud.network.agent_hosted_routers(agent)}:
            with contextlib.suppress(ConflictException):  # Neutron has just scheduled it
                self._cloud.network.add_router_to_agent(agent, router)
        return "qg-" in self._said(f"qrouter-{router}", ["ip", "-o", "link"])

    def rules(self, router: str) -> str:
        """The router's NAT rules, as iptables prints them."""
        return self._said(f"qrouter-{router}", ["iptables", "-t", "nat", "-S"])

    def outside(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command on the external host."""
        words = ["ip", "netns", "exec", self._space, *argv]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    def called_from(self, space: str) -> str:
        """Source address of a connection from a namespace, as the external host sees it; empty if it isn't
        reached."""
        argv = ["nsenter", f"--net={self._ovs.space(space)}", *_call(ADDRESS)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip()

    @contextlib.contextmanager
    def answering(self, space: str) -> Generator[None]:
        """Runs a server in the namespace that answers with the client's address."""
        with _answering(["nsenter", f"--net={self._ovs.space(space)}"]):
            yield

    def calls(self, address: str) -> str:
        """Source address of a connection from the external host, as the server at `address` sees it; empty if it
        isn't reached."""
        return self.outside(_call(address)).stdout.strip()

    def routed(self, router: str, address: str, source: str) -> str:
        """Source address of a connection from a router's namespace to `address`. Args: source: the router's own
        address to use."""
        return self._said(f"qrouter-{router}", _call(address, source)).strip()

    def _said(self, space: str, argv: list[str]) -> str:
        words = ["ip", "netns", "exec", space, *argv]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout


@contextlib.contextmanager
def l3_agent(lab: Lab, cloud: Any) -> Generator[Routers]:
    """Runs the agent for the block. Args: cloud: connection of an administrator."""
    install_packages(PACKAGES, print)
    ovs = lab_ovs(lab.layout)
    wires = {
        "bridge": MANAGEMENT,
        "outside": OUTSIDE,
        "switches": ovs.space(SWITCHES),
        "vsctl": ["ovs-vsctl", f"--db=unix:{ovs.socket}", "--timeout=20"],
    }
    env = {"WEFT_WIRES": json.dumps(wires), "OS_CLIENT_CONFIG_FILE": str(lab.clouds_yaml)}
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"agent_mode": "legacy", "enable_metadata_proxy": False}
    }

    with _host_outside(ovs) as space:
        routers = Routers(ovs, cloud, space)

        def mine() -> list[str]:
            return [f"qrouter-{router}" for router in routers.served]

        try:
            with neutron_agent(lab, "neutron-l3-agent", HOST, PLUG, options, mine, **env):
                yield routers
        finally:
            for name in ovs.vsctl("list-ports", MANAGEMENT).split():
                if name.startswith(("xr-", "xg-")):
                    ovs.vsctl("--if-exists", "del-port", name)
            for agent in cloud.network.agents(host=HOST):
                cloud.network.delete_agent(agent)


@contextlib.contextmanager
def _host_outside(ovs: Ovs) -> Generator[str]:
    """A namespace on the external network with a server that answers."""
    name = "weft-outside"
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "add", name], check=True)
    port = ["--may-exist", "add-port", MANAGEMENT, "outside", f"tag={OUTSIDE}"]
    ovs.vsctl(*port, "--", "set", "interface", "outside", "type=internal")
    ovs.inside(SWITCHES, ["ip", "link", "set", "dev", "outside", "netns", str(SPACES / name)])
    inside = ["ip", "netns", "exec", name]
    lines = f"link set lo up\naddress add {ADDRESS}/24 dev outside\nlink set dev outside up\n"
    subprocess.run([*inside, "ip", "-batch", "-"], input=lines, text=True, check=True)
    subprocess.run([*inside, "ethtool", "-K", "outside", "tx", "off"], check=True, capture_output=True)
    try:
        with _answering(inside):
            yield name
    finally:
        ovs.vsctl("--if-exists", "del-port", "outside")
        subprocess.run(["ip", "netns", "delete", name], check=False)


@contextlib.contextmanager
def _answering(enter: list[str]) -> Generator[None]:
    """Runs a server that answers with the client's address. Args: enter: command prefix that enters the namespace."""
    server = subprocess.Popen([*enter, sys.executable, "-c", SERVER.format(port=PORT)])
    try:
        yield
    finally:
        server.kill()
        server.wait()


def _call(address: str, *source: str) -> list[str]:
    return [sys.executable, "-c", CALL.format(port=PORT), address, *source]
