"""Cases for `promtool test rules`: series for which each alert fires, and series for which it doesn't."""

from __future__ import annotations

from dataclasses import dataclass, field

H = {"guid": "0x1", "port": "1", "fabric": "ib"}
PORT = 'guid="0x1",port="1",fabric="ib",instance="a",agent="sm1"'
CABLE = 'node="gpu01",fabric="ib",guid="0x2",port="1",switch="leaf01",switch_port="1",switch_guid="0x1"'


@dataclass(frozen=True, slots=True)
class Case:
    """One alert's series.

    Attributes:
        fires: series -> values, in promtool's notation, for which it fires.
        quiet: the same, for which it doesn't.
        labels: further labels of the alert that fires.
        at: time at which the alert is looked at.
    """

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict[str, str])
    at: str = "40m"


def _gauge(series: str, bad: float, good: float, at: str = "40m", **labels: str) -> Case:
    return Case({series: f"{bad}x400"}, {series: f"{good}x400"}, labels, at)


CASES: dict[str, Case] = {
    "WeftDown": Case({'up{job="weft",instance="a"}': "0x400"}, {'up{job="weft",instance="a"}': "1x400"}),
    "WeftProcessDown": Case(
        {'up{job="weft",instance="a"}': "0x400", 'up{job="weft",instance="b"}': "1x400"},
        {'up{job="weft",instance="a"}': "1x400"},
        {"job": "weft", "instance": "a"},
    ),
    "WeftDatabaseDown": _gauge('weft_up{instance="a"}', 0, 1),
    "WeftChangesStopped": _gauge('weft_changes_stopped{instance="a"}', 1, 0),
    "WeftNoWorkers": _gauge('weft_workers{instance="a"}', 0, 1),
    "WeftAccountLacksRole": _gauge('weft_account_lacks_role{instance="a"}', 1, 0),
    "WeftApiErrors": Case(
        {
            'weft_api_requests_total{status="503"}': "0+10x400",
            'weft_api_requests_total{status="200"}': "0+90x400",
        },
        {
            'weft_api_requests_total{status="503"}': "0+1x400",
            'weft_api_requests_total{status="200"}': "0+99x400",
        },
    ),
    "WeftTargetsUnread": Case(
        {"prometheus_sd_http_failures_total": "0+1x400"}, {"prometheus_sd_http_failures_total": "5x400"}
    ),
    "WeftCertificateEnds": _gauge(
        'weft_certificate_not_after_seconds{certificate="api"}',
        10 * 86_400,
        30 * 86_400,
        "2h",
        certificate="api",
    ),
    "WeftCertificateEndsSoon": _gauge(
        'weft_certificate_not_after_seconds{certificate="api"}', 86_400, 10 * 86_400, certificate="api"
    ),
    "WeftCertificateUnrenewed": _gauge(
        'weft_certificates_unrenewed{code="AUTHORITY_OFFLINE"}', 2, 0, "2h", code="AUTHORITY_OFFLINE"
    ),
    "WeftCertificateUnread": _gauge('weft_certificates_unread{instance="a"}', 1, 0),
    "WeftBackupOld": _gauge("weft_backup_age_seconds", 27 * 3600, 25 * 3600),
    "WeftBackupMissing": Case(
        {"weft_up": "1x2000"}, {"weft_up": "1x2000", "weft_backup_age_seconds": "60x2000"}, at="27h"
    ),
    "WeftSweepLate": _gauge("weft_sweep_age_seconds", 4000, 300),
    "WeftSweepMissing": Case(
        {"weft_up": "1x400", 'weft_node_checks{state="ok"}': "7x400"},
        {"weft_up": "1x400", 'weft_node_checks{state="ok"}': "7x400", "weft_sweep_age_seconds": "60x400"},
        at="2h",
    ),
    "WeftPodsOverdue": Case(
        {'weft_pods_overdue{state="WIRING"}': "2x400"},
        {'weft_pods_overdue{state="WIRING"}': "0x400", 'weft_pods_overdue{state="RELEASING"}': "3x400"},
        {"state": "WIRING"},
    ),
    "WeftReleasesOverdue": Case(
        {'weft_pods_overdue{state="RELEASING"}': "2x400"}, {'weft_pods_overdue{state="WIRING"}': "2x400"}
    ),
    "WeftPodsUnreadable": _gauge("weft_pods_unreadable", 1, 0),
    "WeftRemainsFound": Case(
        {'weft_traces{state="open"}': "1x400"},
        {'weft_traces{state="open"}': "0x400", 'weft_traces{state="gone"}': "9x400"},
    ),
    "WeftNetworkPortsWait": _gauge("weft_network_port_waiting_seconds", 1000, 60),
    "WeftNetworkUnread": _gauge("weft_network_read_age_seconds", 2000, 60),
    "WeftNodesQuarantined": Case(
        {'weft_nodes{state="quarantined"}': "1x400"},
        {'weft_nodes{state="quarantined"}': "0x400", 'weft_nodes{state="busy"}': "5x400"},
    ),
    "WeftNodeChecksFail": Case(
        {'weft_node_checks{state="failed"}': "1x400"}, {'weft_node_checks{state="ok"}': "7x400"}
    ),
    "WeftNodeChecksOld": Case(
        {'weft_node_checks{state="old"}': "1x400"}, {'weft_node_checks{state="never"}': "7x400"}, at="3h"
    ),
    "WeftChecksSuspended": _gauge('weft_checks_suspended{check="ACS"}', 20, 0, check="ACS"),
    "WeftHostSilent": Case(
        {'up{job="node",node="gpu1",instance="a"}': "0x400"},
        {'up{job="node",node="gpu1",instance="a"}': "1x400", 'up{job="other",instance="b"}': "0x400"},
        {"job": "node", "node": "gpu1", "instance": "a"},
    ),
    "WeftBmcSilent": Case(
        {'up{job="weft-bmcs",node="gpu1"}': "0x400"},
        {'up{job="weft-bmcs",node="gpu1"}': "1x400"},
        {"job": "weft-bmcs", "node": "gpu1"},
    ),
    "WeftFabricDown": _gauge('weft_fabric_up{fabric="ib"}', 0, 1, fabric="ib"),
    "WeftFabricUnread": _gauge('weft_fabric_read_age_seconds{fabric="ib"}', 700, 60, fabric="ib"),
    "WeftFabricProblems": _gauge('weft_fabric_problems{fabric="ib"}', 1, 0, fabric="ib"),
    "WeftPortErrors": _gauge('weft_fabric_ports_with_errors{fabric="ib"}', 1, 0, fabric="ib"),
    "WeftFabricAgentSilent": Case(
        {'up{job="weft-fabric-agents",fabric="ib",agent="sm1"}': "0x400"},
        {'up{job="weft-fabric-agents",fabric="ib",agent="sm1"}': "1x400"},
        {"job": "weft-fabric-agents", "fabric": "ib", "agent": "sm1"},
    ),
    "WeftCountersOld": Case(
        {'infiniband_counters_age_seconds{fabric="ib",agent="sm1"}': "400x400"},
        {
            'infiniband_counters_age_seconds{fabric="ib",agent="sm1"}': "400x400",
            'infiniband_counters_age_seconds{fabric="ib",agent="sm2"}': "4x400",
        },
        {"fabric": "ib"},
    ),
    "WeftPortsUnread": _gauge('infiniband_ports_unread{fabric="ib",agent="sm1"}', 2, 0, fabric="ib"),
    # each minute 600 ticks of waiting and 4,000 bytes (1,000 ticks) of sending: 0.375; with 300: 0.23
    "WeftLinkCongested": Case(
        {
            f"infiniband_switch_port_transmit_wait_total{{{PORT}}}": "0+600x400",
            f"infiniband_switch_port_transmit_data_bytes_total{{{PORT}}}": "0+4000x400",
        },
        {
            f"infiniband_switch_port_transmit_wait_total{{{PORT}}}": "0+300x400",
            f"infiniband_switch_port_transmit_data_bytes_total{{{PORT}}}": "0+4000x400",
        },
        H,
    ),
    "WeftLinkErrors": Case(
        {
            f"infiniband_hca_port_symbol_error_total{{{PORT}}}": "0+1x400",
            f"infiniband_hca_port_receive_errors_total{{{PORT}}}": "0+1x400",
        },
        {f"infiniband_hca_port_symbol_error_total{{{PORT}}}": "0+1x400"},
        H,
        "2h",
    ),
    "WeftLinkFlaps": Case(
        {
            f"infiniband_switch_port_link_downed_total{{{PORT}}}": "0x20 1x10 2x10 3x400",
            f"weft_adapter_info{{{CABLE}}}": "1x400",
            'node_boot_time_seconds{job="node",node="gpu01"}': "-90000x400",
        },
        {  # a host boots: both ends of its cable
            f"infiniband_switch_port_link_downed_total{{{PORT}}}": "0x20 1x10 2x10 3x400",
            'infiniband_hca_port_link_downed_total{guid="0x2",port="1",fabric="ib",instance="a",agent="sm1"}': (
                "0x20 1x10 2x10 3x400"
            ),
            f"weft_adapter_info{{{CABLE}}}": "1x400",
            'node_boot_time_seconds{job="node",node="gpu01"}': "-90000x20 1300x400",
        },
        H,
    ),
    "WeftSwitchSilent": _gauge(
        'weft_switch_up{fabric="eth",switch="leaf01"}', 0, 1, fabric="eth", switch="leaf01"
    ),
    "WeftSwitchPortErrors": Case(
        {'weft_switch_port_receive_errors_total{fabric="eth",switch="leaf01",port="swp1"}': "0+2x400"},
        {'weft_switch_port_receive_errors_total{fabric="eth",switch="leaf01",port="swp1"}': "0+1x400"},
        {"fabric": "eth", "switch": "leaf01", "port": "swp1"},
        "2h",
    ),
    "WeftPfcStorm": Case(
        {'weft_switch_port_pfc_receive_total{fabric="eth",switch="leaf01",port="swp1"}': "0+90000x400"},
        {'weft_switch_port_pfc_receive_total{fabric="eth",switch="leaf01",port="swp1"}': "0+30000x400"},
        {"fabric": "eth", "switch": "leaf01", "port": "swp1"},
    ),
    "WeftPodServerSilent": Case(
        {'up{job="pod-node",project="p1",pod="train",server="train-1"}': "0x400"},
        {'up{job="pod-node",project="p1",pod="train",server="train-1"}': "1x400"},
        {"job": "pod-node", "project": "p1", "pod": "train", "server": "train-1"},
    ),
    "WeftGpuXid": Case(
        {'DCGM_FI_DEV_XID_ERRORS{gpu="0",node="gpu1"}': "0x35 79x400"},
        {'DCGM_FI_DEV_XID_ERRORS{gpu="0",node="gpu1"}': "79x400"},
        {"gpu": "0", "node": "gpu1"},
    ),
    "WeftGpuRowRemapFailed": _gauge('DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0"}', 1, 0, gpu="0"),
    "WeftIpuAgentSilent": Case(
        {'vipu_agents{pod="p",reachable="false"}': "1x400"},
        {'vipu_agents{pod="p",reachable="false"}': "0x400", 'vipu_agents{pod="p",reachable="true"}': "4x400"},
        {"pod": "p"},
    ),
    "WeftIpuExporterSilent": Case(
        {'up{job="weft-vipu",pod="p",instance="a"}': "0x400"},
        {'up{job="weft-vipu",pod="p",instance="a"}': "1x400"},
        {"job": "weft-vipu", "pod": "p", "instance": "a"},
    ),
    "WeftIpuUnhealthy": _gauge('vipu_ipus_unhealthy{pod="p"}', 1, 0, pod="p"),
}

