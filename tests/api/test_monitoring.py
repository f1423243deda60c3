"""What Prometheus reads besides /metrics: targets that follow pods, for operators and the monitoring token alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.helpers.doors import ORDER, DoorsHouse
from weft.model.site import Exporter, Interface, Monitoring, Site, SiteNetwork, SiteSubnet
from weft.planning.site.monitoring import bmc_targets, host_targets
from weft.testing.callers import by
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

TOKEN = "a-token-of-monitoring-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}", "X-Auth-Token": ""}
OLGA = by("operator")


def networked(site: Site, unknown: str = "gpu05") -> Site:
    """The site with a management and a BMC network; the node `unknown` has no interface on them."""
    networks = {
        "hosts": SiteNetwork(
            physical_network="p1",
            subnets={
                "mgmt": SiteSubnet.model_validate(
                    {"role": "management", "addresses": "10.9.0.0/16", "dhcp": False}
                ),
                "bmc": SiteSubnet.model_validate({"role": "bmc", "addresses": "10.8.0.0/16", "dhcp": False}),
            },
        )
    }
    interfaces = [
        Interface.model_validate(
            {
                "device": node.name,
                "name": name,
                "network": "hosts",
                "mac": f"02:00:00:00:0{second}:{i:02x}",
                "address": f"10.{second}.0.{i + 10}",
            }
        )
        for i, node in enumerate(site.nodes)
        for name, second in (("bmc", 8), ("mgmt", 9))
        if node.name != unknown
    ]
    jobs = {"pod-node": Exporter(port=9100), "pod-dcgm": Exporter(port=9400, accelerators=True)}
    update = {
        "networks": networks,
        "interfaces": tuple(interfaces),
        "monitoring": Monitoring(pods=jobs),
    }
    return site.model_copy(update=update)


@pytest.fixture
def monitored(doors: DoorsHouse, identity: FakeIdentity) -> Iterator[httpx.Client]:
    """A client without headers of a weft that has a monitoring token."""
    doors.store.activate_site(networked(doors.site), "test")
    app = doors.served(identity)
    app.state.monitoring_token = TOKEN
    with served(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield client


def targets(client: httpx.Client, job: str, **headers: str) -> httpx.Response:
    return client.get("/v1/monitoring/targets", params={"job": job}, headers={**BEARER, **headers})


def test_targets_follow_pods(monitored: httpx.Client, doors: DoorsHouse) -> None:
    """A pod's servers appear, with rack and leaf, when it is handed over, and leave when its release begins."""
    assert targets(monitored, "pod-node").json() == []
    assert monitored.post("/v1/pods", json=ORDER, headers=by("a-member")).status_code in (201, 202)
    assert targets(monitored, "pod-node").json() == [], "it isn't handed over yet"
    pod = doors.finish("train")
    rows = targets(monitored, "pod-node").json()
    shown = monitored.get("/v1/pods/train", headers=by("a-member")).json()
    assert {r["targets"][0] for r in rows} == {
        f"{s['floating_ip'] or s['management_address']}:9100" for s in shown["servers"]
    }
    labels: dict[str, Any] = rows[0]["labels"]
    where = {p["node"]: p for p in shown["placed"]}[labels["__meta_weft_node"]]
    assert labels["__meta_weft_rack"] == where["rack"] and labels["__meta_weft_leaf"] == where["leaf"]
    assert labels["__meta_weft_project"] == "id-of-team-a" and labels["__meta_weft_pod"] == "train"
    assert labels["__meta_weft_pod_id"] == str(pod.id) and labels["__meta_weft_site"] == "lab"
    assert len(targets(monitored, "pod-dcgm").json()) == 2
    info = monitored.get("/v1/monitoring/info", headers=BEARER)
    found = {
        sample.labels["node"]
        for family in text_string_to_metric_families(info.text)
        for sample in family.samples
        if sample.name == "weft_pod_node_info" and sample.labels["pod"] == "train"
    }
    assert found == {p["node"] for p in shown["placed"]}
    assert monitored.post("/v1/pods/train/release", headers=by("a-member")).status_code == 202
    assert targets(monitored, "pod-node").json() == []


