"""Prometheus metrics of the loop: pods by state, age, alarms, nodes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import get_args

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from weft.engine.book.checkstate import check_state, verdict
from weft.engine.book.stops import NO_STOPS
from weft.engine.rows.seenfabric import SeenFabric
from weft.engine.store.counts import Counts, NetworkCount
from weft.engine.store.store import Store
from weft.model.errors import WeftError
from weft.model.hostchecks import CheckState
from weft.model.pod import ENDED, PodState

KEPT = 2.0
"""Seconds that a reading is reused for further scrapes: /metrics needs no authentication."""


class StoreCollector(Collector):
    """Numbers from the database; `weft_up 0` if it doesn't respond."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store, self._monotonic = store, monotonic
        self._lock = threading.Lock()
        self._read: tuple[float, Counts | None] | None = None

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics; only `weft_up` and `weft_changes_stopped` if the database doesn't respond."""
        up = GaugeMetricFamily("weft_up", "Whether the database answers.")
        counts = self._counts()
        up.add_metric([], 1 if counts else 0)
        yield up
        yield GaugeMetricFamily(
            "weft_changes_stopped",
            "Whether nothing is changed outside: the database was restored and isn't accepted, or a cloud's note of it "
            "can't be read.",
            value=int(self._store.database.gate.is_stopped()),
        )
        if counts is None:
            return
        yield GaugeMetricFamily(
            "weft_workers",
            "Worker processes that sent a heartbeat within the last minute.",
            value=counts.workers,
        )
        yield from _pods(counts)
        yield from self._checks()
        yield GaugeMetricFamily(
            "weft_pods_unreadable", "Pods and orders whose rows weft can't read.", value=counts.parked
        )
        yield GaugeMetricFamily(
            "weft_pods_left_to_newer",
            "Pods and orders that only a newer weft can read, which has worked with this database.",
            value=counts.left,
        )
        yield from _versions(counts)
        yield _by_state(
            "weft_traces",
            "Remains of released pods that the sweep found after their receipts: still present, and removed.",
            {"open": counts.traces.open, "gone": counts.traces.gone},
        )
        yield GaugeMetricFamily(
            "weft_sweep_age_seconds", "Since the last sweep finished.", value=counts.swept
        )
        yield GaugeMetricFamily(
            "weft_backup_age_seconds",
            "Since the newest backup was taken (weft backup); absent: there was none.",
            value=counts.backup,
        )
        yield _by_state(
            "weft_webhooks",
            "Projects' webhooks by state; a disabled one gets nothing until it is enabled.",
            dict(sorted(asdict(counts.webhooks).items())),
        )
        yield from _networks(counts.networks)
        yield from _fabrics(counts.fabrics, self._managed())
        removed = CounterMetricFamily(
            "weft_removed_records", "Old records that were removed (retention).", labels=["what"]
        )
        for what, number in sorted(counts.removed.items()):
            removed.add_metric([what], number)
        yield removed

    def _managed(self) -> list[str]:
        """The site's fabrics that workers ask about."""
        try:
            fabrics = self._store.site().site.fabrics
        except WeftError:
            return []  # no site yet
        return sorted(name for name, fabric in fabrics.items() if fabric.manager.driver != "none")

    def _checks(self) -> Iterable[Metric]:
        """Nodes by what their own checks say, and the alarm of a check that fails on too many at once."""
        try:
            site, capacity = self._store.site().site, self._store.capacity()
        except WeftError:
            return  # no site yet
        stops = ((node.name, capacity.stops.get(node.name, NO_STOPS).checks) for node in site.nodes)
        found = Counter(check_state(one, site, name, capacity.at) for name, one in stops)
        states = {state: found[state] for state in get_args(CheckState)}
        yield _by_state("weft_node_checks", "Hosts by the state of their own checks.", states)
        result = verdict(capacity.stops, site, capacity.at)
        yield GaugeMetricFamily(
            "weft_nodes_excluded_by_checks",
            "Nodes that get no new orders because of their own checks.",
            value=len(result.excluded),
        )
        suspended = GaugeMetricFamily(
            "weft_checks_suspended",
            "Nodes that get orders although the check fails there: it began to fail on too many within a day.",
            labels=["check"],
        )
        for code, nodes in result.suspended.items():
            suspended.add_metric([code], len(nodes))
        yield suspended

    def _counts(self) -> Counts | None:
        """The database's counts, read once in `KEPT` seconds, however many clients ask; None: it doesn't respond."""
        with self._lock:
            now = self._monotonic()
            if self._read is None or now - self._read[0] >= KEPT:
                try:
                    self._read = (now, self._store.counts())
                except WeftError:
                    self._read = (now, None)
            return self._read[1]


