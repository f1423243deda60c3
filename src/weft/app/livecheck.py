"""`weft site check`: what only the site's own hosts can check: certificates, managers' settings, switches' ports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from weft.drivers.opensm import OpenSm
from weft.drivers.switches import open_fabric
from weft.drivers.ufm import Ufm
from weft.drivers.ufm.settings import Settings
from weft.drivers.wire.agents import certificate_problems
from weft.model.base import Document
from weft.model.errors import WeftError
from weft.model.fabric import FabricDifference, FabricStatus
from weft.model.site import Site
from weft.planning.fabric.hardening import UFM_RULES, Weakness, weaknesses
from weft.ports.ledger import NoLedger


class LiveCheck(Document):
    """Settings that managers lack, and what could not be read; both empty: all is well."""

    managers: int
    weaknesses: tuple[Weakness, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What nobody can say, and is no trouble."""
    differences: tuple[FabricDifference, ...] = ()
    """Cables, as switches hear them by LLDP."""

    @property
    def good(self) -> bool:
        return not self.weaknesses and not self.problems and not self.differences


def certificate_notes(site: Site) -> tuple[str, ...]:
    """Problems with the certificates that the site names, as far as they are on this host."""
    now = datetime.now(UTC)
    found = [
        p for f in site.fabrics.values() for p in certificate_problems(f.manager, now, must_be_there=False)
    ]
    return tuple(dict.fromkeys(found))


def check_live(site: Site) -> LiveCheck:
    """Ask every manager of every fabric for its settings and its state; changes nothing."""
    found: list[Weakness] = []
    problems: list[str] = []
    notes: list[str] = []
    cables: list[FabricDifference] = []
    managers = 0
    for name, fabric in sorted(site.fabrics.items()):
        if fabric.manager.driver == "ufm":
            managers += 1
            _check_ufm(site, name, found, problems)
        elif fabric.manager.driver == "opensm":
            managers += _check_opensm(site, name, found, problems)
        elif fabric.manager.switching is not None:
            managers += _check_switches(site, name, problems, notes, cables)
    return LiveCheck(
        managers=managers,
        weaknesses=tuple(found),
        problems=tuple(problems),
        notes=tuple(notes),
        differences=tuple(cables),
    )


def _check_opensm(site: Site, name: str, found: list[Weakness], problems: list[str]) -> int:
    """The number of subnet managers."""
    driver = OpenSm(site, name, NoLedger())
    settings = driver.options()
    for manager, options in settings.items():
        if isinstance(options, WeftError):
            problems.append(f"{name}: the settings of {manager} can't be read: {options}")
            continue
        problems += [f"{name}: {manager}: {p}" for p in options.problems]
        found += weaknesses(name, manager, options.options)
    problems += _troubles(name, driver.status())
    return len(settings)


def _check_switches(
    site: Site, name: str, problems: list[str], notes: list[str], cables: list[FabricDifference]
) -> int:
    """The number of switches. Each must let weft in, have the ports that the site names with the settings that it wants
    of them, and hear the neighbours that the site describes."""
    driver = open_fabric(site, name, NoLedger())
    try:
        status = driver.status()
        problems += _troubles(name, status)
        problems += [f"{name}: {p}" for p in driver.port_problems()]
        wrong, unsaid = driver.settings()
        heard = driver.heard()
        problems += [f"{name}: {p}" for p in (*wrong, *heard.problems)]
        notes += [f"{name}: {n}" for n in (*unsaid, *heard.notes)]
        cables += heard.differences
        return len(status.managers)
    finally:
        driver.close()


def _check_ufm(site: Site, name: str, found: list[Weakness], problems: list[str]) -> None:
    driver = Ufm(site, name, NoLedger())
    try:
        settings = driver.settings()
        found += ufm_weaknesses(name, settings)
        problems += [f"{name}: {p}" for p in settings.problems]
        problems += _troubles(name, driver.status())
    finally:
        driver.close()


def ufm_weaknesses(name: str, settings: Settings) -> Iterator[Weakness]:
    """Each source is judged by itself, by the rules on what it can tell."""
    for told in settings.told:
        rules = [r for r in UFM_RULES if r.setting in told.names]
        yield from weaknesses(name, told.source, told.options, rules)


def _troubles(name: str, status: FabricStatus) -> list[str]:
    return [
        *(f"{name}: {p}" for p in status.problems),
        *(f"{name}: {m.name}: {p}" for m in status.managers for p in m.problems),
    ]
