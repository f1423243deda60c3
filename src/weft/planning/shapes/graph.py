"""What graphs of all shapes share: servers' names, resources in order, management network, access, floating IPs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from weft.model.errors import ConflictError, InputError
from weft.model.kindrow import Home
from weft.model.kinds import kind_of
from weft.model.mark import outside_name
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Allotment, Plan
from weft.model.resources import Graph, Resource
from weft.model.servernames import server_name
from weft.model.site import Cloud, Hca, Node, Site
from weft.model.spaces import VLAN
from weft.model.specs import (
    FloatingIPSpec,
    Ingress,
    KeyPairSpec,
    NetworkSpec,
    RouterSpec,
    SecurityGroupSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
)
from weft.planning.fabric.functions import mac_of, parsed
from weft.planning.fabric.segments import management_pool

MANAGEMENT_NETWORK, MANAGEMENT_SUBNET = "network/management", "subnet/management"
ROUTER, SECURITY_GROUP, KEY_PAIR = "router", "security_group", "key_pair"


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
        """Key of its port on the management network."""
        return f"port/{self.name}/management"

    def hca_ports(self) -> list[str]:
        """Keys of its ports on the RDMA network, in the order of its adapters."""
        return [f"port/{self.name}/{h.name}" for h in self.hcas]

    def macs(self) -> list[str]:
        """MAC address of each virtual function."""
        by_name = {h.name: h for h in self.node.hcas}
        return [mac_of(by_name[hca], number) for hca, number in map(parsed, self.functions)]


class DesiredResource(NamedTuple):
    """A desired resource, without what follows from its kind and its pod.

    Attributes:
        needs: keys that it needs.
        node: the node that it belongs to; empty: none.
        name: its external name; empty: weft's own name for the key.
    """

    key: str
    spec: Spec
    needs: tuple[str, ...] = ()
    node: str = ""
    name: str = ""

    def resource(self, pod_id: str, homes: Mapping[Home, str], owner: Literal["tenant", "site"]) -> Resource:
        """The resource of a pod. Args: homes: names of the pod's cloud, fabric and so on."""
        return Resource(
            key=self.key,
            name=self.name or outside_name(pod_id, self.key),
            where=homes[kind_of(self.spec).row.home],
            owner=owner,
            needs=self.needs,
            node=self.node,
            spec=self.spec,
        )


def name_of(order: Order, member: Member) -> str:
    """The name of a tenant's server: it keeps its number, and so its name, when others change."""
    return server_name(order.nodes.names, order.name, member.index)


def servers_by_name(graph: Graph) -> dict[str, str]:
    """Name of each server of the tenant's -> how `weft.model.placement.by_server` names it."""
    kind, servers = "server/", (r for r in graph.resources if r.owner == "tenant")
    return {r.name: r.key.removeprefix(kind) for r in servers if r.key.startswith(kind)}


def new_names(plan: Plan) -> frozenset[str]:
    """Names that the plan gives to servers that Nova would create in the project."""
    added = None if plan.change is None else frozenset(plan.change.added)
    return frozenset(
        r.name
        for r in plan.graph.resources
        if isinstance(r.spec, ServerSpec) and r.spec.by == "nova" and r.owner == "tenant"
        if added is None or r.key in added
    )


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
    """Whether the pod gets a router: the order wants one, or a floating IP, which needs it."""
    return order.network.router or order.access.floating_ip != "none"


def management(order: Order, allotment: Allotment, site: Site, cloud: str) -> Iterator[DesiredResource]:
    """Management network and subnet of the pod."""
    yield DesiredResource(MANAGEMENT_NETWORK, management_network(allotment, site, cloud))
    full = SubnetSpec(
        network=MANAGEMENT_NETWORK,
        cidr=allotment.management_cidr,
        gateway=wants_router(order),
        dhcp=True,
        pool=management_pool(allotment.management_cidr),
    )
    yield DesiredResource(MANAGEMENT_SUBNET, full, (MANAGEMENT_NETWORK,))


def management_network(allotment: Allotment, site: Site, cloud: str) -> NetworkSpec:
    """The pod's management network by its allotment: it keeps its type even if the site has another one by now.

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


def access(order: Order, ingress: tuple[Ingress, ...] = ()) -> Iterator[DesiredResource]:
    """Security group and key pair of the tenant's servers.

    Args:
        ingress: what the group allows besides the order's.
    """
    ssh_from = sorted(set(order.access.ssh_from))
    yield DesiredResource(
        SECURITY_GROUP, SecurityGroupSpec(ssh_from=tuple(map(str, ssh_from)), ingress=ingress)
    )
    if order.access.ssh_key is not None:
        yield DesiredResource(KEY_PAIR, KeyPairSpec(public_key=" ".join(order.access.ssh_key.split()[:2])))
    elif order.access.key_pair is not None:
        # An offline plan: the key's text is unknown, but not that there is one.
        yield DesiredResource(KEY_PAIR, KeyPairSpec(public_key=f"<text of key pair {order.access.key_pair}>"))


def outside(inside: Sequence[Member], order: Order, cloud: str, place: Cloud) -> Iterator[DesiredResource]:
    """Router and floating IPs of the tenant's servers."""
    if not wants_router(order):
        return
    external = place.external_network
    if external is None:
        field = "network.router" if order.network.router else "access.floating_ip"
        value = order.network.router or order.access.floating_ip
        raise InputError(
            field, value, instead("cloud {cloud} has no external network in the site", cloud=cloud)
        )
    yield DesiredResource(
        ROUTER, RouterSpec(external_network=external, subnets=(MANAGEMENT_SUBNET,)), (MANAGEMENT_SUBNET,)
    )
    wanted = {"none": 0, "first": 1, "each": len(inside)}[order.access.floating_ip]
    for m in inside[:wanted]:
        spec = FloatingIPSpec(external_network=external, port=m.management_port)
        yield DesiredResource(f"floating_ip/{m.name}", spec, (ROUTER, m.management_port), m.node.name)
