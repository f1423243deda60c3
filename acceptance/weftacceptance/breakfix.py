"""Steps of the suite bare_metal about repair: reports, drains, replacements, and what tenants read about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from weftacceptance.cloud import POD_SERVICE, Json, LostError, soon
from weftacceptance.pods import free_nodes, pod_of
from weftacceptance.steps import PREFIX, Run, skip, step, weft

_BRIEF = timedelta(minutes=10)
"""Lifetime of the token with which a failed check is reported."""


def _node(run: Run, name: str) -> Json:
    return weft(run.operator, f"/v1/nodes/{name}")


def _events(run: Run, pod: Json, code: str) -> list[Json]:
    """A pod's events with this code, as its project reads them."""
    return [
        one for one in weft(run.tenant, f"/v1/pods/{pod['name']}/events")["events"] if one["code"] == code
    ]


def _drain(run: Run, target: str, until: str | None = None) -> None:
    asked = {"target": target, "reason": PREFIX + "acceptance", "public": "acceptance test", "wait": True}
    run.operator.ask(POD_SERVICE, "POST", "/v1/drains", asked | ({"by": until} if until else {}))


def _undrain(run: Run, target: str) -> None:
    run.operator.ask(POD_SERVICE, "DELETE", f"/v1/drains/{target}")


@step("query_maintenance_events", "bare_metal")
def query_maintenance_events(run: Run) -> Json:
    """A node is drained for maintenance: it is in the list of drains until the drain ends."""
    name = free_nodes(run)[-1]
    _drain(run, f"node:{name}")
    try:
        rows = [one for one in weft(run.operator, "/v1/drains")["drains"] if one["node"] == name]
        events = [{"machine_id": r["node"], "status": "drained", "message": r["public"]} for r in rows]
        planned = bool(rows) and _node(run, name)["state"] == "drained"
    finally:
        _undrain(run, f"node:{name}")
    over = not [one for one in weft(run.operator, "/v1/drains")["drains"] if one["node"] == name]
    return {"events_queryable": planned and over, "events": events}


@step("query_repair_history", "bare_metal")
def query_repair_history(run: Run) -> Json:
    """A node is quarantined and cleared: its history has both."""
    name, path = free_nodes(run)[-1], f"{POD_SERVICE}"
    run.operator.ask(path, "PUT", f"/v1/nodes/{name}/quarantine", {"reason": f"{PREFIX}acceptance"})
    out = _node(run, name)["state"] == "quarantined"
    run.operator.ask(path, "DELETE", f"/v1/nodes/{name}/quarantine")
    back = _node(run, name)["state"] == "free"
    entries = weft(run.operator, f"/v1/nodes/{name}/history?limit=10")["entries"]
    mine = [one for one in entries[:3] if one["type"] == "quarantine"]
    codes = [one["code"] for one in mine]
    shown = [{"at": one["at"], "code": one["code"], "message": one["message"]} for one in mine]
    queryable = out and back and codes == ["NODE_CLEARED", "NODE_QUARANTINED"]
    return {"history_queryable": queryable, "records": [{"machine_id": name, "entries": shown}]}


@step("return_node_maintenance", "bare_metal")
def return_node_maintenance(run: Run) -> Json:
    """The tenant reports a node of its pod: operators read the report, and the project's next plans avoid the
    node."""
    pod = pod_of(run, run.tenant, "pod", 2)
    name = pod["placed"][0]["node"]
    asked = {"node": name, "reason": f"{PREFIX}acceptance"}
    run.tenant.ask(POD_SERVICE, "POST", f"/v1/pods/{pod['name']}/report", asked)
    try:
        rows = [one for one in weft(run.operator, "/v1/reports")["reports"] if one["node"] == name]
        accepted = [one["project_id"] for one in rows] == [run.tenant.project_id]
        shown = bool(_node(run, name)["reports"])
    finally:
        run.operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{name}/reports")
    operation = {
        "requested": True,
        "accepted": accepted and shown,
        "machine_id": name,
        "maintenance_mode": "reported",
    }
    return {"operation": operation}


@step("return_rack_maintenance", "bare_metal")
def return_rack_maintenance(run: Run) -> Json:
    """A rack without pods is drained: every node of it is, and gets no orders."""
    rows = weft(run.operator, "/v1/nodes")["nodes"]
    racks: dict[str, list[Json]] = {}
    for row in rows:
        racks.setdefault(row["rack"], []).append(row)
    idle = [rack for rack, mine in racks.items() if rack and all(one["state"] == "free" for one in mine)]
    if not idle:
        raise LostError("no rack is without pods")
    rack = idle[-1]
    nodes = {one["name"] for one in racks[rack]}
    _drain(run, f"rack:{rack}")
    try:
        drained = {one["node"] for one in weft(run.operator, "/v1/drains")["drains"]}
        states = {_node(run, name)["state"] for name in nodes}
    finally:
        _undrain(run, f"rack:{rack}")
    return {
        "operation": {
            "requested": True,
            "accepted": nodes <= drained and states == {"drained"},
            "rack_id": rack,
        }
    }


