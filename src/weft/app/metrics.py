"""What Prometheus reads of the loop: pods by state, how long, alarms, nodes."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from weft.engine.store import Store
from weft.model.errors import WeftError
from weft.model.pod import PodState
from weft.ports.clock import Clock


class StoreCollector(Collector):
    """Reads the database at each scrape; a database that is away shows as `weft_up 0`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("weft_up", "Whether the database answers.")
        try:
            rows = {row["state"]: row for row in self._store.counts()}
            capacity = self._store.capacity()
        except WeftError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        pods = GaugeMetricFamily("weft_pods", "Pods by state.", labels=["state"])
        oldest = GaugeMetricFamily(
            "weft_pod_oldest_seconds", "How long the oldest pod has been in the state.", labels=["state"]
        )
        alarmed = GaugeMetricFamily(
            "weft_pods_overdue",
            "Pods that have been in the state for longer than its limit.",
            labels=["state"],
        )
        now = self._clock.now()
        for state in PodState:
            row = rows.get(state)
            pods.add_metric([state], row["number"] if row else 0)
            if state is not PodState.RELEASED:
                oldest.add_metric([state], (now - row["oldest"]).total_seconds() if row else 0)
                alarmed.add_metric([state], row["alarmed"] if row else 0)
        yield from (pods, oldest, alarmed)
        nodes = GaugeMetricFamily("weft_nodes", "Nodes held by pods, and in quarantine.", labels=["state"])
        nodes.add_metric(["busy"], len(capacity.holds))
        nodes.add_metric(["quarantined"], len(capacity.quarantines))
        yield nodes
