"""The API's Prometheus metrics; the app adds further collectors."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.registry import Collector

disable_created_metrics()  # otherwise each counter has a second series with its start
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """One registry per app, so that two apps in one process don't conflict."""

    def __init__(self, collectors: Iterable[Collector] = ()) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "weft_api_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "weft_api_request_seconds",
            "Response time; routes with `wait` include the requested wait.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge("weft_api_requests_in_flight", "Requests in flight.", registry=self.registry)
        for collector in collectors:
            self.registry.register(collector)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the template of the path, which bounds the labels."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)
