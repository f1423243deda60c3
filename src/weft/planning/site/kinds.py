"""Kinds of nodes by their accelerators: hours of use are counted by kind."""

from __future__ import annotations

from weft.model.site import IPUS_PER_MACHINE, IpuMachine, Site, Unit

Kind = tuple[str, int | None]
"""Type of a node's accelerators (`none`: it has none), and how many; None: unknown."""


def kinds_of(site: Site) -> dict[str, Kind]:
    """Kind of each node and IPU-Machine, by name."""
    return {name: _kind(unit) for name, unit in site.units.items()}


def kinds_changed(before: Site, after: Site) -> dict[str, Kind]:
    """Former kinds of the nodes that have other accelerators now, or left the site, by name."""
    now = after.units
    had = {name: _kind(unit) for name, unit in before.units.items() if now.get(name) is not unit}
    return {name: kind for name, kind in had.items() if name not in now or _kind(now[name]) != kind}


def _kind(unit: Unit) -> Kind:
    if isinstance(unit, IpuMachine):
        return "ipu", IPUS_PER_MACHINE
    types = sorted({one.type for one in unit.accelerators})
    return "+".join(types) or "none", len(unit.accelerators)
