"""Planning with no server: an order and a site file into a plan, on a site where nothing is in use."""

from __future__ import annotations

from pathlib import Path

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


def plan_file(order: Order, site_path: str | Path) -> Plan | Refusal:
    """What the order would be on the empty site of that file. Raises `InputErrors` for what is wrong in it."""
    site = load_site(site_path)
    return make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), static_capabilities(site))


def static_capabilities(site: Site) -> dict[str, Capabilities]:
    """Fabric -> what its kind of manager can do, as far as that is known without asking it."""
    return {name: _BY_DRIVER[fabric.manager.driver] for name, fabric in site.fabrics.items()}
