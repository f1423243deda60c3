"""The graph of a pod: its complete desired state, a pure function of order, placement, numbers and site.

A node's number (`Allotment.hosts`, else its place in `placement.nodes`) decides its addresses: a node that replaces
another takes its number, so that nobody else's address changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from weft.model.errors import ConflictError, InputError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.ids import format_guid
from weft.model.kinds import Home, kind_of
from weft.model.mark import outside_name
from weft.model.order import Order
from weft.model.placement import Part, PlacedNode, Placement
from weft.model.plan import Allotment
from weft.model.resources import (
    FloatingIPSpec,
    Graph,
    Ingress,
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    Resource,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
)
from weft.model.site import Cloud, Hca, Node, Site
from weft.model.spaces import SEGMENT as SPACE
from weft.model.spaces import VLAN
from weft.planning.fabric.functions import guid_of, mac_of, parsed
from weft.planning.fabric.segments import management_address, management_pool, rdma_address

SEGMENT = "partition"
"""Key of the pod's segment: part of external marks, so it stays what it was when all fabrics had partitions."""
RDMA_NETWORK, RDMA_SUBNET = "network/rdma", "subnet/rdma"
MANAGEMENT_NETWORK, MANAGEMENT_SUBNET = "network/management", "subnet/management"
ROUTER, SECURITY_GROUP, KEY_PAIR = "router", "security_group", "key_pair"


class Wanted(NamedTuple):
    """A resource without what follows from its kind and its pod.

    Attributes:
        needs: keys that it needs.
        node: that it is of; empty: it is of none.
    """

    key: str
    spec: Spec
    needs: tuple[str, ...] = ()
    node: str = ""

    def resource(self, pod_id: str, homes: Mapping[Home, str], owner: Literal["tenant", "site"]) -> Resource:
        """Args: homes: name of the cloud, the fabric, … of the pod."""
        return Resource(
            key=self.key,
            name=outside_name(pod_id, self.key),
            where=homes[kind_of(self.spec).row.home],
            owner=owner,
            needs=self.needs,
            node=self.node,
            spec=self.spec,
        )


MEMBERS: Mapping[FabricKind, Mode] = {FabricKind.INFINIBAND: Mode.FULL, FabricKind.ETHERNET: Mode.ACCESS}
"""Membership of a whole adapter in its pod's segment: all members reach each other."""
SHARED: Mapping[FabricKind, Mode] = {FabricKind.INFINIBAND: Mode.FULL, FabricKind.ETHERNET: Mode.TRUNK}
"""Membership of virtual functions: with ports of their own, or by their VLAN's tag on the adapter's port."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the pod with the adapters that the pod uses, in the order of the devices.

    Attributes:
        index: its number in the pod's subnets, from 0.
        name: used in names of its resources: the node, or `node/number` if it can have several servers.
        functions: for shared adapters, the virtual function of each; else empty.
    """

    index: int
    node: Node
    hcas: tuple[Hca, ...]
    name: str
    functions: tuple[str, ...] = ()

    @property
    def management_port(self) -> str:
        return f"port/{self.name}/management"

    def hca_ports(self) -> list[str]:
        return [f"port/{self.name}/{h.name}" for h in self.hcas]

    def macs(self) -> list[str]:
        """MAC address of each virtual function."""
        by_name = {h.name: h for h in self.node.hcas}
        return [mac_of(by_name[hca], number) for hca, number in map(parsed, self.functions)]


def members(
    order: Order, nodes: Sequence[PlacedNode], site: Site, fabric: str, numbers: Allotment | None = None
) -> tuple[Member, ...]:
    """The pod's nodes with the adapters that the order uses.

    Args:
        numbers: None: not allotted yet.

    Raises `ConflictError` if the site has no such node any more, or not enough adapters on it.
    """
    found: list[Member] = []
    names = [n.node for n in nodes]
    for index, (name, placed) in enumerate(zip(names, nodes, strict=True)):
        node = site.node_by_name.get(name)
        if node is None:
            raise ConflictError(f"node {name} of pod {order.name} is no longer in site {site.name}")
        if order.nodes.sharing == "shared":
            found.append(_sharing(order, index, node, placed.part, names[:index].count(name), fabric))
            continue
        hcas = node.hcas_on(fabric)[: order.fabric.hcas_per_node]
        if order.fabric.rdma and len(hcas) < (order.fabric.hcas_per_node or 1):
            raise ConflictError(
                f"node {name} of pod {order.name} has {len(hcas)} adapters on fabric {fabric}"
            )
        if numbers is not None:  # a node added later may have more than the subnet has addresses for
            hcas = hcas[: numbers.rails]
        number = numbers.hosts.get(name, index) if numbers else index
        found.append(Member(number, node, hcas, name))
    return tuple(found)


