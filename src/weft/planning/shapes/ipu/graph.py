"""The graph of an IPU pod: another graph for the same loop.

The release goes backwards: the tenant's user, its partitions with the allocation, the cluster, the agents, the virtual
machines, the machines' ports, the networks.  The controller and its ports belong to the project of weft's service
user, because it is connected to the gateways' network: tenants can rebuild and enter what they own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from weft.model.fabric import Membership
from weft.model.fabrictypes import Mode
from weft.model.kindrow import Home
from weft.model.order import Order
from weft.model.plan import Allotment
from weft.model.podkeys import TLS_NAMES
from weft.model.resources import Graph
from weft.model.site import (
    ADMIN_PORT,
    METRICS_PORT,
    NODE_EXPORTER_PORT,
    SYSLOG_PORT,
    USER_PORT,
    IpuMachine,
    IpuPod,
    Node,
    Site,
)
from weft.model.specs import (
    Ingress,
    NetworkSpec,
    PortSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    SubnetSpec,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuUserSpec,
)
from weft.planning.fabric.datanetwork import DataVlans, data_vlans
from weft.planning.fabric.segments import management_address, management_pool
from weft.planning.shapes.graph import (
    KEY_PAIR,
    MANAGEMENT_NETWORK,
    MANAGEMENT_SUBNET,
    SECURITY_GROUP,
    DesiredResource,
    Member,
    access,
    in_order,
    management_network,
    name_of,
    outside,
    wants_router,
)
from weft.planning.shapes.ipu.init import (
    ADMIN_KEY,
    AGENT_KEY,
    TENANT_KEY,
    TENANT_USER,
    ControllerAddresses,
    controller_init,
    poplar_init,
)
from weft.planning.shapes.storage import PodStorage

DATA_NETWORK, DATA_SUBNET, DATA_SEGMENT = "network/data", "subnet/data", "segment/data"
CONTROLLER = "server/controller"
CONTROLLER_GATEWAY, CONTROLLER_MANAGEMENT = "port/controller/gateway", "port/controller/management"
GATEWAY_GROUP, USERS_GROUP = "security_group/controller-gateway", "security_group/controller-management"
CLUSTER, ALLOCATION, USER = "vipu_cluster", "vipu_allocation", "vipu_user"
SITES_OWN = frozenset({CONTROLLER, CONTROLLER_GATEWAY, CONTROLLER_MANAGEMENT, GATEWAY_GROUP, USERS_GROUP})
"""Keys of resources in the project of weft's service user."""

DHCP_PORTS = 14
"""Addresses at the end of the data network's subnet, for the cloud's DHCP ports; Poplar servers are below them."""


@dataclass(frozen=True, slots=True)
class IpuParts:
    """The parts of an IPU pod.

    Attributes:
        machines: in the order of the cables.
        ring: whether they are a whole ring.
        poplars: hosts of the Poplar servers.
        controller: host of the V-IPU controller.
    """

    ipu_pod: str
    machines: tuple[IpuMachine, ...]
    ring: bool
    poplars: tuple[Node, ...]
    controller: Node


def gateway_address(pod: IpuPod, number: int) -> str:
    """A controller's address on the gateways' network: number `number` (from 1) of its range."""
    return str(pod.gateway.controllers[number])


def data_address(cidr: str, server: int) -> str:
    """Address of Poplar server `server` (from 0) on the data network, from the end of the subnet down."""
    return str(IPv4Network(cidr)[-2 - DHCP_PORTS - server])


def data_pool(cidr: str) -> tuple[str, str]:
    """First and last address that the cloud itself may give out on the data network."""
    network = IPv4Network(cidr)
    return str(network[-1 - DHCP_PORTS]), str(network[-2])


def ipu_graph(
    pod_id: str, order: Order, parts: IpuParts, allotment: Allotment, site: Site, cloud: str, flavor: str
) -> Graph:
    """Every resource of the pod, needs first, then by key. Raises `InputError` for user data that is too long."""
    graph = _Graph(pod_id, order, parts, allotment, site, cloud, flavor)
    homes = {Home.CLOUD: cloud, Home.MACHINES: parts.ipu_pod}
    if graph.vlans.fabric is not None:
        homes[Home.FABRIC] = graph.vlans.fabric
    return Graph(
        resources=in_order(
            w.resource(pod_id, homes, "site" if w.key in SITES_OWN else "tenant") for w in graph.wanted()
        )
    )


