"""What can be ordered now, and when more: the largest order by level and accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.order import Level
from weft.model.placement import Occupancy
from weft.model.site import AcceleratorCount, Site
from weft.model.views import LargestView
from weft.planning.fabric.topology import NO_BLOCK, NO_FABRIC
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.state import Kind
from weft.planning.queue.book import Book
from weft.planning.queue.timeline import Timeline


class Soon(Document):
    """When an order of this size will fit within the level, if no lease is extended; omitted if not known."""

    level: Level
    count: int
    at: float = Field(description="Seconds of the caller's clock.")


class CapacityRow(Document):
    """One type of node in one cloud."""

    cloud: Name
    accelerators: AcceleratorCount | None = Field(description="Accelerators of each node; none: any node.")
    nodes: int = Field(description="Nodes that could serve if nothing were in use or out of service.")
    free: int
    largest: tuple[LargestView, ...]
    soon: tuple[Soon, ...] = ()


class Capacity(Document):
    """Everything that can be ordered on one fabric."""

    fabric: Name
    rows: tuple[CapacityRow, ...]


def capacity(
    site: Site,
    health: Occupancy,
    book: Book,
    fabric: str,
    now: float = 0.0,
    duration: float = 86_400.0,
    project: str = "",
) -> Capacity:
    """What can be ordered on a fabric.

    Args:
        health: what is out of order; busy nodes come from the book.
        now: the time on the book's clock.
        duration: how long an order must be able to run.
        project: the caller's; its reservations count.

    Raises:
        InputError: no such fabric.
    """
    line = book.timeline(site, fabric, health, now)
    rows: list[CapacityRow] = []
    for cloud in sorted(site.clouds):
        for wanted in _kinds(site, cloud):
            kind = Kind(
                cloud,
                int(fabric != NO_FABRIC),
                wanted.type if wanted else None,
                wanted.count if wanted else 0,
            )
            rows.append(_row(line, Ask("capacity", 1, project, kind), wanted, now, duration))
    return Capacity(fabric=fabric, rows=tuple(r for r in rows if r.nodes))


def _row(
    line: Timeline, ask: Ask, wanted: AcceleratorCount | None, now: float, duration: float
) -> CapacityRow:
    engine = line.engine
    view = engine.view(ask)
    hidden = line.hidden(ask.terms, now, now + duration)
    free = [
        (available & mask & ~hidden.get(leaf, 0)).bit_count()
        for leaf, (available, mask) in enumerate(zip(engine.available, view.mask, strict=True))
    ]
    domains: dict[Level, dict[str, list[int]]] = {
        level: _domains(engine, level) for level in engine.topology.levels if level != "node"
    }
    largest = tuple(_largest(names, free, level) for level, names in domains.items())
    soon: list[Soon] = []
    for found in largest:
        full = view.pool.full  # if nothing were in use
        most = max((sum([full[x] for x in leaves]) for leaves in domains[found.level].values()), default=0)
        for count in _sizes(found.count, most):
            start = line.earliest(replace(ask, count=count, required=found.level), duration, now)
            if start is not None:
                soon.append(Soon(level=found.level, count=count, at=start.at))
    return CapacityRow(
        cloud=ask.kind.cloud or "",
        accelerators=wanted,
        nodes=view.eligible,
        free=sum(free),
        largest=largest,
        soon=tuple(soon),
    )


def _domains(engine: Engine, level: Level) -> dict[str, list[int]]:
    """Name of each domain of a level -> its leaves."""
    if level == "site":
        return {"site": list(range(len(engine.numbers.leaves)))}
    found: dict[str, list[int]] = {}
    leaf = 0
    for block, members in engine.topology.blocks.items():
        building, hall = engine.topology.above.get(block, (NO_BLOCK, NO_BLOCK))
        for name in members:
            domain = {"leaf": name, "block": block, "hall": hall, "building": building}[level]
            found.setdefault(domain, []).append(leaf)
            leaf += 1
    return found


def _largest(domains: Mapping[str, Sequence[int]], free: Sequence[int], level: Level) -> LargestView:
    rooms = {name: sum([free[leaf] for leaf in leaves]) for name, leaves in domains.items()}
    where = max(rooms, key=rooms.__getitem__, default="")
    count = rooms.get(where, 0)
    return LargestView(level=level, count=count, where=where if count else "")


def _sizes(now: int, most: int) -> list[int]:
    """Powers of two above what fits now, and the maximum."""
    sizes = [1 << i for i in range(now.bit_length(), most.bit_length()) if now < 1 << i < most]
    return [*sizes, most] if most > now else []


def _kinds(site: Site, cloud: str) -> list[AcceleratorCount | None]:
    """Any node, then each (type, count) that nodes of the cloud have."""
    found: set[tuple[str, int]] = set()
    for node in site.nodes:
        if node.cloud == cloud and node.role == "compute":
            types = [a.type for a in node.accelerators]
            found.update((t, types.count(t)) for t in types)
    return [None, *(AcceleratorCount(type=t, count=n) for t, n in sorted(found))]
