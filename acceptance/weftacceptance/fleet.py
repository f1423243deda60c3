"""Steps of the suite bare_metal about fleet, governance and health: weft's nodes beside Nova's hosts."""

from __future__ import annotations

from collections import Counter

from weftacceptance.cloud import Json, LostError, pause, soon
from weftacceptance.pods import pod_of
from weftacceptance.steps import Run, skip, step, weft

_BAD = frozenset({"quarantined", "failed", "maintenance"})
"""States of nodes that get no orders because of their condition."""


def fleet(run: Run) -> list[Json]:
    """The site's compute nodes: weft's row with the site's `gpus` and `type`, and `host`, Nova's row of its
    hypervisor. Raises `LostError` if weft and Nova have different nodes.
    """
    document = weft(run.operator, "/v1/site")["document"]
    described = {
        one["name"]: one for one in document["nodes"] if one["role"] == "compute" and one.get("cloud")
    }
    rows = {one["name"]: one for one in weft(run.operator, "/v1/nodes")["nodes"]}
    got = run.operator.ask("compute", "GET", "/os-hypervisors/detail").get("hypervisors")
    hosts = {one["hypervisor_hostname"].split(".")[0]: one for one in got}
    found: list[Json] = []
    for name, node in described.items():
        if name not in rows:
            raise LostError(f"weft lists no node {name}, which the site has")
        kinds = Counter(one["type"] for one in node["accelerators"])
        kind = "+".join(f"{count}x{name}" for name, count in sorted(kinds.items())) or "none"
        host = hosts.get(node["machine"] or node["host"] or name)
        found.append({**rows[name], "gpus": kinds.total(), "type": kind, "host": host})
    if not found:
        raise LostError("the site has no compute nodes")
    return found


def is_healthy(node: Json) -> bool:
    """Whether orders may get the node, its own checks, if any, are ok, and Nova reports its host as up."""
    host = node["host"] or {}
    return node["state"] not in _BAD and node["checks"] in ("ok", "never") and host.get("state") == "up"


def _counts(nodes: list[Json]) -> dict[str, int]:
    return {"nodes": len(nodes), "gpus": sum(one["gpus"] for one in nodes)}


@step("query_governance_metrics", "bare_metal")
def query_governance_metrics(run: Run) -> Json:
    """Delivered: in the site and in Nova. Reserved: a pod has it. Active: Nova has an active server there."""
    pod = pod_of(run, run.tenant, "pod", 2)
    mine = {one["node"] for one in pod["placed"]}
    running: set[str] = set()

    def are_active() -> bool:
        servers = run.operator.ask("compute", "GET", "/servers/detail?all_tenants=1").get("servers")
        running.clear()
        running.update(one["OS-EXT-SRV-ATTR:host"] for one in servers if one["status"] == "ACTIVE")
        return mine <= running

    soon(are_active, 60)
    nodes = fleet(run)
    delivered = [one for one in nodes if one["host"] is not None]
    reserved = [one for one in delivered if one["pod"]]
    active = [one for one in reserved if one["name"] in running]
    if not mine <= {one["name"] for one in active}:
        raise LostError("the nodes of a pod that is READY aren't all active")
    healthy = [one for one in delivered if is_healthy(one)]
    buckets = {"delivered": delivered, "healthy": healthy, "reserved": reserved, "active": active}
    return {"metrics": {name: _counts(some) for name, some in buckets.items()}}


@step("query_fleet_inventory", "bare_metal")
def query_fleet_inventory(run: Run) -> Json:
    """Each node's record. `created_at` is when the site with it was activated; weft has no earlier time."""
    pod = pod_of(run, run.tenant, "pod", 2)
    site = weft(run.operator, "/v1/site")
    servers = {one["node"]: one["name"] for one in pod["servers"]}
    shown = []
    for node in fleet(run):
        used = {"instance_id": servers.get(node["name"]) or node["pod"], "project_id": node["project_id"]}
        shown.append(
            {
                "node_id": node["name"],
                "hardware_type": node["type"],
                "account_id": site["name"],
                "region": "RegionOne",
                "health_state": "healthy" if is_healthy(node) else "unhealthy",
                "created_at": site["activated_at"],
                "gpu_count": node["gpus"],
                "in_use": bool(node["pod"]),
                **(used if node["pod"] else {}),
            }
        )
    return {"nodes_checked": len(shown), "nodes": shown}


