# pyright: basic, reportMissingImports=false
"""Replaces Neutron's DHCP agent on networks with guests: a dnsmasq each, on a port of type `network:dhcp`; none where
the subnet has no DHCP.

Like the agent it gives addresses only to ports that Neutron has, and the port that it listens on is Neutron's too.
$WEFT_LAB_DHCP is a folder; $WEFT_LAB_DHCP_SPACE and $WEFT_LAB_SWITCHES are files with paths of network namespaces.
"""

import ipaddress
import os
import signal
import subprocess
import uuid
from pathlib import Path

import openstack

BRIDGE = "mgmt"
OWNER = "network:dhcp"
AT_ONCE = 0.5
"""Seconds that a dnsmasq needs at most to find that it can't serve."""


def begun(space, argv):
    """A process in a network namespace that ends with this program, even if this program is killed.

    The kernel kills it once the thread that started it is gone, so call this from a thread that never ends. It doesn't
    if the process changes its user or group. Raises RuntimeError if it ends at once.
    """
    process = subprocess.Popen(["nsenter", f"--net={space}", "setpriv", "--pdeathsig", "KILL", *argv])
    try:
        raise RuntimeError(f"{argv[0]} ended at once, with exit code {process.wait(AT_ONCE)}: {argv}")
    except subprocess.TimeoutExpired:
        return process


def command(name, subnet, hosts):
    """dnsmasq on an interface, for the ports whose files are in the folder `hosts`."""
    net = ipaddress.ip_network(subnet.cidr)
    options = [
        "no-hosts",
        "no-resolv",
        "keep-in-foreground",
        "leasefile-ro",
        "dhcp-authoritative",
        "user=root",
        "group=root",
    ]
    options += [
        "port=0",
        "pid-file=",
        "except-interface=lo",
        "bind-interfaces",
        f"interface={name}",
    ]
    options += [
        f"dhcp-range={net.network_address},static,{net.netmask},86400s",
        f"dhcp-hostsdir={hosts}",
    ]
    # Option 3 without a value: no router.
    options += [f"dhcp-option=3,{subnet.gateway_ip}" if subnet.gateway_ip else "dhcp-option=3"]
    return ["dnsmasq", "--conf-file=/dev/null", *(f"--{option}" for option in options)]


class Server:
    """The dnsmasq of one network. It ends when its last port is gone."""

    def __init__(self, vsctl, details, vlan, subnet):
        self._vsctl, self._vlan, self.network = vsctl, vlan, details["network_id"]
        self._subnet = subnet
        self._name = f"dhcp{vlan}"
        self._space = Path(os.environ["WEFT_LAB_DHCP_SPACE"]).read_text().strip()
        self._hosts = Path(os.environ["WEFT_LAB_DHCP"]) / self._name
        self._hosts.mkdir(parents=True, exist_ok=True)
        for old in self._hosts.iterdir():
            old.unlink()
        with openstack.connect(cloud="neutron") as cloud:
            own = next(cloud.network.ports(network_id=self.network, device_owner=OWNER), None)
            own = own or cloud.network.create_port(
                network_id=self.network,
                project_id=self._subnet.project_id,
                device_owner=OWNER,
                device_id=f"dhcp{uuid.uuid5(uuid.NAMESPACE_DNS, 'lab')}-{self.network}",  # as an agent's
                fixed_ips=[{"subnet_id": self._subnet.id}],
            )
        self._plug(own, details["mtu"])
        self._words = command(self._name, self._subnet, self._hosts)
        self._dnsmasq = begun(self._space, self._words)
        self.ports = set()
        self._leased = False

    def _plug(self, port, mtu):
        prefix = ipaddress.ip_network(self._subnet.cidr).prefixlen
        added = [
            "--if-exists",
            "del-port",
            self._name,
            "--",
            "add-port",
            BRIDGE,
            self._name,
            f"tag={self._vlan}",
        ]
        self._vsctl(*added, "--", "set", "interface", self._name, "type=internal", f"mtu_request={mtu}")
        move = ["ip", "link", "set", "dev", self._name, "netns", self._space]
        switches = Path(os.environ["WEFT_LAB_SWITCHES"]).read_text().strip()
        subprocess.run(["nsenter", f"--net={switches}", *move], check=True)
        lines = [
            f"link set dev {self._name} address {port.mac_address}",
            f"address add {port.fixed_ips[0]['ip_address']}/{prefix} dev {self._name}",
            f"link set dev {self._name} up",
        ]
        inside = ["nsenter", f"--net={self._space}", "ip", "-batch", "-"]
        subprocess.run(inside, input="\n".join(lines), text=True, check=True)
        # Frames of the userspace datapath need their checksums.
        subprocess.run(
            [*inside[:2], "ethtool", "-K", self._name, "tx", "off"], check=True, capture_output=True
        )

    def add(self, details):
        """Serve a port: dnsmasq reads new files by itself. Raises RuntimeError if it had ended, and ends again.

        An address of a port that is gone is leased to that one's MAC for a day: an agent ends the lease by a release in
        its name; here one is started that has no leases.
        """
        if self._leased and self._dnsmasq.poll() is None:
            self._dnsmasq.send_signal(signal.SIGTERM)
            self._dnsmasq.wait()
        self._leased = False
        if self._dnsmasq.poll() is not None:
            self._dnsmasq = begun(self._space, self._words)
        self.ports.add(details["port_id"])
        addresses = [f["ip_address"] for f in details["fixed_ips"] if f["subnet_id"] == self._subnet.id]
        new = self._hosts / details["port_id"]
        new.write_text("".join(f"{details['mac_address']},{address}\n" for address in addresses))

    def drop(self, port):
        """Serve a port no longer; end with the last one."""
        self.ports.discard(port)
        self._leased = True
        (self._hosts / port).unlink(missing_ok=True)
        if not self.ports:
            self.end()

    def end(self):
        self._dnsmasq.send_signal(signal.SIGTERM)
        self._dnsmasq.wait()
        self._vsctl("--if-exists", "del-port", self._name)


class Servers:
    """DHCP servers by VLAN. When another network gets the VLAN, the server of the former one is ended."""

    def __init__(self, vsctl):
        self._vsctl, self._by_vlan = vsctl, {}

    def add(self, details, vlan):
        """Serve a port, with a new dnsmasq if it is the first one of its network."""
        if not details["fixed_ips"]:
            return
        there = self._by_vlan.get(vlan)
        if there is not None and there.network != details["network_id"]:
            self._by_vlan.pop(vlan).end()
        if there is None or there.network != details["network_id"]:
            with openstack.connect(cloud="neutron") as cloud:
                subnet = cloud.network.get_subnet(details["fixed_ips"][0]["subnet_id"])
            if not subnet.is_dhcp_enabled:
                return
            there = self._by_vlan[vlan] = Server(self._vsctl, details, vlan, subnet)
        there.add(details)

    def drop(self, port):
        """Serve a port no longer, whichever network it is on."""
        for vlan, server in list(self._by_vlan.items()):
            if port in server.ports:
                server.drop(port)
                if not server.ports:
                    del self._by_vlan[vlan]
