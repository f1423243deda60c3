"""The graph of a pod: its complete desired state, a pure function of order, placement, numbers and site.

A node's number (`Allotment.hosts`, else its place in `placement.nodes`) decides its addresses: a node that replaces
another gets its number, so that no other node's address changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from weft.model.fabrictypes import FabricKind
from weft.model.kindrow import Home
from weft.model.order import Order
from weft.model.placement import Placement
from weft.model.plan import Allotment
from weft.model.resources import Graph
from weft.model.site import Hca, Site
from weft.model.spaces import SEGMENT as SPACE
from weft.model.specs import MachineSpec, NetworkSpec, PortSpec, SegmentSpec, ServerSpec, SubnetSpec
from weft.planning.fabric.addressing import mac_of_guid
from weft.planning.fabric.segments import management_address, rdma_address
from weft.planning.shapes.gpu.members import members, memberships
from weft.planning.shapes.graph import (
    KEY_PAIR,
    MANAGEMENT_NETWORK,
    MANAGEMENT_SUBNET,
    SECURITY_GROUP,
    DesiredResource,
    Member,
    access,
    in_order,
    management,
    name_of,
    outside,
)
from weft.planning.shapes.localityfile import locality_files, with_file
from weft.planning.shapes.storage import PodStorage

SEGMENT = "partition"
"""Key of the pod's segment: part of external marks, so it stays what it was when all fabrics had partitions."""
RDMA_NETWORK, RDMA_SUBNET = "network/rdma", "subnet/rdma"


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
    segmented = has_segment(order, site, fabric)
    if not segmented:  # Neutron has no ports for any adapters
        inside = tuple(replace(m, hcas=()) for m in inside)
    storage = PodStorage(order, site.clouds[cloud].storage, inside)
    by = site.clouds[cloud].machines_by
    files = locality_files(order, inside, site, fabric, allotment.numbers.get(SPACE + fabric))
    wanted: list[DesiredResource] = [
        *(_rdma(inside, allotment, site, fabric, order) if segmented else ()),
        *management(order, allotment, site, cloud),
        *access(order),
        *_machines(inside),
        *_ports(inside, allotment, segmented and by == "ironic" and site.fabrics[fabric].type),
        *storage.wanted(),
        *_servers(inside, order, flavor, segmented and not _follows(order, site, fabric), storage, by, files),
        *outside(inside, order, cloud, site.clouds[cloud]),
    ]
    homes = {Home.CLOUD: cloud, Home.FABRIC: fabric}
    return Graph(resources=in_order(w.resource(pod_id, homes, "tenant") for w in wanted))


def _rdma(
    inside: Sequence[Member], allotment: Allotment, site: Site, fabric: str, order: Order
) -> Iterator[DesiredResource]:
    """The segment, and the network and subnet of its adapters."""
    kind = site.fabrics[fabric].type
    members = tuple(sorted(memberships(inside, kind.row, fabric), key=lambda m: m.port))
    number = allotment.numbers[SPACE + fabric]
    # A machine runs the tenant's system neither during deployment nor cleaning: it joins after one, leaves before the
    # other.
    first = tuple(_server(m) for m in inside) if _follows(order, site, fabric) else ()
    yield DesiredResource(SEGMENT, SegmentSpec(number=number, fabric_type=kind, members=members), first)
    rdma = NetworkSpec(
        physical_network=site.fabrics[fabric].physical_network,
        segment=allotment.numbers[SPACE + fabric],
        port_security=False,
        mtu=site.fabrics[fabric].network_mtu,
    )
    yield DesiredResource(RDMA_NETWORK, rdma)
    # No DHCP and no gateway on RDMA: addresses are fixed, and the default route belongs to management.
    without = SubnetSpec(network=RDMA_NETWORK, cidr=allotment.rdma_cidr, gateway=False, dhcp=False)
    yield DesiredResource(RDMA_SUBNET, without, (RDMA_NETWORK,))


def _machines(inside: Sequence[Member]) -> Iterator[DesiredResource]:
    for m in inside:
        if m.node.machine is not None:
            yield DesiredResource(_machine(m), MachineSpec(machine=m.node.machine), node=m.node.name)


