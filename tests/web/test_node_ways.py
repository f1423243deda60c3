"""Operators' actions on nodes that are held, reported, drained or gone, and nodes' bandwidth certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from tests.helpers.consoles import Browser, Console, hidden
from tests.helpers.hostchecks import document, result
from tests.web.test_site_pages import OLGA
from weft.app.verbs import Request
from weft.engine.nodes.drains import end_pods_on_drains
from weft.model.site import AcceptancePolicy
from weft.model.views import AuditLogSearch


def measured(nodes: list[str], plan: Any) -> dict[str, Any]:
    """A document in which every pair of these nodes reaches its nominal rate."""
    rails = {one.rail: one.gbps for one in plan.nodes[0].adapters}
    now = datetime.now(UTC)
    return {
        "version": 1,
        "program": "weft-check 0.1.0",
        "measured_by": "ib_write_bw",
        "plan": "sha256:" + "0" * 64,
        "began": (now - timedelta(minutes=2)).isoformat(),
        "ended": (now - timedelta(minutes=1)).isoformat(),
        "seconds": 2,
        "size": 1 << 20,
        "memory": "host",
        "rails_together": True,
        "nodes": nodes,
        "pairs": [
            [a, b, rail, gbps, 1]
            for a in range(len(nodes))
            for b in range(len(nodes))
            if a != b
            for rail, gbps in rails.items()
        ],
    }


def test_report_is_cleared_as_it_was_shown(pods_console: Console, browser: Browser) -> None:
    """One project's report, or all. If another report came since, it is shown first; without one there is nothing
    to clear."""
    house, pod = pods_console.house, pods_console.order()
    node, alice = pod.placed[0].node, Request(pods_console.keystone.users["alice"][1], "127.0.0.1", "req-0")
    browser.sign_in("olga")
    path = f"/ui/site/nodes/{node}/clear-report"
    assert browser.get(path).status_code == 409
    house.service.pods.report_node(alice, "train", node, "ECC <errors>")
    browser.get(f"{path}?project=id-of-team-a")
    assert "ECC <errors>" in browser.text and "<errors>" not in browser.page.text
    fields = hidden(browser)
    house.service.nodes.clear_report(OLGA, node)
    house.service.pods.report_node(alice, "train", node, "fan")
    assert browser.post(path, fields).status_code == 409 and house.service.nodes.reports(OLGA)
    browser.get(f"{path}?project=nix")
    assert browser.page.status_code == 409
    browser.get(path)
    browser.post(path, hidden(browser))
    assert not house.service.nodes.reports(OLGA) and "Clear…" not in browser.text
    browser.sign_in("alice")
    assert browser.get(path).status_code == 403


def test_node_is_accepted_without_its_tests_for_a_reason(pods_console: Console, browser: Browser) -> None:
    """Neither an empty reason nor one of several lines is accepted."""
    house = pods_console.house
    policy = AcceptancePolicy(after=("quarantine",), what="burn-in", tests=("bandwidth",))
    site = house.store.site().site.model_copy(update={"acceptance": policy})
    house.store.activate_site(site, "operator")
    house.service.nodes.quarantine(OLGA, "gpu01", "fan")
    house.service.nodes.clear(OLGA, "gpu01")
    browser.sign_in("olga")
    path = "/ui/site/nodes/gpu01/accept"
    browser.get(path)
    assert "bandwidth must pass first" in browser.text and "without_test" in browser.page.text
    fields = hidden(browser)
    page = browser.page
    for wrong, status in (("", 409), ("a\nb", 400), ("x" * 201, 400)):
        browser.page = page
        assert browser.post(path, {**fields, "without_test": wrong}).status_code == status, wrong
        assert house.service.nodes.holds(OLGA)
    browser.page = page
    browser.post(path, {**fields, "without_test": "no other node on this rail"})
    assert not house.service.nodes.holds(OLGA) and "no other node on this rail" in browser.text


def test_hold_with_missing_tests_does_not_keep_other_holds(pods_console: Console, browser: Browser) -> None:
    """Of all the node's holds, those without missing tests end, as the page said."""
    house = pods_console.house
    policy = AcceptancePolicy(after=("quarantine",), what="burn-in", tests=("bandwidth",))
    house.store.activate_site(house.store.site().site.model_copy(update={"acceptance": policy}), "operator")
    house.service.nodes.quarantine(OLGA, "gpu01", "fan")
    house.service.nodes.clear(OLGA, "gpu01")
    for what in ("a new fan", "zone check"):
        house.service.nodes.hold(OLGA, "gpu01", what)
    browser.sign_in("olga")
    path = "/ui/site/nodes/gpu01/accept"
    browser.get(path)
    answer = browser.post(path, {**hidden(browser), "without_test": ""})
    assert (
        answer.status_code == 409
        and "bandwidth" in browser.text
        and "Ends the hold for: burn-in" in browser.text
    )
    assert [one.what for one in house.service.nodes.holds(OLGA)] == ["burn-in"]


