"""Operators' pages: pods of all projects, nodes with their actions, and who may see and do what."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from html import unescape
from typing import NoReturn

import pytest

from tests.helpers.consoles import Browser, Console, hidden
from tests.helpers.hostchecks import document, result
from weft.app.verbs import Request
from weft.model.errors import TemporaryError
from weft.model.reservation import Reservation
from weft.model.views import AuditLogSearch, DrainRequest, NodeState
from weft.testing.callers import caller

_NAMES = (
    "pods nodes nodes/gpu01 nodes/gpu01/bandwidth resources stops queue alarms reservations fabrics fabrics/ib0 "
    "audit?run=true log receipts"
)
LOOKS = tuple(f"/ui/site/{name}" for name in _NAMES.split())
ACTS = tuple(
    f"/ui/site/nodes/gpu01/{one}" for one in ("hold", "quarantine", "clear", "accept", "clear-report")
)
ACTS = (
    *ACTS,
    "/ui/site/drain",
    "/ui/site/drain/plan",
    "/ui/site/undrain",
    "/ui/site/reservations/new",
    "/ui/site/fabrics/ib0/adopt",
)
OLGA = Request(caller("olga", "admin", "admin"), "127.0.0.1", "req-0")


def log_of(console: Console) -> list[str]:
    return [entry.action for entry in console.house.store.records.audit_log(AuditLogSearch())]


@pytest.mark.parametrize("who", ["alice", "rita"])
def test_operators_pages_are_refused_to_tenants(console: Console, browser: Browser, who: str) -> None:
    """Pages and forms; tenants see no links to them."""
    browser.sign_in(who)
    assert "/ui/site" not in browser.get("/ui/").text
    for path in LOOKS:
        assert browser.get(path).status_code == 403, path
    browser.get("/ui/")
    page = browser.page
    for path in ACTS:
        browser.page = page
        fields = {"target": "gpu01", "reason": "x", "what": "x", "seen": "x"}
        assert browser.post(path, fields).status_code == 403, path


def test_system_reader_sees_pages_without_buttons(console: Console, browser: Browser) -> None:
    """Actions aren't offered, are refused, and showing a page isn't logged."""
    browser.sign_in("sue", project="")
    if "Choose" in browser.page.text:
        browser.post("/ui/project", {"project": "system", "next": "/"})
    for path in LOOKS:
        assert browser.get(path).status_code == 200, path
        assert 'class="act"' not in browser.page.text
    assert "this session may read only" in browser.get("/ui/site/nodes/gpu01").text
    for path in ACTS:
        if "plan" not in path:
            assert browser.get(f"{path}?target=gpu01").status_code == 403, path
    assert not [row for row in log_of(console) if row.startswith("node")]


def test_pods_of_all_projects_are_listed_and_filtered(pods_console: Console, browser: Browser) -> None:
    """By state, project, name, node and alarm; the next page keeps the filter."""
    pods_console.order()
    pods_console.house.multiply("train", 60)
    browser.sign_in("olga")
    browser.get("/ui/site/pods?project=id-of-team-a")
    following = unescape(re.findall(r'href="([^"]+)">Next page', browser.page.text)[0])
    assert "project=id-of-team-a" in following
    assert "train" in browser.get(following).text and "First page" in browser.text
    for query in ("project=nix", "name=nix", "node=nix", "state=FAILED", "alarmed=true"):
        browser.get(f"/ui/site/pods?{query}")
        assert "No pod matches" in browser.text, query
    for query in (
        "state=NIX",
        "name=a%00b",
        "marker=%00",
        "marker=x",
        "alarmed=perhaps",
        f"name={'x' * 300}",
    ):
        assert browser.get(f"/ui/site/pods?{query}").status_code == 400, query


def test_nodes_are_listed_filtered_and_sorted(console: Console, browser: Browser) -> None:
    """With the number of nodes in each state; unknown names find nothing, unknown values are refused."""
    browser.sign_in("olga")
    browser.get("/ui/site/nodes")
    assert "gpu01" in browser.text and re.search(r"\d+ free", browser.text)
    names = re.findall(r'nodes/([^"]+)">\1</a>', browser.get("/ui/site/nodes?sort=name&state=free").text)
    assert names == sorted(names) and len(names) > 2
    assert re.findall(r'nodes/([^"]+)">\1</a>', browser.get("/ui/site/nodes?name=gpu01").text) == ["gpu01"]
    assert "No node matches" in browser.get("/ui/site/nodes?rack=nix").text
    assert "No more nodes" in browser.get("/ui/site/nodes?page=99").text
    for query in ("state=nix", "sort=nix", "page=0", "page=x", f"name={'x' * 300}"):
        assert browser.get(f"/ui/site/nodes?{query}").status_code == 400, query
    assert browser.get("/ui/site/nodes/nix").status_code == 404


def test_node_is_held_and_accepted(pods_console: Console, browser: Browser) -> None:
    """Each after a page that says what it does; accepting for one purpose keeps the other holds."""
    browser.sign_in("olga")
    for what in ("burn-in", "firmware & <disks>"):
        browser.get("/ui/site/nodes/gpu01/hold")
        assert "no new orders" in browser.text
        browser.post("/ui/site/nodes/gpu01/hold", {**hidden(browser), "what": what})
        assert what in browser.text and browser.page.status_code == 200
    browser.get("/ui/site/stops")
    assert browser.text.count("gpu01") == 2
    browser.get("/ui/site/nodes/gpu01")
    link = unescape(re.findall(r'href="([^"]+)">Accept…', browser.page.text)[1])
    browser.get(link)
    assert "firmware & <disks>" in browser.text and "because of the hold for burn-in" in browser.text
    browser.post(link.partition("?")[0], hidden(browser))
    now = browser.text.partition("History")[0]
    assert "burn-in" in now and "disks" not in now
    browser.get("/ui/site/nodes/gpu01/accept")
    browser.post("/ui/site/nodes/gpu01/accept", hidden(browser))
    assert "Holds None." in browser.text
    assert browser.get("/ui/site/nodes/gpu01/accept").status_code == 409


def test_node_is_quarantined_and_cleared(pods_console: Console, browser: Browser) -> None:
    """The page before clearing has the reason; if it changed since, clearing is refused."""
    browser.sign_in("olga")
    assert browser.get("/ui/site/nodes/gpu01/clear").status_code == 409
    form = browser.get("/ui/site/nodes/gpu01/quarantine")
    fields = hidden(browser)
    assert browser.post("/ui/site/nodes/gpu01/quarantine", {**fields, "reason": " "}).status_code == 400
    browser.page = form
    browser.post("/ui/site/nodes/gpu01/quarantine", {**fields, "reason": "fan"})
    assert "quarantined fan" in browser.text
    stale = browser.get("/ui/site/nodes/gpu01/clear")
    assert "in quarantine: fan" in browser.text
    pods_console.house.service.nodes.clear(OLGA, "gpu01")
    pods_console.house.service.nodes.quarantine(OLGA, "gpu01", "leak")
    assert browser.post("/ui/site/nodes/gpu01/clear", hidden(browser)).status_code == 409
    assert "has changed" in browser.text
    assert "quarantined leak" in browser.get("/ui/site/nodes/gpu01").text.replace("</span>", "")
    browser.page = stale
    browser.get("/ui/site/nodes/gpu01/clear")
    browser.post("/ui/site/nodes/gpu01/clear", hidden(browser))
    assert "free" in browser.text


def test_drain_page_lists_affected_pods_and_reservations(pods_console: Console, browser: Browser) -> None:
    """Those that came since are shown before the drain is made."""
    house = pods_console.house
    node = pods_console.order(lease={"end": "2027-01-10T00:00:00Z"}).placed[0].node
    browser.sign_in("olga")
    reserve(pods_console, "first", node)
    browser.get(f"/ui/site/drain?target=node:{node}")
    wanted = {"target": f"node:{node}", "by": "", "reason": "fan", "public": "cooling"}
    browser.post("/ui/site/drain/plan", wanted)
    assert "Pod train" in browser.text and "broken: reservation first" in browser.text
    assert not house.service.nodes.drains(OLGA)
    fields = hidden(browser)
    reserve(pods_console, "second", node, month=3)
    assert browser.post("/ui/site/drain", fields).status_code == 409 and not house.service.nodes.drains(OLGA)
    browser.get(f"/ui/site/drain?target=node:{node}")
    browser.post("/ui/site/drain/plan", wanted)
    browser.post("/ui/site/drain", hidden(browser))
    assert "fan" in browser.text and "cooling" in browser.text
    assert [one.node for one in house.service.nodes.drains(OLGA)] == [node]
    browser.get(f"/ui/site/undrain?target={node}")
    assert "drained by olga: fan" in browser.text
    browser.post("/ui/site/undrain", hidden(browser))
    assert "No node is drained" in browser.text
    for by, target in (("tomorrow", node), ("2001-01-01T00:00Z", node), ("", "nix"), ("", "")):
        browser.get("/ui/site/drain")
        assert browser.post("/ui/site/drain/plan", {**wanted, "by": by, "target": target}).status_code == 400


def reserve(console: Console, name: str, node: str, month: int = 2) -> None:
    times = {"start": f"2027-0{month}-01T00:00:00Z", "end": f"2027-0{month}-20T00:00:00Z"}
    given = {"name": name, "project_id": "a" * 32, "nodes": [node], **times}
    console.house.service.capacity.reserve(OLGA, Reservation.model_validate(given))


def test_pages_of_hold_and_quarantine_name_affected_reservations(
    pods_console: Console, browser: Browser
) -> None:
    reserve(pods_console, "first", "gpu02")
    browser.sign_in("olga")
    assert "reservation first" in browser.get("/ui/site/nodes/gpu02/hold").text
    assert "reservation first" in browser.get("/ui/site/nodes/gpu02/quarantine").text


def test_node_that_left_the_site_is_undrained(pods_console: Console, browser: Browser) -> None:
    """Its holds and drains apply if it returns, so it keeps a page."""
    house = pods_console.house
    house.service.nodes.hold(OLGA, "gpu01", "burn-in")
    house.service.nodes.drain(OLGA, DrainRequest(target="gpu01"))
    with house.database.transaction() as tx:
        given = {"by": "olga", "until": None, "reason": "fan", "public": "", "waits": False}
        tx.run("drain_nodes", nodes=["gone"], at=tx.now(), **given)
    browser.sign_in("olga")
    assert "if it returns" in browser.get("/ui/site/nodes/gone").text
    browser.get("/ui/site/undrain?target=gone")
    browser.post("/ui/site/undrain", hidden(browser))
    assert [one.node for one in house.service.nodes.drains(OLGA)] == ["gpu01"]
    assert "its history is kept" in browser.get("/ui/site/nodes/gone").text


def test_capacity_is_for_everyone_and_the_queue_for_operators(
    pods_console: Console, browser: Browser
) -> None:
    """Free nodes and the largest order; why each order waits; unknown values are refused."""
    pods_console.house.fill()
    pods_console.order(queue=True)
    browser.sign_in("alice")
    browser.get("/ui/capacity")
    assert "1 orders are in the queue" in browser.text and "nodes" in browser.text
    for query in ("level=nix", "duration=soon", "duration=0h", f"accelerator={'x' * 300}"):
        assert browser.get(f"/ui/capacity?{query}").status_code == 400, query
    assert browser.get("/ui/site/queue").status_code == 403
    browser.sign_in("olga")
    browser.get("/ui/site/queue")
    assert "train" in browser.text and "IN_QUEUE" in browser.text


def test_nodes_are_reserved_and_the_reservation_deleted(pods_console: Console, browser: Browser) -> None:
    """By a form; deleted after a page that says what it is, unless it is another one by then."""
    house = pods_console.house
    browser.sign_in("olga")
    form = browser.get("/ui/site/reservations/new")
    given = {"name": "course", "project_id": "a" * 32, "nodes": "gpu01 gpu02", "end": "2027-03-01T00:00Z"}
    for wrong in ({"nodes": ""}, {"nodes": "nix"}, {"end": "soon"}, {"name": ""}):
        browser.page = form
        assert browser.post("/ui/site/reservations/new", {**given, **wrong}).status_code == 400, wrong
    browser.page = form
    browser.post("/ui/site/reservations/new", given)
    assert "course" in browser.text and "2: gpu01, gpu02" in browser.text
    browser.get("/ui/site/reservations/course/delete")
    fields = hidden(browser)
    house.service.capacity.end_reservation(OLGA, "course")
    reserve(pods_console, "course", "gpu03")
    assert browser.post("/ui/site/reservations/course/delete", fields).status_code == 409
    browser.get("/ui/site/reservations/course/delete")
    browser.post("/ui/site/reservations/course/delete", hidden(browser))
    assert "Nothing is reserved" in browser.text
    assert browser.get("/ui/site/reservations/course/delete").status_code == 404


def test_fabrics_are_shown_with_the_age_of_their_readings(pods_console: Console, browser: Browser) -> None:
    """Before a reading it isn't healthy; if a manager doesn't answer, the page keeps the last reading."""
    house = pods_console.house
    browser.sign_in("olga")
    assert "not read yet" in browser.get("/ui/site/fabrics").text
    assert "no worker has asked" in browser.get("/ui/site/alarms").text
    with house.database.transaction() as tx:
        tx.run("saw_fabric", fabric="ib0", known=False, problems=3, port_errors=None)
    browser.get("/ui/site/fabrics")
    assert "0 s ago" in browser.text and "not known" in browser.text and "not reported" in browser.text
    assert "read now" in browser.get("/ui/site/fabrics?now=true").text

    def silent() -> None:
        raise TemporaryError("read", "the manager", "timed out", "try again")

    house.fabric.status = silent  # type: ignore[assignment]
    browser.get("/ui/site/fabrics?now=true")
    assert "timed out" in browser.text and "not known" in browser.text


def test_cabling_is_compared_and_adopted(pods_console: Console, browser: Browser) -> None:
    """Only what was shown; without differences there is nothing to adopt."""
    house = pods_console.house
    browser.sign_in("olga")
    assert "As the site says" in browser.get("/ui/site/fabrics/ib0").text
    assert browser.get("/ui/site/fabrics/ib0/adopt").status_code == 409
    assert browser.get("/ui/site/fabrics/nix").status_code == 400
    house.pull_cable()
    assert "missing cable" in browser.get("/ui/site/fabrics/ib0").text
    browser.get("/ui/site/fabrics/ib0/adopt")
    fields = hidden(browser)
    house.pull_cable()
    assert browser.post("/ui/site/fabrics/ib0/adopt", fields).status_code == 409
    browser.get("/ui/site/fabrics/ib0/adopt")
    browser.post("/ui/site/fabrics/ib0/adopt", hidden(browser))
    assert "Generation 2" in browser.text and "As the site says" in browser.text


def test_alarms_are_grouped_with_their_ways_out(pods_console: Console, browser: Browser) -> None:
    """A failed pod, a quarantined node, an overdue drain; a group that can't be read says so."""
    house = pods_console.house
    pod = pods_console.order()
    house.break_servers()
    house.finish("train")
    house.store.quarantine("gpu09", "fan")
    node = pod.placed[0].node
    house.service.nodes.drain(OLGA, DrainRequest(target=node, by=datetime(2027, 1, 1, 13, tzinfo=UTC)))
    browser.sign_in("olga")
    assert "overdue" not in browser.get("/ui/site/alarms").text
    house.door_clock.go_on(7200)
    page = browser.get("/ui/site/alarms").text
    assert f"/ui/pods/{pod.id}" in page and "/ui/site/nodes/gpu09" in page
    assert "no worker sent a heartbeat" in browser.text and "/ui/problems/NO_WORKERS" in page
    assert (
        "1 FAILED" in browser.text and "1 quarantined" in browser.text and "1 drain overdue" in browser.text
    )

    def broken(request: Request, states: Collection[NodeState]) -> NoReturn:
        raise TemporaryError("read", "the database", "timed out", "try again")

    pods_console.house.service.nodes.marks_and_views = broken
    browser.get("/ui/site/alarms")
    assert "Not known: " in browser.text and "timed out" in browser.text and "1 FAILED" in browser.text


