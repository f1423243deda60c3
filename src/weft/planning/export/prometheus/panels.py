"""Dashboards as tables: panels with their expressions. `weft.app.dashboards` makes Grafana's documents of them.

`$__rate_interval` is Grafana's; `$pod` and `$fabric` are variables of the dashboards that name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from weft.planning.export.prometheus.rules import SHARED_NODES


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        lines: expression -> legend.
        unit: Grafana's id of it.
        kind: `stat`: the last value, large; `table`: the last values by label.
    """

    title: str
    lines: Mapping[str, str]
    unit: str = "short"
    kind: Literal["timeseries", "stat", "table"] = "timeseries"
    what: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard.

    Attributes:
        variables: name -> expression of `label_values`.
    """

    uid: str
    title: str
    what: str
    panels: tuple[Panel, ...]
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


def _top(expr: str) -> str:
    return f"topk(20, {expr})"


_PODS_NODE = (
    "* on (node) group_left (pod) max by (node, pod) "
    f'(weft_pod_node_info{{pod=~"$pod"}} unless on (node) {SHARED_NODES})'
)
BOARDS: tuple[Board, ...] = (
    Board(
        "weft-service",
        "weft: service",
        "whether weft works: API, database, workers, gate, backups, certificates",
        (
            Panel("API processes", {'sum(up{job="weft"})': ""}, kind="stat"),
            Panel("Database", {"max(weft_up)": ""}, kind="stat", what="1: it answers"),
            Panel("Workers", {"max(weft_workers)": ""}, kind="stat"),
            Panel(
                "Changes stopped",
                {"max(weft_changes_stopped)": ""},
                kind="stat",
                what="1: nothing is changed outside",
            ),
            Panel("Newest backup", {"min(weft_backup_age_seconds)": ""}, "s", "stat", "age"),
            Panel(
                "Certificates end in",
                {
                    "min by (certificate, fabric, agent) (weft_certificate_not_after_seconds) - time()": (
                        "{{certificate}} {{fabric}} {{agent}}"
                    )
                },
                "s",
            ),
            Panel(
                "Requests",
                {"sum by (status) (rate(weft_api_requests_total[$__rate_interval]))": "HTTP {{status}}"},
                "reqps",
            ),
            Panel("Response time, 95th percentile", {"weft:api_seconds:p95_5m": "all routes"}, "s"),
            Panel("Share of HTTP 5xx", {"weft:api_errors:ratio5m": "5xx"}, "percentunit"),
            Panel("Requests in flight", {"sum by (instance) (weft_api_requests_in_flight)": "{{instance}}"}),
            Panel("Last sweep", {"min(weft_sweep_age_seconds)": "age"}, "s"),
        ),
    ),
    Board(
        "weft-pods",
        "weft: pods and nodes",
        "pods by state, what is stuck, nodes by state, checks, remains",
        (
            Panel("Pods by state", {"max by (state) (weft_pods)": "{{state}}"}),
            Panel("Overdue", {"max by (state) (weft_pods_overdue)": "{{state}}"}),
            Panel("Oldest in its state", {"max by (state) (weft_pod_oldest_seconds)": "{{state}}"}, "s"),
            Panel("Nodes", {"max by (state) (weft_nodes)": "{{state}}"}),
            Panel("Nodes by their own checks", {"max by (state) (weft_node_checks)": "{{state}}"}),
            Panel("Excluded by checks", {"max(weft_nodes_excluded_by_checks)": ""}, kind="stat"),
            Panel("Unreadable rows", {"max(weft_pods_unreadable)": ""}, kind="stat"),
            Panel("Webhooks", {"max by (state) (weft_webhooks)": "{{state}}"}),
            Panel("Remains found after receipts", {"max by (state) (weft_traces)": "{{state}}"}),
            Panel("Ports of tenants' networks", {"max by (state) (weft_network_ports)": "{{state}}"}),
            Panel(
                "Nodes of pods",
                {
                    "count by (project, pod) (max by (project, pod, node) (weft_pod_node_info))": "{{project}} {{pod}}"
                },
                kind="table",
            ),
        ),
    ),
    Board(
        "weft-fabric",
        "weft: InfiniBand fabrics",
        "managers, busiest and congested ports, errors",
        (
            Panel(
                "Manager", {'max by (fabric) (weft_fabric_up{fabric=~"$fabric"})': "{{fabric}}"}, kind="stat"
            ),
            Panel(
                "Problems",
                {'max by (fabric) (weft_fabric_problems{fabric=~"$fabric"})': "{{fabric}}"},
                kind="stat",
            ),
            Panel(
                "Ports with errors",
                {'max by (fabric) (weft_fabric_ports_with_errors{fabric=~"$fabric"})': "{{fabric}}"},
                kind="stat",
            ),
            Panel(
                "Busiest ports, sent",
                {_top('weft:port_transmit_bytes:rate5m{fabric=~"$fabric"}'): "{{guid}}:{{port}}"},
                "Bps",
            ),
            Panel(
                "Busiest ports, received",
                {_top('weft:port_receive_bytes:rate5m{fabric=~"$fabric"}'): "{{guid}}:{{port}}"},
                "Bps",
            ),
            Panel(
                "Waiting",
                {_top('weft:port_wait:ratio5m{fabric=~"$fabric"}'): "{{guid}}:{{port}}"},
                "percentunit",
                what="share of the time in which a port had data to send and waited; above 0.3 it is congested",
            ),
            Panel(
                "Errors within an hour",
                {_top('weft:port_errors:increase1h{fabric=~"$fabric"}'): "{{guid}}:{{port}}"},
                kind="table",
            ),
            Panel(
                "Names of switches",
                {'max by (guid, switch) (infiniband_switch_info{fabric=~"$fabric"})': "{{guid}} {{switch}}"},
                kind="table",
            ),
            Panel(
                "Age of counters",
                {'min by (fabric) (infiniband_counters_age_seconds{fabric=~"$fabric"})': "{{fabric}}"},
                "s",
            ),
        ),
        {"fabric": "label_values(weft_fabric_up, fabric)"},
    ),
    Board(
        "weft-pod",
        "weft: a pod's traffic",
        "what the adapters and hosts of a pod's whole nodes do; for operators",
        (
            Panel(
                "Sent, by pod", {'weft:pod_transmit_bytes:rate5m{pod=~"$pod"}': "{{project}} {{pod}}"}, "Bps"
            ),
            Panel(
                "Sent, by adapter",
                {
                    "max without (instance, agent) "
                    "(rate(infiniband_hca_port_transmit_data_bytes_total[$__rate_interval])) "
                    "* on (guid) group_left (node, adapter) max by (guid, node, adapter) (weft_adapter_info) "
                    + _PODS_NODE: "{{node}} {{adapter}}"
                },
                "Bps",
            ),
            Panel(
                "Load of hosts",
                {"max by (node) (node_load1) " + _PODS_NODE: "{{pod}} {{node}}"},
            ),
            Panel(
                "GPUs in use",
                {'avg by (pod, node) (DCGM_FI_DEV_GPU_UTIL{pod=~"$pod"}) / 100': "{{pod}} {{node}}"},
                "percentunit",
                what="of DCGM in the pod's servers, if the site reads it",
            ),
        ),
        {"pod": "label_values(weft_pod_node_info, pod)"},
    ),
    Board(
        "weft-switches",
        "weft: Ethernet switches",
        "ports, drops, pauses and ECN marks, where switches count them",
        (
            Panel("Switches that answer", {"weft_switch_up": "{{switch}}"}),
            Panel(
                "Busiest ports, sent",
                {_top("weft:switch_port_transmit_bytes:rate5m"): "{{switch}} {{port}}"},
                "Bps",
            ),
            Panel(
                "Busiest ports, received",
                {_top("weft:switch_port_receive_bytes:rate5m"): "{{switch}} {{port}}"},
                "Bps",
            ),
            Panel(
                "Drops",
                {
                    _top(
                        "rate(weft_switch_port_transmit_drops_total[$__rate_interval])"
                    ): "{{switch}} {{port}}"
                },
                "pps",
            ),
            Panel(
                "Pauses received (PFC)",
                {_top("rate(weft_switch_port_pfc_receive_total[$__rate_interval])"): "{{switch}} {{port}}"},
                "pps",
            ),
            Panel(
                "Frames marked (ECN)",
                {_top("rate(weft_switch_port_ecn_marked_total[$__rate_interval])"): "{{switch}} {{port}}"},
                "pps",
            ),
        ),
    ),
    Board(
        "weft-ipus",
        "weft: IPU-Machines",
        "V-IPU controllers and sensors of IPU-Machines",
        (
            Panel(
                "Agents", {"sum by (project, pod, pod_id, reachable) (vipu_agents)": "{{pod}} {{reachable}}"}
            ),
            Panel("IPUs", {"sum by (project, pod, pod_id, use) (vipu_ipus)": "{{pod}} {{use}}"}),
            Panel("Unhealthy IPUs", {"max by (project, pod, pod_id) (vipu_ipus_unhealthy)": "{{pod}}"}),
            Panel("Links", {"min by (machine, port) (ipum_link_up)": "{{machine}} {{port}}"}, kind="table"),
        ),
    ),
)
