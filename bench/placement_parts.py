"""Parts of nodes beside whole ones: the cost of an order at a large site where some hosts are shared.

CPU time of the deciding thread, from documents to the answer with its explanation (`place`).
"""

from __future__ import annotations

import random
import time
from typing import Any

from bench.row import row
from bench.sites import regular_site
from weft.model.placement import Occupancy, Part, PlacementRequest, Share
from weft.model.site import AcceleratorCount
from weft.planning.fabric.topology import NO_FABRIC
from weft.planning.place.placement import place

NODES, SHARED, FULL = 10_000, 500, 0.85


def parts_rows() -> list[dict[str, Any]]:
    """Every measurement as a row; whole nodes with and without shared ones."""
    site = regular_site(NODES)
    names = [n.name for n in site.nodes if n.accelerators]
    cloud, types = next(iter(site.clouds)), site.node_by_name[names[0]].accelerators
    rng = random.Random(11)
    busy = {n: f"run{rng.randrange(len(names) // 10)}" for n in names if rng.random() < FULL}
    free = [n for n in names if n not in busy]
    shared = rng.sample(free, min(SHARED, len(free) // 2))
    devices = [a.pci for a in types]
    parts = {n: (Part(devices=tuple(devices[: rng.randrange(1, len(devices))])),) for n in shared}
    alone = Occupancy(busy=busy)
    beside = Occupancy(busy=busy | dict.fromkeys(shared, "shared"), parts=parts)

    def ask(count: int, each: int, share: Share | None) -> PlacementRequest:
        return PlacementRequest(
            pod="bench",
            project="p",
            count=count,
            cloud=cloud,
            fabric=NO_FABRIC,
            hcas_per_node=0,
            accelerators=AcceleratorCount(type=types[0].type, count=each),
            share=share,
        )

    whole, part = ask(4, len(types), None), ask(4, 1, Share())
    size = f"{NODES:,} nodes, {len(shared)} of them shared"
    return [
        row(f"placement: 4 whole nodes, {NODES:,} nodes", _ms(whole, site, alone), "ms"),
        row(f"placement: 4 whole nodes, {size}", _ms(whole, site, beside), "ms"),
        row(f"placement: 4 servers of one accelerator, {size}", _ms(part, site, beside), "ms"),
    ]


def _ms(request: PlacementRequest, site: Any, occupancy: Occupancy) -> float:
    """Milliseconds: the least of some runs, after one that fills what is cached of a site."""
    place(request, site, occupancy)
    found: list[float] = []
    for _ in range(7):
        start = time.thread_time()
        place(request, site, occupancy)
        found.append(time.thread_time() - start)
    return min(found) * 1e3
