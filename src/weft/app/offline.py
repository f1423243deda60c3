"""Planning without a server: the plan of an order on an empty site, from a site file."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path

from weft.app.drivers import static_capabilities
from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.model.ids import Duration, moment, span
from weft.model.localityorder import Level
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.model.views import CapacityRowView, CapacityView, CountView, LargestView, SoonView
from weft.planning.queue.book import Book
from weft.planning.queue.capacityrow import CapacityRow
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
        raise InputError(
            "accelerator",
            accelerator,
            instead("types of accelerators of site {site}: {known}", site=site.name, known=known),
        )
    length, at = span(duration).total_seconds(), now.timestamp()
    asked = CapacityAsked(site, health, book, at, length, project, accelerator, level)
    rows = [
        row_view(row) for shape in shown_shapes(site, accelerator, level) for row in shape.capacity(asked)
    ]
    return CapacityView(at=now, duration=duration, rows=tuple(rows))


def row_view(row: CapacityRow) -> CapacityRowView:
    """A row of planning as the API has it."""
    return CapacityRowView(
        **{f.name: getattr(row, f.name) for f in fields(row) if f.name not in ("largest", "soon", "counts")},
        largest=tuple(LargestView(**asdict(one)) for one in row.largest),
        soon=tuple(SoonView(count=one.count, at=moment(one.at), level=one.level) for one in row.soon),
        counts=tuple(CountView(**asdict(one)) for one in row.counts),
    )


def shown_shapes(site: Site, accelerator: str | None, level: Level | None) -> list[Shape]:
    """Shapes that have rows for the request, the most general one first."""
    return [shape for shape in reversed(SHAPES) if shape.shows(site, accelerator, level)]
