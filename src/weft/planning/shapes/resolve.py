"""Resolves an order once: its shape, cloud, flavor and fabric."""

from __future__ import annotations

from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.site import Cloud, Site
from weft.planning.shapes.gpu.parts import PARTS
from weft.planning.shapes.gpu.shape import GPU
from weft.planning.shapes.ipu.shape import IPU
from weft.planning.shapes.shape import Resolved, Shape
from weft.planning.shapes.storage import check_addresses, check_storage
from weft.planning.words import one_of

SHAPES: tuple[Shape, ...] = (IPU, PARTS, GPU)
"""All shapes; an order has the first that matches."""


def shape_of(order: Order) -> Shape:
    """The first shape that the order matches."""
    return next(shape for shape in SHAPES if shape.is_of(order))


def shape_named(name: str) -> Shape:
    """The shape of a `Where`."""
    return next(shape for shape in SHAPES if shape.name == name)


def resolve(order: Order, project: str, site: Site) -> Resolved:
    """The order, resolved. Raises `InputError` for a name in it that is unknown in the site, or missing."""
    cloud = resolve_cloud(order, site)
    flavor = resolve_flavor(order, site.clouds[cloud], cloud)
    check_addresses(order, cloud, site.clouds[cloud].storage)
    check_storage(order, cloud, site.clouds[cloud], site.clouds[cloud].flavors[flavor])
    return shape_of(order).resolved(order, project, site, cloud, flavor)


def as_placed(order: Order, plan: Plan) -> Order:
    """The order of an existing pod, with omitted names filled in as the pod has them: the site may offer others by
    now."""
    nodes = order.nodes
    if nodes.accelerators is not None:
        nodes = nodes.model_copy(update={"flavor": plan.flavor, "accelerators": None})
    named = order.model_copy(update={"cloud": order.cloud or plan.cloud, "nodes": nodes})
    return shape_of(order).as_placed(named, plan)


def resolve_cloud(order: Order, site: Site) -> str:
    """The order's cloud, or the only one."""
    return one_of("cloud", order.cloud, sorted(site.clouds), f"clouds of site {site.name}")


def resolve_flavor(order: Order, cloud: Cloud, name: str) -> str:
    """The order's flavor, or the smallest one of the cloud that has the accelerators."""
    wanted = order.nodes.accelerators
    if wanted is None:
        known = ", ".join(sorted(cloud.flavors)) or "none"
        if order.nodes.flavor not in cloud.flavors:
            raise InputError(
                "nodes.flavor",
                order.nodes.flavor,
                instead("flavors of cloud {name}: {known}", name=name, known=known),
            )
        return order.nodes.flavor
    offers = sorted(
        (f.accelerators.count, flavor)
        for flavor, f in cloud.flavors.items()
        if f.accelerators is not None
        and f.accelerators.type == wanted.type
        and f.bare_metal == (order.nodes.kind == "bare_metal")
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
        instead(
            "no flavor of cloud {name} has them; its flavors have: {accelerators}",
            name=name,
            accelerators=", ".join(has) or "no accelerators",
        ),
    )