def test_drain_with_wait_leaves_pods_alone(pods_console: Console, browser: Browser) -> None:
    """`wait` is in the form, on the page that says what the drain does, and in the drain."""
    house = pods_console.house
    browser.sign_in("olga")
    browser.get("/ui/site/drain?target=gpu01")
    wanted = {"target": "gpu01", "by": "2027-01-31T18:00Z", "wait": "yes", "reason": "fan", "public": ""}
    assert browser.post("/ui/site/drain/plan", {**wanted, "wait": "nix"}).status_code == 400
    browser.get("/ui/site/drain?target=gpu01")
    browser.post("/ui/site/drain/plan", wanted)
    assert "left alone" in browser.text
    browser.post("/ui/site/drain", hidden(browser))
    assert [(one.node, one.wait) for one in house.service.nodes.drains(OLGA)] == [("gpu01", True)]


def test_pod_released_by_a_drain_is_named_before_and_on_its_receipt(
    pods_console: Console, browser: Browser
) -> None:
    """On the drain's plan, the pod's page, and the receipt; the order form has the field."""
    house, pod = pods_console.house, pods_console.order(on_drain="release")
    house.finish("train")
    browser.sign_in("olga")
    browser.get("/ui/site/drain")
    wanted = {
        "target": pod.placed[0].node,
        "by": "2027-01-31T18:00Z",
        "wait": "no",
        "reason": "",
        "public": "",
    }
    browser.post("/ui/site/drain/plan", wanted)
    assert "1 pod is released at the time: train" in browser.text
    assert "it is released at 2027-01-31T18:00Z" in browser.text
    browser.post("/ui/site/drain", hidden(browser))
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}")
    assert "the pod is released at that time, as its order says" in browser.text
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE drain SET until_at = since")
    end_pods_on_drains(house.database)
    house.finish("train")
    browser.get(f"/ui/pods/{pod.id}/receipt")
    assert f"maintenance of {pod.placed[0].node} began at" in browser.text
    browser.get("/ui/order")
    assert 'name="on_drain"' in browser.page.text and "At a drain" in browser.text


def test_node_that_left_the_site_shows_its_history(pods_console: Console, browser: Browser) -> None:
    """Without buttons for what isn't possible; an unknown node is 404."""
    house = pods_console.house
    house.service.nodes.quarantine(OLGA, "gpu01", "fan")
    house.service.nodes.clear(OLGA, "gpu01")
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE node_history SET node = 'gone' WHERE node = 'gpu01'")
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gone")
    assert browser.page.status_code == 200 and "its history is kept" in browser.text and "fan" in browser.text
    assert "Hold…" not in browser.text and "Drain…" not in browser.text
    assert browser.get("/ui/site/nodes/nix").status_code == 404


