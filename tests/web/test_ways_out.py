"""Ways out of stuck states: retry, replacement or abandoning of pods, repair of findings one by one."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from tests.helpers.consoles import Browser, Console, hidden
from weft.app.replaceverbs import ReplaceVerbs
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Kind
from weft.model.views import PodView
from weft.testing.cloud import Fault

GHOST = "00000000-1111-2222-3333-444444444444"


def failed(console: Console) -> PodView:
    """A FAILED pod: its servers didn't boot, but would now."""
    pod = console.order()
    fault = console.house.break_servers()
    console.house.finish("train")
    fault.left = 0
    return pod


def test_failed_pod_is_retried(pods_console: Console, browser: Browser) -> None:
    """The page has the reason; sent twice, the second is refused; readers have no button."""
    pod = failed(pods_console)
    browser.sign_in("rita")
    assert "Retry…" not in browser.get(f"/ui/pods/{pod.id}").text
    assert browser.get(f"/ui/pods/{pod.id}/retry").status_code == 403
    other = Browser(pods_console.url)
    other.sign_in("bob")
    assert other.get(f"/ui/pods/{pod.id}/retry").status_code == 404
    browser.sign_in("alice")
    assert "Retry…" in browser.get(f"/ui/pods/{pod.id}").text and "Audit…" not in browser.text
    form = browser.get(f"/ui/pods/{pod.id}/retry")
    assert "The pod FAILED:" in browser.text
    fields = hidden(browser)
    browser.post(f"/ui/pods/{pod.id}/retry", fields)
    assert "Retry…" not in browser.text
    browser.page = form
    assert browser.post(f"/ui/pods/{pod.id}/retry", fields).status_code == 409
    assert pods_console.house.finish("train").state == "READY"
    assert browser.get(f"/ui/pods/{pod.id}/retry").status_code == 409


def test_operator_abandons_a_release_that_cannot_finish(pods_console: Console, browser: Browser) -> None:
    """What wasn't seen gone is named; name and reason are required; tenants have no button."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("olga")
    assert browser.get(f"/ui/pods/{pod.id}/abandon").status_code == 409
    pods_console.house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    pods_console.house.worker.run_once()
    assert "Abandon the release…" in browser.get(f"/ui/pods/{pod.id}").text
    form = browser.get(f"/ui/pods/{pod.id}/abandon")
    assert "never be clean" in browser.text and "Not seen gone:" in browser.text
    fields = hidden(browser)
    for wrong in ({"reason": "scrapped", "name": "other"}, {"reason": " ", "name": "train"}):
        browser.page = form
        assert browser.post(f"/ui/pods/{pod.id}/abandon", {**fields, **wrong}).status_code == 400
    browser.page = form
    page = browser.post(f"/ui/pods/{pod.id}/abandon", {**fields, "reason": "scrapped", "name": "train"})
    assert page.status_code == 200 and "scrapped" in browser.text
    browser.sign_in("alice")
    assert "operators can end it earlier" in browser.get(f"/ui/pods/{pod.id}").text
    assert browser.get(f"/ui/pods/{pod.id}/abandon").status_code == 403


def test_node_of_a_pod_is_replaced(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan names the nodes that leave and come; only operators choose one; a plan that changed is shown first."""
    house, pod = pods_console.house, pods_console.order()
    house.finish("train")
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/replace")
    assert "weft chooses" not in browser.text
    node = pod.placed[0].node
    browser.post(f"/ui/pods/{pod.id}/replace/plan", {**hidden(browser), "node": node})
    assert f"{node} goes" in browser.text and "held until an operator accepts it" in browser.text
    fields = hidden(browser)
    comes = re.search(r"(gpu\d+) comes", browser.text)
    assert comes
    house.store.quarantine(comes[1], "fan")
    assert browser.post(f"/ui/pods/{pod.id}/replace", fields).status_code == 409
    browser.get(f"/ui/pods/{pod.id}/replace")
    browser.post(f"/ui/pods/{pod.id}/replace/plan", {**hidden(browser), "node": node})
    planned = list[object]()
    monkeypatch.setattr(ReplaceVerbs, "plan_replacement", lambda *given: planned.append(given))
    browser.post(f"/ui/pods/{pod.id}/replace", hidden(browser))
    assert "generation 2" in browser.text and not planned, "the change is planned once"
    monkeypatch.undo()
    browser.get(f"/ui/pods/{pod.id}/replace")
    wrong = {**hidden(browser), "node": "nix"}
    assert browser.post(f"/ui/pods/{pod.id}/replace/plan", wrong).status_code == 400
    browser.sign_in("olga")
    assert "weft chooses" in browser.get(f"/ui/pods/{pod.id}/replace").text


