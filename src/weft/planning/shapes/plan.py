"""An order into a plan, or a refusal that explains itself. Pure: the same order, site and state give the same plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.model.errors import InputError
from weft.model.fabric import Capabilities
from weft.model.order import Order
from weft.model.placement import Explanation, Occupancy, PlacementRequest, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import AcceleratorCount, Cloud, Node, Site
from weft.planning.fabric.segments import allot, check_given
from weft.planning.fabric.topology import NO_FABRIC, Topology
from weft.planning.kept import kept
from weft.planning.place.placement import check_uplinks, place
from weft.planning.shapes.gpu.graph import members, podgraph, wants_router
from weft.planning.shapes.ipu.plan import make_ipu_plan

NOT_ORDERED = "00000000-0000-0000-0000-000000000000"
"""Id of the pod in a plan that nobody ordered."""


def make_plan(
    pod_id: str,
    project: str,
    order: Order,
    site: Site,
    occupancy: Occupancy,
    used: UsedNumbers,
    capabilities: Mapping[str, Capabilities],
) -> Plan | Refusal:
    """What the order would be on this site in this state.

    Args:
        pod_id: UUID of the pod; `NOT_ORDERED` for a plan only.
        capabilities: fabric -> what its manager can do.

    Returns a `Refusal` if it can't be had as it stands (no room, numbers exhausted, not possible on this fabric).
    Raises `InputError` for a name in the order that the site doesn't know, or that must be given and isn't.
    """
    cloud = resolve_cloud(order, site)
    flavor = resolve_flavor(order, site.clouds[cloud], cloud)
    if wants_router(order):
        _check_external(order, site.clouds[cloud], cloud)
    if order.ipus is not None:
        return make_ipu_plan(pod_id, project, order, order.ipus, site, cloud, flavor, occupancy, used)
    accelerators = site.clouds[cloud].flavors[flavor].accelerators
    fabric = resolve_fabric(order, site, cloud, accelerators)
    if not order.fabric.rdma and order.network.rdma is not None:
        allowed = "nothing, since fabric is none: the pod has no RDMA network"
        raise InputError("network.rdma", str(order.network.rdma), allowed)
    # What is wrong with the order itself is told even where there is no room: with at least so many adapters.
    check_given(order.network, order.nodes.count, least_hcas(order))
    refused = _not_possible(order, fabric, capabilities.get(fabric))
    if refused is not None:
        return refused
    request = _request(order, project, cloud, fabric, flavor, accelerators, site)
    placement = place(request, site, occupancy)
    if isinstance(placement, Refusal):
        return placement
    inside = members(order, [n.node for n in placement.nodes], site, fabric)
    rails = max(len(m.hcas) for m in inside)
    allotment = allot(
        site, cloud, fabric if order.fabric.rdma else None, order.network, used, len(inside), rails
    )
    if isinstance(allotment, Refusal):
        return allotment
    graph = podgraph(pod_id, order, placement, allotment, site, cloud, fabric, flavor)
    return Plan(
        pod_id=pod_id,
        project=project,
        site=site.name,
        order=order,
        cloud=cloud,
        fabric=fabric,
        flavor=flavor,
        placement=placement,
        allotment=allotment,
        graph=graph,
    )


def request_of(order: Order, project: str, site: Site) -> PlacementRequest:
    """What placement is asked for this order. Raises `InputError` as `make_plan` does."""
    cloud = resolve_cloud(order, site)
    flavor = resolve_flavor(order, site.clouds[cloud], cloud)
    accelerators = site.clouds[cloud].flavors[flavor].accelerators
    fabric = resolve_fabric(order, site, cloud, accelerators)
    return _request(order, project, cloud, fabric, flavor, accelerators, site)


def least_hcas(order: Order) -> int:
    """Adapters on the fabric that each node must have."""
    return (order.fabric.hcas_per_node or 1) if order.fabric.rdma else 0


def boot_key(cloud: str, project: str, image: str, flavor: str) -> str:
    """What an order boots, as `PlacementRequest.boot` names it: images and flavors are seen from a project."""
    return f"{cloud}/{project}/{flavor}/{image}"


def _request(
    order: Order,
    project: str,
    cloud: str,
    fabric: str,
    flavor: str,
    accelerators: AcceleratorCount | None,
    site: Site,
) -> PlacementRequest:
    if project in order.locality.apart_from:
        allowed = "other projects: pods of one project may always share a leaf"
        raise InputError("locality.apart_from", project, allowed)
    check_uplinks(order.fabric.bisection_gbps, Topology.of(site, fabric))
    return PlacementRequest(
        pod=order.name,
        project=project,
        count=order.nodes.count,
        cloud=cloud,
        fabric=fabric,
        hcas_per_node=least_hcas(order),
        accelerators=accelerators,
        boot=boot_key(cloud, project, order.nodes.image, flavor),
        required=order.locality.required,
        preferred=order.locality.preferred,
        slice=order.locality.slice,
        preferences=order.locality.preferences,
        spare=order.nodes.spare,
        apart_from=order.locality.apart_from,
        exclusive=order.locality.exclusive,
        bisection_gbps=order.fabric.bisection_gbps,
    )


def resolve_cloud(order: Order, site: Site) -> str:
    """The order's cloud, or the only one."""
    return _one_of("cloud", order.cloud, sorted(site.clouds), f"clouds of site {site.name}")


