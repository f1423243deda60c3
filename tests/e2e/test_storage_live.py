"""Storage on a lab of its own: real Manila with shares by NFS-Ganesha, real Cinder, and what tenants do to them.

Mounting is tried by libnfs from network namespaces on the storage network with the addresses of the pods' ports.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tests.e2e.people import Person, connection, servers_of, wait_for
from weftlab.lab import Lab
from weftlab.storage.config import CIDR, NETWORK, folder
from weftlab.storage.filer import client

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own with Cinder, Manila and a filer"),
]
PREFIX = CIDR.partition("/")[2]
STRANGER = f"10.79.0.9/{PREFIX}"
SHARE = "{share: data, size: 1GiB, mount: /data%s}"
VOLUME = "{volume: work, size: 1GiB, mount: /work%s}"


@pytest.fixture
def tenant(storage_lab: Lab, tmp_path: Path) -> Generator[Person]:
    """A member of team-a; its pods, shares and volumes are gone after each test."""
    person, operator = (Person(storage_lab, who, tmp_path) for who in ("team-a", "operator"))
    yield person
    for pod in operator.weft("pod", "list", "--all-projects", "--json").json:
        if pod["state"] != "RELEASED":
            operator.weft("pod", "release", pod["id"], "--wait")
    own = connection(storage_lab, "team-a")
    for share in listed(own, "share"):
        call(own, "share", "DELETE", f"/shares/{share['id']}")
    for volume in listed(own, "volume"):
        call(own, "volume", "DELETE", f"/volumes/{volume['id']}")


def call(
    cloud: Connection, what: str, method: str, path: str, body: Any = None, version: str = "2.82"
) -> Any:
    """Ask Manila or Cinder directly, past weft; returns the answer's JSON."""
    proxy: Any = cloud.shared_file_system if what == "share" else cloud.block_storage
    more = {"microversion": version} if what == "share" else {}
    answer = proxy.request(path, method, json=body, raise_exc=False, **more)
    assert answer.status_code < 400, answer.text
    return answer.json() if answer.content else None


def listed(cloud: Connection, what: str) -> list[dict[str, Any]]:
    return call(cloud, what, "GET", f"/{what}s/detail")[f"{what}s"]


def rules(cloud: Connection, share: str) -> dict[str, dict[str, Any]]:
    found = call(cloud, "share", "GET", f"/share-access-rules?share_id={share}")["access_list"]
    return {r["access_to"]: r for r in found}


def location(cloud: Connection, share: str) -> str:
    return call(cloud, "share", "GET", f"/shares/{share}/export_locations")["export_locations"][0]["path"]


def order(tenant: Person, name: str, count: int, *entries: str, verb: str = "create") -> dict[str, Any]:
    """Order, or apply, a pod with storage and wait; returns it, READY."""
    file = tenant.folder / f"{name}.yaml"
    storage = "".join(f"- {e}\n" for e in entries)
    file.write_text(
        f"name: {name}\nnodes: {{count: {count}, flavor: gpu8, image: tiny}}\nstorage:\n{storage}"
    )
    made = tenant.weft("pod", verb, "-f", str(file), "--wait", "--json", timeout=400)
    assert made.code == 0, made.out + made.err
    shown = tenant.weft("pod", "show", name, "--json").json
    assert shown["state"] == "READY", shown["reason"]
    return shown


def release(tenant: Person, name: str) -> dict[str, Any]:
    released = tenant.weft("pod", "release", name, "--wait", timeout=400)
    assert released.code == 0, released.out + released.err
    text = tenant.weft("pod", "receipt", name, "--json").out
    (tenant.folder / "receipt.json").write_text(text)
    assert tenant.verify("receipt.json").code == 0
    return json.loads(text)["receipt"]


def addresses(cloud: Connection, pod: dict[str, Any]) -> list[str]:
    """Addresses of its ports on the storage network, as Neutron has them."""
    mark, network = f"weft-{pod['id'][:8]}-", cloud.network.find_network(NETWORK)
    ports = cloud.network.ports(network_id=network.id)
    return sorted(p.fixed_ips[0]["ip_address"] for p in ports if p.name.startswith(mark))