def test_findings_are_repaired_one_by_one(pods_console: Console, browser: Browser) -> None:
    """Each after a page that says what the repair does; for a pod unknown to the database its id must be typed."""
    house = pods_console.house
    pods_console.order()
    house.orphan(house.finish("train"))
    house.cloud.add(Kind.NETWORK, "weft-x", "team-a", Mark("lab", Owner.pod(GHOST), "network/1"))
    for thing in house.cloud.things():
        thing.created = house.clock.now() - timedelta(hours=1)
    browser.sign_in("olga")
    assert "Findings" not in browser.get("/ui/site/audit").text
    browser.get("/ui/site/audit?run=true")
    links = [unescape(one) for one in re.findall(r'href="([^"]+)">Repair…', browser.page.text)]
    assert len(links) == 2 and "2 findings" in browser.text
    assert "None of them matches" in browser.get("/ui/site/audit?run=true&pod=nix").text
    assert browser.get("/ui/site/audit?category=nix").status_code == 400
    assert browser.get("/ui/site/audit/0123456789abcdef").status_code == 404
    ghost = next(link for link in links if "doesn't know pod" in unescape(browser.get(link).text))
    other = next(link for link in links if link != ghost)
    browser.get(other)
    fields = hidden(browser)
    browser.post(other, fields)
    assert "Repaired, and seen so" in browser.text
    assert browser.post(other, fields).status_code == 404
    browser.get(ghost)
    fields = hidden(browser)
    assert browser.post(ghost, {**fields, "unknown": ""}).status_code == 400
    browser.get(ghost)
    browser.post(ghost, {**fields, "unknown": GHOST})
    assert "Repaired, and seen so" in browser.text
    assert "Clean." in browser.get("/ui/site/audit?run=true").text
    assert "audit repair" in browser.get("/ui/site/log?action=audit repair").text
    assert "No entry" in browser.get("/ui/site/log?user=nix").text
    for query in ("since=yesterday", "before=x", "user=%00"):
        assert browser.get(f"/ui/site/log?{query}").status_code == 400, query


def test_database_is_accepted_after_typing_a_word(pods_console: Console, browser: Browser) -> None:
    """An empty form is refused; the audit log has it."""
    browser.sign_in("olga")
    browser.get("/ui/site/audit/accept")
    assert browser.post("/ui/site/audit/accept", {"word": ""}).status_code == 400
    browser.get("/ui/site/audit/accept")
    assert browser.post("/ui/site/audit/accept", {"word": "accept"}).status_code == 200
    assert "audit accept" in browser.get("/ui/site/log").text


def test_console_of_a_server_is_only_in_the_answer(pods_console: Console, browser: Browser) -> None:
    """For those who may open it; the pod's events name the user. An address that isn't http is no link."""
    pod = pods_console.order()
    house = pods_console.house
    house.finish("train")
    server = house.service.pods.show(house.operator, pod.id).servers[0].name
    path = f"/ui/pods/{pod.id}/servers/console"
    browser.sign_in("rita")
    assert "Open a console" not in browser.get(f"/ui/pods/{pod.id}").text
    assert browser.get(path).status_code == 403
    browser.sign_in("alice")
    assert path in browser.get(f"/ui/pods/{pod.id}").text
    form = browser.get(path)
    fields = hidden(browser)
    assert browser.post(path, {**fields, "server": "nix"}).status_code == 400
    browser.page = form
    answer = browser.post(path, {**fields, "server": server})
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    url = re.search(r'id="secret">([^<]+)<', answer.text)
    assert url and ("noopener" in answer.text) == unescape(url[1]).startswith("http")
    assert "alice" in browser.get(f"/ui/pods/{pod.id}").text and url[1] not in browser.page.text