def test_restored_database_gives_no_targets_of_pods(monitored: httpx.Client, doors: DoorsHouse) -> None:
    """They may be gone, and their addresses others'; 503 keeps Prometheus at what it has. Hosts come from the
    site."""
    assert monitored.post("/v1/pods", json=ORDER, headers=by("a-member")).status_code in (201, 202)
    doors.finish("train")
    assert len(targets(monitored, "pod-node").json()) == 2
    doors.gate.found_behind("lab")
    for job in ("pod-node", "pod-dcgm", "weft-vipu"):
        assert targets(monitored, job).status_code == 503, job
    assert targets(monitored, "node").status_code == 200
    assert targets(monitored, "nix").status_code == 400


def test_hosts_without_an_address_are_counted(monitored: httpx.Client, doors: DoorsHouse) -> None:
    answer = targets(monitored, "node")
    site = doors.store.site().site
    assert answer.headers["weft-left-out"] == "1"
    assert len(answer.json()) == len(site.nodes) - 1
    assert {row["targets"][0][:5] for row in answer.json()} == {"10.9."}, "not the BMC"
    bmcs = bmc_targets(site)
    machines = {str(machine.bmc_address) for machine in site.ipu_machines}
    assert (
        all(t.startswith("10.8.") for t, _ in bmcs.groups if t not in machines) and "gpu05" in bmcs.left_out
    )
    assert machines and machines < {target for target, _ in bmcs.groups}
    only = host_targets(site, Exporter(port=9400, accelerators=True))
    assert {labels["__meta_weft_machine_type"] for _, labels in only.groups} == {"h100x8"}


def test_target_list_is_the_same_until_something_changes(monitored: httpx.Client) -> None:
    first = targets(monitored, "node")
    assert first.headers["content-type"] == "application/json"
    again = targets(monitored, "node", **{"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert targets(monitored, "weft-bmcs", **{"If-None-Match": first.headers["etag"]}).status_code == 200


def test_only_operators_and_the_token_read(monitored: httpx.Client, doors: DoorsHouse) -> None:
    """The token is valid for nothing else; tenants, other tokens, and any token where none is configured are
    refused."""
    for path in ("/v1/monitoring/targets?job=node", "/v1/monitoring/info"):
        assert monitored.get(path, headers=BEARER).status_code == 200
        assert monitored.get(path, headers=OLGA).status_code == 200
        assert monitored.get(path, headers=by("a-member")).status_code == 403
        assert monitored.get(path).status_code == 401
        for wrong in (f"{TOKEN}x", TOKEN[:-1], "x", "operator", "\xff"):
            header = {b"Authorization": f"Bearer {wrong}".encode("latin-1")}
            assert monitored.get(path, headers=header).status_code == 401, wrong
    for path in ("/v1/pods", "/v1/nodes", "/v1/site"):
        for header in (BEARER, {"X-Auth-Token": TOKEN}):
            assert monitored.get(path, headers=header).status_code == 401
    with served(doors.served(FakeIdentity())) as url:
        answer = httpx.get(f"{url}/v1/monitoring/info", headers=BEARER, trust_env=False)
    assert answer.status_code == 401


def test_unknown_job_is_named(monitored: httpx.Client) -> None:
    answer = targets(monitored, "nix")
    assert answer.status_code == 400
    assert "node, pod-dcgm, pod-node, weft-bmcs, weft-vipu" in answer.json()["detail"]


def test_labels_of_jobs_are_bounded_by_the_site(monitored: httpx.Client) -> None:
    """Series of hosts have no tenant's names."""
    names = {name for row in targets(monitored, "node").json() for name in row["labels"]}
    assert names == {
        f"__meta_weft_{n}" for n in ("site", "node", "role", "rack", "leaf", "cloud", "machine_type")
    }


def test_metrics_answer_head_and_have_no_created_series(monitored: httpx.Client) -> None:
    monitored.get("/healthz")
    head = monitored.head("/metrics")
    assert (head.status_code, head.content) == (200, b"")
    assert "_created" not in monitored.get("/metrics").text


def test_concurrent_readers_get_the_same_targets(monitored: httpx.Client) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(targets(monitored, "node").content)) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 16 and len(set(found)) == 1
