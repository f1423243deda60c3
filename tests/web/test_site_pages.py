"""Operators' pages: pods of all projects, nodes with their ways out, and who may see and do what there."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.helpers.consoles import Browser, Console, hidden
from weft.app.verbs import Request
from weft.model.reservation import Reservation
from weft.model.views import AuditLogSearch, DrainRequest
from weft.testing.callers import caller

LOOKS = ("/ui/site/pods", "/ui/site/nodes", "/ui/site/nodes/gpu01", "/ui/site/stops")
ACTS = tuple(f"/ui/site/nodes/gpu01/{one}" for one in ("hold", "quarantine", "clear", "accept"))
ACTS = (*ACTS, "/ui/site/drain", "/ui/site/drain/plan", "/ui/site/undrain")
OLGA = Request(caller("olga", "admin", "admin"), "127.0.0.1", "req-0")


def log_of(console: Console) -> list[str]:
    return [entry.action for entry in console.house.store.audit_log(AuditLogSearch())]


@pytest.mark.parametrize("who", ["alice", "rita"])
def test_operators_pages_are_refused_to_tenants(console: Console, browser: Browser, who: str) -> None:
    """Pages and forms, and there are no links to them."""
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
    """What it can't do isn't offered, is refused, and a page that only asks isn't logged."""
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
    """By state, project, name, node and alarm; a page of them at a time, with the filter kept."""
    pods_console.order()
    pods_console.house.multiply("train", 60)
    browser.sign_in("olga")
    browser.get("/ui/site/pods?project=id-of-team-a")
    following = unescape(re.findall(r'href="([^"]+)">Next page', browser.page.text)[0])
    assert "project=id-of-team-a" in following
    assert "train" in browser.get(following).text and "First page" in browser.text
    for query in ("project=nix", "name=nix", "node=nix", "state=FAILED", "alarmed=true"):
        browser.get(f"/ui/site/pods?{query}")
        assert "No pod is as asked" in browser.text, query
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
    """With the number in each state; names that don't exist find nothing, and unknown values are refused."""
    browser.sign_in("olga")
    browser.get("/ui/site/nodes")
    assert "gpu01" in browser.text and re.search(r"\d+ free", browser.text)
    names = re.findall(r'nodes/([^"]+)">\1</a>', browser.get("/ui/site/nodes?sort=name&state=free").text)
    assert names == sorted(names) and len(names) > 2
    assert re.findall(r'nodes/([^"]+)">\1</a>', browser.get("/ui/site/nodes?name=gpu01").text) == ["gpu01"]
    assert "No node is as asked" in browser.get("/ui/site/nodes?rack=nix").text
    assert "No more nodes" in browser.get("/ui/site/nodes?page=99").text
    for query in ("state=nix", "sort=nix", "page=0", "page=x", f"name={'x' * 300}"):
        assert browser.get(f"/ui/site/nodes?{query}").status_code == 400, query
    assert browser.get("/ui/site/nodes/nix").status_code == 404


def test_node_is_held_and_accepted(pods_console: Console, browser: Browser) -> None:
    """Each after a page that says what it does; accepted for one thing, the others stay."""
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
    assert "burn-in" in browser.text and "disks" not in browser.text
    browser.get("/ui/site/nodes/gpu01/accept")
    browser.post("/ui/site/nodes/gpu01/accept", hidden(browser))
    assert "Holds None." in browser.text
    assert browser.get("/ui/site/nodes/gpu01/accept").status_code == 409


def test_node_is_quarantined_and_cleared(pods_console: Console, browser: Browser) -> None:
    """The page before clearing says why it is in quarantine; one that was loaded before another's change is refused."""
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
    pods_console.house.service.clear_node(OLGA, "gpu01")
    pods_console.house.service.quarantine_node(OLGA, "gpu01", "leak")
    assert browser.post("/ui/site/nodes/gpu01/clear", hidden(browser)).status_code == 409
    assert "has changed" in browser.text
    assert "quarantined leak" in browser.get("/ui/site/nodes/gpu01").text.replace("</span>", "")
    browser.page = stale
    browser.get("/ui/site/nodes/gpu01/clear")
    browser.post("/ui/site/nodes/gpu01/clear", hidden(browser))
    assert "free" in browser.text


def test_drain_says_what_it_concerns_and_breaks(pods_console: Console, browser: Browser) -> None:
    """Pods that keep their nodes, and reservations; what came meanwhile is shown first."""
    house = pods_console.house
    node = pods_console.order(lease={"end": "2027-01-10T00:00:00Z"}).placed[0].node
    browser.sign_in("olga")
    reserve(pods_console, "first", node)
    browser.get(f"/ui/site/drain?target=node:{node}")
    wanted = {"target": f"node:{node}", "by": "", "reason": "fan", "public": "cooling"}
    browser.post("/ui/site/drain/plan", wanted)
    assert "Pod train" in browser.text and "broken: reservation first" in browser.text
    assert not house.service.drains(OLGA)
    fields = hidden(browser)
    reserve(pods_console, "second", node, month=3)
    assert browser.post("/ui/site/drain", fields).status_code == 409 and not house.service.drains(OLGA)
    browser.get(f"/ui/site/drain?target=node:{node}")
    browser.post("/ui/site/drain/plan", wanted)
    browser.post("/ui/site/drain", hidden(browser))
    assert "fan" in browser.text and "cooling" in browser.text
    assert [one.node for one in house.service.drains(OLGA)] == [node]
    browser.get(f"/ui/site/undrain?target={node}")
    assert "Drained by olga: fan" in browser.text
    browser.post("/ui/site/undrain", hidden(browser))
    assert "No node is drained" in browser.text
    for by, target in (("tomorrow", node), ("2001-01-01T00:00Z", node), ("", "nix"), ("", "")):
        browser.get("/ui/site/drain")
        assert browser.post("/ui/site/drain/plan", {**wanted, "by": by, "target": target}).status_code == 400


def reserve(console: Console, name: str, node: str, month: int = 2) -> None:
    times = {"start": f"2027-0{month}-01T00:00:00Z", "end": f"2027-0{month}-20T00:00:00Z"}
    given = {"name": name, "project_id": "a" * 32, "nodes": [node], **times}
    console.house.service.create_reservation(OLGA, Reservation.model_validate(given))


def test_hold_names_promises_that_it_breaks(pods_console: Console, browser: Browser) -> None:
    """As a drain does."""
    reserve(pods_console, "first", "gpu02")
    browser.sign_in("olga")
    assert "reservation first" in browser.get("/ui/site/nodes/gpu02/hold").text
    assert "reservation first" in browser.get("/ui/site/nodes/gpu02/quarantine").text


def test_node_that_left_the_site_is_accepted_and_undrained(pods_console: Console, browser: Browser) -> None:
    """Its holds and drains count if it returns, so they have a page."""
    house = pods_console.house
    house.service.hold_node(OLGA, "gpu01", "burn-in")
    house.service.drain(OLGA, DrainRequest(target="gpu01"))
    with house.database.transaction() as tx:
        tx.run("drain_nodes", nodes=["gone"], at=tx.now(), by="olga", until=None, reason="fan", public="")
    browser.sign_in("olga")
    assert "if it returns" in browser.get("/ui/site/nodes/gone").text
    browser.get("/ui/site/undrain?target=gone")
    browser.post("/ui/site/undrain", hidden(browser))
    assert [one.node for one in house.service.drains(OLGA)] == ["gpu01"]
    assert browser.get("/ui/site/nodes/gone").status_code == 404
