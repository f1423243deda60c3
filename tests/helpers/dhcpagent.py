"""The real neutron-dhcp-agent beside a lab: it runs a dnsmasq for each network in a namespace, which sites use to
resolve names. Only the plugging of its interfaces is ours: each is one end of a veth pair, since only clients in
its namespace need to reach it. Agent, namespaces, dnsmasq and their files are removed at the end.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.helpers.neutronagent import SPACES, agent_at, neutron_agent
from weftlab.lab import Lab

HOST = "names"
PLUG = """
from neutron.agent.linux import interface, ip_lib


class Plug(interface.LinuxInterfaceDriver):
    def plug_new(self, network_id, port_id, device_name, mac_address, bridge=None, namespace=None, prefix=None,
                 mtu=None, link_up=True):
        ours, theirs = ip_lib.IPWrapper().add_veth("x" + device_name[3:], device_name, namespace2=namespace)
        theirs.link.set_address(mac_address)
        ours.link.set_up()
        theirs.link.set_up()

    def unplug(self, device_name, bridge=None, namespace=None, prefix=None):
        ip_lib.IPDevice(device_name, namespace=namespace).link.delete()
"""
ASK = """
import sys
import dns.exception
import dns.resolver
asked = dns.resolver.Resolver(configure=False)
asked.nameservers, asked.lifetime = [sys.argv[1]], 2
for name in sys.argv[2:]:
    try:
        print(name, *sorted(r.address for r in asked.resolve(name, "A")))
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        print(name)
    except dns.exception.DNSException:
        print(name, "?")
"""


class Names:
    """Asks the agent's dnsmasq of a network, from its namespace."""

    def __init__(self, cloud: Any) -> None:
        self._cloud = cloud

    def serve(self, network: str) -> bool:
        """Schedules a network to the agent that existed before it; whether the agent is alive to serve it."""
        agent = agent_at(self._cloud, HOST)
        if agent is not None:
            self._cloud.network.add_dhcp_agent_to_network(agent, network)
        return agent is not None

    def serves(self, network: str) -> bool:
        """Whether the agent has reported its port on the network as up."""
        return bool(self._server(network)) and _space(network).exists()

    def resolved(self, network: str, names: list[str]) -> dict[str, list[str]]:
        """Name -> addresses; an empty list: unknown to the resolver; `?`: it doesn't answer, or refuses to."""
        space, server = _space(network), self._server(network)
        argv = ["nsenter", f"--net={space}", sys.executable, "-c", ASK, server, *names]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}

    def _server(self, network: str) -> str:
        ports = self._cloud.network.ports(network_id=network, device_owner="network:dhcp")
        return next((p.fixed_ips[0]["ip_address"] for p in ports if p.fixed_ips), "")


@contextlib.contextmanager
def dhcp_agent(lab: Lab, cloud: Any) -> Generator[Names]:
    """Args: cloud: connection of an administrator."""
    options: dict[str, dict[str, object]] = {
        "DEFAULT": {"dns_domain": "lab.example", "enable_isolated_metadata": False}
    }

    def mine() -> list[str]:
        return [_space(network.id).name for network in cloud.network.networks()]

    try:
        with neutron_agent(lab, "neutron-dhcp-agent", HOST, PLUG, options, mine):
            yield Names(cloud)
    finally:
        _forget(cloud)


def _space(network: str) -> Path:
    return SPACES / f"qdhcp-{network}"


def _forget(cloud: Any) -> None:
    for agent in cloud.network.agents(host=HOST):
        cloud.network.delete_agent(agent)
    for port in list(cloud.network.ports(device_owner="network:dhcp")):
        if port.device_id.startswith("dhcp") or port.device_id == "reserved_dhcp_port":
            cloud.network.delete_port(port)
