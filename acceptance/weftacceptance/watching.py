"""Steps that cause an event and read its record: faults, counters of the management network's switch, servers'
logs."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from weftacceptance.cloud import Json, LostError, soon
from weftacceptance.pods import pod_of, release
from weftacceptance.servers import launch, launched, login, servers
from weftacceptance.steps import PREFIX, Run, Tests, step, weft

_SYSLOG = "/var/log/messages"
_COUNTED = ("rx_bytes", "rx_packets", "rx_errors", "tx_bytes", "tx_packets", "tx_errors")


@step("sdn_hardware_fault_logging", "network")
def sdn_hardware_fault_logging(run: Run) -> Json:
    """A cable of a pod's node is pulled: the pod's events say that it is DEGRADED, and READY once the cable is
    back."""
    tests, pod = Tests(), pod_of(run, run.tenant, "link", 2)
    path, adapter = f"/v1/pods/{pod['id']}/events", f"{pod['placed'][0]['node']}/mlx5_0"
    before = len(weft(run.tenant, path)["events"])

    def states() -> list[Json]:
        rows = weft(run.tenant, path)["events"][before:]
        return [one for one in rows if one["code"] == "POD_STATE"]

    try:
        run.lab.cable(adapter, plugged=False)
        try:
            seen = soon(lambda: any(one["params"]["state"] == "DEGRADED" for one in states()), 110)
        finally:
            run.lab.cable(adapter, plugged=True)
        faults = [one for one in states() if one["params"]["state"] == "DEGRADED"]
        again = soon(lambda: weft(run.tenant, f"/v1/pods/{pod['id']}")["state"] == "READY", 110)
    finally:
        release(run.tenant, "link")
    tests.add("logging_endpoint_reachable", True, "the pod's events are read")
    tests.add("fault_event_source_queryable", seen and bool(faults), "the pulled cable is in them")
    tests.add("log_destination_configured", seen, "weft keeps them, and sends them to webhooks")
    whole = all(one["at"] and one["type"] and one["message"] and one["sequence"] >= 0 for one in faults)
    tests.add("event_schema_valid", bool(faults) and whole, "time, type, code, message, number")
    tests.add("mended", again, "READY again with its cable")
    shown = {"log_destination": "weft: /v1/pods/NAME/events", "recent_event_count": len(faults)}
    return {**shown, "tests": tests}


@step("management_network_telemetry", "observability")
def management_network_telemetry(run: Run) -> Json:
    """Counters of the switch of the hosts' management adapters: they count the packets of a login."""
    launch(run)
    try:
        (node,) = [one["node"] for one in launched(run)["pod"]["placed"]]
        before = run.lab.counters()
        after = before

        def counts() -> bool:
            nonlocal after
            login(run, "head -c 100000 /dev/zero")
            after = run.lab.counters()
            return any(
                after[port].get("tx_bytes", 0) - before[port].get("tx_bytes", 0) >= 100_000
                for port in before
                if node in port
            )

        grown = soon(counts, 60)
    finally:
        release(run.tenant, "server")
    names = [
        name for name in _COUNTED if all(name in counters for port, counters in after.items() if node in port)
    ]
    tests = Tests()
    probes = {
        "telemetry_source": "Open vSwitch, table Interface of the management network's switch",
        "metric_names": names,
        "sample_count": len(after),
        "latest_timestamp": datetime.now(UTC).isoformat(),
    }
    tests.add("telemetry_endpoint_reachable", bool(after), "the switch answers", probes=probes)
    tests.add("plane_metrics_present", bool(names), f"counters of {node}'s cable", probes=probes)
    tests.add("samples_recent", grown, "they count the login just made", probes=probes)
    return {"tests": tests}


@step("host_syslogs", "observability")
def host_syslogs(run: Run) -> Json:
    """A server's own syslog has what was just logged there."""
    launch(run)
    word = f"{PREFIX}{time.time_ns()}"
    try:
        there = servers(run).find(launched(run)["id"]) is not None
        if not there:
            raise LostError("Nova doesn't have the server")
        lines = login(run, f"logger -t acceptance {word}; sleep 1; cat {_SYSLOG}").splitlines()
    finally:
        release(run.tenant, "server")
    fresh = [line for line in lines if word in line]
    tests = Tests()
    probes = {
        "hosts_checked": 1,
        "log_source": f"syslogd: {_SYSLOG}",
        "entry_count": len(fresh),
        "latest_timestamp": fresh[-1][:15] if fresh else "",
    }
    tests.add("syslog_endpoint_reachable", True, "read by a login", probes=probes)
    tests.add("host_log_source_present", bool(lines), f"{len(lines)} entries", probes=probes)
    tests.add("entries_recent", bool(fresh), "what was logged now", probes=probes)
    return {"tests": tests}
