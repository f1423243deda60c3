"""Ways out by code: each command named in docs/problems has a page in the console, or a reason why not."""

from __future__ import annotations

from tests.helpers.consoles import Browser, Console, hidden
from tests.web.test_site_pages import OLGA
from tests.web.test_ways_out import failed
from weft.web.problems import codes, verbs_of
from weft.web.waysout import ELSEWHERE, WAYS, ways_of_pod

NAMED = {code: verbs_of(code) for code in codes() if verbs_of(code)}


def test_every_command_of_a_code_has_a_page_or_a_reason() -> None:
    """And every command in those lists is named for some code."""
    named = {verb for verbs in NAMED.values() for verb in verbs}
    assert len(NAMED) > 90
    assert named - WAYS.keys() - ELSEWHERE.keys() == set()
    assert WAYS.keys() & ELSEWHERE.keys() == set() and ELSEWHERE.keys() - named == set()


def test_ways_out_are_pages_of_the_console(console: Console, browser: Browser) -> None:
    """Their routes exist: an unknown pod or node is reported as such, and nothing fails."""
    browser.sign_in("olga")
    unknown = "00000000-0000-0000-0000-000000000000"
    for path in {way.path.format(pod=unknown, node="gpu01").partition("#")[0] for way in WAYS.values()}:
        page = browser.get(f"/ui{path}")
        assert page.status_code in (200, 404, 409), path
        assert "No such page" not in browser.text, path


def test_only_ways_out_that_the_caller_may_use_are_shown() -> None:
    """Several codes may have the same one, which is shown once; one that isn't a page isn't shown."""
    assert ways_of_pod("p", ["QUOTA_EXCEEDED", "FAILED_TIMES"], ["pods:retry"]) == [
        ("Retry…", "/pods/p/retry", WAYS["pod retry"].effect)
    ]
    assert ways_of_pod("p", ["QUOTA_EXCEEDED", "NIX", ""], []) == []
    assert [one[1] for one in ways_of_pod("p", ["BANDWIDTH_UNPROVED"], ["pods:report"])] == [
        "/pods/p/bandwidth",
        "/pods/p/report",
    ]


def test_tenant_reports_a_node_of_its_pod(pods_console: Console, browser: Browser) -> None:
    """With a reason of one line; readers have no button."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    path = f"/ui/pods/{pod.id}/report"
    browser.sign_in("rita")
    assert (
        "Report a node…" not in browser.get(f"/ui/pods/{pod.id}").text
        and browser.get(path).status_code == 403
    )
    browser.sign_in("alice")
    form = browser.get(path)
    fields = {**hidden(browser), "node": pod.placed[0].node}
    for reason in ("", "a\nb"):
        browser.page = form
        assert browser.post(path, {**fields, "reason": reason}).status_code == 400
    browser.page = form
    browser.post(path, {**fields, "reason": "ECC"})
    assert browser.page.status_code == 200
    browser.sign_in("olga")
    assert "ECC" in browser.get(f"/ui/site/nodes/{pod.placed[0].node}").text


def test_tenant_reboots_a_server_of_its_pod(pods_console: Console, browser: Browser) -> None:
    """A rescue system's password is only in the answer; unknown servers and actions are refused."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    path = f"/ui/pods/{pod.id}/servers/act"
    browser.sign_in("alice")
    form = browser.get(path)
    server = pods_console.house.service.pods.show(OLGA, str(pod.id)).servers[0].name
    fields = {**hidden(browser), "server": server, "action": "reboot"}
    for wrong in ({"server": "nix"}, {"action": "nix"}):
        browser.page = form
        assert browser.post(path, {**fields, **wrong}).status_code == 400
    browser.page = form
    browser.post(path, fields)
    assert browser.page.status_code == 200 and "reboot of" in browser.text
    browser.get(path)
    browser.post(path, {**hidden(browser), "server": server, "action": "rescue"})
    assert browser.page.status_code == 200


def test_failed_pod_shows_each_way_out_once(pods_console: Console, browser: Browser) -> None:
    """Those for its state and those for its code."""
    pod = failed(pods_console)
    browser.sign_in("alice")
    text = browser.get(f"/ui/pods/{pod.id}").text
    assert text.count("/retry") == 1 and text.count(f'class="act" href="/ui/pods/{pod.id}/replace"') == 1
