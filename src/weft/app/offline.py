"""Planning with no server: an order file and a site file into a plan, on a site where nothing is in use."""

from __future__ import annotations

from pathlib import Path

from weft.app.orderfile import load_order
from weft.app.sitefile import load_site
from weft.drivers.opensm.capabilities import CAPABILITIES as OPENSM
from weft.model.fabric import Capabilities
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.planning.plan import NOT_ORDERED, make_plan

PROJECT = "offline"
"""Project in a plan that was made without a cloud that could name one."""

_BY_DRIVER = {"opensm": OPENSM}


def plan_files(order_path: str | Path, site_path: str | Path) -> tuple[Order, Plan | Refusal]:
    """The order and what it would be on the empty site. Raises `InputErrors` for either file."""
    order, site = load_order(Path(order_path)), load_site(site_path)
    plan = make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), static_capabilities(site))
    return order, plan


def static_capabilities(site: Site) -> dict[str, Capabilities]:
    """Fabric -> what its kind of manager can do, as far as that is known without asking it."""
    return {name: _BY_DRIVER[fabric.manager.driver] for name, fabric in site.fabrics.items()}