def test_share_goes_from_order_to_receipt_and_to_the_next_pod(
    storage_lab: Lab, tenant: Person, tmp_path: Path
) -> None:
    """Only the pod's own addresses mount its share; after the release none does, nor continues with an open file,
    and what was written is there for the next pod that uses it."""
    nas = folder(storage_lab.layout)
    cloud, admin = connection(storage_lab, "team-a"), connection(storage_lab, "operator")
    pod = order(tenant, "first", 2, SHARE % ", keep: true", VOLUME % "")
    (share,), volumes = listed(cloud, "share"), listed(cloud, "volume")
    own, where = addresses(admin, pod), location(cloud, share["id"])
    assert len(own) == 2 and sorted(rules(cloud, share["id"])) == own
    assert all(r["state"] == "active" for r in rules(cloud, share["id"]).values())
    servers = {s.id for s in servers_of(cloud, pod["id"], everywhere=False)}
    assert len(volumes) == 2 and {v["attachments"][0]["server_id"] for v in volumes} == servers
    scripts = [base64.b64decode(s.user_data).decode() for s in map(admin.compute.get_server, servers)]
    assert all(f"nfs '{where}' /data" in t for t in scripts)
    assert {v["id"] for v in volumes if any(f"volume '{v['id']}' /work" in t for t in scripts)} == {
        v["id"] for v in volumes
    }
    text = tmp_path / "text"
    text.write_text("written by the first pod")
    with client(nas, f"{own[0]}/{PREFIX}") as first, client(nas, f"{own[1]}/{PREFIX}") as second:
        assert first.write(where, "text", text) and second.read(where, "text") == text.read_text()
    with client(nas, STRANGER) as stranger:
        assert stranger.files(where) is None
    (nas / "exports" / where.rpartition("/")[2] / "large").write_bytes(bytes(64 << 20))
    with client(nas, f"{own[0]}/{PREFIX}") as first, first.reading(where, "large") as reading:
        assert reading.stdout is not None and len(reading.stdout.read(4096)) == 4096
        receipt = release(tenant, "first")
        # Of what it has open it gets what was on its way, and no more.
        rest, why = reading.communicate(timeout=60)
        assert len(rest) < (32 << 20), why
    assert receipt["clean"]
    kept = [i for i in receipt["items"] if i["result"] == "kept"]
    assert [i["subject"] for i in kept] == [f"first-data {share['id']}"]
    assert [i["plane"] for i in receipt["items"]].count("share_access") == 2
    assert not rules(cloud, share["id"]) and not listed(cloud, "volume")
    (now,) = listed(cloud, "share")
    assert (now["id"], now["name"]) == (share["id"], "first-data") and "weft site=" not in now["description"]
    with client(nas, f"{own[0]}/{PREFIX}") as former:
        assert former.files(where) is None
    pod = order(tenant, "second", 1, "{share: old, existing: first-data, mount: /data, read_only: true}")
    (address,) = addresses(admin, pod)
    with client(nas, f"{address}/{PREFIX}") as reader:
        assert reader.read(where, "text") == text.read_text() and not reader.write(where, "more", text)
    assert release(tenant, "second")["clean"]
    assert not rules(cloud, share["id"]) and len(listed(cloud, "share")) == 1


def test_opened_locked_and_copied_share_is_closed_and_released(storage_lab: Lab, tenant: Person) -> None:
    """0.0.0.0/0 is closed again; locks and a snapshot don't keep the release from its end."""
    nas = folder(storage_lab.layout)
    cloud, admin = connection(storage_lab, "team-a"), connection(storage_lab, "operator")
    pod = order(tenant, "open", 1, SHARE % "")
    (share,) = listed(cloud, "share")
    where, (address,) = location(cloud, share["id"]), addresses(admin, pod)
    action = f"/shares/{share['id']}/action"
    everybody = {"access_type": "ip", "access_to": "0.0.0.0/0", "access_level": "rw"}
    call(cloud, "share", "POST", action, {"allow_access": everybody})
    with client(nas, STRANGER) as stranger:
        wait_for(lambda: stranger.files(where) is not None)
        operator = Person(storage_lab, "operator", tenant.folder)
        operator.weft("audit", "--repair")
        wait_for(lambda: list(rules(cloud, share["id"])) == [address])
        assert stranger.files(where) is None
    rule = rules(cloud, share["id"])[address]["id"]
    for kind, thing in (("share", share["id"]), ("access_rule", rule)):
        lock = {
            "resource_id": thing,
            "resource_type": kind,
            "resource_action": "delete",
            "lock_reason": "mine",
        }
        call(cloud, "share", "POST", "/resource-locks", {"resource_lock": lock})
    call(cloud, "share", "POST", "/snapshots", {"snapshot": {"share_id": share["id"], "name": "copy"}})
    assert release(tenant, "open")["clean"]
    assert not listed(cloud, "share")


