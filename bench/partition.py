"""Shared by the benchmarks of partition changes: the fabric, the timed change, the rows."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.row import row
from weft.engine.hold.settings import LoopSettings
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.site import Site
from weft.ports.fabric import FabricDriver
from weft.ports.resources import Scope
from weft.testing.fabric import segment
from weftlab.layout import Layout, free_ports
from weftlab.site import FABRIC, make_site, settings
from weftlab.supervisor import Job, Supervisor

ROUNDS, LONGEST = 9, 60.0
HOSTS, MEMBERS, KEY = 800, 16, 0x101
SCOPE = Scope("lab", Owner.pod("0000be4c-0000-4000-8000-000000000001"), "bench", "bench")

Measured = tuple[list[float], list[float]]
"""Seconds of each change by what weft is compared with, and by weft."""


def on_a_fabric(
    jobs: Callable[[Layout, Site], Iterable[Job]],
    measure: Callable[[Layout, Site], Measured],
    fabric_manager: str = "opensm",
    site_of: Callable[[Layout], Site] | None = None,
) -> Measured:
    """Measure on a simulated fabric, started for it; by default that of 800 hosts."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        layout = Layout(Path(folder), Path(folder) / "cache", free_ports())
        asked = settings(nodes=HOSTS, hcas=1, fabric_manager=fabric_manager)
        site = make_site(asked, layout) if site_of is None else site_of(layout)
        supervisor = Supervisor(layout.run)
        try:
            supervisor.run(tuple(jobs(layout, site)))
            return measure(layout, site)
        finally:
            supervisor.stop()


def members_of(site: Site) -> list[int]:
    """Port GUIDs of the partition's members."""
    return [n.hcas[0].port_guid for n in site.nodes[:MEMBERS]]


def partition_of(site: Site) -> Resource:
    return Resource(key="partition", name="weft-bench", where=FABRIC, spec=segment(KEY, members_of(site)))


def change(driver: FabricDriver, wanted: Resource, present: bool) -> float:
    """Seconds of one change by weft, until the full reading that shows it has ended."""
    if not present:
        made(driver, wanted, True)
    return made(driver, wanted, present)


def made(driver: FabricDriver, wanted: Resource, present: bool) -> float:
    """Make a change as visits do: request it, then observe it, with the loop's pauses. Returns seconds."""
    scope, begun = replace(SCOPE, glance=True, leaving=not present), time.perf_counter()
    (driver.create if present else driver.delete)(scope, [wanted], {})
    status = Status.SETTLED if present else Status.ABSENT
    while (found := driver.find(scope, [wanted], {})[wanted.key]).status is not status:
        if (took := time.perf_counter() - begun) > LONGEST:
            raise RuntimeError(f"{wanted.name} is not as asked: {found}")
        time.sleep(LoopSettings().poll(took, of_fabric=True))
    return time.perf_counter() - begun


def compared(what: str, other: str, measured: Measured, goal: float) -> list[dict[str, Any]]:
    """Medians in milliseconds, creation and deletion taken together, and their ratio."""
    own, weft = (statistics.median(seconds) for seconds in measured)
    what = f"{what} of {MEMBERS} of {HOSTS} hosts changed and read back"
    return [
        row(f"{what}: {other}", 1000 * own, "ms"),
        row(f"{what}: weft", 1000 * weft, "ms"),
        row(f"{what}: ratio", weft / own, "x", f"<= {goal}", weft / own <= goal, other),
    ]
