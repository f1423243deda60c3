"""The tables of drivers: of fabrics, by the names that site files give them, and of managers of accelerators that are
not in hosts. Nothing else in the app names one.

Drivers are imported when they are opened: planning without a server needs only what they can do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.util import find_spec

from weft.app.notinstalled import NotInstalled
from weft.drivers.opensm.capabilities import CAPABILITIES as OPENSM
from weft.drivers.switches.capabilities import capabilities_of
from weft.drivers.ufm.capabilities import CAPABILITIES as UFM
from weft.model.errors import PermanentError
from weft.model.extras import EXTRAS, installation
from weft.model.fabric import OMNIPATH, Capabilities
from weft.model.site import Site
from weft.ports.fabric import FabricDriver
from weft.ports.ledger import SegmentLedger
from weft.ports.machines import MachineDriver
from weft.ports.podkeys import PodKeys
from weft.ports.prober import Prober

log = logging.getLogger(__name__)

_REST = "%s; what needs it fails, everything else is served"

InUse = Callable[[], Collection[str]]
"""Nodes that pods hold."""


def _frames(site: Site, fabric: str, in_use: InUse, ledger: SegmentLedger) -> Prober | None:
    from weft.drivers.probes import FrameProber

    traffic = site.fabrics[fabric].traffic
    return None if traffic is None else FrameProber(site, fabric, traffic, in_use=in_use, ledger=ledger)


@dataclass(frozen=True, slots=True)
class FabricDriverRow:
    """One row.

    Attributes:
        open: the driver of a fabric of the site, without connecting; None: weft can only plan on that fabric.
        capabilities: what the driver can do on a fabric of the site, as far as known without asking its manager.
        prober: what sends test frames on a fabric of the site, without connecting; None: it has no agents for that.
        extra: what must be installed for a fabric of the site, a key of `EXTRAS`; None: nothing.
    """

    open: Callable[[Site, str, SegmentLedger], FabricDriver | None]
    capabilities: Callable[[Site, str], Capabilities]
    prober: Callable[[Site, str, InUse, SegmentLedger], Prober | None] = _frames
    extra: Callable[[Site, str], str | None] = lambda site, fabric: None


FabricDrivers = Mapping[str, FabricDriverRow]


def _opensm(site: Site, fabric: str, ledger: SegmentLedger) -> FabricDriver:
    from weft.drivers.opensm import OpenSmDriver

    return OpenSmDriver(site, fabric, ledger)


def _ufm(site: Site, fabric: str, ledger: SegmentLedger) -> FabricDriver:
    from weft.drivers.ufm import Ufm

    return Ufm(site, fabric, ledger)


def _switches(site: Site, fabric: str, ledger: SegmentLedger) -> FabricDriver | None:
    from weft.drivers.switches import open_fabric

    return open_fabric(site, fabric, ledger) if site.fabrics[fabric].manager.switching is not None else None


def _generic(site: Site, fabric: str) -> str | None:
    switching = site.fabrics[fabric].manager.switching
    generic = switching is not None and any(s.interface == "generic" for s in switching.switches)
    return "generic-switch" if generic else None


FABRIC_DRIVERS: FabricDrivers = {
    "opensm": FabricDriverRow(_opensm, lambda site, fabric: OPENSM),
    "ufm": FabricDriverRow(_ufm, lambda site, fabric: UFM),
    "switches": FabricDriverRow(_switches, capabilities_of, extra=_generic),
    "none": FabricDriverRow(lambda site, fabric, ledger: None, lambda site, fabric: OMNIPATH),
}


def static_capabilities(site: Site, drivers: FabricDrivers = FABRIC_DRIVERS) -> dict[str, Capabilities]:
    """Fabric -> capabilities of its driver, as far as known without asking its manager."""
    return {
        name: drivers[fabric.manager.driver].capabilities(site, name) for name, fabric in site.fabrics.items()
    }


def open_fabrics(
    site: Site, ledger: Callable[[str], SegmentLedger], drivers: FabricDrivers = FABRIC_DRIVERS
) -> dict[str, FabricDriver]:
    """Fabric -> its driver, without those that weft can only plan on. Opens no connection.

    Args:
        ledger: fabric -> weft's own records of its segments.
    """
    for sentence in _lacking_fabrics(site, drivers):
        log.error(_REST, sentence)
    opened: dict[str, FabricDriver] = {}
    with ExitStack() as stack:  # if one can't be opened, none stays open
        for name, fabric in site.fabrics.items():
            driver = drivers[fabric.manager.driver].open(site, name, ledger(name))
            if driver is not None:
                opened[name] = stack.enter_context(closing(driver))
        stack.pop_all()
    return opened


def open_probers(
    site: Site,
    ledger: Callable[[str], SegmentLedger],
    in_use: InUse = frozenset,
    drivers: FabricDrivers = FABRIC_DRIVERS,
) -> dict[str, Prober]:
    """Fabric -> what sends test frames on it, for fabrics where the site has agents for that. Opens no connection.

    Args:
        ledger: fabric -> weft's own records of its segments.
    """
    opened = {
        name: drivers[fabric.manager.driver].prober(site, name, in_use, ledger(name))
        for name, fabric in site.fabrics.items()
    }
    return {name: prober for name, prober in opened.items() if prober is not None}


@dataclass(frozen=True, slots=True)
class MachineDriverRow:
    """One row.

    Attributes:
        names: of the managers of this kind that the site has.
        open: the driver of one of them, without connecting.
        extra: what must be installed for it, a key of `EXTRAS`.
    """

    names: Callable[[Site], Collection[str]]
    open: Callable[[Site, str, PodKeys], MachineDriver]
    extra: str


def _vipu(site: Site, name: str, keys: PodKeys) -> MachineDriver:
    from weft.drivers.vipu import VipuDriver

    return VipuDriver(site, name, keys)


MACHINE_DRIVERS: Mapping[str, MachineDriverRow] = {
    "V-IPU": MachineDriverRow(lambda site: site.ipu_pods, _vipu, "vipu")
}


def open_machines(
    site: Site, keys: PodKeys, drivers: Mapping[str, MachineDriverRow] = MACHINE_DRIVERS
) -> dict[str, MachineDriver]:
    """Manager of accelerators that are not in hosts -> its driver. Opens no connection.

    One whose packages aren't installed is `NotInstalled`: orders that don't need it are served.
    """
    opened: dict[str, MachineDriver] = {}
    for kind, row in drivers.items():
        for name in row.names(site):
            try:
                opened[name] = row.open(site, name, keys)
            except ImportError as error:
                do, then = f"load the {kind} driver", installation(row.extra)
                missing = PermanentError(do, "this Python environment", str(error), then)
                log.error(_REST, f"{name}: {missing}")
                opened[name] = NotInstalled(missing)
    return opened


def missing_extras(site: Site) -> tuple[str, ...]:
    """A sentence for each fabric and manager of the site whose driver isn't installed here, with what installs it."""
    lacking = [
        f"{kind} {name}: {why}"
        for kind, row in MACHINE_DRIVERS.items()
        for name in sorted(row.names(site))
        if (why := _lacking(row.extra)) is not None
    ]
    return (*_lacking_fabrics(site, FABRIC_DRIVERS), *lacking)


def _lacking_fabrics(site: Site, drivers: FabricDrivers) -> Iterator[str]:
    for name, fabric in site.fabrics.items():
        extra = drivers[fabric.manager.driver].extra(site, name)
        if extra is not None and (why := _lacking(extra)) is not None:
            yield f"fabric {name}: {why}"


def _lacking(extra: str) -> str | None:
    missing = next((module for module in EXTRAS[extra] if find_spec(module) is None), None)
    return None if missing is None else f"no module {missing}: {installation(extra)}"
