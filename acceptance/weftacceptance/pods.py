"""Steps about capacity and placement: a project's member orders pods; operators reserve nodes."""

from __future__ import annotations

from collections import Counter

from weftacceptance.cloud import POD_SERVICE, Caller, Json, LostError, soon
from weftacceptance.steps import PREFIX, Run, Tests, skip, step, weft

_WAIT = 200
"""Seconds that a step waits for a pod, below the suite's limit for a step."""


def order(name: str, count: int, **more: object) -> Json:
    """An order of `count` of the lab's nodes on one leaf, with further sections."""
    nodes = {"count": count, "flavor": "gpu8", "image": "tiny"}
    return {"name": PREFIX + name, "nodes": nodes, "locality": {"required": "leaf"}, **more}


def pod_of(run: Run, caller: Caller, name: str, count: int, asked: Json | None = None) -> Json:
    """The suite's pod of this name, ordered if it doesn't exist. Raises `LostError` unless it is READY without a
    change in progress; during a change, a replaced node has no server yet."""
    path = f"/v1/pods/{PREFIX}{name}"
    got = caller.ask(POD_SERVICE, "GET", path)
    if got.status == 404 or (got.is_done and got.get("state") == "RELEASED"):
        caller.ask(POD_SERVICE, "POST", "/v1/pods", asked or order(name, count))
    found = weft(caller, path)
    for _ in range(4):
        if found["state"] == "FAILED" or (found["state"] == "READY" and found["changing_since"] is None):
            break
        caller.ask(POD_SERVICE, "GET", f"{path}?until=READY&wait={_WAIT // 4}")
        found = weft(caller, path)
    if found["state"] != "READY" or found["changing_since"] is not None or len(found["placed"]) != count:
        raise LostError(f"the pod {found['name']} is {found['state']}, not READY with {count} nodes")
    return found


def release(caller: Caller, name: str) -> bool:
    """Releases a pod; whether its signed receipt says that everything is gone."""
    path = f"/v1/pods/{PREFIX}{name}"
    ended = f"{path}/release?until=RELEASED&wait={_WAIT // 4}"
    if not caller.ask(POD_SERVICE, "POST", ended).is_done:
        return False
    for _ in range(3):
        if weft(caller, path)["state"] == "RELEASED":
            break
        caller.ask(POD_SERVICE, "POST", ended)
    got = caller.ask(POD_SERVICE, "GET", f"{path}/receipt")
    return got.is_done and got.get("receipt")["clean"] is True


def members_of(run: Run, pod: Json) -> list[Json]:
    """A pod's ports, as weft reads the fabric's tables now. Raises `LostError` if they can't be read, or some
    ports aren't in them."""
    ports: list[Json] = []

    def are_in() -> bool:
        found = weft(run.operator, f"/v1/pods/{pod['id']}/map")
        ports[:] = found["ports"]
        unread = found["members_unread"] or found["further"]
        return bool(ports) and not unread and all(p["seen"] == "in" for p in ports)

    if not soon(are_in, 60):
        raise LostError(f"not all ports of pod {pod['name']} are read back as members")
    return ports


def has_room(caller: Caller, count: int) -> bool:
    """Whether a plan, which changes nothing, finds `count` nodes on any leaves. Raises `LostError`."""
    asked = order("room", count) | {"locality": {"required": "site"}}
    got = caller.ask(POD_SERVICE, "POST", "/v1/pods/plan", asked)
    if got.status not in (200, 422):
        raise LostError(f"a plan ends with {got.status}")
    return got.is_done


def free_nodes(run: Run) -> list[str]:
    """Nodes with accelerators that an order of virtual machines may get."""
    rows = weft(run.operator, "/v1/nodes")["nodes"]
    described = weft(run.operator, "/v1/site")["document"]["nodes"]
    gpus = {
        one["name"]
        for one in described
        if one["role"] == "compute" and one["accelerators"] and not one["machine"]
    }
    return [one["name"] for one in rows if one["state"] == "free" and one["name"] in gpus]


@step("capacity_reservation_grouping", "security")
def capacity_reservation_grouping(run: Run) -> Json:
    """A reservation of all free nodes but one: its project finds room there, another one doesn't."""
    name, project, free = PREFIX + "reserved", run.tenant.project_id, free_nodes(run)
    nodes = free[1:]
    asked = {"name": name, "project_id": project, "nodes": nodes, "reason": "acceptance"}
    run.operator.ask(POD_SERVICE, "POST", "/v1/reservations", asked)
    try:
        rows = [one for one in weft(run.operator, "/v1/reservations")["reservations"] if one["name"] == name]
        if len(rows) != 1 or len(nodes) < 2:
            raise LostError("the reservation can't be read back")
        (row,) = rows
        mine, theirs = has_room(run.tenant, len(nodes)), has_room(run.other, 2)
        pinned = sorted(row["nodes"]) == sorted(nodes)
        resources = [
            {"resource_id": n, "account_id": row["project_id"], "pinned": pinned} for n in row["nodes"]
        ]
        return {
            "reservation_id": row["name"],
            "account_id": project,
            "pinned": pinned,
            "isolation_enforced": mine and not theirs,
            "resources": resources,
        }
    finally:
        run.operator.ask(POD_SERVICE, "DELETE", f"/v1/reservations/{name}")


