"""The audit and a sweep with thousands of READY pods, some released a moment ago.

It runs on the fakes of `bench.lean` and measures weft's own cost, and how many requests it sends outside, each of which
takes a real cloud some 50 ms. AUDITED in the environment sets the number of pods.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.api import TICKS, database_of, ticks
from bench.loop import order, until_ready
from bench.row import row
from bench.threads import apart, threads
from bench.world import FABRIC, Bench, bench
from weft.engine.audit.audit import Auditor
from weft.engine.audit.sweep import Sweeper
from weft.engine.watch.bootkeeper import BootKeeper
from weft.model.agentapi import Tables, TablesQuery
from weft.testing.fabric import FakeFabric

PODS = int(os.environ.get("AUDITED", "10000"))
RELEASED = 100
LONGEST = 60.0


def rows() -> list[dict[str, Any]]:
    return apart(auditing, PODS)


def auditing(pods: int) -> list[dict[str, Any]]:
    """Rows of an audit and a sweep with this many pods."""
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        bench(Path(folder), int((pods + RELEASED) * 1.05) + 20, many=True) as made,
    ):
        _begin(made, pods)
        site, postgres = made.keeper.site(), Path(folder) / "postgres"
        auditor = Auditor(made.store, made.keeper.world(), site, made.clock)
        sweeper = Sweeper(made.store, made.keeper.world, made.keeper.site, made.clock)
        audit = _measured("audit", pods, made, postgres, lambda: _clean(len(auditor.check().findings)))
        return audit + _measured("sweep", pods, made, postgres, lambda: _clean(len(sweeper.sweep())))


def _begin(made: Bench, pods: int) -> None:
    """Order pods until they are READY, and release a few more."""
    with threads(4) as pool:
        list(pool.map(lambda n: order(made, n), range(pods + RELEASED)))
    worker, boots = made.worker(8), BootKeeper(made.database, made.keeper.world)
    boots.start()
    worker.start()
    try:
        until_ready(made, pods + RELEASED)
        for number in range(RELEASED):
            pod = made.store.pods.find(f"pod-{number}", None)
            made.store.release(pod.id, "release requested by the bench")
        while len(made.store.pods.live()) > pods:
            time.sleep(0.5)
    finally:
        worker.stop(60)
        boots.stop()


def _clean(found: int) -> None:
    """Raise for a finding or something unread: the audit would then measure something else."""
    if found:
        raise RuntimeError(f"{found} findings")


def _measured(
    name: str, pods: int, made: Bench, postgres: Path, work: Callable[[], None]
) -> list[dict[str, Any]]:
    readings = _count_readings(made)
    calls, database = Counter(made.cloud.calls), ticks(database_of(postgres))
    began, cpu = time.monotonic(), time.process_time()
    work()
    took, spent = time.monotonic() - began, time.process_time() - cpu
    asked = sum((Counter(made.cloud.calls) - calls).values())
    inside, about = (ticks(database_of(postgres)) - database) / TICKS, f"{name} with {pods:,} pods"
    return [
        row(about, took, "s", f"≤ {LONGEST:.0f}", took <= LONGEST),
        row(f"{about}: processor, fakes included", spent, "s", f"≤ {LONGEST:.0f}", spent <= LONGEST),
        row(f"{about}: processor in PostgreSQL", inside, "s"),
        row(f"{about}: calls of the cloud's driver", asked, ""),
        row(f"{about}: readings of the fabric", readings["tables"], ""),
    ]


def _count_readings(made: Bench) -> Counter[str]:
    """Counts readings of all tables from now on."""
    fabric, counted = made.keeper.world().fabrics[FABRIC], Counter[str]()
    assert isinstance(fabric, FakeFabric)
    for manager in fabric.managers:
        tables = type(manager).tables.__get__(manager)

        def read(query: TablesQuery, tables: Callable[[TablesQuery], Tables] = tables) -> Tables:
            counted["tables"] += 1
            return tables(query)

        manager.tables = read
    return counted
