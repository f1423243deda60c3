"""Recording rules and alerts, as tables. Expressions are read by Prometheus 2.42 and by 3.

Severities: `page` wakes someone: tenants lose what they have, isolation is at risk, or nothing works on. `ticket` waits
for working hours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Audience = Literal["operators", "projects"]

CONGESTED = 0.3
"""Share of the time in which a port waited, as in `weft link show`."""


SHARED_NODES = "(count by (node) (max by (node, pod_id) (weft_pod_node_info)) > 1)"
"""Nodes that several pods hold. Every API process offers the same series: a pod counts once."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule. Attributes: what: for people; slow: reads hours of all ports, so once a minute is enough."""

    record: str
    expr: str
    what: str
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert.

    Attributes:
        lasts: how long its expression must hold.
        summary: one sentence; `{{ $labels.x }}` and `{{ $value }}` are Prometheus'.
        to: who reads it besides operators: `projects` if the site sends projects alerts of their own servers.
        group: name of the group of rules.
    """

    name: str
    expr: str
    lasts: str
    severity: Literal["page", "ticket"]
    summary: str
    group: str
    to: Audience = "operators"
    labels: dict[str, str] = field(default_factory=dict[str, str])


def _port_rate(counter: str) -> str:
    """Rate of a counter of ports, of both kinds of nodes. Every fabric agent answers with the same counters:
    instances are one."""
    return " or ".join(
        f"max without (instance, agent) (rate(infiniband_{kind}_port_{counter}_total[5m]))"
        for kind in ("switch", "hca")
    )


_ERRORS = (
    "symbol_error", "link_error_recovery", "receive_errors", "receive_remote_physical_errors",
    "local_link_integrity_errors", "excessive_buffer_overrun_errors",
)  # fmt: skip


def _grown(counters: tuple[str, ...], window: str) -> str:
    """How much counters of a port grew, together. One by one: functions drop the names, and equal labels clash."""
    parts = (
        f"label_replace(max by (guid, port, fabric) (increase(infiniband_{kind}_port_{one}_total[{window}])), "
        f'"counter", "{one}", "", "")'
        for kind in ("switch", "hca")
        for one in counters
    )
    return f"sum by (guid, port, fabric) ({' or '.join(parts)})"


RECORDINGS: tuple[Recording, ...] = (
    Recording(
        "weft:port_transmit_bytes:rate5m",
        _port_rate("transmit_data_bytes"),
        "bytes a second that a port of an InfiniBand fabric sends",
    ),
    Recording(
        "weft:port_receive_bytes:rate5m",
        _port_rate("receive_data_bytes"),
        "bytes a second that it receives",
    ),
    Recording(
        "weft:port_wait:ratio5m",
        " or ".join(
            f"(max without (instance, agent) (rate(infiniband_{kind}_port_transmit_wait_total[5m])) / "
            f"((max without (instance, agent) (rate(infiniband_{kind}_port_transmit_wait_total[5m])) + "
            f"max without (instance, agent) (rate(infiniband_{kind}_port_transmit_data_bytes_total[5m])) / 4) > 0))"
            for kind in ("switch", "hca")
        ),
        "share of the time in which it had data to send and waited, both in ticks",
    ),
    Recording("weft:port_errors:increase1h", _grown(_ERRORS, "1h"), "errors of a port within an hour", True),
    Recording(
        "weft:pod_transmit_bytes:rate5m",
        "sum by (project, pod, pod_id) ("
        "max without (instance, agent) (rate(infiniband_hca_port_transmit_data_bytes_total[5m])) "
        "* on (guid) group_left (node) max by (guid, node) (weft_adapter_info) "
        "* on (node) group_left (project, pod, pod_id) max by (node, project, pod, pod_id) "
        f"(weft_pod_node_info unless on (node) {SHARED_NODES}))",
        "bytes a second that the adapters of a pod's whole nodes send; pods on shared nodes have none",
    ),
    Recording(
        "weft:switch_port_receive_bytes:rate5m",
        "rate(weft_switch_port_receive_bytes_total[5m])",
        "bytes a second that a port of an Ethernet switch receives",
    ),
    Recording(
        "weft:switch_port_transmit_bytes:rate5m",
        "rate(weft_switch_port_transmit_bytes_total[5m])",
        "bytes a second that it sends",
    ),
    Recording(
        "weft:api_errors:ratio5m",
        '(sum(rate(weft_api_requests_total{status=~"5.."}[5m])) or vector(0)) / '
        "(sum(rate(weft_api_requests_total[5m])) > 0)",
        "share of the API's requests that are answered with HTTP 5xx",
    ),
    Recording(
        "weft:api_seconds:p95_5m",
        "histogram_quantile(0.95, sum by (le) (rate(weft_api_request_seconds_bucket[5m])))",
        "95th percentile of the API's response times, waits included",
    ),
)
_DAY = 86_400
_BOOTED_SECONDS = 4200
"""Links of a host that booted less long ago went down with it: the hour that WeftLinkFlaps counts, and the boot."""


def _gpus(field: str) -> str:
    """A field of each GPU. A pod's server may answer anything: a hundred GPUs at most, without further labels."""
    series = f'DCGM_FI_DEV_{field}{{gpu=~"[0-9]{{1,2}}"}}'
    return f"max by (job, node, project, pod, pod_id, server, gpu) ({series})"


