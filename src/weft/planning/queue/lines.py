"""What an order is placed in: the nodes of a fabric, or the IPUs of a cloud. Each has its own timeline and queue."""

from __future__ import annotations

from typing import Literal, NamedTuple

from weft.model.order import Order
from weft.model.placement import Occupancy
from weft.model.plan import Plan
from weft.model.site import Site
from weft.planning.place.ask import Ask
from weft.planning.queue.book import Book
from weft.planning.queue.timeline import Timeline
from weft.planning.shapes.ipu.line import IpuAsk, IpuTimeline
from weft.planning.shapes.ipu.plan import check_ipu_order
from weft.planning.shapes.ipu.room import is_place
from weft.planning.shapes.plan import request_of, resolve_cloud, resolve_flavor


class Where(NamedTuple):
    """The nodes of a fabric, or the IPUs of a cloud, by its name."""

    what: Literal["nodes", "ipus"]
    name: str


def wanted(order: Order, project: str, site: Site) -> tuple[Where, Ask]:
    """Where the order is placed, and what is asked there. Raises `InputError` as `make_plan` does."""
    if order.ipus is None:
        request = request_of(order, project, site)
        return Where("nodes", request.fabric), Ask.of(request)
    cloud = resolve_cloud(order, site)
    resolve_flavor(order, site.clouds[cloud], cloud)
    check_ipu_order(order, order.ipus, site, cloud)
    return Where("ipus", cloud), IpuAsk.for_order(order, project)


def timeline(book: Book, site: Site, where: Where, health: Occupancy, now: float) -> Timeline:
    """The book as a timeline of this place; `health` is what is out of order."""
    if where.what == "ipus":
        return IpuTimeline.of(book, site, where.name, health, now)
    return book.timeline(site, where.name, health, now)


def takes(plan: Plan) -> list[str]:
    """All that a pod with this plan has in time: nodes and spares, or IPU-Machines and places on shared hosts."""
    numbers = sorted(plan.allotment.numbers.items())
    return [
        *plan.placement.held,
        *(f"{space}/{number}" for space, number in numbers if is_place(space)),
    ]
