"""The controller's metrics (port 2113)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from openvipu.controller.core import Core
from openvipu.model.partition import ReadyState
from openvipu.model.site import IPUS_PER_MACHINE
from openvipu.scrape import start_page

Family = GaugeMetricFamily | CounterMetricFamily


class CallCounter:
    """Counts calls by method and status."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()

    def observe(self, method: str, status: str) -> None:
        with self._lock:
            self._counts[method.rsplit("/", 1)[-1], status] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        """(method, status) -> number of calls since the start."""
        with self._lock:
            return dict(self._counts)


class ControllerCollector(Collector):
    """Reads the state at every scrape."""

    def __init__(self, core: Core, calls: CallCounter) -> None:
        self._core = core
        self._calls = calls

    def collect(self) -> Iterator[Family]:
        state = self._core.state
        reachable, lost = self._core.health.counts(state.agents)
        agents = GaugeMetricFamily("vipu_agents", "Agents, by whether they answer", labels=["reachable"])
        agents.add_metric(["true"], reachable)
        agents.add_metric(["false"], lost)
        yield agents
        ready = Counter(partition.ready for partition in state.partitions.values())
        partitions = GaugeMetricFamily("vipu_partitions", "Partitions by ready state", labels=["state"])
        for entry in (ReadyState.PENDING, ReadyState.ACTIVE, ReadyState.ERROR):
            partitions.add_metric([entry.name], ready[entry])
        yield partitions
        ipus = GaugeMetricFamily("vipu_ipus", "IPUs in clusters, by use", labels=["cluster", "use"])
        for cluster in state.clusters.values():
            used = sum(
                len(entry.ipus) for entry in state.partitions.values() if entry.cluster_id == cluster.id
            )
            ipus.add_metric([cluster.id, "used"], used)
            ipus.add_metric([cluster.id, "free"], len(cluster.agent_ids) * IPUS_PER_MACHINE - used)
        yield ipus
        broken = GaugeMetricFamily("vipu_ipus_unhealthy", "IPUs that are not given away")
        broken.add_metric([], len(self._core.health.unhealthy()))
        yield broken
        calls = CounterMetricFamily(
            "vipu_calls", "API calls by method and status", labels=["method", "status"]
        )
        for labels, count in sorted(self._calls.counts().items()):
            calls.add_metric(list(labels), count)
        yield calls


def start_metrics(core: Core, calls: CallCounter, host: str, port: int) -> Any:
    """Serve ``/metrics``; returns the HTTP server, whose ``shutdown`` ends it."""
    return start_page(ControllerCollector(core, calls), "metrics", host, port)