@step("request_host_replacement", "bare_metal")
def request_host_replacement(run: Run) -> Json:
    """The tenant replaces a node of its pod: the pod has another one, and the old one is held and gets no orders."""
    pod = pod_of(run, run.tenant, "pod", 2)
    old = pod["placed"][0]["node"]
    run.tenant.ask(POD_SERVICE, "POST", f"/v1/pods/{pod['name']}/replace", {"node": old})
    try:
        gone = soon(lambda: _node(run, old)["state"] == "held", 150)
        now = pod_of(run, run.tenant, "pod", 2)
        nodes = {one["node"] for one in now["placed"]}
        removed = gone and old not in nodes and old not in free_nodes(run)
    finally:
        if any(one["what"] == "repair" for one in _node(run, old)["holds"]):
            run.operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{old}/hold?what=repair")
    return {"operation": {"requested": True, "node_removed_from_pool": removed, "machine_id": old}}


@step("query_planned_notifications", "bare_metal")
def query_planned_notifications(run: Run) -> Json:
    """A node of the tenant's pod is drained with a text for tenants: the pod's events have it."""
    pod = pod_of(run, run.tenant, "pod", 2)
    name, before = pod["placed"][0]["node"], len(_events(run, pod, "NODES_DRAINED"))
    _drain(run, f"node:{name}")
    try:
        soon(lambda: len(_events(run, pod, "NODES_DRAINED")) > before)
        fresh = _events(run, pod, "NODES_DRAINED")[before:]
    finally:
        _undrain(run, f"node:{name}")
    return _notified(run, name, "planned-maintenance", fresh, "acceptance test")


@step("query_failure_notifications", "bare_metal")
def query_failure_notifications(run: Run) -> Json:
    """A node of the tenant's pod reports a failed check: the pod's events have it."""
    pod = pod_of(run, run.tenant, "pod", 2)
    name, code = pod["placed"][0]["node"], "NODE_CHECKS_FAILED"
    before = len(_events(run, pod, code))
    until = (datetime.now(UTC) + _BRIEF).isoformat()
    made = run.operator.ask(POD_SERVICE, "POST", f"/v1/nodes/{name}/check-tokens", {"until": until})
    headers = {"Authorization": f"Bearer {made.get('token')}", "X-Auth-Token": ""}
    failed = {"code": "XID", "subject": "gpu0", "status": "failed", "reason": "planted by the acceptance run"}
    document = {
        "version": 1,
        "program": PREFIX + "check",
        "when": datetime.now(UTC).isoformat(),
        "host": {},
        "status": "failed",
        "results": [failed],
    }
    try:
        run.tenant.ask(POD_SERVICE, "POST", f"/v1/nodes/{name}/checks", document, headers)
        soon(lambda: len(_events(run, pod, code)) > before)
        fresh = _events(run, pod, code)[before:]
    finally:
        run.operator.ask(POD_SERVICE, "DELETE", f"/v1/check-tokens/{made.get('id')}")
        run.operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{name}/checks")
    return _notified(run, name, "failure", fresh, name)


def _notified(run: Run, node: str, kind: str, events: list[Json], text: str) -> Json:
    """What the tenant was notified of: events that name the node and contain the text."""
    found = [one for one in events if node in one["message"] and text in one["message"]]
    shown = [
        {"machine_id": node, "type": kind, "message": one["message"], "notified_at": one["at"]}
        for one in found
    ]
    return {"notification_channel_observable": bool(shown), "notifications": shown}


skip("weft has no notices of retirement: a node that leaves is drained", "query_retirement_notices")
skip(
    "the lab's machines can't be rebuilt: weft takes a rebuilt machine for another tenant's",
    "reinstall_instance",
)
skip("no component of the lab but the servers takes a tenant's key", "component_key_access")
skip(
    "the lab's BMCs (sushy-tools) are on loopback, without TLS: there is no network to keep them apart",
    "bmc_management_network",
    "bmc_tenant_isolation",
    "bmc_protocol_security",
    "bmc_bastion_access",
)
skip(
    "the lab's BMCs (sushy-tools) have neither sensors nor logs, and take no keys",
    "bmc_sel_logs",
    "query_oob_health",
    "query_key_access",
    "query_bmc_kernel_logs",
)
skip("weft's API asks clients for tokens, not for certificates", "mutual_tls_test")
skip("the lab has one network for everything: loopback", "api_endpoint_isolation")
skip(
    "the lab's volumes are only records: Cinder has its fake driver",
    "create_volume",
    "snapshot_lifecycle",
    "volume_resize",
    "volume_persistence",
    "teardown_volume",
)
skip(
    "weft leaves parallel file systems to the storage's vendor",
    "qos_throughput",
    "non_disruptive_upgrade",
    "rdma_memory_protection",
    "provision_parallel_fs",
    "live_expansion",
    "quota_enforcement",
    "root_squash",
    "flock_mount",
    "changelog_audit",
    "multipath",
)
skip("weft has no Kubernetes", "setup_cluster", "teardown_cluster")
