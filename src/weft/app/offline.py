"""Planning with no server: an order and a site file into a plan, on a site where nothing is in use."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from weft.app.sitefile import load_site
from weft.drivers.opensm.capabilities import CAPABILITIES as OPENSM
from weft.model.errors import InputError
from weft.model.fabric import Capabilities
from weft.model.ids import Duration, moment, span
from weft.model.order import Level, Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.model.views import (
    CapacityRowView,
    CapacityView,
    IpuCapacityView,
    LargestIpusView,
    SoonIpusView,
    SoonView,
)
from weft.planning.queue.book import Book
from weft.planning.queue.capacity import CapacityRow, capacity
from weft.planning.shapes.ipu.capacity import IpuRow, ipu_capacity
from weft.planning.shapes.plan import NOT_ORDERED, make_plan

PROJECT = "offline"
"""Project in a plan that was made without a cloud that could name one."""

IPU = "ipu"
"""What IPUs are called where types of accelerators are."""

_BY_DRIVER = {"opensm": OPENSM}


def plan_file(order: Order, site_path: str | Path) -> Plan | Refusal:
    """What the order would be on the empty site of that file. Raises `InputErrors` for what is wrong in it."""
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
    """What could be ordered on every fabric and IPU-POD of a site. Raises `InputError` for what it doesn't have."""
    types = {a.type for n in site.nodes if n.role == "compute" for a in n.accelerators}
    if accelerator is not None and accelerator not in types | ({IPU} if site.ipu_pods else set()):
        known = ", ".join(sorted(types) + ([IPU] if site.ipu_pods else [])) or "none"
        raise InputError("accelerator", accelerator, f"types of accelerators of site {site.name}: {known}")
    if level is not None and accelerator == IPU and IPU not in types:
        allowed = "left out with ipu: IPUs are always neighbours in one IPU-POD"
        raise InputError("level", level, allowed)
    length, at = span(duration).total_seconds(), now.timestamp()
    found = [
        (fabric, row)
        for fabric in sorted(site.fabrics)
        for row in capacity(site, health, book, fabric, at, length, project).rows
        if accelerator is None or (row.accelerators is not None and row.accelerators.type == accelerator)
    ]
    levels = list(dict.fromkeys(x.level for _, row in found for x in row.largest))
    if level is not None and level not in levels:
        raise InputError("level", level, f"levels of site {site.name}: {', '.join(levels) or 'none'}")
    rows = [_row(fabric, row, level) for fabric, row in found]
    pods = (
        ipu_capacity(site, health, book, at, length, project) if shows_ipus(site, accelerator, level) else ()
    )
    return CapacityView(at=now, duration=duration, rows=tuple(rows), ipus=tuple(map(_ipus, pods)))


def shows_ipus(site: Site, accelerator: str | None, level: Level | None) -> bool:
    """Whether IPUs are among what is asked for: with a level they are not, since orders of IPUs know none."""
    return bool(site.ipu_pods) and accelerator in (None, IPU) and level is None


def _row(fabric: str, row: CapacityRow, level: Level | None) -> CapacityRowView:
    return CapacityRowView(
        fabric=fabric,
        cloud=row.cloud,
        accelerators=row.accelerators,
        nodes=row.nodes,
        free=row.free,
        largest=tuple(x for x in row.largest if level in (None, x.level)),
        soon=tuple(
            SoonView(level=x.level, count=x.count, at=moment(x.at))
            for x in row.soon
            if level in (None, x.level)
        ),
    )


def _ipus(row: IpuRow) -> IpuCapacityView:
    return IpuCapacityView(
        ipu_pod=row.ipu_pod,
        cloud=row.cloud,
        machines=row.machines,
        free=row.free,
        poplar_servers=row.poplar_servers,
        largest=LargestIpusView(count=row.largest, where=row.where),
        soon=tuple(SoonIpusView(count=n, at=moment(at)) for n, at in row.soon),
    )


def static_capabilities(site: Site) -> dict[str, Capabilities]:
    """Fabric -> what its kind of manager can do, as far as that is known without asking it."""
    return {name: _BY_DRIVER[fabric.manager.driver] for name, fabric in site.fabrics.items()}
