"""The console in Debian's Chromium: from order to verified receipt, without a message on the browser's console."""

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

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's source, as its wheel has it."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[tuple[Page, list[str]]]:
    """A tab, and what its console said; weftlab.alone ends the browser with the test."""
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
    """No violation of axe's rules on this page."""
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    wrong = [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found["violations"]]
    assert not wrong and len(found["passes"]) > 10, json.dumps(wrong, indent=1)


def test_order_to_verified_receipt(pods_console: Console, tab: tuple[Page, list[str]], axe: str) -> None:
    """Fields fill the YAML, the page follows the pod, the receipt is verified, and another key is noticed."""
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


def test_operator_goes_from_nodes_to_leaf_ports(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """By links and buttons alone, from the list to each confirmation; in dark, too, and on a phone."""
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
    page.locator("img.picture").evaluate("image => image.decode()")  # it has come, and is a picture
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


def picture(page: Page, name: str) -> None:
    """One of docs/console.md, if `WEFT_PICTURES` is set."""
    if os.environ.get("WEFT_PICTURES"):
        page.set_viewport_size({"width": 1000, "height": 640})
        page.screenshot(path=ROOT / "docs" / f"{name}.png")


def forged(signed: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The receipt with one value changed after it was signed."""
    return {**signed, "receipt": {**signed["receipt"], "nodes": []}}
