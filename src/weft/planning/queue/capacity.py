"""What can be ordered now, and when more: the largest order by level and accelerator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.model.localityorder import Level
from weft.model.placement import Occupancy
from weft.model.site import AcceleratorCount, Site
from weft.planning.fabric.topology import NO_BLOCK, NO_FABRIC
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.state import NodeNeeds
from weft.planning.queue.book import Book
from weft.planning.queue.capacityrow import Largest, RowLimit, Soon
from weft.planning.queue.timeline import Timeline


@dataclass(frozen=True, slots=True)
class NodesRow:
    """One type of node in one cloud.

    Attributes:
        accelerators: of each node; None: any node.
        nodes: that could serve if nothing were in use or out of service.
        free: for the whole duration.
        nvlink: NVLink domains of such nodes, by size.
        drained: of these nodes, those that operators empty.
        failing: those whose own checks keep them from orders.
    """

    cloud: str
    accelerators: AcceleratorCount | None
    nodes: int
    free: int
    largest: tuple[Largest, ...]
    nvlink: tuple[RowLimit, ...] = ()
    soon: tuple[Soon, ...] = ()
    drained: int = 0
    failing: int = 0


@dataclass(frozen=True, slots=True)
class FabricCapacity:
    """Everything that can be ordered on one fabric; `rails`: the most leaf switches that count as one leaf."""

    fabric: str
    rails: int
    rows: tuple[NodesRow, ...]


def capacity(
    site: Site,
    health: Occupancy,
    book: Book,
    fabric: str,
    now: float = 0.0,
    duration: float = 86_400.0,
    project: str = "",
) -> FabricCapacity:
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
    rows: list[NodesRow] = []
    for cloud in sorted(site.clouds):
        for wanted in _kinds(site, cloud):
            kind = NodeNeeds(
                cloud,
                int(fabric != NO_FABRIC),
                wanted.type if wanted else None,
                wanted.count if wanted else 0,
            )
            row = _row(line, Ask("capacity", 1, project, kind), wanted, now, duration)
            drained, failing = (
                _among(line, kind, project, some) for some in (health.drained, health.failing)
            )
            rows.append(replace(row, drained=drained, failing=failing))
    rails = line.engine.ledger.topology.rails_of(line.engine.ledger.numbers.leaves).values()
    return FabricCapacity(
        fabric=fabric, rails=max(map(len, rails), default=1), rows=tuple(r for r in rows if r.nodes)
    )


def _row(line: Timeline, ask: Ask, wanted: AcceleratorCount | None, now: float, duration: float) -> NodesRow:
    engine = line.engine
    view = engine.ledger.view(ask)
    hidden = line.hidden(ask.terms, now, now + duration)
    bits = [
        available & mask & ~hidden.get(leaf, 0)
        for leaf, (available, mask) in enumerate(zip(engine.ledger.available, view.mask, strict=True))
    ]
    levels: list[Level] = [level for level in engine.ledger.topology.levels if level != "node"]
    free = {level: _rooms(engine, level, bits) for level in levels}
    every = {level: _rooms(engine, level, view.mask) for level in levels}  # if nothing were in use
    largest: dict[Level, Largest] = {level: _largest(free[level], level) for level in levels}
    soon: list[Soon] = []
    for level, found in largest.items():
        for count in _sizes(found.count, max(every[level].values(), default=0)):
            start = line.earliest(
                replace(ask, count=count, required=level, preferred=_nearest(level)),
                duration,
                now,
            )
            if start is not None:
                soon.append(Soon(count, start.at, level))
    return NodesRow(
        cloud=ask.kind.cloud or "",
        accelerators=wanted,
        nodes=view.eligible,
        free=sum(one.bit_count() for one in bits),
        largest=tuple(largest.values()),
        nvlink=_nvlink(engine, bits, view.mask),
        soon=tuple(soon),
    )


def _among(line: Timeline, kind: NodeNeeds, project: str, nodes: Iterable[str]) -> int:
    """How many of these nodes are of the kind."""
    view = line.engine.ledger.view(Ask("capacity", 1, project, kind))
    masks = line.engine.ledger.numbers.masks(n for n in nodes if n in line.engine.ledger.numbers.leaf_of)
    return sum((bits & view.mask[leaf]).bit_count() for leaf, bits in masks.items())


def _nearest(level: Level) -> Level:
    """What an order of that level prefers by default."""
    return level if level == "nvlink_domain" else "leaf"


def _rooms(engine: Engine, level: Level, bits: Sequence[int]) -> dict[str, int]:
    """Name of each domain of a level -> how many of these nodes (by leaf) it has."""
    numbers, found = engine.ledger.numbers, dict[str, int]()
    if level == "nvlink_domain":
        for mine, names, domains in zip(bits, numbers.domain_names, numbers.domains, strict=True):
            found |= {name: (mine & domain).bit_count() for name, domain in zip(names, domains, strict=True)}
        return found
    leaf = 0
    for block, members in engine.ledger.topology.blocks.items():
        building, hall = engine.ledger.topology.above.get(block, (NO_BLOCK, NO_BLOCK))
        for name in members:
            domain = {"leaf": name, "block": block, "hall": hall, "building": building}.get(level, "site")
            found[domain] = found.get(domain, 0) + bits[leaf].bit_count()
            leaf += 1
    return found


def _largest(rooms: Mapping[str, int], level: Level) -> Largest:
    where = max(rooms, key=rooms.__getitem__, default="")
    count = rooms.get(where, 0)
    return Largest(count, level, where=where if count else "")


def _nvlink(engine: Engine, free: Sequence[int], mask: Sequence[int]) -> tuple[RowLimit, ...]:
    """NVLink domains of nodes that could serve, by size; which of them are free as a whole."""
    sizes: dict[int, list[bool]] = {}
    for leaf, domains in enumerate(engine.ledger.numbers.domains):
        for domain in domains:
            if domain & mask[leaf]:
                sizes.setdefault(domain.bit_count(), []).append(domain & free[leaf] == domain)
    return tuple(
        RowLimit("NVLink domains", len(whole), sum(whole), each=n) for n, whole in sorted(sizes.items())
    )


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
