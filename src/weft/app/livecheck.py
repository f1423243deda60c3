"""`weft site check`: what only the site's own hosts can check: certificates, managers' settings, switches' ports."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

from weft.app.drivers import FABRIC_DRIVERS, FabricDrivers, open_fabrics, open_probers
from weft.drivers.wire.agents import certificate_problems
from weft.model.fabric import FabricStatus
from weft.model.livecheck import LiveCheck
from weft.model.site import Site
from weft.ports.fabric import FabricDriver
from weft.ports.ledger import NoLedger


def certificate_notes(site: Site) -> tuple[str, ...]:
    """Problems with the certificates that the site names, as far as they are on this host."""
    now = datetime.now(UTC)
    found = [
        p for f in site.fabrics.values() for p in certificate_problems(f.manager, now, must_be_there=False)
    ]
    return tuple(dict.fromkeys(found))


def check_live(site: Site, drivers: FabricDrivers = FABRIC_DRIVERS) -> LiveCheck:
    """Ask every manager of every fabric for its settings and its state; changes nothing."""
    found = LiveCheck()
    for name, driver in sorted(open_fabrics(site, lambda _: NoLedger(), drivers).items()):
        found += _checked(driver).of(name)
    for name, prober in sorted(open_probers(site).items()):
        with closing(prober):
            found += LiveCheck(problems=tuple(prober.silent())).of(name)
    return found


def _checked(driver: FabricDriver) -> LiveCheck:
    with closing(driver):
        return LiveCheck(problems=_troubles(driver.status())) + driver.live_check()


def _troubles(status: FabricStatus) -> tuple[str, ...]:
    return (*status.problems, *(f"{m.name}: {p}" for m in status.managers for p in m.problems))
