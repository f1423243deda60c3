"""The plan of an order, or a refusal with an explanation. Pure: equal order, site and state give equal plans."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.errors import InputError
from weft.model.fabric import Capabilities
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.placement import Occupancy, Part, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.planning.place.slots import is_slot
from weft.planning.shapes.graph import wants_router
from weft.planning.shapes.resolve import resolve
from weft.planning.shapes.shape import Resolved

NOT_ORDERED = "00000000-0000-0000-0000-000000000000"
"""Id of the pod in a plan that wasn't ordered."""


def make_plan(
    pod_id: str,
    project: str,
    order: Order,
    site: Site,
    occupancy: Occupancy,
    used: UsedNumbers,
    capabilities: Mapping[str, Capabilities],
) -> Plan | Refusal:
    """Plan an order on this site in this state.

    Args:
        pod_id: UUID of the pod; `NOT_ORDERED` for a plan only.
        capabilities: fabric -> what its manager can do.

    Returns a `Refusal` if it can't be served (no capacity, numbers exhausted, not possible on this fabric).
    Raises `InputError` for a name in the order that is unknown in the site, or missing.
    """
    return plan_of(pod_id, resolve(order, project, site), occupancy, used, capabilities)


def plan_of(
    pod_id: str,
    order: Resolved,
    occupancy: Occupancy,
    used: UsedNumbers,
    capabilities: Mapping[str, Capabilities],
) -> Plan | Refusal:
    """Like `make_plan`, for a resolved order."""
    _check_external(order)
    return order.shape.plan(pod_id, order, occupancy, used, capabilities)


def takes(plan: Plan) -> list[str]:
    """Everything that a pod with this plan holds: nodes or machines, spares, and slots of shared hosts."""
    numbers = sorted(plan.allotment.numbers.items())
    return [
        *plan.placement.held,
        *(f"{space}/{number}" for space, number in numbers if is_slot(space)),
    ]


def parts_of(plan: Plan) -> tuple[tuple[str, Part], ...]:
    """Node and what a server has of it, for each on a shared node."""
    return tuple((n.node, n.part) for n in plan.placement.nodes if n.part is not None)


def _check_external(order: Resolved) -> None:
    access, network = order.order.access, order.order.network
    if not wants_router(order.order) or order.site.clouds[order.cloud].external_network is not None:
        return
    floating = access.floating_ip != "none"
    field, value = (
        ("access.floating_ip", access.floating_ip) if floating else ("network.router", network.router)
    )
    raise InputError(
        field, value, instead("cloud {cloud} has no external network in the site", cloud=order.cloud)
    )