FURTHER: tuple[tuple[str, Case], ...] = (
    (
        "WeftTargetsUnread",
        Case(
            {'up{job="weft-switches",instance="a"}': "0x400"},
            {'up{job="weft-switches",instance="a"}': "1x400", 'up{job="weft-info",instance="a"}': "1x400"},
        ),
    ),
    (
        "WeftSweepMissing",  # the process has just started; there is no site yet
        Case(
            {"weft_up": "1x400", 'weft_node_checks{state="ok"}': "7x400"},
            {"weft_up": "1x400"},
            at="2h",
        ),
    ),
    (
        "WeftGpuXid",  # labels made up by a pod's server add no alerts
        Case(
            {
                'DCGM_FI_DEV_XID_ERRORS{gpu="0",node="gpu1",pod="p",x="1"}': "0x35 79x400",
                'DCGM_FI_DEV_XID_ERRORS{gpu="0",node="gpu1",pod="p",x="2"}': "0x35 79x400",
            },
            {'DCGM_FI_DEV_XID_ERRORS{gpu="made up",node="gpu1",pod="p"}': "0x35 79x400"},
            {"gpu": "0", "node": "gpu1", "pod": "p"},
        ),
    ),
    (
        "WeftIpuUnhealthy",  # pods of two projects have the same name
        Case(
            {
                'vipu_ipus_unhealthy{pod="p",project="a"}': "1x400",
                'vipu_ipus_unhealthy{pod="p",project="b"}': "0x400",
            },
            {
                'vipu_ipus_unhealthy{pod="p",project="a"}': "0x400",
                'vipu_ipus_unhealthy{pod="p",project="b"}': "0x400",
            },
            {"pod": "p", "project": "a"},
        ),
    ),
)
"""Further cases of alerts."""
