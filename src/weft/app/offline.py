"""Planning without a server: the plan of an order on an empty site, from a site file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from weft.app.drivers import static_capabilities
from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.model.ids import Duration, span
from weft.model.localityorder import Level
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.model.views import CapacityView
from weft.planning.queue.book import Book
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.planning.shapes.resolve import SHAPES
from weft.planning.shapes.shape import CapacityAsked, Shape

PROJECT = "offline"
"""Project in an offline plan."""


def plan_file(order: Order, site_path: str | Path) -> Plan | Refusal:
    """The plan of an order on the empty site of a file. Raises `InputErrors`."""
    site = load_site(site_path)
    return make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), static_capabilities(site))


def capacity_of(
    site: Site,
    health: Occupancy,
    book: Book,
    now: datetime,
    duration: Duration = "24h",
    project: str = "",
    accelerator: str | None = None,
    level: Level | None = None,
) -> CapacityView:
    """What could be ordered on an empty site. Raises `InputError` for what it doesn't have."""
    types = sorted({t for shape in SHAPES for t in shape.accelerators(site)})
    if accelerator is not None and accelerator not in types:
        known = ", ".join(types) or "none"
        raise InputError("accelerator", accelerator, f"types of accelerators of site {site.name}: {known}")
    length, at = span(duration).total_seconds(), now.timestamp()
    asked = CapacityAsked(site, health, book, at, length, project, accelerator, level)
    fields: dict[str, Any] = {}
    for shape in shown_shapes(site, accelerator, level):
        fields |= shape.capacity(asked)
    return CapacityView.model_validate({"at": now, "duration": duration, "rows": (), **fields})


def shown_shapes(site: Site, accelerator: str | None, level: Level | None) -> list[Shape]:
    """Shapes that have rows for the request."""
    return [shape for shape in SHAPES if shape.shows(site, accelerator, level)]