def _sharing(order: Order, index: int, node: Node, part: Part | None, before: int, fabric: str) -> Member:
    """A server on a node that it shares.

    Args:
        before: servers of the pod on the node that have lower numbers.

    Raises `ConflictError` if the node has an adapter no more that the server has a function of.
    """
    functions = part.vfs if part is not None and order.fabric.rdma else ()
    by_name = {h.name: h for h in node.hcas_on(fabric)}
    hcas: list[Hca] = []
    for hca, number in map(parsed, functions):
        if hca not in by_name or number >= by_name[hca].vfs:
            raise ConflictError(
                f"node {node.name} of pod {order.name} has no virtual function {hca}/{number} on fabric {fabric} now"
            )
        hcas.append(by_name[hca])
    return Member(index, node, tuple(hcas), f"{node.name}/{before}", functions)


def podgraph(
    pod_id: str,
    order: Order,
    placement: Placement,
    allotment: Allotment,
    site: Site,
    cloud: str,
    fabric: str,
    flavor: str,
) -> Graph:
    """Every resource of the pod, needs first, then by key.

    Raises `ConflictError` if a placed node isn't in the site, `InputError` if the order wants a router or a
    floating IP where the cloud has no external network.
    """
    inside = members(order, placement.nodes, site, fabric, allotment)
    wanted: list[Wanted] = [
        *(_rdma(inside, allotment, site, fabric) if order.fabric.rdma else ()),
        *_management(order, allotment, site, cloud),
        *access(order),
        *_ports(inside, allotment),
        *_servers(inside, order, flavor),
        *outside(inside, order, cloud, site.clouds[cloud]),
    ]
    homes = {Home.CLOUD: cloud, Home.FABRIC: fabric}
    return Graph(resources=in_order(w.resource(pod_id, homes, "tenant") for w in wanted))


