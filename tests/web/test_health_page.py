"""The console's health page."""

from __future__ import annotations

from tests.helpers.consoles import Browser, Console


def test_health_page_counts_nodes_and_names_those_that_are_not_ok(
    pods_console: Console, browser: Browser
) -> None:
    """Before a reading they are unknown, not ok. Its numbers link to lists."""
    house = pods_console.house
    browser.sign_in("olga")
    house.service.nodes.quarantine(house.operator, "gpu01", "found dirty")
    text = browser.get("/ui/site/health").text
    assert "found dirty" in text and "read lately" in text
    browser.get("/ui/site/health?by=rack&health=failed")
    assert "gpu01" in browser.text and "gpu02" not in browser.text
    assert browser.get("/ui/site/health?by=color").status_code == 400