@step("topology_block_atomic_allocation", "security")
def topology_block_atomic_allocation(run: Run) -> Json:
    """A pod of two nodes below one leaf with its partition, and an order that doesn't fit, for which nothing is
    made."""
    pod = pod_of(run, run.tenant, "block", 2)
    try:
        ports, project = members_of(run, pod), pod["project_id"]
        leaves = {one["leaf"] for one in pod["placed"]}
        nodes = sorted({one["node"] for one in ports})
        whole = nodes == sorted(one["node"] for one in pod["placed"])
        too_many = len(free_nodes(run)) + 1
        answer = run.other.ask(POD_SERVICE, "POST", "/v1/pods", order("toomany", too_many)).status
        there = [one["name"] for one in weft(run.other, "/v1/pods")["pods"]]
        partial = answer != 422 or PREFIX + "toomany" in there
        shared = {"tenant_id": project, "topology_block_id": pod["id"], "isolation_boundary": pod["segment"]}
        (leaf,) = leaves if len(leaves) == 1 else (",".join(sorted(leaves)),)
        shared |= {"performance_domain": leaf}
        computes = [{"resource_id": n, "resource_type": "compute", **shared} for n in nodes]
        network = {"resource_id": f"{pod['fabric']}/{pod['segment']}", "resource_type": "network", **shared}
        block = {
            "block_id": pod["id"],
            "reservation_id": pod["name"],
            "tenant_id": project,
            "allocated_as_unit": whole,
            "partial_allocation": partial,
            "homogeneous": len(leaves) == 1,
            "isolation_enforced": all(one["seen"] == "in" for one in ports),
            "requested": {"compute": 2, "network": 1, "storage": 0},
            "allocated": {"compute": len(nodes), "network": 1, "storage": 0},
            "resources": [*computes, network],
        }
        return {"topology_block": block}
    finally:
        release(run.tenant, "block")


@step("topology_placement", "bare_metal")
def topology_placement(run: Run) -> Json:
    """Placement by the fabric's topology: a pod's nodes are below one leaf, and an order larger than any leaf is
    refused."""
    pod, done = pod_of(run, run.tenant, "pod", 2), Tests()
    leaves = {one["leaf"] for one in pod["placed"]}
    done.add("placed_below_one_leaf", len(leaves) == 1, f"nodes below {', '.join(sorted(leaves))}")
    seen = {one["leaf_seen"].split(" ")[0] for one in members_of(run, pod)}
    done.add("cabled_to_that_leaf", seen == leaves, "as the fabric is read now")
    most = max(
        Counter(
            one["leaf"] for one in weft(run.operator, "/v1/nodes")["nodes"] if one["leaf"] != "-"
        ).values()
    )
    plan = run.tenant.ask(POD_SERVICE, "POST", "/v1/pods/plan", order("many", most + 1))
    refused = plan.status == 422 and has_room(run.tenant, most + 1)
    done.add(
        "refused_if_no_leaf_has_room", refused, f"{most + 1} nodes: below one leaf refused, anywhere planned"
    )
    (node, *_) = pod["placed"]
    more = {"availability_zone": node["rack"], "placement_strategy": "leaf"}
    return {"instance_id": pod["id"], "placement_supported": done.all_passed, "operations": done, **more}


@step("query_ib_tenant_isolation", "bare_metal")
def query_ib_tenant_isolation(run: Run) -> Json:
    """The partitions of two projects' pods, with their ports read back from the fabric, and what the audit finds."""
    pods = [pod_of(run, run.tenant, "pod", 2), pod_of(run, run.other, "pod", 1)]
    partitions = []
    owners: dict[str, set[str]] = {}
    for pod in pods:
        for port in members_of(run, pod):
            owners.setdefault(port["port"], set()).add(pod["project_id"])
        shown = {"name": pod["name"], "partition_key": pod["segment"], "tenant_id": pod["project_id"]}
        partitions.append({**shown, "status": "Ready"})
    audit = weft(run.operator, "/v1/audit")
    wrong = [one for one in audit["findings"] if one["where"] == pods[0]["fabric"]]
    shared = [port for port, projects in owners.items() if len(projects) > 1]
    checked = audit["checked"].get(f"segments in {pods[0]['fabric']}", 0) >= len(pods)
    if wrong or shared or not checked:
        raise LostError(
            f"the audit of the fabric isn't clean: {len(wrong)} findings, {len(shared)} shared ports"
        )
    return {"site_id": "weft", "partitions_checked": len(partitions), "partitions": partitions}


skip("the lab's subnet has no M_Key", "query_ib_keys")
skip("the lab's fabric has two tiers of switches, no core", "backend_switch_fabric")
skip("no node of the lab is in an NVLink domain", "nvlink_domain")