def test_bandwidth_certificate_is_shown(pods_console: Console, browser: Browser) -> None:
    """A node's to operators, a pod's to its project; one that isn't tested isn't passed, and the page says how to
    test it."""
    house, pod = pods_console.house, pods_console.order(verify="bandwidth")
    house.finish("train")
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gpu05/bandwidth")
    assert "not tested" in browser.text and "weft node verify-bandwidth gpu05" in browser.text
    assert browser.get("/ui/site/nodes/gpu05/bandwidth.json").status_code == 404
    nodes = ["gpu05", "gpu06"]
    plan = house.service.bandwidth.nodes_plan(OLGA, nodes)
    house.service.bandwidth.report_nodes(OLGA, measured(nodes, plan))
    browser.get("/ui/site/nodes/gpu05/bandwidth")
    assert "passed" in browser.text and "nodes, by operators" in browser.text
    assert 'member="certificate"' in browser.page.text
    assert browser.get("/ui/site/nodes/gpu05/bandwidth.json").json()["certificate"]["result"] == "passed"
    alice = Request(pods_console.keystone.users["alice"][1], "127.0.0.1", "req-0")
    browser.sign_in("alice")
    assert "BANDWIDTH_UNTESTED" in browser.get(f"/ui/pods/{pod.id}").text
    assert "verify-bandwidth train" in browser.get(f"/ui/pods/{pod.id}/bandwidth").text
    own = house.service.bandwidth.pod_plan(alice, "train")
    document = measured([one.name for one in own.nodes], own)
    document["pairs"] = document["pairs"][:-1]
    house.service.bandwidth.report_pod(alice, "train", document)
    browser.get(f"/ui/pods/{pod.id}/bandwidth")
    assert (
        "the pod's servers" in browser.text
        and 'truth-true">passed' not in browser.page.text.partition("Nodes<")[0]
    )
    assert browser.get("/ui/site/nodes/gpu05/bandwidth").status_code == 403
    browser.sign_in("bob")
    assert browser.get(f"/ui/pods/{pod.id}/bandwidth").status_code == 404
    assert "report-bandwidth" in " ".join(e.action for e in house.store.records.audit_log(AuditLogSearch()))


def test_map_of_a_pod_without_a_fabric_says_so(pods_console: Console, browser: Browser) -> None:
    """Its nodes and servers are listed."""
    pod = pods_console.order(fabric={"isolation": "none"})
    pods_console.house.finish("train")
    browser.sign_in("olga")
    browser.get(f"/ui/site/pods/{pod.id}/map")
    assert "without an RDMA network" in browser.text and pod.placed[0].node in browser.text


def test_check_that_fails_on_many_nodes_is_judged(pods_console: Console, browser: Browser) -> None:
    """First the page lists the nodes where it fails; if it fails on another one since, nothing is judged."""
    house = pods_console.house

    def fails(node: str) -> None:
        token = house.service.checks.make_token(house.operator, node).token
        reporter = house.service.checks.reporter(token, node, "192.0.2.1", "req-1", "weft-check")
        house.service.checks.report(reporter, document(result("XID", status="failed")))

    def judged(node: str) -> list[str]:
        found = house.service.checks.show(house.operator, node)
        return [one.judged for one in found.problems]

    fails("gpu01")
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gpu01")
    assert "Judge XID…" in browser.text
    path = "/ui/site/nodes/gpu01/judge-check"
    browser.get(f"{path}?check=XID")
    assert "XID fails on 1 node: gpu01" in browser.text
    stale = {**hidden(browser), "judged": "mistake"}
    fails("gpu02")
    assert browser.post(path, stale).status_code == 409 and judged("gpu01") == ["open"]
    for wrong, status in (("nix", 400), ("", 400)):
        browser.get(f"{path}?check=XID")
        assert browser.post(path, {**hidden(browser), "judged": wrong}).status_code == status
    browser.get(f"{path}?check=XID")
    assert "XID fails on 2 nodes: gpu01, gpu02" in browser.text
    browser.post(path, {**hidden(browser), "judged": "mistake"})
    assert (
        judged("gpu01") == judged("gpu02") == ["mistake"]
        and "the failures of check XID were judged: mistake" in browser.text
    )
    assert browser.get(f"{path}?check=GPU_COUNT").status_code == 409
    assert browser.get(f"{path}?check=nix").status_code == 409
    browser.sign_in("alice")
    assert browser.get(f"{path}?check=XID").status_code == 403
