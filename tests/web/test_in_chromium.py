"""The console in Debian's Chromium, from order to verified receipt, without messages on the browser's console."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.consoles import PASSWORD, Console
from tests.helpers.paths import ROOT
from tests.web.test_node_ways import measured
from tests.web.test_site_pages import OLGA

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.landing

pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="session")
def axe() -> str:
    """Source of axe-core, from its wheel."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[tuple[Page, list[str]]]:
    """A tab, and the messages of its console; weftlab.alone ends the browser with the test."""
    from playwright.sync_api import sync_playwright

    subprocess.run([ROOT / "tools/packages.sh", "chromium", "fonts-dejavu-core"], check=True, timeout=900)
    messages: list[str] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        yield page, messages
        browser.close()


def check_accessible(page: Page, axe: str) -> None:
    """Asserts that axe finds no violation on this page."""
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    wrong = [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found["violations"]]
    assert not wrong and len(found["passes"]) > 10, json.dumps(wrong, indent=1)


def test_pod_is_ordered_released_and_its_receipt_verified(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """Fields fill the YAML, the page follows the pod, the receipt is verified, and another key is detected."""
    page, messages = tab
    page.goto(f"{pods_console.url}/ui/")
    check_accessible(page, axe)
    page.fill("#user", "alice")
    page.fill("#password", PASSWORD)
    page.click("section[aria-labelledby=by-password] button")
    check_accessible(page, axe)
    page.click("text=team-a")
    page.click("nav >> text=Order")
    for name, value in (
        ("name", "train"),
        ("nodes-count", "2"),
        ("nodes-flavor", "gpu8"),
        ("nodes-image", "tiny"),
    ):
        page.fill(f"#{name}", value)
    page.wait_for_selector("#flavors option[value=gpu8]", state="attached")
    page.press("#nodes-image", "Tab")
    page.wait_for_selector("#plan >> text=It fits now")
    assert "flavor: gpu8" in page.input_value("#yaml")
    check_accessible(page, axe)
    picture(page, "console-order")
    page.click("text=Order this")
    page.wait_for_selector("h1 >> text=Pod train")
    pods_console.house.finish("train")
    page.wait_for_selector("#live .state-ready")
    check_accessible(page, axe)
    picture(page, "console-pod")
    page.emulate_media(color_scheme="dark")
    check_accessible(page, axe)
    page.set_viewport_size({"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("text=Release this pod…")
    page.fill("#name", "train")
    page.click("button.danger")
    pods_console.house.finish("train")
    page.click("text=Receipt")
    page.wait_for_selector("weft-receipt[data-result=trusted]")
    check_accessible(page, axe)
    page.fill("#key", "A" * 43 + "=")
    page.click("text=Check again")
    page.wait_for_selector("weft-receipt[data-result=other]")
    page.route("**/receipt.json", lambda route: route.fulfill(json=forged(route.fetch().json())))
    page.click("text=Check again")
    page.wait_for_selector("weft-receipt[data-result=broken]")
    cookies = page.context.cookies()
    assert [(c.get("name"), c.get("secure"), c.get("httpOnly")) for c in cookies] == [
        ("__Host-weft", True, True)
    ]
    assert page.evaluate("document.cookie") == ""
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert "token" not in kept and cookies[0].get("value", "") not in kept
    assert not messages


def test_operator_follows_links_from_nodes_to_leaf_ports(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """From the list to each confirmation, by links and buttons only; in dark mode and on a phone, too."""
    page, messages = tab
    pods_console.order()
    pods_console.house.finish("train")
    pods_console.house.store.quarantine("gpu09", "fan")
    page.goto(f"{pods_console.url}/ui/")
    page.fill("#user", "olga")
    page.fill("#password", PASSWORD)
    page.click("section[aria-labelledby=by-password] button")
    page.click("nav >> text=All pods")
    page.click("nav >> text=Nodes")
    check_accessible(page, axe)
    picture(page, "console-nodes")
    page.goto(f"{pods_console.url}/ui/site/health")
    page.wait_for_selector("td >> text=fan")
    check_accessible(page, axe)
    page.click("nav >> text=Nodes")
    page.click("th >> text=gpu01")
    page.click("text=Hold…")
    page.fill("#what", "burn-in")
    check_accessible(page, axe)
    page.click("main button")
    page.wait_for_selector("td >> text=olga")
    page.click("text=Drain…")
    page.click("main button")
    picture(page, "console-drain")
    page.emulate_media(color_scheme="dark")
    check_accessible(page, axe)
    page.click("main button")
    page.emulate_media(color_scheme="light")
    page.click("nav >> text=Picture")
    page.locator("img.picture").evaluate("image => image.decode()")  # loaded, and valid as an image
    check_accessible(page, axe)
    picture(page, "console-picture")
    page.fill("header [name=q]", "gpu01")
    page.press("header [name=q]", "Enter")
    check_accessible(page, axe)
    page.click("main th >> text=train")
    page.click("text=Map from the order")
    check_accessible(page, axe)
    picture(page, "console-map")
    page.set_viewport_size({"width": 375, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not messages


def test_menu_on_a_phone_is_folded(pods_console: Console, tab: tuple[Page, list[str]], axe: str) -> None:
    """An operator sees the page's content on the first screen; keys open the menu, without JavaScript."""
    page, messages = tab
    signed_in(page, pods_console.url, "olga")
    menus = page.get_by_role("navigation", name="Site").or_(page.get_by_role("navigation", name="Console"))
    summary = page.locator("summary >> text=Menu")
    assert not summary.is_visible() and menus.count() == 2
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{pods_console.url}/ui/site/nodes")
    header = page.locator("header").bounding_box()
    assert header and header["height"] < 844 / 6 and menus.count() == 0
    for color in ("light", "dark"):
        page.emulate_media(color_scheme=color)
        check_accessible(page, axe)
        page.keyboard.press("Tab")
        while not summary.evaluate("one => one === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert menus.count() == 2 and page.get_by_role("button", name="Sign out").is_visible()
        check_accessible(page, axe)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Enter")
        assert menus.count() == 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.click("nav >> text=Alarms")
    page.wait_for_selector("h1 >> text=Alarms")
    assert menus.count() == 0, "the next page has it folded"
    assert not messages


def signed_in(page: Page, url: str, user: str) -> None:
    """Signs in; for a user with one project, or a project chosen already."""
    page.goto(f"{url}/ui/sign-in")
    page.fill("#user", user)
    page.fill("#password", PASSWORD)
    page.click("section[aria-labelledby=by-password] button")
    page.wait_for_load_state()
    if page.locator("h1 >> text=Choose a project").count():
        page.click("text=team-a")


def test_tenant_changes_a_pod_and_follows_events(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """Fields follow the form's values, events appear without a reload, and a webhook's secret is shown once."""
    page, messages = tab
    pod = pods_console.order(verify="bandwidth")
    pods_console.house.finish("train")
    signed_in(page, pods_console.url, "alice")
    page.click("nav >> text=Events")
    page.wait_for_selector("text=Following.")
    check_accessible(page, axe)
    before = page.locator("weft-follow li").count()
    browser = page.context.browser
    assert browser
    with browser.new_context(storage_state=page.context.storage_state()) as beside:
        other = beside.new_page()
        other.goto(f"{pods_console.url}/ui/pods/{pod.id}/change")
        other.fill("#nodes-count", "4")
        other.press("#nodes-count", "Tab")
        other.wait_for_selector("#plan >> text=Nodes that come")
        check_accessible(other, axe)
        picture(other, "console-change")
        other.click("text=Make generation 2")
        other.wait_for_selector("text=generation 2")
    page.wait_for_function(f"document.querySelectorAll('weft-follow li').length > {before}")
    page.click("text=Pause")
    page.wait_for_selector("text=Paused.")
    for path in (f"/pods/{pod.id}/bandwidth", f"/pods/{pod.id}/report", "/networks", "/webhooks/new"):
        page.goto(f"{pods_console.url}/ui{path}")
        check_accessible(page, axe)
    page.fill("#name", "ops")
    page.fill("#url", "https://hooks.example.org/weft")
    page.click("main button")
    assert page.inner_text("#secret").startswith("whsec_")
    check_accessible(page, axe)
    page.click("text=Go on to the webhook")
    check_accessible(page, axe)
    assert not messages
    page.route("**/events/live?*", lambda route: route.fulfill(status=503))
    page.click("nav >> text=Events")
    page.wait_for_selector("text=Not following")  # browsers don't reconnect after such an answer
    page.unroute("**/events/live?*")
    page.click("text=Go on")
    page.wait_for_selector("text=Following.")


def test_bandwidth_certificate_is_verified_in_the_browser(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """Like a receipt; and operators color the site's canvas, in dark mode and on a phone, too."""
    page, messages = tab
    service, nodes = pods_console.house.service, ["gpu05", "gpu06"]
    service.bandwidth.report_nodes(OLGA, measured(nodes, service.bandwidth.nodes_plan(OLGA, nodes)))
    signed_in(page, pods_console.url, "olga")
    page.goto(f"{pods_console.url}/ui/site/nodes/gpu05/bandwidth")
    page.wait_for_selector("weft-receipt[data-result=trusted]")
    check_accessible(page, axe)
    picture(page, "console-bandwidth")
    page.route("**/bandwidth.json", lambda route: route.fulfill(json=slower(route.fetch().json())))
    page.click("text=Check again")
    page.wait_for_selector("weft-receipt[data-result=broken]")
    page.goto(f"{pods_console.url}/ui/site/picture")
    page.wait_for_selector("weft-site canvas >> nth=-1")
    page.wait_for_selector("text=A click leads to a node")
    page.select_option("#color", "load")
    page.wait_for_selector("text=up to 1 %")
    page.select_option("#color", "health")
    check_accessible(page, axe)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 375, "height": 700})
    check_accessible(page, axe)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    nothing = "/site/links?link=leaf01:1"
    for path in (
        nothing,
        "/site/resources",
        "/site/resources/plan",
        "/site/stops",
        "/events?all=true",
        "/webhooks?all=true",
    ):
        page.goto(f"{pods_console.url}/ui{path}")
        check_accessible(page, axe)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert not messages


def slower(signed: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The certificate with its result changed after it was signed."""
    return {**signed, "certificate": {**signed["certificate"], "result": "failed"}}


def picture(page: Page, name: str) -> None:
    """Saves a picture for docs/console.md, if `WEFT_PICTURES` is set."""
    if os.environ.get("WEFT_PICTURES"):
        page.set_viewport_size({"width": 1000, "height": 640})
        page.screenshot(path=ROOT / "docs" / f"{name}.png")


def forged(signed: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The receipt with a value changed after it was signed."""
    return {**signed, "receipt": {**signed["receipt"], "nodes": []}}
