"""The cost of an order of four nodes from claim to receipt: statements, and CPU time of weft and PostgreSQL.

One order after another, visited in one thread, so that only the order itself is counted. ORDERS in the environment sets
their number.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.api import TICKS, database_of, ticks
from bench.loop import request
from bench.row import row
from bench.world import Bench, bench
from weft.engine.base.database import Tx
from weft.engine.watch.worker import Worker
from weft.model.order import Order
from weft.model.pod import PodState

ORDERS = int(os.environ.get("ORDERS", "30"))
WARM, NODES, NODES_OF_SITE = 6, 4, 192


class Meter:
    """Totals of statements and processor time by step."""

    def __init__(self, database: Path) -> None:
        self._database, self._step = database, ""
        self.statements: Counter[str] = Counter()
        self.weft: defaultdict[str, float] = defaultdict(float)
        self.postgres: defaultdict[str, float] = defaultdict(float)
        execute: Any = Tx._execute  # pyright: ignore[reportPrivateUsage]

        def counted(tx: Tx, name: str, values: Mapping[str, object]) -> Any:
            self.statements[self._step] += 1
            return execute(tx, name, values)

        type.__setattr__(Tx, "_execute", counted)

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        postgres = ticks(database_of(self._database))
        self._step, began = name, time.process_time()
        yield
        self._step, ended = "", time.process_time()
        self.weft[name] += ended - began
        self.postgres[name] += (ticks(database_of(self._database)) - postgres) / TICKS

    def clear(self) -> None:
        self.statements.clear()
        self.weft.clear()
        self.postgres.clear()


def rows() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        bench(Path(folder), NODES_OF_SITE) as made,
    ):
        meter, worker = Meter(Path(folder) / "postgres"), made.worker(1)
        for number in range(WARM + ORDERS):
            if number == WARM:
                meter.clear()
            _one(made, worker, meter, number)
    found: list[dict[str, Any]] = []
    for step in ("claim to READY", "release to receipt"):
        found += [
            row(f"{step}: statements", meter.statements[step] / ORDERS, ""),
            row(f"{step}: processor in weft, fakes included", meter.weft[step] / ORDERS * 1000, "ms"),
            row(f"{step}: processor in PostgreSQL", meter.postgres[step] / ORDERS * 1000, "ms"),
        ]
    weft, postgres = (sum(c.values()) / ORDERS * 1000 for c in (meter.weft, meter.postgres))
    return [
        *found,
        row("claim to receipt: processor in weft", weft, "ms", "≤ 35", weft <= 35),
        row("claim to receipt: processor in PostgreSQL", postgres, "ms", "≤ 30", postgres <= 30),
    ]


def _one(made: Bench, worker: Worker, meter: Meter, number: int) -> None:
    nodes = {"count": NODES, "flavor": "gpu8", "image": "ubuntu"}
    name = f"pod-{number}"
    made.service.pods.create(request(made, number), Order.model_validate({"name": name, "nodes": nodes}))
    pod = made.store.pods.find(name, None)
    for step, end in (("claim to READY", PodState.READY), ("release to receipt", PodState.RELEASED)):
        if end is PodState.RELEASED:
            made.store.release(pod.id, "release requested by the bench")
        while made.store.pods.find(str(pod.id), None).state is not end:
            with meter.step(step):
                visited = worker.run_once()
            if not visited:
                time.sleep(0.005)
