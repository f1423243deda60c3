# pyright: basic, reportMissingImports=false
"""Replaces the L2 agents of every host: SR-IOV ("NIC Switch agent") and Open vSwitch, over Neutron's real RPC.

Runs in OpenStack's environment: `agents.py HOSTS CONFIG...`. Like the real agents it reports each agent's state and
learns of ports from Neutron's `port_update` messages; it answers a bound port with `update_device_up`, so that
Neutron sets it ACTIVE and notifies Nova. What a lost message left behind is found by a slow listing of ports that
are DOWN. There is no polling that Neutron would feel.

HOSTS is a JSON file: host -> `devices` (physical network -> names) and `bridge`, its integration bridge on the lab's
Open vSwitch (`plugs.py`), or null where nothing is plugged. Machines that boot get their addresses from here, too.
"""

import importlib
import json
import queue
import sys
import threading
import time
import traceback
from collections import defaultdict
from pathlib import Path

import openstack
import oslo_messaging
import plugs as plug
from dhcp import Servers
from neutron.agent import rpc as agent_rpc
from neutron.common import config as common_config
from neutron.conf.agent import common as agent_conf
from neutron_lib import context
from neutron_lib.agent import topics
from oslo_config import cfg

REPORT_SECONDS = 60
RESYNC_SECONDS = 20
SWITCHED = ("rocenet",)
"""Physical networks on which the Open vSwitch agent has bridges, too: functions behind an embedded switch are its."""
BOUND = {"hw_veb", "hostdev_physical", "ovs"}

todo: "queue.Queue[tuple[str, str]]" = queue.Queue()
machines: "queue.Queue[tuple[dict, dict | None]]" = queue.Queue()
"""Ports of machines as in Neutron's notifications, and what to do; None: they are gone."""


def states(host):
    """What the two agents of a host report, as neutron-sriov-nic-agent and neutron-openvswitch-agent do."""
    devices, bridge = host["devices"], host["bridge"]
    # Where the bridge is real, it is on the userspace datapath: libvirt makes the taps then, not os-vif.
    datapath = "netdev" if bridge else "system"
    yield {
        "binary": "neutron-sriov-nic-agent",
        "agent_type": "NIC Switch agent",
        "configurations": {"device_mappings": devices, "extensions": [], "devices": 0},
    }
    yield {
        "binary": "neutron-openvswitch-agent",
        "agent_type": "Open vSwitch agent",
        "configurations": {
            "bridge_mappings": {
                "physnet1": "br-physnet1",
                "physext": "br-ext",
                **{name: f"br-{name}" for name in SWITCHED if name in devices},
            },
            "integration_bridge": bridge or "br-int",
            "tunnel_types": ["vxlan"],
            "tunneling_ip": "127.0.0.1",
            "extensions": [],
            "datapath_type": datapath,
            "ovs_capabilities": {"datapath_types": [datapath], "iface_types": []},
            "ovs_hybrid_plug": False,
            "vhostuser_socket_dir": "/var/run/openvswitch",
        },
    }


def report(hosts, ready):
    """Every host's agents, forever; `ready` is made after the first round, when ports can be bound."""
    admin = context.get_admin_context_without_session()
    plugin = agent_rpc.PluginReportStateAPI(topics.REPORTS)
    # Neutron's RPC server may still be starting: what is asked before it listens is lost, so ask again soon.
    usual, plugin.timeout = plugin.timeout, 2
    while not answered(plugin, admin, hosts):
        pass
    plugin.timeout = usual
    first = True
    while True:
        begun = time.monotonic()
        for host, has in hosts.items():
            for state in states(has):
                state.update(host=host, topic="N/A", start_flag=first)
                try:
                    plugin.report_state(admin, state, use_call=first)
                except Exception as error:
                    print("report", host, repr(error)[:300], flush=True)
            # Spread over the minute, so that the reports are never a burst.
            time.sleep(0 if first else REPORT_SECONDS / len(hosts))
        if first:
            ready.touch()
            print(f"reported {2 * len(hosts)} agents in {time.monotonic() - begun:.1f} s", flush=True)
        first = False


def answered(plugin, admin, hosts):
    """Whether Neutron's RPC server answers."""
    host, has = next(iter(hosts.items()))
    try:
        plugin.report_state(
            admin,
            {**next(states(has)), "host": host, "topic": "N/A", "start_flag": True},
            use_call=True,
        )
    except oslo_messaging.MessagingTimeout:
        return False
    return True


def is_ours(hosts, host, vif_type):
    """Whether a bound port is up by being bound: those that are plugged are up once they are in their VLAN."""
    plugged = vif_type == "ovs" and host in hosts and hosts[host]["bridge"]
    return host in hosts and vif_type in BOUND and not plugged