def test_deleted_share_rule_and_mark_are_restored(storage_lab: Lab, tenant: Person) -> None:
    """The rule is made again, the mark is written again; the share is the pod's by its id, in the recycle bin too."""
    cloud = connection(storage_lab, "team-a")
    order(tenant, "rules", 1, SHARE % "")
    (share,) = listed(cloud, "share")
    ((address, rule),) = rules(cloud, share["id"]).items()
    call(cloud, "share", "POST", f"/shares/{share['id']}/action", {"deny_access": {"access_id": rule["id"]}})
    body = {"share": {"display_name": "mine", "display_description": "mine"}}
    call(cloud, "share", "PUT", f"/shares/{share['id']}", body)
    wait_for(lambda: not rules(cloud, share["id"]))
    Person(storage_lab, "operator", tenant.folder).weft("audit", "--repair")
    wait_for(lambda: list(rules(cloud, share["id"])) == [address])
    wait_for(lambda: listed(cloud, "share")[0]["description"].startswith("weft site="))
    call(cloud, "share", "POST", f"/shares/{share['id']}/action", {"soft_delete": None})
    assert not listed(cloud, "share"), "it is in the recycle bin, and in no listing"
    assert release(tenant, "rules")["clean"]
    gone = call(cloud, "share", "GET", "/shares/detail?is_soft_deleted=true")["shares"]
    assert not gone and not listed(cloud, "share")


def test_detached_copied_and_transferred_volume_is_handled(storage_lab: Lab, tenant: Person) -> None:
    """Attached again; a snapshot and a transfer don't keep the release from its end."""
    cloud = connection(storage_lab, "team-a")
    order(tenant, "volumes", 1, VOLUME % "")
    (volume,) = listed(cloud, "volume")
    server = volume["attachments"][0]["server_id"]
    cloud.compute.delete_volume_attachment(server, volume["id"])
    wait_for(lambda: listed(cloud, "volume")[0]["status"] == "available")
    Person(storage_lab, "operator", tenant.folder).weft("audit", "--repair")
    wait_for(lambda: listed(cloud, "volume")[0]["status"] == "in-use")
    call(cloud, "volume", "POST", "/snapshots", {"snapshot": {"volume_id": volume["id"], "force": True}})
    cloud.compute.delete_volume_attachment(server, volume["id"])
    wait_for(lambda: listed(cloud, "volume")[0]["status"] == "available")
    transfer = {"transfer": {"volume_id": volume["id"], "name": "yours"}}
    call(cloud, "volume", "POST", "/os-volume-transfer", transfer)
    assert release(tenant, "volumes")["clean"]
    assert not listed(cloud, "volume")


def test_storage_comes_and_goes_while_the_pod_runs(storage_lab: Lab, tenant: Person) -> None:
    """A further share and volumes on a running pod, and away again; the servers stay the same."""
    cloud = connection(storage_lab, "team-a")
    order(tenant, "later", 2, SHARE % "")
    servers = {s.id for s in cloud.compute.servers()}
    more = "{share: more, size: 1GiB, mount: /more}"
    order(tenant, "later", 2, SHARE % "", more, VOLUME % "", verb="apply")
    assert len(listed(cloud, "share")) == 2
    assert [v["status"] for v in listed(cloud, "volume")] == ["in-use", "in-use"]
    order(tenant, "later", 2, SHARE % "", verb="apply")
    wait_for(lambda: len(listed(cloud, "share")) == 1 and not listed(cloud, "volume"))
    assert {s.id for s in cloud.compute.servers()} == servers
    assert release(tenant, "later")["clean"] and not listed(cloud, "share")


def test_storage_that_the_cloud_refuses_gives_one_sentence(tenant: Person) -> None:
    """One sentence, exit 2, nothing made."""
    for entry, said in (
        ("{share: s, size: 1GiB, type: gold, mount: /s}", "share types that the project may use: nas"),
        ("{volume: v, size: 1GiB, type: gold, mount: /v}", "volume types that the project may use"),
        ("{share: s, existing: nothing, mount: /s}", "no share of that name or id"),
        ("{share: s, size: 100TiB, mount: /s}", "share gigabytes"),
    ):
        file = tenant.folder / "bad.yaml"
        file.write_text(f"name: bad\nnodes: {{count: 1, flavor: gpu8, image: tiny}}\nstorage: [{entry}]\n")
        answer = tenant.weft("pod", "create", "-f", str(file))
        assert answer.code != 0 and said in answer.err, answer.err
    assert not [p for p in tenant.weft("pod", "list", "--json").json if p["name"] == "bad"]
