"""Pods of servers on shared nodes: each has accelerators, cores and memory, not the whole node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from weft.model.change import Replacement
from weft.model.localityorder import Level
from weft.model.messages import orders
from weft.model.messages.message import Message
from weft.model.messages.orders import instead
from weft.model.offer import Offer
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.model.site import Site
from weft.planning.queue.capacityrow import CapacityRow
from weft.planning.shapes.gpu.partscapacity import parts_rows
from weft.planning.shapes.gpu.partsline import PartsLine
from weft.planning.shapes.gpu.reassignparts import reassign_parts, replace_part
from weft.planning.shapes.gpu.shape import GpuShape
from weft.planning.shapes.shape import (
    AGAIN,
    Assignment,
    CapacityAsked,
    ChangedPod,
    Line,
    LineAsked,
    Needs,
    Resolved,
)
from weft.planning.words import some


class PartsShape(GpuShape):
    """Like whole nodes, except for the placement of servers and the part of a node that each has."""

    name = "parts"
    units = "servers"
    shares_nodes = True
    changeable = GpuShape.changeable - {
        "nodes.spare",
        "locality.required",
        "locality.preferred",
        "locality.preferences",
    }
    fixed: Mapping[str, str] = dict.fromkeys(
        ("nodes.spare", "locality"), instead("servers on shared nodes don't move; {then}", then=AGAIN)
    )

    def is_of(self, order: Order) -> bool:
        return order.nodes.sharing == "shared"

    def line(self, asked: LineAsked) -> Line:
        return PartsLine(asked)

    def adds(self, order: Resolved, nodes: Iterable[str], has: Collection[str]) -> int:
        return len(set(nodes).difference(has))

    def fewer(self, order: Order, most: int) -> Offer | None:
        return None

    def reassign(self, pod: ChangedPod, remove: Collection[str]) -> Assignment | Refusal:
        plan = pod.plan
        if pod.order.nodes.count == len(plan.placement.nodes) and not remove:
            return Assignment(plan.placement, plan.allotment)  # whatever the site says by now
        return reassign_parts(plan, self._resolved(pod), pod.occupancy, pod.leaving, remove)

    def why_kept(self, order: Order) -> Message | None:
        return orders.VOLUMES_ARE_EMPTY() if any(entry.kind == "volume" for entry in order.storage) else None

    def replace(self, pod: ChangedPod, asked: Replacement) -> Assignment | Refusal:
        return replace_part(pod.plan, self._resolved(pod), pod.occupancy, pod.leaving, asked)

    def headline(self, plan: Plan) -> str:
        placement, on = plan.placement, "no fabric"
        if plan.order.fabric.rdma:
            on = f"fabric {plan.fabric}"
        return (
            f"Servers: {len(placement.nodes)} on {some(len(placement.held), 'shared node')} of cloud {plan.cloud} "
            f"on {on}, flavor {plan.flavor}; all within one {placement.level} "
            f"(required {plan.order.locality.required})."
        )

    def _accelerators_of_nodes(self, plan: Plan, site: Site) -> int:
        return 0

    # -- capacity

    def needs(self, site: Site, cloud: str) -> Needs:
        return Needs()

    def shows(self, site: Site, accelerator: str | None, level: Level | None) -> bool:
        return level is None and super().shows(site, accelerator, level)

    def capacity(self, asked: CapacityAsked) -> Iterable[CapacityRow]:
        return parts_rows(asked)


PARTS = PartsShape()