def in_order(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    """Sorted by depth in the graph, then by key: needs come first.

    Raises ValueError for missing or circular dependencies: a programming error, never the order's.
    """
    left = {r.key: r for r in resources}
    done: dict[str, Resource] = {}
    while left:
        ready = sorted(key for key, r in left.items() if all(n in done for n in r.needs))
        if not ready:
            raise ValueError(f"circular or missing dependencies: {sorted(left)}")
        done.update((key, left.pop(key)) for key in ready)
    return tuple(done.values())


def wants_router(order: Order) -> bool:
    """A floating IP implies a router."""
    return order.network.router or order.access.floating_ip != "none"


def _rdma(inside: Sequence[Member], allotment: Allotment, site: Site, fabric: str) -> Iterator[Wanted]:
    """The segment, and the network and subnet of its adapters."""
    kind = site.fabrics[fabric].type
    members = tuple(sorted(_memberships(inside, kind, fabric), key=lambda m: m.port))
    number = allotment.numbers[SPACE + fabric]
    yield Wanted(SEGMENT, SegmentSpec(number=number, fabric_type=kind, members=members))
    rdma = NetworkSpec(
        physical_network=site.fabrics[fabric].physical_network,
        segment=allotment.numbers[SPACE + fabric],
        port_security=False,
    )
    yield Wanted(RDMA_NETWORK, rdma)
    # No DHCP and no gateway on RDMA: addresses are fixed, and the default route belongs to management.
    without = SubnetSpec(network=RDMA_NETWORK, cidr=allotment.rdma_cidr, gateway=False, dhcp=False)
    yield Wanted(RDMA_SUBNET, without, (RDMA_NETWORK,))


def _memberships(inside: Sequence[Member], kind: FabricKind, fabric: str) -> Iterator[Membership]:
    """What of the pod's nodes is in its segment.

    All adapters of a whole node on this fabric, also where the order uses fewer: the node is the pod's alone, and Nova,
    not we, picks which of the physical functions each port gets. The same of virtual functions: on InfiniBand each has
    a port of its own wherever it is, on Ethernet its VLAN is on every adapter that it may be behind.
    """
    done: set[str] = set()
    for m in inside:
        ids = [h.port_id for h in m.node.hcas_on(fabric) if h.vfs or not m.functions]
        if m.functions and kind is FabricKind.INFINIBAND:
            for mac in m.macs():
                yield Membership(port=format_guid(guid_of(mac)), mode=SHARED[kind], behind=tuple(sorted(ids)))
            continue
        mode = SHARED[kind] if m.functions else MEMBERS[kind]
        for one in ids:
            if one not in done:
                done.add(one)
                yield Membership(port=one, mode=mode)


def _management(order: Order, allotment: Allotment, site: Site, cloud: str) -> Iterator[Wanted]:
    yield Wanted(MANAGEMENT_NETWORK, management_network(allotment, site, cloud))
    full = SubnetSpec(
        network=MANAGEMENT_NETWORK,
        cidr=allotment.management_cidr,
        gateway=wants_router(order),
        dhcp=True,
        pool=management_pool(allotment.management_cidr),
    )
    yield Wanted(MANAGEMENT_SUBNET, full, (MANAGEMENT_NETWORK,))


def management_network(allotment: Allotment, site: Site, cloud: str) -> NetworkSpec:
    """Uses the pod's allotment: it keeps its type of network even if the site has another one by now.

    Raises `ConflictError` if it has a VLAN and the site doesn't say on which physical network any more.
    """
    vlan = allotment.numbers.get(VLAN + cloud)
    if vlan is None:
        return NetworkSpec(port_security=True)
    place = site.clouds[cloud].management
    if place.physical_network is None:
        raise ConflictError(
            f"cloud {cloud} no longer has VLANs for management networks, and the pod is on VLAN {vlan}: it can be "
            "released, but not changed"
        )
    return NetworkSpec(physical_network=place.physical_network, segment=vlan, port_security=True)


def access(order: Order, ingress: tuple[Ingress, ...] = ()) -> Iterator[Wanted]:
    """Security group and key pair of the tenant's servers.

    Args:
        ingress: what the group allows besides the order's.
    """
    ssh_from = sorted(set(order.access.ssh_from))
    yield Wanted(SECURITY_GROUP, SecurityGroupSpec(ssh_from=tuple(map(str, ssh_from)), ingress=ingress))
    if order.access.ssh_key is not None:
        yield Wanted(KEY_PAIR, KeyPairSpec(public_key=" ".join(order.access.ssh_key.split()[:2])))
    elif order.access.key_pair is not None:
        # An offline plan: the key's text is unknown, but not that there is one.
        yield Wanted(KEY_PAIR, KeyPairSpec(public_key=f"<text of key pair {order.access.key_pair}>"))


def _ports(inside: Sequence[Member], allotment: Allotment) -> Iterator[Wanted]:
    rails = allotment.rails or max(len(m.hcas) for m in inside)
    for m in inside:
        management = PortSpec(
            network=MANAGEMENT_NETWORK,
            subnet=MANAGEMENT_SUBNET,
            address=management_address(allotment.management_cidr, m.index),
            vnic_type="normal",
            security_groups=(SECURITY_GROUP,),
            host=m.node.nova_host,
        )
        needs = (MANAGEMENT_NETWORK, MANAGEMENT_SUBNET, SECURITY_GROUP)
        yield Wanted(m.management_port, management, needs, m.node.name)
        macs = m.macs()
        for number, key in enumerate(m.hca_ports()):
            rdma = PortSpec(
                network=RDMA_NETWORK,
                subnet=RDMA_SUBNET,
                address=rdma_address(allotment.rdma_cidr, m.index, number, rails),
                mac=macs[number] if macs else None,
                vnic_type="direct" if macs else "direct-physical",
                function=m.functions[number] if macs else None,
                host=m.node.nova_host,
            )
            yield Wanted(key, rdma, (RDMA_NETWORK, RDMA_SUBNET), m.node.name)


def _servers(inside: Sequence[Member], order: Order, flavor: str) -> Iterator[Wanted]:
    has_key = order.access.ssh_key is not None or order.access.key_pair is not None
    key_pair = (KEY_PAIR,) if has_key else ()
    for m in inside:
        ports = (m.management_port, *m.hca_ports())
        server = ServerSpec(
            host=m.node.nova_host,
            flavor=flavor,
            image=order.nodes.image,
            key_pair=KEY_PAIR if has_key else None,
            user_data=order.access.user_data,
            ports=ports,
        )
        # The segment first: a server must never see the fabric outside of its own segment.
        first = (SEGMENT,) if order.fabric.rdma else ()
        yield Wanted(f"server/{m.name}", server, (*first, *key_pair, *ports), m.node.name)


def outside(inside: Sequence[Member], order: Order, cloud: str, place: Cloud) -> Iterator[Wanted]:
    """Router and floating IPs of the tenant's servers."""
    if not wants_router(order):
        return
    external = place.external_network
    if external is None:
        field = "network.router" if order.network.router else "access.floating_ip"
        value = order.network.router or order.access.floating_ip
        raise InputError(field, value, f"cloud {cloud} has no external network in the site")
    yield Wanted(
        ROUTER, RouterSpec(external_network=external, subnets=(MANAGEMENT_SUBNET,)), (MANAGEMENT_SUBNET,)
    )
    wanted = {"none": 0, "first": 1, "each": len(inside)}[order.access.floating_ip]
    for m in inside[:wanted]:
        spec = FloatingIPSpec(external_network=external, port=m.management_port)
        yield Wanted(f"floating_ip/{m.name}", spec, (ROUTER, m.management_port), m.node.name)
