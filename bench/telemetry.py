"""The cost of telemetry at 800 hosts: processor use of the fabric agent that reads all counters and answers Prometheus,
and of an API process that answers it, at the intervals of `weft site export --format prometheus`.

The agent reads real OpenSM over ibsim, in the simulator's environment. No worker runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from bench.links import PODS, fill
from bench.partition import HOSTS, on_a_fabric
from bench.row import row
from weft.app.desk import Desk
from weft.app.metrics import StoreCollector
from weft.app.monitoringverbs import Scraper
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.settings import ServeSettings
from weft.app.wiring import shared_services
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.clock import SystemClock
from weft.engine.base.world import World
from weft.model.site import Interface, Monitoring, Site, SiteNetwork
from weft.testing.fabric import FakeFabric
from weftlab.fabric import FabricFolder, fabric_jobs
from weftlab.fabric.files import description
from weftlab.layout import Layout
from weftlab.site import FABRIC, make_site, settings

GOAL = 2.0
"""Goal in per cent of a processor."""
SCRAPE, RARE = 15.0, 60.0
"""Seconds between scrapes, and between readings of targets and of what changes rarely."""
ROUNDS = 9


def rows() -> list[dict[str, Any]]:
    return [*_agent(), *_api()]


def _agent() -> list[dict[str, Any]]:
    found: dict[str, list[float]] = {}

    def measure(layout: Layout, site: Site) -> tuple[list[float], list[float]]:
        node = site.nodes[-3]
        folder = FabricFolder(layout, FABRIC)
        environment = {
            **os.environ,
            **folder.client(description(node, node.hcas[0])),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
            "PYTHONPATH": str(Path.cwd()),
        }
        command = [sys.executable, "-m", "bench.telemetry"]
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder.folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        found.update(json.loads(done.stdout))
        return [], []

    on_a_fabric(fabric_jobs, measure)
    reading, text = statistics.median(found["reading"]), statistics.median(found["text"])
    share = (reading + text) / SCRAPE * 100
    size = found["bytes"][0] / 1e6
    against = (
        f"a reading {reading * 1000:.0f} ms, {size:.1f} MB of text {text * 1000:.0f} ms, each {SCRAPE:.0f} s"
    )
    name = f"fabric agent of {HOSTS} hosts with telemetry on, of a processor"
    return [row(name, share, "%", f"≤ {GOAL:.0f}", share <= GOAL, against)]


def read_and_write() -> dict[str, list[float]]:
    """In the simulator's environment: seconds of processor of each reading, and of its text."""
    from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
    from weft.fabricagent.counters import CounterWatch
    from weft.fabricagent.metrics import metrics
    from weft.fabricagent.wire import Wire

    wire = Wire(ManagerPort(), DiagnosticPrograms())
    counters = CounterWatch(wire)
    wire.finder.map(0.0)
    counters.read(0.0)
    found: dict[str, list[float]] = {"reading": [], "text": []}
    for _ in range(5):
        time.sleep(1.1)  # counters are read once a second at most
        began = time.process_time()
        counters.read(0.0)
        found["reading"].append(time.process_time() - began)
        began = time.process_time()
        text = metrics(counters.readings()[0], 1.0).text
        found["text"].append(time.process_time() - began)
        found["bytes"] = [float(len(text.encode()))]
    counters.close()
    wire.close()
    return found


def _api() -> list[dict[str, Any]]:
    site = monitored(
        make_site(settings(nodes=HOSTS, hcas=1), Layout(Path("/nowhere"), Path("/nowhere"), 23000))
    )
    fabric = FakeFabric(site, FABRIC)
    world = World(resources={FABRIC: fabric}, fabrics={FABRIC: fabric}, clouds={})
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        shared_services(ServeSettings(state=Path(folder), worker=False)) as made,
    ):
        made.store.activate_site(site, "bench")
        fill(made.store, site)
        service = Service(
            Desk(made.store, WorldKeeper(made.store, lambda _: world), Policy(), SystemClock(), made.listener)
        )
        registry = CollectorRegistry()
        ticks = iter(range(0, 1_000_000, 100))
        registry.register(
            StoreCollector(made.store, lambda: float(next(ticks)))
        )  # so that the collector reuses nothing
        who = Scraper()
        metrics = _processor(lambda: generate_latest(registry))
        info = _processor(lambda: service.monitoring.info(who))
        hosts = _processor(lambda: service.monitoring.targets(who, "node"))
        share = (metrics / SCRAPE + (info + hosts) / RARE) * 100
    against = (
        f"/metrics {metrics * 1000:.0f} ms each {SCRAPE:.0f} s; info {info * 1000:.0f} ms and targets "
        f"{hosts * 1000:.0f} ms each {RARE:.0f} s"
    )
    name = f"API process with telemetry on, {HOSTS} hosts and {PODS} pods, of a processor"
    return [row(name, share, "%", f"≤ {GOAL:.0f}", share <= GOAL, against)]


def monitored(site: Site) -> Site:
    """The site with an address for exporters on every host."""
    network = {
        "physical_network": "p1",
        "subnets": {"mgmt": {"role": "management", "addresses": "10.9.0.0/16", "dhcp": False}},
    }
    interfaces = [
        {"device": n.name, "name": "m", "network": "hosts", "mac": f"02:00:00:00:{i // 256:02x}:{i % 256:02x}",
         "address": f"10.9.{i // 250}.{i % 250 + 1}"}
        for i, n in enumerate(site.nodes)
    ]  # fmt: skip
    return site.model_copy(
        update={
            "networks": {"hosts": SiteNetwork.model_validate(network)},
            "interfaces": tuple(Interface.model_validate(one) for one in interfaces),
            "monitoring": Monitoring(api=("http://weft.example:8787",)),
        }
    )


def _processor(work: Callable[[], object]) -> float:
    """Median of the processor time of this process in seconds."""
    work()
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


if __name__ == "__main__":
    print(json.dumps(read_and_write()))