@step("query_resource_discovery", "bare_metal")
def query_resource_discovery(run: Run) -> Json:
    """The list of nodes, read twice; discovered: Nova has the host."""
    first = {one["name"] for one in fleet(run)}
    pause(1)
    second = fleet(run)
    lost = sorted(first - {one["name"] for one in second})
    shown = [
        {"resource_id": one["name"], "discovered": one["host"] is not None, "delivery_reason": ""}
        for one in second
    ]
    return {"polls": 2, "poll_interval_seconds": 1, "unstable_identifiers": lost, "resources": shown}


@step("verify_ingestion", "bare_metal")
def verify_ingestion(run: Run) -> Json:
    """Nodes of the site against hosts of Nova."""
    nodes = fleet(run)
    missing = [{"expected_machine_id": one["name"]} for one in nodes if one["host"] is None]
    machines = [
        {
            "machine_id": one["name"],
            "expected_machine_id": one["name"],
            "chassis_serial": "",
            "status": "InUse"
            if one["pod"]
            else "Ready"
            if one["state"] in ("free", "busy")
            else one["state"],
            "health": "healthy" if is_healthy(one) else "unhealthy",
            "gpu_count": one["gpus"],
            "dpu_count": 0,
        }
        for one in nodes
        if one["host"] is not None
    ]
    counts = {"expected_count": len(nodes), "ingested_count": len(machines), "matched_count": len(machines)}
    return {"site_id": "weft", **counts, "missing": missing, "extra": [], "machines": machines}


@step("query_host_health", "bare_metal")
def query_host_health(run: Run) -> Json:
    """Each host's state in Nova and in weft: quarantine, own checks. A host without a state in Nova has no report."""
    shown = []
    for one in fleet(run):
        host, alerts = one["host"] or {}, []
        if host.get("state") != "up":
            alerts.append({"id": "nova-host", "target": one["name"], "message": f"Nova: {host.get('state')}"})
        if one["state"] in _BAD:
            alerts.append({"id": "weft-state", "target": one["name"], "message": one["state"]})
        alerts += [
            {"id": c["code"], "target": c["subject"], "message": "failed"} for c in one["failed_checks"]
        ]
        if one["checks"] in ("unknown", "old"):
            alerts.append({"id": "weft-check", "target": one["name"], "message": one["checks"]})
        there = "state" in host and bool(one["state"])
        checked = ["weft-check"] if one["checks"] != "never" else []
        probes = {"probe_ids": ["nova-host", "weft-state", *checked]}
        shown.append(
            {
                "host_id": one["name"],
                "health_present": there,
                "healthy": not alerts,
                "alerts": alerts,
                **probes,
            }
        )
    return {"site_id": "weft", "hosts_checked": len(shown), "hosts": shown}


@step("query_health_aggregation", "bare_metal")
def query_health_aggregation(run: Run) -> Json:
    """Health by leaf of the fabric."""
    totals, bad = Counter[str](), dict[str, list[str]]()
    for one in fleet(run):
        totals[one["leaf"]] += 1
        if not is_healthy(one):
            bad.setdefault(one["leaf"], []).append(one["name"])
    groups = [
        {
            "group_id": leaf,
            "group_type": "leaf",
            "name": leaf,
            "total": total,
            "healthy": total - len(bad.get(leaf, ())),
            "unhealthy": len(bad.get(leaf, ())),
            "status": "Degraded" if leaf in bad else "Healthy",
            "unhealthy_hosts": bad.get(leaf, []),
        }
        for leaf, total in sorted(totals.items())
    ]
    return {"site_id": "weft", "aggregation_level": "leaf", "groups": groups}


@step("query_topology", "bare_metal")
def query_topology(run: Run) -> Json:
    """The rack of each host, as weft lists it."""
    hosts = [{"host_id": one["name"], "failure_domain": one["rack"] or ""} for one in fleet(run)]
    return {"site_id": "weft", "hosts_checked": len(hosts), "hosts": hosts}


skip("no hardware with serial numbers in the lab", "query_serial_numbers")
skip("no NVSwitch trays in the lab", "query_switch_firmware")
skip("nodes have no DPUs in the lab", "check_dpu_health", "check_dpu_network")
skip("no host of the lab has a TPM or a GPU that attests", "query_attestation")
skip("no GPU health agent (GPUd) runs on simulated hosts", "query_node_health_agents")
skip("no GPUs to run models on", "deploy_nim", "teardown_nim")
