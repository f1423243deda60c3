"""Nodes of pods are replaced on the lab: bare metal on a real Ironic, and parts of hosts on a real Nova."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.people import PATIENCE, People, Person, assert_clean, wait_for
from tests.e2e.pod_watch import PodWatch
from tests.e2e.test_metal_live import nodes, watched
from tests.e2e.test_nodes_live import with_key
from tests.e2e.test_spine import on_database
from tests.helpers.ownlab import own_lab
from weftlab.lab import Lab
from weftlab.metal.enroll import system
from weftlab.metal.machines import FLAVOR

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="a lab of its own with machines, which are deployed and cleaned; by day on fakes"
    ),
]
METAL = f"""\
name: metal
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: tiny}}
fabric: {{isolation: partition}}
"""
PART = """\
name: {name}
nodes: {{count: {count}, accelerators: {{type: h100, count: 1}}, image: tiny, sharing: shared}}
fabric: none
on_failure: {on_failure}
"""


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Generator[Lab]:
    by = getattr(request, "param", "nova")
    with own_lab(nodes=4, computes=4, ipus=0, metal=3, machines_by=by) as lab:
        yield lab


def show(who: Person, pod: str) -> dict[str, Any]:
    return who.weft("pod", "show", pod, "--json").json


def is_done(pod: dict[str, Any]) -> bool:
    return pod["state"] == "READY" and not pod["changing_since"]


def done(who: Person, pod: str) -> dict[str, Any]:
    """Wait until nothing of the pod's change is left to do, and return the pod."""
    return until(who, pod, is_done)


