"""Steps about telemetry and audit logs: what weft reads of the fabric's counters, and its log of who did what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from weftacceptance.cloud import Json, LostError
from weftacceptance.pods import pod_of, release
from weftacceptance.steps import PREFIX, Run, SkipError, Tests, skip, step, weft

_RECENT = 120
"""Seconds that the newest counters may be old."""
_SPAN = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _counters(run: Run) -> tuple[Json, Json]:
    """weft's answer about a link of a pod, and the link's row; raises `LostError` if the counters weren't read."""
    pod = pod_of(run, run.tenant, "link", 2)
    try:
        mine = weft(run.operator, f"/v1/pods/{pod['id']}/links")["links"]
        first = next(one for one in mine if one["receiver_level"] == "leaf")
        found = weft(run.operator, f"/v1/links?target={first['receiver']}:{first['receiver_port']}")
        row = next(one for one in found["links"] if one["receiver"] == first["receiver"])
        if pod["id"] not in [one["id"] for one in row["pods"]]:
            raise LostError("the link isn't one of the pod's")
        return found["reading"], row
    finally:
        release(run.tenant, "link")


def _age(reading: Json) -> int:
    """Seconds since the newest counters. Raises `LostError` if they can't be read."""
    if reading["rates_unread"] or reading["rates_age"] is None or len(reading["rates_seconds"]) < 1:
        raise LostError(f"the counters weren't read: {reading['rates_unread']}")
    return round(reading["rates_age"])


@step("east_west_network_telemetry", "observability")
def east_west_network_telemetry(run: Run) -> Json:
    """The rate and the congestion of a link of the InfiniBand fabric, from its ports' counters."""
    reading, row = _counters(run)
    age, tests = _age(reading), Tests()
    probes = {
        "telemetry_source": "weft: /v1/links, counters of ports by MAD",
        "metric_names": ["sent_gbps", "waiting"],
        "sample_count": len(reading["rates_seconds"]),
        "latest_timestamp": (datetime.now(UTC) - timedelta(seconds=age)).isoformat(),
    }
    tests.add("telemetry_endpoint_reachable", True, "answers", probes=probes)
    measured = row["sent_gbps"] is not None and row["waiting"] is not None
    tests.add("plane_metrics_present", measured, "rate and waiting of the link", probes=probes)
    tests.add("samples_recent", age <= _RECENT, f"{age} s old", probes=probes)
    run.kept["age"] = age
    return {"tests": tests}


@step("telemetry_delivery_latency", "observability")
def telemetry_delivery_latency(run: Run) -> Json:
    """How old the newest counters are when weft's API answers with them."""
    age, tests = _age(_counters(run)[0]), Tests()
    probes = {
        "telemetry_source": "weft: /v1/links",
        "observed_delivery_seconds": age,
        "max_delivery_seconds": _RECENT,
    }
    for name in ("telemetry_endpoint_reachable", "delivery_sample_present"):
        tests.add(name, True, "answers", probes=probes)
    tests.add("delivery_within_threshold", 0 <= age <= _RECENT, f"{age} s", probes=probes)
    return {"tests": tests}


@step("audit_logging_test", "security")
def audit_logging(run: Run) -> Json:
    """An act of the tenant is in weft's log with who, when and from where; the log is kept for the site's time."""
    tests, began = Tests(), datetime.now(UTC)
    name = PREFIX + "logged"
    answer = run.tenant.ask("accelerator-pod", "POST", f"/v1/pods/{name}/release").status
    asked = f"/v1/audit-log?limit=50&user={run.tenant.user_id}"
    rows = weft(run.operator, asked)["entries"]
    mine = [one for one in rows if one["subject"] == name and one["action"] == "pod release"]
    fresh = [
        one
        for one in mine
        if datetime.fromisoformat(one["last_at"].replace("Z", "+00:00")) >= began - timedelta(seconds=5)
    ]
    logged = answer == 404 and bool(fresh)
    tests.add("audit_log_trail_logging_enabled", logged, "the act just made is in it")
    kept = str(weft(run.operator, "/v1/site")["document"]["retention"]["audit_log"])
    seconds = int(kept[:-1]) * _SPAN[kept[-1]]
    tests.add("audit_log_retention_at_least_30_days", seconds >= 30 * 86_400, f"kept for {kept}")
    reason = "weft's log has no region and no source of events: a site is one"
    return {
        "success": tests.all_passed,
        "tests": tests,
        "audit_log_entry_skipped": True,
        "audit_log_entry_skip_reason": reason,
    }


@step("sdn_latency_perf_logging", "network")
def sdn_latency_perf_logging(run: Run) -> Json:
    raise SkipError("weft's links have rates and waiting; packets are only in the fabric agents' metrics")


skip("Neutron writes no audit trail of security groups in the lab", "sdn_filter_audit_trail")
skip("simulated switches report no hardware faults", "sdn_hardware_fault_logging")
skip("the lab's subnet manager's log is a file on its host, which no service offers", "subnet_manager_logs")
skip("no switch of the lab has a management network", "management_network_telemetry")
skip("the lab has no gateway that counts traffic", "north_south_network_telemetry")
skip("Neutron's packet log isn't in the lab", "vpc_flow_logs")
skip("simulated hosts have no log and no network card", "host_syslogs", "host_nic_network_telemetry")
skip(
    "not in the lab: NVLink, UFM, fabric manager, switches with an operating system, BMCs of GPUs",
    "nvswitch_fabric_telemetry",
    "bmc_gpu_telemetry",
    "gpu_nvlink_telemetry",
    "switch_nvlink_telemetry",
    "ufm_event_logs",
    "fabric_manager_logs",
    "general_switch_logs",
    "switch_syslogs",
    "switch_kernel_logs",
)
skip("the lab has no block storage", "storage_capacity_telemetry", "storage_performance_telemetry")
