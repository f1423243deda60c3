"""The console in Chromium over a real Keystone, Nova, Neutron and OpenSM: a tenant's story and an operator's, by links
and buttons alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.people import People, assert_clean, wait_for
from tests.web.test_in_chromium import axe, check_accessible, tab
from weftlab.bootstrap import ACCOUNTS, SECRET
from weftlab.lab import Lab

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["axe", "tab"]
pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="minutes on the lab; by day the same pages on fakes"),
]
LONG = 300_000
"""Milliseconds in which the lab builds or takes back a pod, on a slow machine."""


def signed_in(page: Page, lab: Lab, account: str) -> None:
    """Sign in with one of the lab's accounts, in its project."""
    user, project = ACCOUNTS[account]
    page.goto(f"{lab.layout.url('weft')}/ui/sign-in")
    page.fill("#user", user)
    page.fill("#password", SECRET)
    page.click("section[aria-labelledby=by-password] button")
    page.wait_for_load_state()
    if page.locator("h1 >> text=Choose a project").count():
        page.click(f"main button >> text={project}")


def test_tenant_orders_changes_and_releases_a_pod(
    lab: Lab, people: People, tab: tuple[Page, list[str]], axe: str
) -> None:
    """The page follows what Nova and OpenSM do; the lease is extended; the receipt is verified by the browser."""
    page, messages = tab
    signed_in(page, lab, "team-a")
    page.click("nav >> text=Order")
    for name, value in (
        ("name", "browsed"),
        ("nodes-count", "2"),
        ("nodes-flavor", "gpu8"),
        ("nodes-image", "tiny"),
        ("lease-duration", "4h"),
    ):
        page.fill(f"#{name}", value)
    page.press("#lease-duration", "Tab")
    wait_for(lambda: "duration: 4h" in page.input_value("#yaml"))
    page.wait_for_selector("#plan >> text=It fits now")
    page.click("text=Order this")
    page.wait_for_selector("#live .state-ready", timeout=LONG)
    check_accessible(page, axe)
    before = people("team-a").weft("pod", "show", "browsed", "--json").json
    assert before["state"] == "READY" and {s["name"] for s in before["servers"]} == {"browsed-0", "browsed-1"}
    page.click("text=Extend the lease…")
    page.fill("#hours", "2")
    page.click("main button")
    page.wait_for_selector("h1 >> text=Pod browsed")
    assert people("team-a").weft("pod", "show", "browsed", "--json").json["lease_end"] > before["lease_end"]
    page.click("text=Change the order…")
    page.fill("#nodes-count", "3")
    page.press("#nodes-count", "Tab")
    page.wait_for_selector("#plan >> text=Nodes that come")
    page.click("text=Make generation")
    page.wait_for_selector("text=browsed-2", timeout=LONG)
    page.wait_for_selector("#live .state-ready", timeout=LONG)
    page.click("text=Release this pod…")
    page.fill("#name", "browsed")
    page.click("button.danger")
    page.wait_for_selector("#live .state-released", timeout=LONG)
    page.click("text=Receipt")
    page.wait_for_selector("weft-receipt[data-result=trusted]")
    assert "clean" in page.inner_text("main").lower()
    assert not messages
    assert_clean(people("operator"))


def test_operator_follows_a_pod_to_its_ports_and_drains_a_node(
    lab: Lab, people: People, tab: tuple[Page, list[str]], axe: str
) -> None:
    """From the list of pods by the map to the leaf's ports; an audit, a drain and its end, search, loads."""
    tenant, operator = people("team-a"), people("operator")
    assert tenant.order("charted", 2, "--wait").code == 0
    node = tenant.weft("pod", "show", "charted", "--json").json["placed"][0]["node"]
    page, messages = tab
    signed_in(page, lab, "operator")
    page.click("nav >> text=All pods")
    page.click("main >> text=charted")
    page.click("text=Map from the order")
    page.wait_for_selector("text=ports listed are as wanted")
    check_accessible(page, axe)
    page.click(f"main >> text={node} >> nth=0")
    page.click("text=Drain…")
    page.fill("#reason", "fans")
    page.click("main button")
    page.wait_for_selector("text=Pod charted of project")
    page.click("main button")
    page.wait_for_selector("td >> text=fans")
    assert [one["node"] for one in operator.weft("node", "drains", "--json").json] == [node]
    page.fill("header [name=q]", node)
    page.press("header [name=q]", "Enter")
    page.wait_for_url("**/search?*")
    page.click(f"main a[href$='/site/nodes/{node}'] >> nth=0")
    page.click("text=End the drain…")
    page.click("main button")
    page.wait_for_url("**/site/stops")
    assert operator.weft("node", "drains", "--json").json == []
    page.click("nav >> text=Picture")
    page.wait_for_selector("text=A click leads to a node")
    page.select_option("#color", "load")
    page.wait_for_selector(".legend >> text=up to 1 %", timeout=LONG)
    page.click("nav >> text=Fabrics")
    page.wait_for_selector("main >> text=ib0")
    check_accessible(page, axe)
    page.click("nav >> text=Audit >> nth=0")
    page.click("text=Audit now")
    page.wait_for_selector("text=Examined:", timeout=LONG)
    check_accessible(page, axe)
    assert not messages
    assert tenant.weft("pod", "release", "charted", "--wait").code == 0
    assert_clean(operator)
