"""The main job on the lab: a real OpenStack, a real subnet manager, the command line from outside."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.e2e.people import People, assert_clean, connection, servers_of
from weft.app.sitefile import load_site
from weft.drivers.opensm import OpenSmDriver
from weft.ports.ledger import NoLedger
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud


def on_database(lab: Lab) -> psycopg.Connection[Any]:
    """A connection to weft's own database."""
    folder = lab.layout.data / "weft" / "postgres"
    return psycopg.connect(f"postgresql://postgres@/postgres?host={folder}", autocommit=True)


def test_pod_goes_from_plan_to_receipt(lab: Lab, people: People) -> None:
    """Plan, order, what is really there, release, what is really gone, and the receipt: read past weft's own word."""
    tenant, operator = (replace(people(who), program=True) for who in ("team-a", "operator"))
    cloud = connection(lab, "operator")
    rival = cloud.identity.find_project("team-b")
    apart = f"locality: {{apart_from: [{rival.id}]}}\n"
    made = tenant.order("life", 2, "--wait", "--json", spare=1, more=apart)
    assert made.code == 0, made.err
    pod = tenant.weft("pod", "show", "life", "--json").json
    assert pod["state"] == "READY" and len(pod["servers"]) == 2
    (spare,) = (n["node"] for n in pod["spares"])
    shown = tenant.weft("pod", "show", "life", "--resources").out
    assert spare in shown.partition("Held as spares:")[2].partition("Resources:")[0]
    assert "held as a spare" in operator.weft("node", "list", "--state", "busy").out

    assert pod["order"]["locality"]["apart_from"] == [rival.id]
    mark = f"weft-{pod['id'][:8]}-"
    servers = servers_of(cloud, pod["id"])
    assert {s.name for s in servers} == {"life-0", "life-1"}
    assert {s.status for s in servers} == {"ACTIVE"}
    assert {s.hypervisor_hostname or s.compute_host for s in servers} == {n["node"] for n in pod["placed"]}
    ports = [p for p in cloud.network.ports() if p.name.startswith(mark)]
    assert {p.binding_vif_type for p in ports if p.binding_vnic_type == "direct-physical"} == {
        "hostdev_physical"
    }
    rdma = next(n for n in cloud.network.networks() if n.name == f"{mark}network-rdma")
    assert (
        rdma.provider_segmentation_id == int(pod["segment"], 16) and rdma.provider_physical_network == "ibnet"
    )

    site = load_site(lab.site_path)
    fabric = OpenSmDriver(site, "ib0", NoLedger())
    members = {h.port_guid for n in pod["placed"] for h in site.node_by_name[n["node"]].hcas_on("ib0")}
    key = 0x8000 | int(pod["segment"], 16)
    tables = fabric.tables()
    assert {g for g, t in tables.items() if key in t.keys} == members
    assert {g for g, t in tables.items() if key in (t.leaf_keys or ())} == members
    assert_clean(operator)

    assert tenant.weft("pod", "release", "life", "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "life", "--json")
    assert receipt.json["receipt"]["spares"] == [spare]
    assert spare in {n["name"] for n in operator.weft("node", "list", "--state", "free", "--json").json}
    (tenant.folder / "receipt.json").write_text(receipt.out)
    assert tenant.verify("receipt.json").code == 0
    (tenant.folder / "forged.json").write_text(receipt.out.replace('"clean": true', '"clean": false'))
    assert tenant.verify("forged.json").code != 0
    assert not servers_of(cloud, pod["id"])
    assert not [p for p in cloud.network.ports() if p.name.startswith(mark)]
    assert not any(key in t.keys or key in (t.leaf_keys or ()) for t in fabric.tables().values())
    assert_clean(operator)


def test_plan_changes_nothing_and_is_repeatable(people: People) -> None:
    """The same order gives the same bytes, and no pod."""
    tenant = people("team-a")
    before = tenant.weft("pod", "list", "--json").json
    (tenant.folder / "pod.yaml").write_text("name: p\nnodes: {count: 3, flavor: gpu8, image: tiny}\n")
    first = tenant.weft("pod", "plan", "-f", "pod.yaml", "--json")
    second = tenant.weft("pod", "plan", "-f", "pod.yaml", "--json")
    assert first.code == 0 and first.out == second.out
    assert tenant.weft("pod", "list", "--json").json == before


def test_tenants_are_isolated(people: People) -> None:
    """team-b can't see, change or guess a pod of team-a; a reader of team-a sees it and can't change it."""
    tenant, stranger, reader = people("team-a"), people("team-b"), people("team-a-reader")
    pod = tenant.order("mine", 1)
    assert pod.code == 0, pod.err
    pod_id = tenant.weft("pod", "show", "mine", "--json").json["id"]
    assert pod_id not in {p["id"] for p in stranger.weft("pod", "list", "--json").json}
    absent = stranger.weft("pod", "show", "nonesuch").err
    for name in ("mine", pod_id):
        for verb in ("show", "events", "release", "receipt"):
            answer = stranger.weft("pod", verb, name)
            assert answer.code == 2 and answer.err == absent.replace("nonesuch", name)
    assert reader.weft("pod", "show", "mine").code == 0
    assert "team-a-reader may not" in reader.weft("pod", "release", "mine").err
    assert "may not" in reader.order("another").err
    assert stranger.weft("audit").code == 2 and stranger.weft("node", "list").code == 2
    entries = people("operator").weft("audit-log", "--json").json
    assert any(e["user"] == "team-a-reader" and "Forbidden" in e["outcome"] for e in entries)


def test_exceeded_quota_is_reported_before_anything_is_created(lab: Lab, people: People) -> None:
    """An order over Nova's real quota is refused with the numbers, and nothing is there afterwards."""
    admin, tenant = connection(lab, "operator"), people("team-b")
    project = admin.identity.find_project("team-b")
    before = admin.compute.get_quota_set(project).instances
    admin.compute.update_quota_set(project, instances=1)
    try:
        answer = tenant.order("big", 2)
        assert answer.code != 0 and "servers: 0 used + 2 requested > 1" in answer.err
        assert "big" not in {p["name"] for p in tenant.weft("pod", "list", "--json").json}
    finally:
        admin.compute.update_quota_set(project, instances=before)


@pytest.mark.nightly(
    reason="a minute of processor; by day servers are deleted and repaired in the house, and pods live and end here"
)
def test_deleted_server_is_detected_and_repaired(lab: Lab, people: People) -> None:
    """A tenant deletes a server behind weft's back: the audit reports it, and a repair recreates it."""
    tenant, operator = people("team-a"), people("operator")
    assert tenant.order("hurt", 1, "--wait", floating="each").code == 0
    pod = tenant.weft("pod", "show", "hurt", "--json").json
    assert pod["servers"][0]["floating_ip"], "a router and a floating IP were ordered too"
    own = connection(lab, "team-a")
    server = servers_of(own, pod["id"], everywhere=False)[0]
    own.compute.delete_server(server)
    own.compute.wait_for_delete(server, wait=60)
    found = operator.weft("audit", "--json")
    assert found.code == 1 and any(f["category"] == "missing" for f in found.json["findings"])
    repaired = operator.weft("audit", "--repair", "--json")
    assert repaired.json["findings"] and all(f["repaired"] for f in repaired.json["findings"]), repaired.out
    assert_clean(operator)


@pytest.mark.nightly(reason="by day a worker is killed at each statement and each request, on fakes")
def test_killed_weft_resumes_where_it_was(lab: Lab, people: People) -> None:
    """kill -9 in the middle of an order: after a restart the pod becomes READY and nothing is there twice."""
    tenant, operator = people("team-a"), people("operator")
    made = tenant.order("cut", 2, "--json")
    assert made.code == 0, made.err
    record = lab.supervisor.record("weft")
    assert record is not None
    with on_database(lab) as database:
        killed = [row[0] for row in database.execute("SELECT worker FROM pod WHERE worker IS NOT NULL")]
    os.kill(record.pid, signal.SIGKILL)
    lab.up()
    with on_database(lab) as database:
        # As if the half minute had passed for which the killed worker holds the pod.
        database.execute(
            "UPDATE pod SET held_until = now() - interval '1 s' WHERE id = %s AND worker = ANY(%s)",
            [made.json["id"], killed],
        )
    answer = tenant.weft("pod", "create", "-f", "cut.yaml")
    assert answer.code == 2 and "already" in answer.err
    waited = tenant.weft("pod", "wait", "cut", "--until", "READY", "--timeout", "180", "--json")
    assert waited.code == 0, waited.err
    pod = waited.json
    cloud = connection(lab, "operator")
    assert sorted(s.name for s in servers_of(cloud, pod["id"])) == ["cut-0", "cut-1"]
    assert_clean(operator)
    with on_database(lab) as database:
        # As if the minutes had passed that a release waits for what the killed worker may still have asked for.
        database.execute(
            "UPDATE pod SET late_until = now() WHERE id = %s AND late_until > now()", [pod["id"]]
        )
