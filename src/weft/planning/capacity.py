"""What could be ordered now, and when more: the largest order by level and by accelerator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.order import Level
from weft.model.placement import Occupancy, PlacementRequest
from weft.model.site import AcceleratorCount, Site
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Entry
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.place.state import Kind
from weft.planning.place.view import View
from weft.planning.timeline import Timeline

_LEVELS: tuple[Level, ...] = ("leaf", "pod", "site")


class Largest(Document):
    """The largest order that fits now inside one domain of a level."""

    level: Level
    count: int = Field(description="Nodes; 0: none.")
    where: str = Field(default="", description="A domain that holds it.")


class Soon(Document):
    """When an order of this size would fit inside the level, if every lease ends when it says."""

    level: Level
    count: int
    at: float | None = Field(description="Seconds of the caller's clock; none: not as far as is known.")


class CapacityRow(Document):
    """One kind of node of one cloud."""

    cloud: Name
    accelerators: AcceleratorCount | None = Field(description="Accelerators of each node; none: any node.")
    nodes: int = Field(description="Nodes that could serve if nothing were taken or out of order.")
    free: int
    largest: tuple[Largest, ...]
    soon: tuple[Soon, ...] = ()


class Capacity(Document):
    """Everything that could be ordered on one fabric."""

    fabric: Name
    rows: tuple[CapacityRow, ...]


def capacity(
    site: Site,
    occupancy: Occupancy,
    fabric: str,
    ends: Mapping[str, float] | None = None,
    now: float = 0.0,
    duration: float = 86_400.0,
    weights: Weights | None = None,
) -> Capacity:
    """What could be ordered on a fabric.

    Args:
        ends: pod -> when its lease ends, in seconds of the caller's clock; pods without one are never released.
        now: the time on that clock.
        duration: how long an order must be able to run to count, for `soon`.

    Raises:
        InputError: no such fabric.
    """
    timeline = timeline_of(site, occupancy, fabric, ends, now, weights)
    engine = timeline.engine
    rows: list[CapacityRow] = []
    for cloud in sorted(site.clouds):
        for wanted in _kinds(site, cloud):
            kind = Kind(cloud, 1, wanted.type if wanted else None, wanted.count if wanted else 0)
            rows.append(_row(engine, timeline, kind, wanted, now, duration, bool(ends)))
    return Capacity(fabric=fabric, rows=tuple(r for r in rows if r.nodes))


def timeline_of(
    site: Site,
    occupancy: Occupancy,
    fabric: str,
    ends: Mapping[str, float] | None = None,
    now: float = 0.0,
    weights: Weights | None = None,
) -> Timeline:
    """The state with what is known of the future; the arguments are those of `capacity`."""
    timeline = Timeline(Engine.of(site, fabric, occupancy, weights))
    for pod, held in sorted(timeline.engine.held.items()):
        end = max((ends or {}).get(pod, FOREVER), now + 1)
        timeline.leases.add(Entry(min(now, 0.0), pod, end, tuple(sorted(held.items()))))
    return timeline


def earliest_start(
    request: PlacementRequest,
    site: Site,
    occupancy: Occupancy,
    ends: Mapping[str, float],
    now: float,
    duration: float,
) -> float | None:
    """When an order that doesn't fit now would, if every lease ends when it says; None: not as far as is known.

    A lease that should have ended already is taken to end in a second.
    """
    timeline = timeline_of(site, occupancy, request.fabric, ends, now)
    start = timeline.earliest(Ask.of(request), duration, now)
    return start.at if start else None


def _row(
    engine: Engine,
    timeline: Timeline,
    kind: Kind,
    wanted: AcceleratorCount | None,
    now: float,
    duration: float,
    in_time: bool,
) -> CapacityRow:
    view = engine.view(Ask("capacity", 1, kind=kind))
    largest = tuple(_largest(engine, view, level) for level in _LEVELS)
    soon: list[Soon] = []
    if in_time:
        for found, most in zip(largest, _most(engine, view), strict=True):
            for count in _sizes(found.count, most):
                start = timeline.earliest(
                    Ask("capacity", count, kind=kind, required=found.level), duration, now
                )
                soon.append(Soon(level=found.level, count=count, at=start.at if start else None))
    return CapacityRow(
        cloud=kind.cloud or "",
        accelerators=wanted,
        nodes=view.eligible,
        free=view.pool.total,
        largest=largest,
        soon=tuple(soon),
    )


def _largest(engine: Engine, view: View, level: Level) -> Largest:
    numbers, pool = engine.numbers, view.pool
    rooms: Sequence[int] = {"leaf": pool.free, "pod": pool.pod_free}.get(level, [pool.total])
    names: Sequence[str] = {"leaf": numbers.leaves, "pod": numbers.pods}.get(level, ["site"])
    best = max(range(len(rooms)), key=lambda i: (rooms[i], -i), default=None)
    if best is None or not rooms[best]:
        return Largest(level=level, count=0)
    return Largest(level=level, count=rooms[best], where=names[best])


def _most(engine: Engine, view: View) -> tuple[int, int, int]:
    """The largest order by level if nothing were taken."""
    full = view.pool.full
    pods = [sum(full[a:b]) for a, b in pairwise(engine.numbers.pod_start)]
    return max(full, default=0), max(pods, default=0), sum(full)


def _sizes(now: int, most: int) -> list[int]:
    """Powers of two above what fits now, and the most there could ever be."""
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
