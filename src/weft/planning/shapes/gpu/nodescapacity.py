"""What could be ordered in whole nodes: the largest orders by level, now and later. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.errors import InputError
from weft.planning.fabric.topology import NO_FABRIC
from weft.planning.queue.capacity import capacity
from weft.planning.queue.capacityrow import CapacityRow, RowLimit
from weft.planning.shapes.shape import CapacityAsked


def nodes_rows(asked: CapacityAsked) -> Iterator[CapacityRow]:
    """A row for each type of node on each fabric. Raises `InputError` for a level that the site doesn't have."""
    site, level = asked.site, asked.level
    times = asked.now, asked.duration, asked.project
    # Nodes without adapters can only be ordered without a fabric.
    bare = any(n.role == "compute" and not n.hcas for n in site.nodes)
    found = [
        (one, row)
        for fabric in (*sorted(site.fabrics), *([NO_FABRIC] if bare else []))
        for one in (capacity(site, asked.health, asked.book, fabric, *times),)
        for row in one.rows
        if asked.accelerator is None or (row.accelerators and row.accelerators.type == asked.accelerator)
    ]
    levels = list(dict.fromkeys(str(x.level) for _, row in found for x in row.largest))
    if level is not None and level not in levels:
        raise InputError("level", level, f"levels of site {site.name}: {', '.join(levels) or 'none'}")
    for one, row in found:
        yield CapacityRow(
            shape="nodes",
            cloud=row.cloud,
            place_kind="fabric",
            place=one.fabric,
            unit="nodes",
            accelerators=row.accelerators,
            total=row.nodes,
            free=row.free,
            orders="nodes",
            largest=tuple(x for x in row.largest if level in (None, x.level)),
            soon=tuple(x for x in row.soon if level in (None, x.level)),
            counts=(
                *row.nvlink,
                *((RowLimit("rails of each leaf", one.rails),) if one.rails > 1 else ()),
                *((RowLimit("drained nodes", row.drained),) if row.drained else ()),
                *((RowLimit("nodes with failed checks", row.failing),) if row.failing else ()),
            ),
        )
