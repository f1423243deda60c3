"""Operators' pages of links: pods on a cable, and pods that disturb another one."""

from __future__ import annotations

from html import unescape

from tests.helpers.consoles import Browser, Console
from weft.model.linkreading import PortRate

GB = 1e9


def test_link_shows_pods_on_it_in_both_directions(pods_console: Console, browser: Browser) -> None:
    """By either end; for an unknown cable the form is shown with the reason and the input."""
    pod = pods_console.order()
    house = pods_console.house
    node = house.finish("train").nodes[0]
    browser.sign_in("olga")
    assert "/ui/site/links" in browser.get("/ui/").text
    assert "Directions" not in browser.get("/ui/site/links").text
    adapter = f"{node}/{house.site.node_by_name[node].hcas[0].name}"
    for pattern in ("rail", "all", "ring"):
        browser.get(f"/ui/site/links?link={adapter}&pattern={pattern}")
        assert browser.page.status_code == 200 and f"From {adapter}" in browser.text
    assert f"/ui/site/pods/{pod.id}/disturbers" in browser.page.text
    assert "id-of-team-a" in browser.text
    wrong = browser.get('/ui/site/links?link=leaf"<99>:1')
    assert wrong.status_code == 400 and 'value="leaf&#34;&lt;99&gt;:1"' in wrong.text
    assert "<99>" not in wrong.text and 'role="alert"' in wrong.text
    assert browser.get(f"/ui/site/links?link={adapter}&pattern=mesh").status_code == 400
    assert browser.get("/ui/site/links?link=a%00b").status_code == 404


def test_congested_link_and_its_cause_are_on_the_page_of_disturbers(
    pods_console: Console, browser: Browser
) -> None:
    """What isn't known is called unknown."""
    pod = pods_console.order()
    house = pods_console.house
    house.finish("train")
    house.fabric._rates._last = house.fabric._routes._last = None  # type: ignore[attr-defined]
    path = f"/ui/site/pods/{pod.id}/disturbers"
    browser.sign_in("olga")
    browser.get(path)
    assert browser.page.status_code == 200 and "Who disturbs pod train" in browser.text
    between = [
        one
        for one in house.service.fabrics.pod_links(house.operator, str(pod.id)).links
        if "adapter" not in (one.sender_level, one.receiver_level)
    ]
    for one in between:
        key = house.site.switch_by_name[one.sender].guid or 0, one.sender_port
        house.fabric.manager("sm1").forwarding.traffic[key] = PortRate(20 * GB, 0.0, 0.6, 0.6)
    house.fabric._rates._last = house.fabric._routes._last = None  # type: ignore[attr-defined]
    text = unescape(browser.get(path).text)
    assert ("60 %" in text) == bool(between) and ("yes" in browser.text) == bool(between)
    assert browser.get(f"{path}?pattern=nix").status_code == 400


def test_links_of_others_are_for_operators(pods_console: Console, browser: Browser) -> None:
    """A tenant has the page of its own pod's links."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("alice")
    assert "/ui/site/links" not in browser.get("/ui/").text
    assert browser.get("/ui/site/links?link=leaf01:1").status_code == 403
    assert browser.get(f"/ui/site/pods/{pod.id}/disturbers").status_code == 403
