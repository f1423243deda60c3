"""The console in Debian's Chromium: from order to verified receipt, without a message on the browser's console."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.helpers.consoles import PASSWORD, Console
from tests.helpers.paths import ROOT

AXE, AXE_SHA256 = "4.14.1", "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
Page = pytest.importorskip("playwright.sync_api").Page


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core's source, from npm at a pinned version: checks of accessibility; not shipped."""
    kept = ROOT / "build" / f"axe-core-{AXE}.tgz"
    if not kept.is_file():
        subprocess.run([ROOT / "tools/packages.sh", "npm"], check=True, timeout=600)
        kept.parent.mkdir(exist_ok=True)
        made = tmp_path_factory.mktemp("axe")
        subprocess.run(["npm", "pack", "--silent", f"axe-core@{AXE}"], cwd=made, check=True, timeout=120)
        (made / kept.name).replace(kept)
    assert sha256(kept.read_bytes()).hexdigest() == AXE_SHA256
    with tarfile.open(kept) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


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
    assert [(c["name"], c["secure"], c["httpOnly"]) for c in cookies] == [("__Host-weft", True, True)]
    assert page.evaluate("document.cookie") == ""
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage])")
    assert "token" not in kept and cookies[0]["value"] not in kept
    assert not messages


def picture(page: Page, name: str) -> None:
    """One of docs/console.md, if `WEFT_PICTURES` is set."""
    if os.environ.get("WEFT_PICTURES"):
        page.set_viewport_size({"width": 1000, "height": 640})
        page.screenshot(path=ROOT / "docs" / f"{name}.png")


def forged(signed: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The receipt with one value changed after it was signed."""
    return {**signed, "receipt": {**signed["receipt"], "nodes": []}}
