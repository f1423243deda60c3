"""Orders per second end to end: API, claim, loop and release of pods of four nodes, on the fakes.

24 clients order a pod, wait until it is READY, release it, wait until it is RELEASED, and start over. Order and release
are answered when the pod is in that state (`POST /v1/pods?until=READY&wait=45`), as `Client.pods.create` and
`Client.pods.release` may ask for it; reading the events would be a separate request. The API and the worker are
separate processes (`bench.endtoend_server`), as `weft serve` starts them; clients and PostgreSQL share the processors.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from bench.api import TICKS, database_of, ticks
from bench.row import row
from bench.threads import served_by

CLIENTS, NODES_A_POD = 24, 4
SECONDS = float(os.environ.get("SECONDS_OF_ORDERS", "30"))
GOAL = 20.0
LONGEST = 120.0


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        words = [sys.executable, "-W", "ignore", "-m", "bench.endtoend_server", folder]
        words += [str(CLIENTS * NODES_A_POD * 2), "8"]
        with served_by(words) as (server, url):
            database = Path(folder) / "postgres"
            of_database, of_clients = ticks(database_of(database)), time.process_time()
            took, seconds = _orders(url)
            of_database = (ticks(database_of(database)) - of_database) / TICKS
            of_clients = time.process_time() - of_clients
            assert server.stdin is not None and server.stdout is not None
            server.stdin.close()
            processor = float(server.stdout.readline())
    rate = len(took) / seconds
    return [
        row("orders end to end", rate, "orders/s", f"≥ {GOAL:.0f}", rate >= GOAL),
        row("order to receipt, p50", statistics.median(took), "s"),
        row("processor of an order in weft, fakes included", processor / len(took) * 1000, "ms"),
        row("processor of an order in PostgreSQL", of_database / len(took) * 1000, "ms"),
        row("processor of an order in the client", of_clients / len(took) * 1000, "ms"),
    ]


def _orders(url: str) -> tuple[list[float], float]:
    """Seconds of each completed order, and of the whole run."""
    end = time.monotonic() + SECONDS
    took: list[float] = []
    errors: list[BaseException] = []

    def client(number: int) -> None:
        try:
            # Without certificates, which http doesn't need: loading them costs more than all requests of an order.
            with httpx.Client(
                base_url=url,
                headers={"X-Auth-Token": f"t{number}"},
                trust_env=False,
                timeout=60,
                verify=False,
            ) as http:
                turn = 0
                while time.monotonic() < end:
                    began = time.monotonic()
                    _one(http, f"pod-{number}-{turn}")
                    took.append(time.monotonic() - began)
                    turn += 1
        except BaseException as error:
            errors.append(error)

    began = time.monotonic()
    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return took, time.monotonic() - began


def _one(http: httpx.Client, name: str) -> None:
    nodes = {"count": NODES_A_POD, "flavor": "gpu8", "image": "ubuntu"}
    made = http.post("/v1/pods", params=_until("READY"), json={"name": name, "nodes": nodes})
    if made.status_code >= 400:
        raise RuntimeError(f"{name}: {made.text[:300]}")
    pod = made.json()["id"]
    _wait(http, name, pod, "READY", made)
    gone = http.post(f"/v1/pods/{name}/release", params=_until("RELEASED"))
    _wait(http, name, pod, "RELEASED", gone)


def _wait(http: httpx.Client, name: str, pod_id: str, state: str, answer: httpx.Response) -> None:
    """Ask again until the pod is in the state, if an answer came before that."""
    deadline = time.monotonic() + LONGEST
    while (now := answer.raise_for_status().json()["state"]) != state:
        if now == "FAILED" or time.monotonic() > deadline:
            raise RuntimeError(f"{name} is {now}: {answer.json()['reason']}")
        answer = http.get(f"/v1/pods/{pod_id}", params=_until(state))


def _until(state: str) -> dict[str, str]:
    return {"until": state, "wait": "45"}
