"""Something changes between an operator's page and its confirmation."""

from __future__ import annotations

from tests.helpers.consoles import Browser, Console, hidden
from tests.web.test_site_pages import OLGA, reserve
from weft.app.verbs import Request
from weft.model.views import DrainRequest, NodeView


def test_reservation_made_meanwhile_prevents_a_hold(pods_console: Console, browser: Browser) -> None:
    """The page didn't name it, so another operator's reservation would be broken unseen."""
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gpu02/hold")
    fields = {**hidden(browser), "what": "burn-in"}
    reserve(pods_console, "first", "gpu02")
    assert browser.post("/ui/site/nodes/gpu02/hold", fields).status_code == 409
    assert not pods_console.house.service.nodes.holds(OLGA)
    browser.get("/ui/site/nodes/gpu02/hold")
    browser.post("/ui/site/nodes/gpu02/hold", {**hidden(browser), "what": "burn-in"})
    assert len(pods_console.house.service.nodes.holds(OLGA)) == 1


def test_reason_added_meanwhile_prevents_clearing_a_quarantine(
    pods_console: Console, browser: Browser
) -> None:
    """The operator decided by the first reason; a pod's cause was appended to it."""
    house, pod = pods_console.house, pods_console.order()
    house.service.nodes.quarantine(OLGA, "gpu01", "fan")
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gpu01/clear")
    fields = hidden(browser)
    with house.database.transaction() as tx:
        why = "still in P_Key 0x101"
        tx.run("quarantine", node="gpu01", reason=why, at=tx.now(), pod_id=pod.id, by="")
        tx.run("touch_queue", at=tx.now())
    assert browser.post("/ui/site/nodes/gpu01/clear", fields).status_code == 409
    assert "still in P_Key" in browser.get("/ui/site/nodes/gpu01/clear").text


def test_hold_made_meanwhile_is_kept(pods_console: Console, browser: Browser) -> None:
    """Accepting a node ends the holds that the page showed, even if another one comes after its last reading."""
    service = pods_console.house.service
    for what in ("burn-in", "firmware"):
        service.nodes.hold(OLGA, "gpu01", what)
    browser.sign_in("olga")
    browser.get("/ui/site/nodes/gpu01/accept")
    look = service.nodes.show

    def look_then_hold(request: Request, node: str) -> NodeView:
        found = look(request, node)
        service.nodes.show = look
        service.nodes.hold(OLGA, "gpu01", "recall")
        return found

    service.nodes.show = look_then_hold
    browser.post("/ui/site/nodes/gpu01/accept", hidden(browser))
    assert [one.what for one in service.nodes.holds(OLGA)] == ["recall"]


def test_projects_report_does_not_prevent_a_hold(pods_console: Console, browser: Browser) -> None:
    """Projects can report again and again; the node's page shows their reports and its history."""
    house, pod = pods_console.house, pods_console.order()
    node, alice = pod.placed[0].node, pods_console.keystone.users["alice"][1]
    browser.sign_in("olga")
    browser.get(f"/ui/site/nodes/{node}/hold")
    fields = {**hidden(browser), "what": "burn-in"}
    house.service.pods.report_node(Request(alice, "127.0.0.1", "req-0"), "train", node, "ECC <errors>")
    browser.post(f"/ui/site/nodes/{node}/hold", fields)
    assert browser.page.status_code == 200 and "Holds None." not in browser.text
    page = browser.get(f"/ui/site/nodes/{node}").text
    assert "ECC &lt;errors&gt;" in page and "<errors>" not in page
    assert "Clear…" in browser.text and "burn-in" in browser.text
    history = browser.text.partition("History")[2]
    assert history.index("burn-in") < history.index("ECC <errors>") < history.index("given to pod train")
    assert "Nothing earlier" in browser.get(f"/ui/site/nodes/{node}?before=1").text
    assert browser.get(f"/ui/site/nodes/{node}?before=x").status_code == 400


def test_drain_of_a_rack_ends_only_for_the_nodes_shown(pods_console: Console, browser: Browser) -> None:
    """The page names the nodes; if another operator drained one since, it is refused."""
    service = pods_console.house.service
    rack = next(one.rack for one in service.nodes.list(OLGA) if one.rack)
    first, second = [one.name for one in service.nodes.list(OLGA) if one.rack == rack][:2]
    browser.sign_in("olga")
    assert browser.get(f"/ui/site/undrain?target=rack:{rack}").status_code == 409
    assert browser.get("/ui/site/undrain?target=rack:nix").status_code == 400
    service.nodes.drain(OLGA, DrainRequest(target=first, reason="fan"))
    assert f"{first}, drained by olga: fan" in browser.get(f"/ui/site/undrain?target=rack:{rack}").text
    service.nodes.drain(OLGA, DrainRequest(target=second, reason="recall"))
    assert browser.post("/ui/site/undrain", hidden(browser)).status_code == 409
    browser.get(f"/ui/site/undrain?target=rack:{rack}")
    browser.post("/ui/site/undrain", hidden(browser))
    assert not service.nodes.drains(OLGA)
