"""What Prometheus reads of weft besides `/metrics`: targets, and who is where. For operators, and for the holder of the
token that `weft serve --monitoring-token` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.store.counts import MonitoredServer
from weft.model.errors import InputError
from weft.model.site import Site
from weft.planning.site.monitoring import (
    ADDRESS_OF_CONTROLLERS,
    BMCS,
    CONTROLLERS,
    MOST_TARGETS,
    HeldNode,
    Info,
    ServingServer,
    Targets,
    bmc_targets,
    controller_targets,
    host_targets,
    infos,
    pod_targets,
)
from weft.ports.fabric import CountsPorts, FabricDriver


@dataclass(frozen=True, slots=True)
class Scraper:
    """One who may read what is for monitoring, which isn't redacted: an operator, or the holder of the token."""


class MonitoringVerbs(DeskVerbs):
    """See `weft.app.verbs`; these verbs take a `Scraper`."""

    def scraper(self, request: Request) -> Scraper:
        """The caller as a `Scraper`. Raises `ForbiddenError` unless it is an operator."""
        self._desk.policy.check("monitoring:read", request.caller)
        return Scraper()

    def targets(self, scraper: Scraper, job: str) -> Targets:
        """Targets of a job, as the site and the pods are now.

        Raises:
            InputError: the site has no such job.
            TemporaryError: targets of pods while the gate is closed for all: pods of a restored database may have
                gone, and others have their addresses.
        """
        site = self._desk.store.site().site
        hosts, pods = site.monitoring.hosts, site.monitoring.pods
        if job == BMCS:
            return bmc_targets(site)
        if job in hosts:
            return host_targets(site, hosts[job])
        if job not in pods and job != CONTROLLERS:
            raise InputError(
                "job", job, f"a job of the site: {', '.join(sorted([*hosts, *pods, BMCS, CONTROLLERS]))}"
            )
        if (closed := self._desk.store.database.gate.closed(())) is not None:
            raise closed
        if job == CONTROLLERS:
            rows = self._desk.store.monitored_controllers(ADDRESS_OF_CONTROLLERS, MOST_TARGETS + 1)
            return controller_targets(site, [_server(site, row) for row in rows])
        servers = [_server(site, row) for row in self._desk.store.monitored_servers(MOST_TARGETS + 1)]
        return pod_targets(site, pods[job], servers)

    def switches(self, scraper: Scraper) -> bytes:
        """Counters of Ethernet switches' ports, asked now, in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(SwitchCollector(self._desk.keeper.world().fabrics))
        return generate_latest(registry)

    def info(self, scraper: Scraper) -> bytes:
        """Which pod is on which node, and which adapter is cabled where, in Prometheus' text format."""
        rows = self._desk.store.monitored_nodes(MOST_TARGETS)
        held = [HeldNode(r.node, r.pod, str(r.id), r.project_id, r.spare) for r in rows]
        registry = CollectorRegistry()
        registry.register(_Infos(infos(self._desk.store.site().site, held)))
        return generate_latest(registry)


def _server(site: Site, row: MonitoredServer) -> ServingServer:
    cloud = site.clouds.get(row.cloud)
    flavor = cloud.flavors.get(row.flavor) if cloud else None
    node = site.node_by_name.get(row.node)
    has = bool(flavor.accelerators) if flavor else bool(node and node.accelerators)
    address = row.floating or row.address or None
    return ServingServer(str(row.id), row.pod, row.project_id, row.server, row.node, address, has)


_FAMILIES = (
    ("receive_bytes", "Bytes that a port has received."),
    ("transmit_bytes", "Bytes that it has sent."),
    ("receive_packets", "Packets that it has received."),
    ("transmit_packets", "Packets that it has sent."),
    ("receive_errors", "Received packets with errors."),
    ("transmit_errors", "Packets that it couldn't send because of errors."),
    ("receive_drops", "Received packets that were dropped."),
    ("transmit_drops", "Packets that were dropped instead of being sent."),
    ("pfc_receive", "Pauses of priority flow control that it has received."),
    ("pfc_transmit", "Pauses of priority flow control that it has sent."),
    ("ecn_marked", "Packets that it has marked as having met congestion."),
)
"""Attribute of `PortCounters` -> what it counts."""


class SwitchCollector(Collector):
    """Counters of switches' ports, since each switch last reset them: `rate()` takes a reset for what it is. All
    fabrics are asked at the same time."""

    def __init__(self, fabrics: Mapping[str, FabricDriver]) -> None:
        asked = {name: f for name, f in sorted(fabrics.items()) if isinstance(f, CountsPorts)}
        with ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="counters") as pool:
            found = pool.map(lambda one: one.port_counters(), asked.values())
            self._found = dict(zip(asked, found, strict=True))

    def collect(self) -> Iterator[Metric]:
        """A port that doesn't count something has no series of it."""
        where = ["fabric", "switch"]
        up = GaugeMetricFamily(
            "weft_switch_up", "Whether a switch answered with its ports' counters.", labels=where
        )
        families = [
            CounterMetricFamily(f"weft_switch_port_{name}", what, labels=[*where, "port"])
            for name, what in _FAMILIES
        ]
        for fabric, switches in self._found.items():
            for switch, ports in sorted(switches.items()):
                up.add_metric([fabric, switch], 0 if isinstance(ports, str) else 1)
                for port in () if isinstance(ports, str) else ports:
                    for family, (name, _) in zip(families, _FAMILIES, strict=True):
                        if (value := getattr(port, name)) is not None:
                            family.add_metric([fabric, switch, port.port], value)
        yield up
        yield from families


class _Infos(Collector):
    """Series whose value is 1 and whose labels are joined with others'."""

    def __init__(self, found: Sequence[Info]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """One metric family for each `Info`."""
        for one in self._found:
            family = GaugeMetricFamily(one.name, one.what, labels=one.labels)
            for row in one.rows:
                family.add_metric(row, 1)
            yield family