@dataclass(frozen=True, slots=True)
class _Graph:
    pod_id: str
    order: Order
    parts: IpuParts
    numbers: Allotment
    site: Site
    cloud: str
    flavor: str

    def wanted(self) -> Iterator[DesiredResource]:
        inside = [Member(i, node, (), node.name) for i, node in enumerate(self.parts.poplars)]
        exporter = Ingress(protocol="tcp", port=NODE_EXPORTER_PORT, source=f"{self._controller_address}/32")
        yield from self._networks()
        yield from access(self.order, (exporter,))
        yield from self._machine_ports()
        yield from self._controller()
        storage = PodStorage(self.order, self.site.clouds[self.cloud].storage, inside)
        yield from storage.wanted()
        yield from self._poplars(inside, storage)
        yield from self._vipu()
        yield from outside(inside, self.order, self.cloud, self.site.clouds[self.cloud])

    @property
    def vlans(self) -> DataVlans:
        return data_vlans(self.site, self.parts.ipu_pod)

    @property
    def _pod(self) -> IpuPod:
        return self.site.ipu_pods[self.parts.ipu_pod]

    @property
    def _gateway(self) -> str:
        return gateway_address(self._pod, self.numbers.numbers[f"controller/{self.parts.ipu_pod}"])

    @property
    def _controller_address(self) -> str:
        """The controller's address on the vPOD's management network: after those of the Poplar servers."""
        return management_address(self.numbers.management_cidr, len(self.parts.poplars))

    def _networks(self) -> Iterator[DesiredResource]:
        vlan = self.numbers.numbers[self.vlans.space]
        fabric = self.vlans.fabric
        network = NetworkSpec(
            physical_network=self.vlans.physical_network,
            segment=vlan,
            port_security=False,
            mtu=None if fabric is None else self.site.fabrics[fabric].network_mtu,
        )
        yield DesiredResource(DATA_NETWORK, network)
        if fabric is not None:
            yield DesiredResource(DATA_SEGMENT, self._segment(fabric, vlan))
        # DHCP, since IPU-Machines request their RNIC's address; no gateway: nothing leaves this network.
        cidr = self.numbers.rdma_cidr
        subnet = SubnetSpec(network=DATA_NETWORK, cidr=cidr, gateway=False, dhcp=True, pool=data_pool(cidr))
        yield DesiredResource(DATA_SUBNET, subnet, (DATA_NETWORK,))
        yield DesiredResource(MANAGEMENT_NETWORK, management_network(self.numbers, self.site, self.cloud))
        cidr = self.numbers.management_cidr
        subnet = SubnetSpec(
            network=MANAGEMENT_NETWORK,
            cidr=cidr,
            gateway=wants_router(self.order),
            dhcp=True,
            pool=management_pool(cidr),
        )
        yield DesiredResource(MANAGEMENT_SUBNET, subnet, (MANAGEMENT_NETWORK,))

    def _segment(self, fabric: str, vlan: int) -> SegmentSpec:
        """The data network's segment. Machines' RNICs are the pod's alone (access ports); Poplar servers' adapters have
        virtual functions of several pods (trunk ports)."""
        machines = (Membership(port=m.port_id, mode=Mode.ACCESS) for m in self.parts.machines)
        poplars = {h.port_id for node in self.parts.poplars for h in node.hcas_on(fabric)}
        servers = (Membership(port=port, mode=Mode.TRUNK) for port in poplars)
        members = tuple(sorted((*machines, *servers), key=lambda m: m.port))
        return SegmentSpec(number=vlan, fabric_type=self.site.fabrics[fabric].type, members=members)

    @property
    def _wired(self) -> tuple[str, ...]:
        """Keys of what must exist before anything is on the data network."""
        return (DATA_SEGMENT,) if self.vlans.fabric is not None else ()

    def _machine_ports(self) -> Iterator[DesiredResource]:
        """Ports of the RNICs; with host names only where the site has some in this cloud, since Neutron must support
        them."""
        named = any(network.cloud == self.cloud for network in self.site.networks.values())
        for machine in self.parts.machines:
            port = PortSpec(
                network=DATA_NETWORK,
                subnet=DATA_SUBNET,
                address=str(machine.rnic_address),
                mac=machine.rnic_mac,
                vnic_type="baremetal",
                host="",
                dns_name=machine.host_name("rnic") if named else None,
            )
            yield DesiredResource(
                f"port/{machine.name}/rnic", port, (DATA_NETWORK, DATA_SUBNET), machine.name
            )

    def _controller(self) -> Iterator[DesiredResource]:
        """One security group for each interface, by role (reference design, table of security groups)."""
        pod, host, node = self._pod, self.parts.controller.nova_host, self.parts.controller.name
        weft, gateways = str(pod.gateway.managed_from), str(pod.gateway.addresses)
        doors = (USER_PORT, ADMIN_PORT, METRICS_PORT)
        ours = [Ingress(protocol="tcp", port=port, source=weft) for port in doors]
        logs = [Ingress(protocol="udp", port=SYSLOG_PORT, source=gateways)]
        yield DesiredResource(GATEWAY_GROUP, SecurityGroupSpec(ssh_from=(weft,), ingress=(*ours, *logs)))
        users = Ingress(protocol="tcp", port=USER_PORT, source=self.numbers.management_cidr)
        yield DesiredResource(USERS_GROUP, SecurityGroupSpec(ssh_from=(), ingress=(users,)))
        gateway = PortSpec(
            network="",
            subnet="",
            site_network=pod.gateway.network,
            address=self._gateway,
            vnic_type="normal",
            security_groups=(GATEWAY_GROUP,),
            host=host,
        )
        yield DesiredResource(CONTROLLER_GATEWAY, gateway, (GATEWAY_GROUP,), node)
        management = PortSpec(
            network=MANAGEMENT_NETWORK,
            subnet=MANAGEMENT_SUBNET,
            address=self._controller_address,
            vnic_type="normal",
            security_groups=(USERS_GROUP,),
            host=host,
        )
        needs = (MANAGEMENT_NETWORK, MANAGEMENT_SUBNET, USERS_GROUP)
        yield DesiredResource(CONTROLLER_MANAGEMENT, management, needs, node)
        topology = "torus" if self.parts.ring else "mesh"
        ports = (CONTROLLER_GATEWAY, CONTROLLER_MANAGEMENT)
        server = ServerSpec(
            host=host,
            flavor=pod.controller.flavor,
            image=pod.controller.image,
            user_data=controller_init(
                self.pod_id,
                self.order.name,
                ControllerAddresses(self._gateway, self._controller_address),
                self.parts.machines,
                topology,
                pod.gateway.agents_ca,
            ),
            secrets=(ADMIN_KEY, AGENT_KEY, TENANT_KEY, *TLS_NAMES),
            ports=ports,
        )
        yield DesiredResource(CONTROLLER, server, ports, node)

    def _poplars(self, inside: Sequence[Member], storage: PodStorage) -> Iterator[DesiredResource]:
        order = self.order
        has_key = order.access.ssh_key is not None or order.access.key_pair is not None
        user_data = poplar_init(order.name, self._controller_address, order.access.user_data)
        for m in inside:
            management = PortSpec(
                network=MANAGEMENT_NETWORK,
                subnet=MANAGEMENT_SUBNET,
                address=management_address(self.numbers.management_cidr, m.index),
                vnic_type="normal",
                security_groups=(SECURITY_GROUP,),
                host=m.node.nova_host,
            )
            needs = (MANAGEMENT_NETWORK, MANAGEMENT_SUBNET, SECURITY_GROUP)
            yield DesiredResource(m.management_port, management, needs, m.node.name)
            data = PortSpec(
                network=DATA_NETWORK,
                subnet=DATA_SUBNET,
                address=data_address(self.numbers.rdma_cidr, m.index),
                vnic_type="direct",
                host=m.node.nova_host,
            )
            yield DesiredResource(f"port/{m.node.name}/data", data, (DATA_NETWORK, DATA_SUBNET), m.node.name)
            has = storage.of(m, user_data)
            ports = (m.management_port, f"port/{m.node.name}/data", *has.ports)
            server = ServerSpec(
                host=m.node.nova_host,
                flavor=self.flavor,
                image=order.nodes.image,
                key_pair=KEY_PAIR if has_key else None,
                user_data=has.user_data,
                secrets=(TENANT_KEY,),
                ports=ports,
                storage=has.places,
            )
            needs = (*self._wired, *((KEY_PAIR,) if has_key else ()), *ports, *has.needs)
            yield DesiredResource(f"server/{m.node.name}", server, needs, m.node.name, name_of(order, m))

    def _vipu(self) -> Iterator[DesiredResource]:
        """The controller's objects, which its cloud-init creates; the driver only verifies them."""
        controller, name = self._gateway, self.order.name
        machines = tuple(m.name for m in self.parts.machines)
        for m in self.parts.machines:
            agent = VipuAgentSpec(
                tls=True, controller=controller, machine=m.name, address=str(m.gw_address), port=m.agent_port
            )
            needs = (CONTROLLER, *self._wired, f"port/{m.name}/rnic")
            yield DesiredResource(f"vipu_agent/{m.name}", agent, needs, m.name)
        cluster = VipuClusterSpec(
            tls=True,
            controller=controller,
            name=name,
            topology="torus" if self.parts.ring else "mesh",
            machines=machines,
        )
        yield DesiredResource(CLUSTER, cluster, tuple(f"vipu_agent/{m}" for m in machines))
        allocation = VipuAllocationSpec(
            tls=True, controller=controller, name=name, cluster=name, machines=machines
        )
        # The Poplar servers, too, so that the partitions that they use are deleted before them.
        yield DesiredResource(
            ALLOCATION, allocation, (CLUSTER, *(f"server/{node.name}" for node in self.parts.poplars))
        )
        user = VipuUserSpec(
            tls=True, controller=controller, name=TENANT_USER, allocation=name, machines=machines
        )
        yield DesiredResource(USER, user, (ALLOCATION,))
