"""The table of drivers of fabrics, by the names that site files give them; nothing else in the app names one.

Drivers are imported when they are opened: planning without a server needs only what they can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.drivers.opensm.capabilities import CAPABILITIES as OPENSM
from weft.drivers.switches.capabilities import capabilities_of
from weft.drivers.ufm.capabilities import CAPABILITIES as UFM
from weft.model.fabric import OMNIPATH, Capabilities
from weft.model.site import Site
from weft.ports.fabric import FabricDriver
from weft.ports.ledger import Ledger

if TYPE_CHECKING:
    from weft.drivers.probes import FrameProber


@dataclass(frozen=True, slots=True)
class FabricDriverRow:
    """One row.

    Attributes:
        open: the driver of a fabric of the site, without connecting; None: weft can only plan on that fabric.
        capabilities: what the driver can do on a fabric of the site, as far as known without asking its manager.
    """

    open: Callable[[Site, str, Ledger], FabricDriver | None]
    capabilities: Callable[[Site, str], Capabilities]


FabricDrivers = Mapping[str, FabricDriverRow]


def _opensm(site: Site, fabric: str, ledger: Ledger) -> FabricDriver:
    from weft.drivers.opensm import OpenSm

    return OpenSm(site, fabric, ledger)


def _ufm(site: Site, fabric: str, ledger: Ledger) -> FabricDriver:
    from weft.drivers.ufm import Ufm

    return Ufm(site, fabric, ledger)


def _switches(site: Site, fabric: str, ledger: Ledger) -> FabricDriver | None:
    from weft.drivers.switches import open_fabric

    return open_fabric(site, fabric, ledger) if site.fabrics[fabric].manager.switching is not None else None


FABRIC_DRIVERS: FabricDrivers = {
    "opensm": FabricDriverRow(_opensm, lambda site, fabric: OPENSM),
    "ufm": FabricDriverRow(_ufm, lambda site, fabric: UFM),
    "switches": FabricDriverRow(_switches, capabilities_of),
    "none": FabricDriverRow(lambda site, fabric, ledger: None, lambda site, fabric: OMNIPATH),
}


def static_capabilities(site: Site, drivers: FabricDrivers = FABRIC_DRIVERS) -> dict[str, Capabilities]:
    """Fabric -> capabilities of its driver, as far as known without asking its manager."""
    return {
        name: drivers[fabric.manager.driver].capabilities(site, name) for name, fabric in site.fabrics.items()
    }


def open_fabrics(
    site: Site, ledger: Callable[[str], Ledger], drivers: FabricDrivers = FABRIC_DRIVERS
) -> dict[str, FabricDriver]:
    """Fabric -> its driver, without those that weft can only plan on. Opens no connection.

    Args:
        ledger: fabric -> weft's own records of its segments.
    """
    opened: dict[str, FabricDriver] = {}
    with ExitStack() as stack:  # if one can't be opened, none stays open
        for name, fabric in site.fabrics.items():
            driver = drivers[fabric.manager.driver].open(site, name, ledger(name))
            if driver is not None:
                opened[name] = stack.enter_context(closing(driver))
        stack.pop_all()
    return opened


def open_probers(site: Site, in_use: Callable[[], Collection[str]] = frozenset) -> dict[str, FrameProber]:
    """Fabric -> who tries what is sent on it, where the site has agents for that. Opens no connection.

    Args:
        in_use: nodes that pods hold.
    """
    from weft.drivers.probes import FrameProber

    return {
        name: FrameProber(site, name, fabric.traffic, in_use=in_use)
        for name, fabric in site.fabrics.items()
        if fabric.traffic is not None
    }
