"""Every page of the menu with contents: accessible in Chromium, and usable without JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.test_part_history import GPU, PCI
from tests.helpers.consoles import Console
from tests.helpers.hostchecks import document, result
from tests.web.test_in_chromium import axe, check_accessible, signed_in, tab
from tests.web.test_site_pages import OLGA
from weft.model.reservation import Reservation
from weft.web.sitenav import OWN_PAGES, PAGES

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.landing

__all__ = ["axe", "tab"]
FURTHER = (
    "/site/nodes/gpu01",
    "/site/nodes/gpu09",
    "/site/check-tokens/new?node=gpu01",
    f"/site/parts?serial={GPU}",
    f"/search?q={GPU}",
    "/site/file?current=true",
    "/site/reservations/new",
    "/site/drain?target=node:gpu01",
    "/webhooks/new",
    "/capacity",
    "/order",
)


def fill(console: Console) -> None:
    """Makes a pod, a quarantine, a node with a failed part, a reservation, and a token that was used."""
    house = console.house
    console.order()
    house.finish("train")
    house.store.quarantine("gpu09", "fan")
    token = house.service.checks.make_token(house.operator, "gpu01").token
    reporter = house.service.checks.reporter(token, "gpu01", "192.0.2.1", "req-1", "weft-check")
    parts = [{"kind": "gpu", "serial": GPU, "place": PCI, "model": "H100", "newer": 1}]
    house.service.checks.report(reporter, document(result("XID", PCI, "failed"), parts=parts))
    wanted = Reservation.model_validate({"name": "r1", "project_id": "a" * 32, "nodes": ["gpu08"]})
    house.service.capacity.reserve(OLGA, wanted)


@pytest.mark.nightly(reason="16 s of processor time; by day axe checks the pages that other tests visit")
def test_filled_pages_are_accessible_and_need_no_javascript(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str
) -> None:
    """axe's rules hold on each; without JavaScript it has the same heading, and nothing that waits for scripts."""
    fill(pods_console)
    page, messages = tab
    signed_in(page, pods_console.url, "olga")
    paths = [*(one.path for one in (*OWN_PAGES, *PAGES)), *FURTHER]
    headings = dict[str, str]()
    for path in paths:
        answer = page.goto(f"{pods_console.url}/ui{path}")
        assert answer is not None and answer.status == 200, path
        headings[path] = page.locator("h1").inner_text()
        check_accessible(page, axe)
    assert not messages
    browser = page.context.browser
    assert browser is not None
    bare = browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    plain = bare.new_page()
    for path in paths:
        answer = plain.goto(f"{pods_console.url}/ui{path}")
        assert answer is not None and answer.status == 200, path
        assert plain.locator("h1").inner_text() == headings[path]
        assert not plain.locator("weft-file:visible").count(), path
    bare.close()
