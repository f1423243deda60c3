"""The placement request for an order of nodes."""

from __future__ import annotations

from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.placement import PlacementRequest, Share
from weft.model.site import Flavor
from weft.planning.fabric.topology import Topology
from weft.planning.place.placement import check_uplinks
from weft.planning.shapes.shape import Resolved


def boot_key(cloud: str, project: str, image: str, flavor: str) -> str:
    """What an order boots, for `PlacementRequest.boot`: images and flavors depend on the project."""
    return f"{cloud}/{project}/{flavor}/{image}"


def least_hcas(order: Order) -> int:
    """Adapters on the fabric that each node must have; of shared ones, those that a server has a function of."""
    return (order.fabric.hcas_per_node or 1) if order.fabric.rdma else 0


def request_of(resolved: Resolved) -> PlacementRequest:
    """The placement request of a resolved order. Raises `InputError` for an invalid order."""
    order, project = resolved.order, resolved.project
    if project in order.locality.apart_from:
        allowed = instead("other projects: pods of one project may always share a leaf")
        raise InputError("locality.apart_from", project, allowed)
    topology = Topology.of(resolved.site, resolved.fabric)
    check_uplinks(order.fabric.bisection_gbps, topology)
    _check_domains(order, topology)
    return PlacementRequest(
        share=_share(resolved),
        pod=order.name,
        project=project,
        count=order.nodes.count,
        cloud=resolved.cloud,
        fabric=resolved.fabric,
        hcas_per_node=least_hcas(order),
        accelerators=resolved.accelerators,
        bare_metal=order.nodes.kind == "bare_metal",
        boot=resolved.boots,
        required=order.locality.required,
        preferred=order.locality.preferred,
        slice=order.locality.slice,
        slice_within=order.locality.slice_within,
        preferences=order.locality.preferences,
        spare=order.nodes.spare,
        apart_from=order.locality.apart_from,
        exclusive=order.locality.exclusive,
        bisection_gbps=order.fabric.bisection_gbps,
    )


def _check_domains(order: Order, topology: Topology) -> None:
    """Raise `InputError` if the order asks for NVLink domains where there are none."""
    locality = order.locality
    if topology.nvlink:
        return
    if locality.required == "nvlink_domain":
        allowed = f"one of {', '.join(topology.levels)}: the site describes no NVLink domains there"
        raise InputError("locality.required", locality.required, allowed)
    if locality.slice_within != "leaf":
        allowed = "leaf: the site describes no NVLink domains there"
        raise InputError("locality.slice_within", locality.slice_within, allowed)


def _share(resolved: Resolved) -> Share | None:
    """What each server uses of a shared node; None: whole nodes."""
    order = resolved.order
    if order.nodes.sharing == "dedicated":
        return None
    if order.fabric.rdma and order.fabric.hcas != "shared":
        allowed = instead("shared, or fabric: none; dedicated adapters require dedicated nodes")
        raise InputError("fabric.hcas", order.fabric.hcas, allowed)
    flavor = resolved.site.clouds[resolved.cloud].flavors[resolved.flavor]
    if flavor.accelerators is None:
        allowed = instead("a flavor with accelerators in the site; {flavor} has none", flavor=resolved.flavor)
        raise InputError("nodes.flavor", resolved.flavor, allowed)
    return share_of(flavor, least_hcas(order))


def share_of(flavor: Flavor, functions: int) -> Share:
    """What a server of a flavor takes, with this many virtual functions."""
    return Share(
        cores=flavor.cores,
        memory_mib=flavor.memory_mib,
        dedicated=flavor.dedicated_cores,
        numa=flavor.numa,
        affinity=flavor.affinity,
        vfs=functions,
    )
