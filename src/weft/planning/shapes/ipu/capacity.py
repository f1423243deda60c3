"""What IPUs can be ordered now, and when more. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.model.placement import Occupancy
from weft.model.site import IPUS_PER_MACHINE, Site
from weft.planning.fabric.topology import natural
from weft.planning.queue.book import Book
from weft.planning.shapes.ipu.line import IpuAsk, IpuTimeline
from weft.planning.shapes.ipu.room import machines_of

SIZES = (16, 8, 4, 2, 1)
"""Possible sizes of orders in IPU-Machines, largest first."""


@dataclass(frozen=True, slots=True)
class IpuRow:
    """The IPUs of one IPU-POD.

    Attributes:
        machines: number of IPU-Machines; `free`: those free for the whole duration.
        poplar_servers: with capacity for another pod.
        largest: IPUs of the largest order now, which would get what `where` says; 0: none fits.
        soon: larger orders: IPUs, and from when they fit in seconds of the caller's clock.
        drained, failing: of the machines, those that operators empty, and those with failed checks.
    """

    ipu_pod: str
    cloud: str
    machines: int
    free: int
    poplar_servers: int
    largest: int
    where: str
    soon: tuple[tuple[int, float], ...]
    drained: int = 0
    failing: int = 0


def ipu_capacity(
    site: Site, health: Occupancy, book: Book, now: float, duration: float, project: str
) -> tuple[IpuRow, ...]:
    """What could be ordered of each IPU-POD with one Poplar server; the arguments are those of `capacity`."""
    rows: list[IpuRow] = []
    for cloud in sorted({pod.cloud or "" for pod in site.ipu_pods.values()}):
        line = IpuTimeline.of(book, site, cloud, health, now)
        pods = sorted((n for n, p in site.ipu_pods.items() if (p.cloud or "") == cloud), key=natural)
        rows += [_row(line, site, name, now, duration, project) for name in pods]
    return tuple(_stopped(row, site, health) for row in rows)


def _stopped(row: IpuRow, site: Site, health: Occupancy) -> IpuRow:
    """The row with how many machines operators empty, and how many have failed checks."""
    there = {m.name for m in machines_of(site, row.ipu_pod)}
    drained, failing = (len(there & some.keys()) for some in (health.drained, health.failing))
    return replace(row, drained=drained, failing=failing)


def _row(line: IpuTimeline, site: Site, ipu_pod: str, now: float, duration: float, project: str) -> IpuRow:
    anything = IpuAsk("capacity", 1, project, ipu_pod=ipu_pod)
    left, _ = line.left(anything, line.engine.ledger.view(anything), now, now + duration, present=True)
    free, servers = line.free(ipu_pod, left)
    there = machines_of(site, ipu_pod)
    largest, where = 0, ""
    soon: list[tuple[int, float]] = []
    for size in SIZES:
        ask = IpuAsk("capacity", size, project, ipu_pod=ipu_pod)
        if (picked := line.picked(ask, left)) is not None:
            largest, where = size * IPUS_PER_MACHINE, picked.run.text()
            break
        start = line.earliest(ask, duration, now) if size <= len(there) else None
        if start is not None:
            soon.append((size * IPUS_PER_MACHINE, start.at))
    return IpuRow(
        ipu_pod,
        site.ipu_pods[ipu_pod].cloud or "",
        len(there),
        free,
        servers,
        largest,
        where,
        tuple(soon[::-1]),
    )
