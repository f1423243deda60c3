"""Steps about telemetry and logs: the fabric's counters as weft reads them, and the subnet manager's log."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from weftacceptance.cloud import Json, LostError
from weftacceptance.pods import members_of, pod_of, release
from weftacceptance.steps import Run, Tests, skip, step, weft

_RECENT = 120
"""Greatest age in seconds of the newest counters."""


def _counters(run: Run) -> tuple[Json, Json]:
    """weft's answer about a link of a pod, and the link's row. Raises `LostError` if its counters weren't read."""
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
    """Age of the newest counters in seconds. Raises `LostError` if they can't be read."""
    if reading["rates_unread"] or reading["rates_age"] is None or len(reading["rates_seconds"]) < 1:
        raise LostError(f"the counters weren't read: {reading['rates_unread']}")
    return round(reading["rates_age"])


@step("east_west_network_telemetry", "observability")
def east_west_network_telemetry(run: Run) -> Json:
    """Rate and congestion of a link of the InfiniBand fabric, from its ports' counters."""
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
    """Age of the newest counters when weft's API answers with them."""
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


_NAMED = re.compile(r'^infiniband_hca_info\{guid="(\w+)",hca="([^"]+)"\} 1$')
_SAMPLE = re.compile(r'^(infiniband_hca_port_\w+)\{guid="(\w+)",port="\d+"\} ([0-9.]+)$')
_AGE = re.compile(r"^infiniband_counters_age_seconds ([0-9.]+)$")
_PORT = "infiniband_hca_port_"


def _agents(run: Run, fabric: str) -> list[Json]:
    """Name and URL of each fabric agent."""
    found = weft(run.operator, "/v1/site")["document"]["fabrics"][fabric]["manager"]["agents"]
    if not found:
        raise LostError(f"the site has no agents of {fabric}")
    return found


def _measured(run: Run) -> tuple[list[str], float, list[str]]:
    """Counters that every adapter of a pod has, their age, and the adapters. Raises `LostError` unless each is
    counted."""
    pod = pod_of(run, run.tenant, "link", 2)
    try:
        wanted = {f"{one['node']} {one['adapter']}" for one in members_of(run, pod)}
        text = run.lab.metrics(str(_agents(run, pod["fabric"])[0]["url"]))
    finally:
        release(run.tenant, "link")
    lines = text.splitlines()
    guids = {found[1]: found[2] for found in map(_NAMED.match, lines) if found and found[2] in wanted}
    counted = {guid: set[str]() for guid in guids}
    for found in map(_SAMPLE.match, lines):
        if found and found[2] in counted:
            counted[found[2]].add(found[1])
    ages = [float(found[1]) for found in map(_AGE.match, lines) if found]
    names = set.intersection(*counted.values()) if counted else set[str]()
    if set(guids.values()) != wanted or not names or not ages:
        raise LostError(f"of {len(wanted)} adapters of the pod, not all are counted")
    return sorted(names), max(ages), sorted(wanted)


@step("sdn_latency_perf_logging", "network")
def sdn_latency_perf_logging(run: Run) -> Json:
    """Waits and packets of a pod's adapters, from the fabric agent's metrics for Prometheus."""
    names, age, adapters = _measured(run)
    tests = Tests()
    tests.add("metrics_endpoint_reachable", True, "the agent answers")
    tests.add("performance_metric_present", _PORT + "transmit_wait_total" in names, "waiting")
    packets = {_PORT + "transmit_packets_total", _PORT + "receive_packets_total"} <= set(names)
    tests.add("packet_metric_present", packets, "packets, both ways")
    tests.add("samples_recent", age <= _RECENT, f"{age:.0f} s old")
    shown = {"telemetry_namespace": "infiniband", "sample_window_seconds": _RECENT}
    return {**shown, "probe_resource_id": adapters[0], "tests": tests}


@step("host_nic_network_telemetry", "observability")
def host_nic_network_telemetry(run: Run) -> Json:
    """Counters of each adapter of a pod's hosts, which the fabric's agent reads from the adapters themselves."""
    names, age, adapters = _measured(run)
    tests = Tests()
    probes = {
        "telemetry_source": "fabric agent: /metrics, counters of ports by MAD",
        "nics_checked": len(adapters),
        "metric_names": names,
        "sample_count": len(adapters),
        "latest_timestamp": (datetime.now(UTC) - timedelta(seconds=age)).isoformat(),
    }
    tests.add("telemetry_endpoint_reachable", True, "the agent answers", probes=probes)
    tests.add("nic_metrics_present", True, "of each adapter", probes=probes)
    tests.add("samples_recent", age <= _RECENT, f"{age:.0f} s old", probes=probes)
    return {"tests": tests}


@step("subnet_manager_logs", "observability")
def subnet_manager_logs(run: Run) -> Json:
    """The master's log on its host has entries about the partitions that a pod's order has just changed."""
    tests = Tests()
    fabric = str(next(iter(weft(run.operator, "/v1/site")["document"]["fabrics"])))
    names = [str(one["name"]) for one in _agents(run, fabric)]
    before = {name: len(run.lab.manager_log(name)) for name in names}
    pod = pod_of(run, run.tenant, "link", 2)
    try:
        members_of(run, pod)
    finally:
        release(run.tenant, "link")
    fresh = {name: run.lab.manager_log(name)[before[name] :] for name in names}
    entries = [line for lines in fresh.values() for line in lines if _LOGGED.match(line)]
    probes = {
        "log_endpoints_checked": len(names),
        "log_source": "opensm.log of " + ", ".join(names),
        "entry_count": len(entries),
    }
    tests.add("log_endpoint_reachable", True, "read on each manager's host", probes=probes)
    tests.add("log_source_present", all(before.values()), "each manager has a log", probes=probes)
    tests.add("log_entries_queryable", bool(entries), "entries since the order", probes=probes)
    return {"tests": tests}


_LOGGED = re.compile(r"^[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d+ \[[0-9A-F]+\] 0x[0-9a-f]{2} -> ")
"""An entry of OpenSM's log."""


skip("the lab has no gateway that counts traffic", "north_south_network_telemetry")
skip("Neutron's packet log isn't in the lab", "vpc_flow_logs")
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
skip(
    "the lab's volumes are only records, and its shares have no figures",
    "storage_capacity_telemetry",
    "storage_performance_telemetry",
)