def until(who: Person, pod: str, so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the pod is so, and return it."""
    return wait_for(lambda: [found for found in [show(who, pod)] if so(found)])[0]


def places(pod: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Server -> its fixed addresses."""
    return {s["name"]: (s["management_address"], *s["rdma_addresses"]) for s in pod["servers"]}


def on(pod: dict[str, Any]) -> dict[str, str]:
    """Server -> its node."""
    return {s["name"]: s["node"] for s in pod["servers"]}


def view(operator: Person, node: str) -> dict[str, Any]:
    return operator.weft("node", "show", node, "--json").json


def listed(operator: Person) -> list[dict[str, Any]]:
    return operator.weft("node", "list", "--json").json


def free(operator: Person) -> set[str]:
    return {n["name"] for n in operator.weft("node", "list", "--state", "free", "--json").json}


def offered(lab: Lab) -> None:
    """Wait until all machines are cleaned and offered."""
    wait_for(lambda: {n.provision_state for n in nodes(lab).values()} == {"available"})


def ordered(tenant: Person, text: str, name: str) -> dict[str, Any]:
    (tenant.folder / f"{name}.yaml").write_text(text)
    made = tenant.weft("pod", "create", "-f", f"{name}.yaml", "--wait", timeout=PATIENCE)
    assert made.code == 0, made.err
    return show(tenant, name)


def released(who: Person, name: str) -> dict[str, Any]:
    """Release the pod; returns its receipt."""
    assert who.weft("pod", "release", name, "--wait", timeout=PATIENCE).code == 0
    return who.weft("pod", "receipt", name, "--json").json["receipt"]


@pytest.mark.parametrize("lab", ["ironic", "nova"], indirect=True, scope="module")
def test_machine_is_replaced_in_its_place_while_the_old_one_is_cleaned(lab: Lab, people: People) -> None:
    """Name, addresses and segment stay; no machine is in the segment unless it runs the pod's system. Whether Nova
    deploys machines, or weft by Ironic."""
    tenant, operator = people("team-a"), people("operator")
    offered(lab)
    wait_for(lambda: not any("unknown" in n["reason"] for n in listed(operator)))
    before = ordered(tenant, METAL, "metal")
    failed, stays = (s["node"] for s in before["servers"])
    planned = tenant.weft("pod", "replace", "metal", failed, "--plan")
    assert planned.code == 0 and is_done(show(tenant, "metal")), planned.err
    with watched(lab) as seen:
        asked = tenant.weft("pod", "replace", "metal", failed)
        assert asked.code == 0, asked.err
        again = tenant.weft("pod", "replace", "metal", failed)
        assert again.code in (1, 2) and failed in again.err, again.err
        after = done(tenant, "metal")
    assert not [s for s in seen if s.member and s.state != "active"]
    assert places(after) == places(before) and after["segment"] == before["segment"]
    (new,) = set(on(after).values()) - {stays}
    assert on(after) == {name: new if node == failed else node for name, node in on(before).items()}
    assert with_key(lab, after["segment"]) == {new, stays}
    wait_for(lambda: nodes(lab)[failed].provision_state == "available")
    wait_for(lambda: view(operator, failed)["state"] == "held")
    assert nodes(lab)[failed].extra.get("weft") is None
    said = operator.weft("node", "history", failed, "--json").out
    assert "NODE_REPLACED_BY" in said and new in said
    assert operator.weft("node", "accept", failed, "--for", "repair").code == 0
    assert failed in free(operator)
    assert_clean(operator)
    receipt = released(tenant, "metal")
    assert receipt["clean"], receipt
    said = str(receipt["items"])
    assert all(nodes(lab)[name].id in said for name in (failed, stays, new))
    assert_clean(operator)


def test_machine_whose_bmc_is_dead_keeps_its_place_and_is_replaced_elsewhere(
    lab: Lab, people: People
) -> None:
    """Ironic can't switch it off, takes the instance off all the same, and Nova notes a success: its guest runs on, so
    its place isn't free. After the limit of a release it is quarantined, and its successor has a place of its own. Once
    an operator has mended it and Ironic has torn it down, it is proved out."""
    tenant, operator, bare = people("team-a"), people("operator"), system(lab.layout).baremetal
    offered(lab)
    before = ordered(tenant, METAL, "metal")
    (gone, failed), (_, stays) = on(before).items()
    with dead_bmc(lab, failed), closing(PodWatch(lab, before["id"])) as watch:
        assert tenant.weft("pod", "replace", "metal", failed).code == 0
        wait_for(lambda: nodes(lab)[failed].provision_state == "error", pause=2.0)
        assert nodes(lab)[failed].power_state == "power on" and nodes(lab)[failed].instance_id is None
        for _ in range(3):
            watch.visited()
        assert with_key(lab, before["segment"]) == {stays}
        waiting = show(tenant, "metal")
        (new,) = set(on(waiting).values()) - {stays}
        assert not [r for r in waiting["resources"] if r["key"] == f"server/{new}" and r["id"]]
        wait_for(
            lambda: late(lab, before["id"]) or view(operator, failed)["state"] == "quarantined", pause=5.0
        )
        after = done(tenant, "metal")
    (name,) = (one for one, node in on(after).items() if node == new)
    assert gone not in on(after) and not set(places(after)[name]) & set(places(before)[gone])
    assert with_key(lab, after["segment"]) == {new, stays}
    said = str(view(operator, failed)["reason"])
    assert view(operator, failed)["state"] == "quarantined", said
    bare.set_node_provision_state(nodes(lab)[failed].id, "deleted")
    wait_for(lambda: nodes(lab)[failed].extra.get("weft") is None, pause=2.0)
    assert operator.weft("node", "clear", failed).code == 0
    assert operator.weft("node", "accept", failed, "--for", "repair").code == 0
    assert released(tenant, "metal")["clean"]
    assert_clean(operator)


@contextmanager
def dead_bmc(lab: Lab, node: str) -> Generator[None]:
    """Meanwhile the node's BMC isn't found at its address, and Ironic has noticed."""
    bare: Any = system(lab.layout).baremetal
    machine = str(lab.site.node_by_name[node].machine)
    path = "/driver_info/redfish_system_id"
    was = bare.get_node(machine).driver_info["redfish_system_id"]

    def patch(value: str) -> None:
        bare.patch_node(machine, [{"op": "replace", "path": path, "value": value}])

    patch(was + "0")
    bare.set_node_maintenance(machine, "its BMC doesn't answer")
    try:
        yield
    finally:
        patch(was)
        bare.unset_node_maintenance(machine)


def late(lab: Lab, pod_id: str) -> None:
    """Let an hour pass for the release's limits, and for when the change began."""
    with on_database(lab) as database:
        database.execute("UPDATE owner SET worked = worked + 3600 WHERE id = %s", [pod_id])
        database.execute("UPDATE pod_generation SET at = at - interval '1 hour' WHERE pod_id = %s", [pod_id])


def test_servers_on_a_dead_shared_host_are_replaced_by_themselves(lab: Lab, people: People) -> None:
    """Of the pod whose order asks for it; the other one's stays. Nova deleted the old servers without their host, so
    they may run on there: their parts stay the pod's, its release names the guests, and the receipt isn't clean."""
    tenant, other, operator = people("team-a"), people("team-b"), people("operator")
    with soon(lab, operator):
        before = ordered(tenant, PART.format(name="parts", count=2, on_failure="replace"), "parts")
        host = before["servers"][0]["node"]
        kept = ordered(other, PART.format(name="kept", count=1, on_failure="report"), "kept")
        assert set(on(before).values()) == set(on(kept).values()) == {host}
        record = lab.supervisor.record(f"nova-compute@{host}")
        assert record is not None
        os.kill(record.pid, signal.SIGSTOP)
        try:
            after = until(tenant, "parts", lambda pod: moved(pod, host))
        finally:
            os.kill(record.pid, signal.SIGCONT)
    assert not set(on(after)) & set(on(before)), "they have numbers of their own"
    assert on(show(other, "kept")) == on(kept) and show(other, "kept")["state"] == "READY"
    assert view(operator, host)["reason"] == "shared by kept, parts"
    ids = {r["id"] for r in before["resources"] if r["kind"] == "server"}
    assert tenant.weft("pod", "release", "parts").code == 0
    until(operator, before["id"], lambda pod: any(one in str(pod["reason"]) for one in ids))
    words = ("--reason", "the host was looked at", "--wait")
    wait_for(lambda: operator.weft("pod", "abandon", before["id"], *words).code == 0, pause=5.0)
    receipt = tenant.weft("pod", "receipt", "parts", "--json").json["receipt"]
    unclean = [item for item in receipt["items"] if item["result"] != "clean"]
    assert not receipt["clean"] and {i["plane"] for i in unclean} <= {"guest", "host"}
    assert all(any(one in item["subject"] for item in unclean) for one in ids)
    assert view(operator, host)["state"] == "quarantined"
    assert released(other, "kept")["clean"]
    assert operator.weft("node", "clear", host).code == 0


def test_pod_is_released_at_the_time_of_a_drain_and_its_neighbours_stay(lab: Lab, people: People) -> None:
    """Of two pods on one host, the one whose order says so; `--plan` and the drain say which. Its receipt is clean and
    names the drain, the host gets no new orders until it is undrained, and a drain without a time releases nothing."""
    tenant, other, operator = people("team-a"), people("team-b"), people("operator")
    leaves = PART.format(name="leaves", count=1, on_failure="report") + "on_drain: release\n"
    pod = ordered(tenant, leaves, "leaves")
    host = pod["servers"][0]["node"]
    kept = ordered(other, PART.format(name="stays", count=1, on_failure="report"), "stays")
    assert set(on(kept).values()) == {host}
    assert operator.weft("node", "drain", host, "--reason", "fan").code == 0
    assert "Maintenance" in str(show(tenant, "leaves")["conditions"])
    at = (datetime.now(UTC) + timedelta(seconds=45)).isoformat(timespec="seconds")
    for more in ("--plan",), ():
        drained = operator.weft("node", "drain", host, "--by", at, "--reason", "fan", *more)
        assert drained.code == 0, drained.err
        assert drained.out.splitlines()[-1].endswith("by on_drain: release: leaves"), drained.out
    assert show(tenant, "leaves")["state"] == "READY", "before the time nothing happens"
    until(operator, pod["id"], lambda one: one["state"] == "RELEASED")
    receipt = operator.weft("pod", "receipt", pod["id"], "--json").json["receipt"]
    assert receipt["clean"] and "drain" in str(receipt["cause"]).lower(), receipt
    assert show(other, "stays")["state"] == "READY" and on(show(other, "stays")) == on(kept)
    assert view(operator, host)["state"] != "free" and host not in free(operator)
    assert operator.weft("node", "undrain", host).code == 0
    assert released(other, "stays")["clean"]
    assert host in wait_for(lambda: free(operator) & {host})
    assert_clean(operator)


def moved(pod: dict[str, Any], host: str) -> bool:
    """Whether all of the pod's servers run elsewhere."""
    wanted = {f"server/{s['node']}" for s in pod["servers"]}
    servers = [r for r in pod["resources"] if r["kind"] == "server" and r["key"].rpartition("/")[0] in wanted]
    settled = [r for r in servers if r["state"] == "settled"]
    return pod["state"] == "READY" and host not in on(pod).values() and len(settled) == len(on(pod)) == 2


@contextmanager
def soon(lab: Lab, operator: Person) -> Generator[None]:
    """Hosts that are down for half a minute count as failed."""
    text = lab.site_path.read_text()
    short = text.replace("host_down: 10m", "host_down: 30s")
    assert short != text
    for table in lab.site_path.parent.glob("*.csv"):
        (operator.folder / table.name).write_text(table.read_text())
    (operator.folder / "site.yaml").write_text(short)
    assert operator.weft("site", "activate", "site.yaml").code == 0
    try:
        yield
    finally:
        assert operator.weft("site", "activate", str(lab.site_path)).code == 0