def has_segment(order: Order, site: Site, fabric: str) -> bool:
    """Whether the pod has a segment of its own on its fabric."""
    return order.fabric.rdma and site.fabrics[fabric].words.segments


def _bare_metal(order: Order) -> bool:
    return order.nodes.kind == "bare_metal"


def _follows(order: Order, site: Site, fabric: str) -> bool:
    """Whether members follow their servers. Where Neutron sets the VLANs, Ironic notifies it instead."""
    return _bare_metal(order) and not site.fabrics[fabric].is_neutrons


def _machine(member: Member) -> str:
    return f"machine/{member.name}"


def _server(member: Member) -> str:
    return f"server/{member.name}"


def _ports(
    inside: Sequence[Member], allotment: Allotment, pinned: FabricKind | Literal[False]
) -> Iterator[DesiredResource]:
    """Ports of the servers.

    Args:
        pinned: type of the fabric where each port of a machine must be at its own adapter. Nova's driver can't ask
            Ironic for that: it takes any adapter of the physical network, and gives the port its MAC address.
    """
    rails = allotment.rails or max(len(m.hcas) for m in inside)
    for m in inside:
        bare = m.node.machine is not None
        management = PortSpec(
            network=MANAGEMENT_NETWORK,
            subnet=MANAGEMENT_SUBNET,
            address=management_address(allotment.management_cidr, m.index),
            vnic_type="baremetal" if bare else "normal",
            # Nothing filters what a machine sends and receives through its own adapter.
            security_groups=() if bare else (SECURITY_GROUP,),
            host=m.node.nova_host,
        )
        needs = (MANAGEMENT_NETWORK, MANAGEMENT_SUBNET, *management.security_groups)
        yield DesiredResource(m.management_port, management, needs, m.node.name)
        macs = m.macs()
        for number, key in enumerate(m.hca_ports()):
            rdma = PortSpec(
                network=RDMA_NETWORK,
                subnet=RDMA_SUBNET,
                address=rdma_address(allotment.rdma_cidr, m.index, number, rails),
                mac=macs[number] if macs else _own_mac(m.hcas[number], pinned) if bare and pinned else None,
                vnic_type="baremetal" if bare else "direct" if macs else "direct-physical",
                function=m.functions[number] if macs else None,
                switchdev=bool(macs) and m.hcas[number].eswitch == "switchdev",
                host=m.node.nova_host,
            )
            yield DesiredResource(key, rdma, (RDMA_NETWORK, RDMA_SUBNET), m.node.name)


def _own_mac(hca: Hca, fabric: FabricKind) -> str | None:
    """MAC address of the adapter's port in Ironic."""
    if hca.mac is None and fabric is FabricKind.INFINIBAND:
        return mac_of_guid(hca.port_guid)
    return hca.mac


def _servers(
    inside: Sequence[Member],
    order: Order,
    flavor: str,
    after_segment: bool,
    storage: PodStorage,
    machines_by: Literal["nova", "ironic"],
    files: Mapping[str, str],
) -> Iterator[DesiredResource]:
    """The servers.

    Args:
        after_segment: whether servers wait for the segment: none must ever see the fabric outside of it.
        files: member -> text of the file with its location.
    """
    has_key = order.access.ssh_key is not None or order.access.key_pair is not None
    key_pair = (KEY_PAIR,) if has_key else ()
    for m in inside:
        has = storage.of(m, with_file(order.access.user_data, files.get(m.name)))
        ports = (m.management_port, *m.hca_ports(), *has.ports)
        server = ServerSpec(
            host=m.node.nova_host,
            bare_metal=_bare_metal(order),
            by=machines_by if _bare_metal(order) else "nova",
            flavor=flavor,
            image=order.nodes.image,
            key_pair=KEY_PAIR if has_key else None,
            user_data=has.user_data,
            ports=ports,
            storage=has.places,
        )
        first = ((SEGMENT,) if after_segment else ()) + ((_machine(m),) if _bare_metal(order) else ())
        needs = (*first, *key_pair, *ports, *has.needs)
        yield DesiredResource(_server(m), server, needs, m.node.name, name_of(order, m))
