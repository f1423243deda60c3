"""The servers of a pod on GPU nodes, with the adapters that they use, and their ports in the pod's segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.model.errors import ConflictError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricType
from weft.model.ids import format_guid
from weft.model.messages import orders
from weft.model.order import Order
from weft.model.placement import Part, PlacedNode, by_server
from weft.model.plan import Allotment
from weft.model.site import Hca, Node, Site
from weft.planning.fabric.functions import guid_of, parsed
from weft.planning.shapes.graph import Member


def members(
    order: Order, nodes: Sequence[PlacedNode], site: Site, fabric: str, numbers: Allotment | None = None
) -> tuple[Member, ...]:
    """The pod's nodes with the adapters that the order uses.

    Args:
        numbers: the pod's allotment; None: there is none yet.

    Raises `ConflictError` if the site has no such node any more, or not enough adapters on it.
    """
    found: list[Member] = []
    for index, (name, placed) in enumerate(by_server(nodes).items()):
        node = site.node_by_name.get(placed.node)
        if node is None:
            raise ConflictError(orders.NODE_NOT_IN_SITE(node=placed.node, pod=order.name, site=site.name))
        number = numbers.hosts.get(name, index) if numbers else index
        if placed.part is not None:
            found.append(_sharing(order, number, node, placed.part, name, fabric))
            continue
        hcas = node.hcas_on(fabric)[: order.fabric.hcas_per_node]
        if order.fabric.rdma and len(hcas) < (order.fabric.hcas_per_node or 1):
            raise ConflictError(
                f"node {name} of pod {order.name} has {len(hcas)} adapters on fabric {fabric}"
            )
        if numbers is not None:  # a node added later may have more adapters than the subnet has addresses for
            hcas = hcas[: numbers.rails]
        found.append(Member(number, node, hcas, name))
    return tuple(found)


def _sharing(order: Order, number: int, node: Node, part: Part, name: str, fabric: str) -> Member:
    """A server on a shared node.

    Raises `ConflictError` if the node no longer has an adapter whose function the server uses.
    """
    functions = part.vfs if order.fabric.rdma else ()
    by_name = {h.name: h for h in node.hcas_on(fabric)}
    hcas: list[Hca] = []
    for hca, function in map(parsed, functions):
        if hca not in by_name or function >= by_name[hca].vfs:
            raise ConflictError(
                f"node {node.name} of pod {order.name} has no virtual function {hca}/{function} on fabric {fabric} now"
            )
        hcas.append(by_name[hca])
    return Member(number, node, tuple(hcas), name, functions)


def memberships(inside: Sequence[Member], row: FabricType, fabric: str) -> Iterator[Membership]:
    """Members of the pod's segment.

    All adapters of a whole node on this fabric, even if the order uses fewer: the node is the pod's alone, and Nova
    picks which physical function each port gets. The same goes for virtual functions: one with a port of its own
    (InfiniBand) has it wherever it is; of others (Ethernet), every adapter that they may be behind is a member.
    """
    done: set[str] = set()
    for m in inside:
        ids = [h.port_id for h in m.node.hcas_on(fabric) if h.vfs or not m.functions]
        if m.functions and row.function_ports:
            for mac in m.macs():
                yield Membership(port=format_guid(guid_of(mac)), mode=row.shared, behind=tuple(sorted(ids)))
            continue
        mode = row.shared if m.functions else row.whole
        for one in ids:
            if one not in done:
                done.add(one)
                yield Membership(port=one, mode=mode)
