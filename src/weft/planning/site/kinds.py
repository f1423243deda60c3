"""What accelerators nodes have, by which their hours are counted."""

from __future__ import annotations

from weft.model.site import IPUS_PER_MACHINE, IpuMachine, Site

Kind = tuple[str, int | None]
"""Types of accelerators ("none": a node without), and how many there are; null: unknown."""


def kinds_of(site: Site) -> dict[str, Kind]:
    """By node, IPU-Machines among them."""
    found: dict[str, Kind] = {}
    for name, unit in site.units.items():
        if isinstance(unit, IpuMachine):
            found[name] = "ipu", IPUS_PER_MACHINE
        else:
            types = sorted({one.type for one in unit.accelerators})
            found[name] = "+".join(types) or "none", len(unit.accelerators)
    return found


def kinds_changed(before: Site, after: Site) -> dict[str, Kind]:
    """What nodes had that have other accelerators now, or left the site."""
    now = kinds_of(after)
    return {node: kind for node, kind in kinds_of(before).items() if now.get(node) != kind}