class Listener:
    """Neutron's messages to agents: neutron/plugins/ml2/rpc.py, `AgentNotifierApi`."""

    target = oslo_messaging.Target(version="1.4")

    def __init__(self, hosts):
        self.hosts = hosts

    def port_update(self, context, **message):
        """Put a port of the lab's hosts, or of a machine, up or down."""
        port = message.get("port") or {}
        if port.get("binding:vnic_type") == "baremetal":
            machines.put((port, message))
        host = port.get("binding:host_id", "")
        if (
            is_ours(self.hosts, host, port.get("binding:vif_type"))
            and port.get("status") != "ACTIVE"
            and port.get("admin_state_up")
        ):
            todo.put((host, port["id"]))

    def network_update(self, context, **message):
        """Nothing to do: ports' VLANs don't change."""
        pass

    def port_delete(self, context, **message):
        """Take a machine's port out of its VLAN."""
        machines.put(({"id": message["port_id"]}, None))


def lease():
    """Serve ports of machines by DHCP, as Neutron's agent does: on subnets with DHCP, until they are deleted."""
    servers, known = Servers(plug.vsctl), {}
    while True:
        port, network = machines.get()
        offered = network and (plug.vlan_of(network), port["mac_address"], port["fixed_ips"])
        if known.get(port["id"]) == offered:
            continue
        try:
            if known.pop(port["id"], None):
                servers.drop(port["id"])
            if offered and offered[0] is not None and (details := leased(port)):
                servers.add(details, offered[0])
                print("leases to machine", port["id"], *offered[:2], flush=True)
            known[port["id"]] = offered
        except Exception as error:  # the next message is another try
            print("lease", port["id"], repr(error)[:300], flush=True)


def leased(port):
    """What a DHCP server has to know of a port; None: it has no address in a subnet with DHCP."""
    with openstack.connect(cloud="neutron") as cloud:
        subnets = [cloud.network.get_subnet(f["subnet_id"]) for f in port["fixed_ips"]]
        if not any(s.is_dhcp_enabled for s in subnets):
            return None
        mtu = cloud.network.get_network(port["network_id"]).mtu
    details = {name: port[name] for name in ("network_id", "fixed_ips", "mac_address")}
    return {**details, "port_id": port["id"], "mtu": mtu}


def answer():
    """Report devices that are up to Neutron, batched into one call a host."""
    admin = context.get_admin_context_without_session()
    plugin = agent_rpc.PluginApi(topics.PLUGIN)
    while True:
        batch = [todo.get()]
        while not todo.empty():
            batch.append(todo.get())
        by_host = defaultdict(set)
        for host, port in batch:
            by_host[host].add(port)
        for host, ports in by_host.items():
            try:
                plugin.update_device_list(admin, sorted(ports), [], f"agents-{host}", host)
            except Exception as error:
                print("device up", host, repr(error)[:300], flush=True)


def resync(hosts):
    """Report ports of servers on our hosts that are still DOWN: a message was lost, or this program was down."""
    seen = set()
    while True:
        time.sleep(RESYNC_SECONDS)
        try:
            with openstack.connect(cloud="neutron") as cloud:
                while True:
                    down = {
                        (p.binding_host_id, p.id)
                        for p in cloud.network.ports(status="DOWN")
                        if p.device_id and is_ours(hosts, p.binding_host_id, p.binding_vif_type)
                    }
                    for port in down & seen:
                        todo.put(port)
                    seen = down
                    time.sleep(RESYNC_SECONDS)
        except Exception:
            traceback.print_exc()


def main():
    """Report agents of all hosts to Neutron and bind their ports until SIGTERM."""
    hosts = json.loads(Path(sys.argv[1]).read_text())
    ready = Path(sys.argv[2])
    common_config.register_common_config_options()
    agent_conf.register_agent_state_opts_helper(cfg.CONF)
    common_config.init(sys.argv[3:])
    common_config.setup_logging()
    importlib.import_module("weftlab_collector")
    connection = agent_rpc.create_consumers(
        [Listener(hosts)],
        topics.AGENT,
        [[topics.PORT, topics.UPDATE], [topics.PORT, topics.DELETE], [topics.NETWORK, topics.UPDATE]],
        start_listening=False,
    )
    connection.consume_in_threads()
    bridges = {has["bridge"]: host for host, has in hosts.items() if has["bridge"]}
    admin = context.get_admin_context_without_session
    plugs = (
        [lambda: plug.follow(bridges, agent_rpc.PluginApi(topics.PLUGIN), admin), lease] if bridges else []
    )
    for work in (answer, lambda: resync(hosts), *plugs):
        threading.Thread(target=work, daemon=True).start()
    report(hosts, ready)


main()