def _booted(hosts: str) -> str:
    """Ports at both ends of the cables of hosts that booted a while ago."""
    adapters = (
        "(weft_adapter_info and on (node) "
        f'(time() - max by (node) (node_boot_time_seconds{{job=~"{hosts}"}}) < {_BOOTED_SECONDS}))'
    )
    leaves = (
        f'label_replace(label_replace({adapters}, "guid", "$1", "switch_guid", "(.+)"), '
        '"port", "$1", "switch_port", "(.+)")'
    )
    return f"({adapters} or {leaves})"


_LEFT = "min by (certificate, fabric, agent) (weft_certificate_not_after_seconds) - time()"


def alerts(backup_seconds: int, hosts: str, pods: str) -> tuple[Alert, ...]:
    """All alerts.

    Args:
        backup_seconds: age of the newest backup that is too old.
        hosts, pods: regular expressions of the jobs of exporters; they match nothing if there are none.
    """
    return (
        Alert("WeftDown", 'absent(up{job="weft"} == 1)', "3m", "page", "No API process of weft answers.", "weft"),
        Alert(
            "WeftProcessDown", 'up{job="weft"} == 0', "10m", "ticket",
            "weft's API process {{ $labels.instance }} doesn't answer.", "weft",
        ),
        Alert("WeftDatabaseDown", "max(weft_up) == 0", "2m", "page", "weft's database doesn't answer.", "weft"),
        Alert(
            "WeftChangesStopped", "max(weft_changes_stopped) == 1", "5m", "page",
            "weft changes nothing outside: its database was restored and isn't accepted, or a cloud's note of it can't "
            "be read.", "weft",
        ),
        Alert(
            "WeftNoWorkers", "max(weft_workers) == 0", "2m", "page",
            "No worker is alive: nothing is built, released or checked.", "weft",
        ),
        Alert(
            "WeftAccountLacksRole", "max(weft_account_lacks_role) == 1", "5m", "page",
            "Keystone refuses to check callers' tokens for weft's user.", "weft",
        ),
        Alert(
            "WeftApiErrors", "weft:api_errors:ratio5m > 0.05", "10m", "ticket",
            "{{ $value | humanizePercentage }} of the API's requests fail with HTTP 5xx.", "weft",
        ),
        Alert(
            "WeftTargetsUnread",
            "sum(increase(prometheus_sd_http_failures_total[15m])) > 2 or "
            'count(up{job=~"weft-info|weft-switches"} == 0) > 0', "5m", "ticket",
            "Prometheus can't read targets, pods' nodes or switches' counters from a process of weft.", "weft",
        ),
        Alert(
            "WeftCertificateEnds",
            f"{_LEFT} < {14 * _DAY}", "1h", "ticket",
            "The certificate {{ $labels.certificate }} {{ $labels.fabric }} {{ $labels.agent }} ends in "
            "{{ $value | humanizeDuration }}.", "weft",
        ),
        Alert(
            "WeftCertificateEndsSoon",
            f"{_LEFT} < {7 * _DAY}", "5m", "page",
            "The certificate {{ $labels.certificate }} {{ $labels.fabric }} {{ $labels.agent }} ends in "
            "{{ $value | humanizeDuration }}.", "weft",
        ),
        Alert(
            "WeftCertificateUnrenewed", "max by (code) (weft_certificates_unrenewed) > 0", "1h", "ticket",
            "{{ $value }} certificates of agents have less than 30 days and aren't renewed: {{ $labels.code }}.",
            "weft",
        ),
        Alert(
            "WeftCertificateUnread", "max(weft_certificates_unread) > 0", "15m", "ticket",
            "{{ $value }} certificates of weft can't be read: when they end isn't known.", "weft",
        ),
        Alert(
            "WeftBackupOld", f"min(weft_backup_age_seconds) > {backup_seconds}", "15m", "ticket",
            "The newest backup of weft's database is {{ $value | humanizeDuration }} old.", "weft",
        ),
        Alert(
            "WeftBackupMissing", "max(weft_up) == 1 unless on () weft_backup_age_seconds", "26h", "ticket",
            "There is no backup of weft's database.", "weft",
        ),
        Alert(
            "WeftSweepLate", "min(weft_sweep_age_seconds) > 3600", "5m", "ticket",
            "The sweep for remains of released pods last finished {{ $value | humanizeDuration }} ago.", "weft",
        ),
        Alert(
            "WeftSweepMissing",
            "max(weft_up) == 1 and on () weft_node_checks unless on () weft_sweep_age_seconds", "1h", "ticket",
            "The sweep for remains of released pods has never finished.", "weft",
        ),
        Alert(
            "WeftPodsOverdue", 'max by (state) (weft_pods_overdue{state!="RELEASING"}) > 0', "5m", "ticket",
            "{{ $value }} pods in state {{ $labels.state }} have an alarm, or are in it for too long.", "pods",
        ),
        Alert(
            "WeftReleasesOverdue", 'max(weft_pods_overdue{state="RELEASING"}) > 0', "5m", "page",
            "{{ $value }} releases don't end: their nodes and numbers are kept.", "pods",
        ),
        Alert(
            "WeftPodsUnreadable", "max(weft_pods_unreadable) > 0", "5m", "ticket",
            "weft can't read the rows of {{ $value }} pods or orders.", "pods",
        ),
        Alert(
            "WeftRemainsFound", 'max(weft_traces{state="open"}) > 0', "15m", "page",
            "{{ $value }} remains of released pods were found after their receipts, and are still there.", "pods",
        ),
        Alert(
            "WeftNetworkPortsWait", "max(weft_network_port_waiting_seconds) > 900", "5m", "ticket",
            "A port of a tenant's network has waited {{ $value | humanizeDuration }} for its partition.", "pods",
        ),
        Alert(
            "WeftNetworkUnread", "max(weft_network_read_age_seconds) > 1800", "5m", "ticket",
            "A tenant's network was last read {{ $value | humanizeDuration }} ago.", "pods",
        ),
        Alert(
            "WeftNodesQuarantined", 'max(weft_nodes{state="quarantined"}) > 0', "30m", "ticket",
            "{{ $value }} nodes are in quarantine until an operator clears them.", "nodes",
        ),
        Alert(
            "WeftNodeChecksFail", 'max(weft_node_checks{state="failed"}) > 0', "15m", "ticket",
            "Own checks of {{ $value }} nodes failed.", "nodes",
        ),
        Alert(
            "WeftNodeChecksOld", 'max(weft_node_checks{state="old"}) > 0', "2h", "ticket",
            "{{ $value }} nodes that reported their checks no longer do.", "nodes",
        ),
        Alert(
            "WeftChecksSuspended", "max by (check) (weft_checks_suspended) > 0", "5m", "ticket",
            "Check {{ $labels.check }} began to fail on too many nodes: {{ $value }} get orders all the same.", "nodes",
        ),
        Alert(
            "WeftHostSilent", f'up{{job=~"{hosts}"}} == 0', "10m", "ticket",
            "The exporter {{ $labels.job }} of node {{ $labels.node }} doesn't answer.", "nodes",
        ),
        Alert(
            "WeftBmcSilent", 'up{job="weft-bmcs"} == 0', "30m", "ticket",
            "The BMC of node {{ $labels.node }} can't be read.", "nodes",
        ),
        Alert(
            "WeftFabricDown", "max by (fabric) (weft_fabric_up) == 0", "3m", "page",
            "No manager of fabric {{ $labels.fabric }} is active and answers.", "fabrics",
        ),
        Alert(
            "WeftFabricUnread", "min by (fabric) (weft_fabric_read_age_seconds) > 600", "5m", "ticket",
            "The managers of fabric {{ $labels.fabric }} were last asked {{ $value | humanizeDuration }} ago.",
            "fabrics",
        ),
        Alert(
            "WeftFabricProblems", "max by (fabric) (weft_fabric_problems) > 0", "15m", "ticket",
            "Fabric {{ $labels.fabric }} has {{ $value }} problems (weft fabric status).", "fabrics",
        ),
        Alert(
            "WeftPortErrors", "max by (fabric) (weft_fabric_ports_with_errors) > 0", "15m", "ticket",
            "{{ $value }} ports of fabric {{ $labels.fabric }} have too many errors.", "fabrics",
        ),
        Alert(
            "WeftFabricAgentSilent", 'up{job="weft-fabric-agents"} == 0', "5m", "ticket",
            "Fabric agent {{ $labels.agent }} of {{ $labels.fabric }} doesn't answer, or can't read its ports' "
            "counters.",
            "fabrics",
        ),
        Alert(
            "WeftCountersOld", "min by (fabric) (infiniband_counters_age_seconds) > 300", "5m", "ticket",
            "Counters of fabric {{ $labels.fabric }} are {{ $value | humanizeDuration }} old.", "fabrics",
        ),
        Alert(
            "WeftPortsUnread", "min by (fabric) (infiniband_ports_unread) > 0", "15m", "ticket",
            "{{ $value }} cabled ports of fabric {{ $labels.fabric }} don't answer with their counters.", "fabrics",
        ),
        Alert(
            "WeftLinkCongested", f"weft:port_wait:ratio5m > {CONGESTED}", "5m", "ticket",
            "Port {{ $labels.port }} of {{ $labels.guid }} waited {{ $value | humanizePercentage }} of the time in "
            "which it had data to send.", "fabrics",
        ),
        Alert(
            "WeftLinkErrors", "weft:port_errors:increase1h > 100", "5m", "ticket",
            "Port {{ $labels.port }} of {{ $labels.guid }} had {{ $value }} errors within an hour.", "fabrics",
        ),
        Alert(
            "WeftLinkFlaps",
            f"({_grown(('link_downed',), '1h')} > 1) unless on (guid, port) {_booted(hosts)}", "1m", "ticket",
            "Port {{ $labels.port }} of {{ $labels.guid }} went down {{ $value }} times within an hour.", "fabrics",
        ),
        Alert(
            "WeftSwitchSilent", "weft_switch_up == 0", "5m", "ticket",
            "Switch {{ $labels.switch }} of fabric {{ $labels.fabric }} doesn't answer with its counters.", "fabrics",
        ),
        Alert(
            "WeftSwitchPortErrors",
            "increase(weft_switch_port_receive_errors_total[1h]) > 100", "5m", "ticket",
            "Port {{ $labels.port }} of switch {{ $labels.switch }} had {{ $value }} errors within an hour.", "fabrics",
        ),
        Alert(
            "WeftPfcStorm",
            "rate(weft_switch_port_pfc_receive_total[5m]) > 1000", "5m", "ticket",
            "Port {{ $labels.port }} of switch {{ $labels.switch }} is paused {{ $value }} times a second.", "fabrics",
        ),
        Alert(
            "WeftPodServerSilent", f'up{{job=~"{pods}"}} == 0', "10m", "ticket",
            "The exporter {{ $labels.job }} of server {{ $labels.server }} (pod {{ $labels.pod }}) doesn't answer.",
            "servers", "projects",
        ),
        Alert(
            "WeftGpuXid",
            f"{_gpus('XID_ERRORS')} > 0 and changes({_gpus('XID_ERRORS')}[15m:1m]) > 0", "1m", "ticket",
            "GPU {{ $labels.gpu }} of node {{ $labels.node }} reported Xid {{ $value }}.", "servers", "projects",
        ),
        Alert(
            "WeftGpuRowRemapFailed", f"{_gpus('ROW_REMAP_FAILURE')} > 0", "5m", "ticket",
            "GPU {{ $labels.gpu }} of node {{ $labels.node }} can't remap a faulty row of its memory: replace it.",
            "servers", "projects",
        ),
        Alert(
            "WeftIpuAgentSilent",
            'max by (project, pod, pod_id) (vipu_agents{reachable="false"}) > 0', "5m", "ticket",
            "{{ $value }} agents of the V-IPU controller of pod {{ $labels.pod }} don't answer.", "servers",
        ),
        Alert(
            "WeftIpuExporterSilent", 'up{job="weft-vipu"} == 0', "10m", "ticket",
            "The V-IPU exporter of {{ $labels.node }}{{ $labels.pod }} at {{ $labels.instance }} doesn't answer.",
            "servers",
        ),
        Alert(
            "WeftIpuUnhealthy", "max by (project, pod, pod_id) (vipu_ipus_unhealthy) > 0", "5m", "ticket",
            "{{ $value }} IPUs of pod {{ $labels.pod }} are unhealthy.", "servers",
        ),
    )  # fmt: skip
