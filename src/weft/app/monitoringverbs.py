"""What Prometheus reads of weft besides `/metrics`: targets, and who is where. For operators, and for the holder of the
token that `weft serve --monitoring-token` names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from weft.app.desk import Desk
from weft.app.verbs import Request
from weft.engine.database import Row
from weft.model.errors import InputError
from weft.model.ids import format_guid
from weft.model.site import Node, Site
from weft.planning.fabric.topology import NO_FABRIC, Topology
from weft.planning.shapes.ipu.graph import CONTROLLER_GATEWAY
from weft.planning.site.monitoring import (
    BMCS,
    MOST_TARGETS,
    VIPU,
    PodServer,
    Targets,
    bmc_targets,
    host_targets,
    pod_targets,
    vipu_targets,
)


@dataclass(frozen=True, slots=True)
class Scraper:
    """One who may read what is for monitoring, which isn't redacted: an operator, or the holder of the token."""


class MonitoringVerbs(Desk):
    """See `weft.app.verbs`; these verbs take a `Scraper`."""

    def scraper(self, request: Request) -> Scraper:
        """For an operator. Raises `ForbiddenError`."""
        self._policy.check("monitoring:read", request.caller)
        return Scraper()

    def monitoring_targets(self, scraper: Scraper, job: str) -> Targets:
        """Targets of a job, as the site and the pods are now. Raises `InputError` if the site has no such job."""
        site = self._store.site().site
        hosts, pods = site.monitoring.hosts, site.monitoring.pods
        if job == BMCS:
            return bmc_targets(site)
        if job == VIPU:
            rows = self._store.monitored_controllers(CONTROLLER_GATEWAY, MOST_TARGETS)
            return vipu_targets(site, [_controller(row) for row in rows])
        if job in hosts:
            return host_targets(site, hosts[job])
        if job not in pods:
            raise InputError(
                "job", job, f"a job of the site: {', '.join(sorted([*hosts, *pods, BMCS, VIPU]))}"
            )
        servers = [_server(site, row) for row in self._store.monitored_servers(MOST_TARGETS)]
        return pod_targets(site, pods[job], servers)

    def monitoring_info(self, scraper: Scraper) -> bytes:
        """Which pod is on which node, and which adapter is cabled where, in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_Info(self._store.site().site, self._store.monitored_nodes(MOST_TARGETS)))
        return generate_latest(registry)


def _server(site: Site, row: Row) -> PodServer:
    cloud = site.clouds.get(row["cloud"])
    flavor = cloud.flavors.get(row["flavor"]) if cloud else None
    node = site.node_by_name.get(row["node"])
    has = bool(flavor.accelerators) if flavor else bool(node and node.accelerators)
    address = row["floating"] or row["address"] or None
    return PodServer(str(row["id"]), row["pod"], row["project_id"], row["server"], row["node"], address, has)


def _controller(row: Row) -> PodServer:
    return PodServer(str(row["id"]), row["pod"], row["project_id"], "", "", row["address"] or None)


class _Info(Collector):
    """Series whose value is 1 and whose labels are joined with others'. Bounded by the site."""

    def __init__(self, site: Site, held: list[Row]) -> None:
        self._site, self._held = site, held

    def collect(self) -> Iterator[Metric]:
        """Nodes, pods' nodes, adapters."""
        stands = Topology.of(self._site, NO_FABRIC).stands
        names = ["node", "rack", "leaf", "role", "machine_type"]
        nodes = GaugeMetricFamily("weft_node_info", "Where a host is.", labels=names)
        for node in self._site.nodes:
            leaf = stands[node.name].leaf if node.name in stands else ""
            leaf = leaf if leaf in self._site.switch_by_name else ""
            nodes.add_metric([node.name, node.rack or "", leaf, node.role, node.machine_type], 1)
        yield nodes
        names = ["node", "pod", "pod_id", "project", "spare"]
        held = GaugeMetricFamily(
            "weft_pod_node_info", "Nodes that pods hold; a shared one once for each pod.", labels=names
        )
        for row in self._held:
            spare = "true" if row["spare"] else "false"
            held.add_metric([row["node"], row["pod"], str(row["id"]), row["project_id"], spare], 1)
        yield held
        names = ["fabric", "node", "adapter", "guid", "port", "switch", "switch_port"]
        adapters = GaugeMetricFamily(
            "weft_adapter_info",
            "Adapters and the switch ports that they are cabled to, by the site; guid as fabric agents write it.",
            labels=names,
        )
        ends = _ends(self._site)
        for node in self._site.nodes:
            for labels in _adapters(node, ends):
                adapters.add_metric(labels, 1)
        yield adapters


def _adapters(node: Node, ends: dict[str, tuple[int, str, int]]) -> Iterator[list[str]]:
    for hca in node.hcas:
        port, switch, switch_port = ends.get(f"{node.name}/{hca.name}", (1, "", 0))
        where = (switch, str(switch_port) if switch else "")
        if hca.switch_port is not None:
            switch, _, name = hca.switch_port.partition("/")
            where = (switch, name)
        yield [hca.fabric, node.name, hca.name, format_guid(hca.guid), str(port), *where]


def _ends(site: Site) -> dict[str, tuple[int, str, int]]:
    """`node/hca` -> its port, and switch and port at the other end of its cable."""
    found: dict[str, tuple[int, str, int]] = {}
    for link in site.links:
        for a, a_port, b, b_port in (
            (link.a, link.a_port, link.b, link.b_port),
            (link.b, link.b_port, link.a, link.a_port),
        ):
            if "/" in a and "/" not in b:
                found[a] = (a_port, b, b_port)
    return found