def resolve_flavor(order: Order, cloud: Cloud, name: str) -> str:
    """The order's flavor, or the smallest one of the cloud that has the accelerators."""
    wanted = order.nodes.accelerators
    if wanted is None:
        known = ", ".join(sorted(cloud.flavors)) or "none"
        if order.nodes.flavor not in cloud.flavors:
            raise InputError("nodes.flavor", order.nodes.flavor, f"flavors of cloud {name}: {known}")
        return order.nodes.flavor
    offers = sorted(
        (f.accelerators.count, flavor)
        for flavor, f in cloud.flavors.items()
        if f.accelerators is not None and f.accelerators.type == wanted.type
    )
    for count, flavor in offers:
        if count >= wanted.count:
            return flavor
    has = sorted(
        {f"{f.accelerators.count} x {f.accelerators.type}" for f in cloud.flavors.values() if f.accelerators}
    )
    raise InputError(
        "nodes.accelerators",
        f"{wanted.count} x {wanted.type}",
        f"no flavor of cloud {name} has them; its flavors have: {', '.join(has) or 'no accelerators'}",
    )


def resolve_fabric(order: Order, site: Site, cloud: str, accelerators: AcceleratorCount | None) -> str:
    """The order's fabric, or the only one that the nodes it could have are on; `NO_FABRIC` if it wants none."""
    if not order.fabric.rdma:
        return NO_FABRIC
    given = order.fabric.name
    if given is not None:
        return _one_of("fabric.name", given, sorted(site.fabrics), f"fabrics of site {site.name}")
    found = fabrics_of(site, cloud, accelerators)
    if not found:
        raise InputError(
            "fabric.name", given, f"no node of cloud {cloud} with what is ordered is on a fabric at all"
        )
    return _one_of("fabric.name", None, found, "the nodes that could be had are on several fabrics")


@kept
def fabrics_of(site: Site, cloud: str, accelerators: AcceleratorCount | None) -> tuple[str, ...]:
    """Fabrics of the nodes that have these accelerators."""
    nodes = [n for n in site.nodes if n.role == "compute" and n.cloud == cloud and has(n, accelerators)]
    return tuple(sorted({h.fabric for n in nodes for h in n.hcas}))


def has(node: Node, accelerators: AcceleratorCount | None) -> bool:
    """Whether the node has at least these accelerators."""
    if accelerators is None:
        return True
    return sum(a.type == accelerators.type for a in node.accelerators) >= accelerators.count


def _one_of(field: str, given: str | None, known: Sequence[str], what: str) -> str:
    if given is None and len(known) == 1:
        return known[0]
    if given is None or given not in known:
        raise InputError(field, given, f"{what}: {', '.join(known)}")
    return given


def _check_external(order: Order, cloud: Cloud, name: str) -> None:
    if cloud.external_network is None:
        floating = order.access.floating_ip != "none"
        field, value = (
            ("access.floating_ip", order.access.floating_ip) if floating else ("network.router", True)
        )
        raise InputError(field, value, f"cloud {name} has no external network in the site")


def _not_possible(order: Order, fabric: str, can: Capabilities | None) -> Refusal | None:
    """What the fabric's manager can't do, by its own word."""
    if order.fabric.hcas != "shared":
        return None
    if can is None:
        why = "what its manager can do is not known"
    elif not can.virtual_functions:
        why = can.why_no_virtual_functions
    else:
        why = "the site describes no virtual functions"
    reason = f"shared adapters are not possible on fabric {fabric}: {why}"
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=0, chosen=reason),
        would_fit=("fabric.hcas: dedicated (whole adapters, one server a node)",),
    )