class AccountCollector(Collector):
    """`weft_account_lacks_role` is 1 while Keystone refuses to check tokens for weft's user: no caller is let in.

    Args:
        lacks_role: as Keystone answered last.
    """

    def __init__(self, lacks_role: Callable[[], bool]) -> None:
        self._lacks_role = lacks_role

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        """The gauge, by Keystone's last answer: it isn't asked."""
        yield GaugeMetricFamily(
            "weft_account_lacks_role",
            "Whether Keystone refused to check a caller's token: weft's user lacks the role service.",
            value=int(self._lacks_role()),
        )


def _fabrics(rows: Sequence[SeenFabric], managed: Iterable[str]) -> Iterable[Metric]:
    """The last reading of each fabric's managers; one that was never read isn't up. Args: managed: the site's."""
    read = {row.fabric for row in rows}
    one = ["fabric"]
    up = GaugeMetricFamily(
        "weft_fabric_up", "Whether a manager of the fabric is active and answers.", labels=one
    )
    problems = GaugeMetricFamily(
        "weft_fabric_problems",
        "Problems reported by the managers of the fabric, and by those that test frames on it.",
        labels=one,
    )
    errors = GaugeMetricFamily(
        "weft_fabric_ports_with_errors",
        "Ports with an error counter that grew by more than its threshold within an hour, or is full.",
        labels=one,
    )
    age = GaugeMetricFamily(
        "weft_fabric_read_age_seconds", "Since the fabric's managers were asked.", labels=one
    )
    for row in rows:
        up.add_metric([row.fabric], int(row.known))
        problems.add_metric([row.fabric], row.problems)
        if row.port_errors is not None:
            errors.add_metric([row.fabric], row.port_errors)
        age.add_metric([row.fabric], row.age)
    for name in managed:
        if name not in read:
            up.add_metric([name], 0)
    yield from (up, problems, errors, age)


def _versions(counts: Counts) -> Iterator[Metric]:
    """Versions of the processes at work, and parts of an upgrade that are left."""
    processes = GaugeMetricFamily(
        "weft_processes",
        "Processes of weft that sent a heartbeat within the last minute; of two versions while an upgrade lasts.",
        labels=["role", "version"],
    )
    for row in counts.processes:
        processes.add_metric([row.role, row.version], row.number)
    yield processes
    yield GaugeMetricFamily(
        "weft_upgrade_unfinished",
        "Parts of the second half of an upgrade that weft upgrade --finish would make.",
        value=counts.unfinished,
    )


def _pods(counts: Counts) -> Iterator[Metric]:
    """Pods by state, and the nodes that they hold."""
    rows = {row.state: row for row in counts.pods}
    pods = GaugeMetricFamily("weft_pods", "Pods by state.", labels=["state"])
    oldest = GaugeMetricFamily(
        "weft_pod_oldest_seconds", "How long the oldest pod has been in the state.", labels=["state"]
    )
    alarmed = GaugeMetricFamily(
        "weft_pods_overdue",
        "Pods with an alarm: in the state for longer than its limit, FAILED, or not readable by workers.",
        labels=["state"],
    )
    for state in set(PodState) - ENDED:
        row = rows.get(state)
        pods.add_metric([state], row.number if row else 0)
        oldest.add_metric([state], row.oldest if row else 0)
        alarmed.add_metric([state], row.alarmed if row else 0)
    yield from (pods, oldest, alarmed)
    nodes = {name: getattr(counts, name) for name in ("busy", "quarantined", "held", "drained")}
    yield _by_state("weft_nodes", "Nodes of pods, in quarantine, held, and drained.", nodes)


def _networks(count: NetworkCount) -> Iterable[Metric]:
    """Tenants' own networks."""
    yield _by_state(
        "weft_network_ports",
        "Ports of tenants' own networks: in their partition, waiting to be, or not belonging in.",
        {"in": count.ports_in, "waiting": count.waiting, "out": count.out},
    )
    yield GaugeMetricFamily("weft_networks", "Tenants' own networks that weft serves.", value=count.networks)
    yield GaugeMetricFamily(
        "weft_network_port_waiting_seconds",
        "How long the oldest waiting port has waited.",
        value=count.oldest or 0,
    )
    yield GaugeMetricFamily(
        "weft_network_read_age_seconds",
        "Since the network read longest ago was read.",
        value=count.unread or 0,
    )


def _by_state(name: str, what: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, what, labels=["state"])
    for state, value in values.items():
        family.add_metric([state], value)
    return family