def test_receipts_of_all_projects_are_listed(pods_console: Console, browser: Browser) -> None:
    """Those of the last day, and any by id."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("olga")
    assert "None." in browser.get("/ui/site/receipts").text
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    pods_console.house.finish("train")
    assert f"/ui/pods/{pod.id}/receipt" in browser.get("/ui/site/receipts").text
    assert "Receipt of pod train" in browser.get(f"/ui/site/receipts?pod={pod.id}").text
    assert browser.get("/ui/site/receipts?pod=nix").status_code == 404


def test_failed_checks_of_a_node_are_on_its_page_and_an_alarm(
    pods_console: Console, browser: Browser
) -> None:
    """The machine's own text is escaped."""
    service, house = pods_console.house.service, pods_console.house
    token = service.checks.make_token(house.operator, "gpu01").token
    reporter = service.checks.reporter(token, "gpu01", "192.0.2.1", "req-1", "weft-check")
    service.checks.report(reporter, document(result("XID", "<b>gpu0</b>", "failed")))
    browser.sign_in("olga")
    page = browser.get("/ui/site/nodes/gpu01").text
    assert "XID of &lt;b&gt;gpu0&lt;/b&gt; since" in page and "node-failed" in page
    assert "failed: its own checks failed: XID" in browser.get("/ui/site/alarms").text
    assert "gpu01" in browser.get("/ui/site/nodes?state=failed").text
