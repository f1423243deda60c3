"""CPU time of one request of each kind: in weft, in PostgreSQL and in the client; no worker runs.

One client at a time orders pods of four nodes, shows, lists, follows and releases them, on the fakes of `bench.lean`.
It measures each process's CPU time, not a request's latency, as the median of several runs of each kind, since other
work on the machine slows processors down.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.api import database_of, processor
from bench.row import row
from bench.threads import served_by

PODS, NODES_A_POD, RUN = 150, 4, 10
WAIT = {"until": "PLACED,READY", "wait": 20}
"""Already true for the pod: measures the cost of asking and being answered."""


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        words = [sys.executable, "-W", "ignore", "-m", "bench.endtoend_server", folder]
        words += [str(PODS * NODES_A_POD + 8), "0"]
        with served_by(words) as (server, url):
            return _measured(url, server.pid, Path(folder) / "postgres")


def _measured(url: str, server: int, database: Path) -> list[dict[str, Any]]:
    nodes = {"count": NODES_A_POD, "flavor": "gpu8", "image": "ubuntu"}
    with httpx.Client(base_url=url, headers={"X-Auth-Token": "t0"}, trust_env=False, timeout=60) as http:
        kinds: dict[str, Callable[[str], httpx.Response]] = {
            "healthz": lambda _: http.get("/healthz"),
            "create": lambda n: http.post("/v1/pods", json={"name": n, "nodes": nodes}),
            "show": lambda n: http.get(f"/v1/pods/{n}"),
            "wait": lambda n: http.get(f"/v1/pods/{n}", params=WAIT),
            "events": lambda n: http.get(f"/v1/pods/{n}/events"),
            "list of 100": lambda _: http.get("/v1/pods"),
            "release": lambda n: http.post(f"/v1/pods/{n}/release"),
        }
        found: list[dict[str, Any]] = []
        for kind, ask in kinds.items():
            runs = [_run(ask, range(n, n + RUN), server, database) for n in range(0, PODS, RUN)]
            for who, took in zip(("weft", "PostgreSQL", "the client"), zip(*runs, strict=True), strict=True):
                found.append(row(f"processor of {kind} in {who}", statistics.median(took) / RUN * 1000, "ms"))
    return found


def _run(
    ask: Callable[[str], httpx.Response], pods: range, server: int, database: Path
) -> tuple[float, float, float]:
    """Seconds of server, database and client for a request about each of these pods."""
    before = (processor([server]), processor(database_of(database)), time.process_time())
    for number in pods:
        ask(f"pod-{number}").raise_for_status()
    after = (processor([server]), processor(database_of(database)), time.process_time())
    weft, postgres, client = (b - a for a, b in zip(before, after, strict=True))
    return weft, postgres, client
