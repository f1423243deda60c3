"""Prometheus metrics of the certificates that weft uses: its own files, and those of agents as workers saw them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from weft.drivers.wire.tlsfiles import changed_file
from weft.engine.store.agentcertificates import AgentCertificates, SeenCertificate
from weft.engine.store.store import Store
from weft.generate.certificates import end_of
from weft.model.errors import WeftError

_LARGEST = 1 << 20
"""Most bytes of a PEM file that are read."""
KEPT_ROWS = 30.0
"""Seconds that a reading is reused for further scrapes: /metrics needs no authentication."""


class CertificateCollector(Collector):
    """When certificates end that this process uses. A file that can't be read has no series: `weft_certificates_unread`
    counts it.

    Args:
        files: name -> PEM file, asked at each collection: the site may have changed. Read again once it is replaced.
        agents: what workers saw last of agents' certificates, and of weft's own for them.
    """

    def __init__(
        self, files: Callable[[], Mapping[str, str]], agents: Callable[[], Iterable[SeenCertificate]] = tuple
    ) -> None:
        self._files, self._agents = files, agents
        self._read: tuple[float, list[SeenCertificate]] | None = None
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[tuple[int, ...], float | None]] = {}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        """The end of each file's first certificate, in seconds since 1970."""
        ends = GaugeMetricFamily(
            "weft_certificate_not_after_seconds",
            "When a certificate ends that weft uses, in seconds since 1970.",
            labels=["certificate", "fabric", "agent"],
        )
        unread = 0
        with self._lock:
            files = self._files()
            self._kept = {path: self._end(path) for path in set(files.values())}
            for name, path in sorted(files.items()):
                end = self._kept[path][1]
                if end is None:
                    unread += 1
                else:
                    ends.add_metric([name, "", ""], end)
        unrenewed = GaugeMetricFamily(
            "weft_certificates_unrenewed",
            "Certificates of agents, and weft's own for them, that should have been renewed by now.",
            labels=["code"],
        )
        now, stuck, first = datetime.now(UTC), Counter[str](), dict[tuple[str, ...], float]()
        for row in self._rows():
            if row.not_after is not None:
                # Hosts' names aren't for those who may scrape: of weft's own of a fabric, the first to end.
                name = (row.kind, row.fabric, row.agent if row.kind == "agent" else "")
                first[name] = min(first.get(name, math.inf), row.not_after.timestamp())
                stuck[row.code] += row.is_late(now)
        for name, end in sorted(first.items()):
            ends.add_metric(name, end)
        for code, count in sorted(stuck.items()):
            if count:
                unrenewed.add_metric([code], count)
        yield unrenewed
        yield ends
        yield GaugeMetricFamily("weft_certificates_unread", "Certificates that can't be read.", value=unread)

    def _rows(self) -> Iterable[SeenCertificate]:
        """Agents' certificates, read once in `KEPT_ROWS` seconds, however many clients ask."""
        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] >= KEPT_ROWS:
                self._read = time.monotonic(), list(self._agents())
            return self._read[1]

    def _end(self, path: str) -> tuple[tuple[int, ...], float | None]:
        stamp = changed_file(path)
        known = self._kept.get(path)
        return known if known is not None and known[0] == stamp else (stamp, _not_after(path))


def _not_after(path: str) -> float | None:
    """When a file's first certificate ends, in seconds since 1970; None: it can't be read."""
    try:
        with Path(path).open("rb") as file:
            return end_of(file.read(_LARGEST))
    except OSError:
        return None


def agent_certificates(store: Store) -> list[SeenCertificate]:
    """Agents' certificates as workers saw them last; none while the database doesn't respond."""
    try:
        return AgentCertificates(store.database).list()
    except WeftError:
        return []


def certificate_files(store: Store, own: str | None) -> dict[str, str]:
    """Name -> PEM file: the API's own, and those with which weft speaks to fabrics.

    Args:
        own: the file of the API's certificate; None: it has none.
    """
    files = {"api": own} if own else {}
    try:
        fabrics = store.site().site.fabrics
    except WeftError:
        return files  # no site yet, or the database doesn't respond
    for name, fabric in fabrics.items():
        if fabric.manager.certificate:
            files[f"fabric {name}"] = fabric.manager.certificate
        if fabric.manager.ca:
            files[f"fabric {name} ca"] = fabric.manager.ca
    return files
