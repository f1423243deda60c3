"""The console for a user who has read nothing: the way from an order to its release has no dead end, and what is
missing is reported before ordering."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.helpers.consoles import Browser, Console
from tests.web.test_in_chromium import signed_in, tab
from tests.web.test_orders import FIELDS, yaml_of
from weft.app.capacitykeeper import CapacityKeeper
from weft.app.orderfile import load_order
from weft.app.verbs import Request

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["tab"]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJv9lT1Y3y2k0mXbY7m8m9cQ0gq4n2m8Yt7H1b0aQ2x alice@laptop"


def menu(browser: Browser) -> list[str]:
    """Labels of the links in the page's menu."""
    nav = re.search(r"<nav.*?</nav>", browser.page.text, re.DOTALL)
    return re.findall(r">([^<]+)</a>", nav[0]) if nav else []


@pytest.mark.parametrize("who", ["alice", "olga"])
def test_menu_of_the_order_page_equals_that_of_other_pages(
    pods_console: Console, browser: Browser, who: str
) -> None:
    browser.sign_in(who)
    everywhere = menu(browser)
    browser.get("/ui/order")
    assert menu(browser) == everywhere and "Webhooks" in everywhere
    browser.post("/ui/order", {"do": "plan-yaml", "yaml": "name: ["})
    assert menu(browser) == everywhere


def test_plan_says_what_prevents_the_tenant_from_logging_in(pods_console: Console, browser: Browser) -> None:
    """Like `weft pod plan`; with a key, an address and a rule nothing is missing."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **FIELDS})
    assert "you can't log in" in browser.text and "No floating IP (access.floating_ip)" in browser.text
    assert "2 networks" in browser.text and "1 security group" in browser.text
    assert "no VXLAN network can be on them, and" in browser.text, "lines for terminals are one sentence"
    access = {
        "access.ssh_key": KEY,
        "access.floating_ip": "first",
        "access.ssh_from": "10.0.0.0/8, 192.0.2.1/32",
    }
    page = browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **FIELDS, **access})
    order = load_order(yaml_of(page))
    assert [str(one) for one in order.access.ssh_from] == ["10.0.0.0/8", "192.0.2.1/32"]
    assert order.access.ssh_key is not None and 'value="10.0.0.0/8, 192.0.2.1/32"' in page.text
    assert "It fits now" in browser.text and "log in" not in browser.text.partition("Plan ")[2]


def test_field_that_the_form_cannot_show_is_kept(pods_console: Console, browser: Browser) -> None:
    """A mapping in place of a text is refused by the order's check, not removed by the form."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    text = "name: train\nnodes: {count: 2, flavor: gpu8, image: tiny}\naccess:\n  key_pair: {name: mine}\n"
    browser.post("/ui/order", {"do": "plan", "yaml": text, **FIELDS, "access.key_pair": ""})
    assert "name: mine" in yaml_of(browser.page) and "It fits now" not in browser.text


def test_wrong_name_does_not_release_the_pod(pods_console: Console, browser: Browser) -> None:
    pod = pods_console.order()
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/release")
    answer = browser.post(f"/ui/pods/{pod.id}/release", {"name": "trian"})
    assert answer.status_code == 400 and "'trian' is not allowed" in browser.text
    assert "Type the pod's name to confirm" in browser.text and 'value="trian"' not in answer.text
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    assert "release requested" in browser.text


def test_notes_common_to_all_servers_are_shown_once(pods_console: Console, browser: Browser) -> None:
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}")
    assert browser.text.count("No SSH key in the order") == 1 == browser.text.count("USER: by image")
    assert "ssh USER@" in browser.text


def test_capacity_rows_are_readable(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("olga")
    browser.get("/ui/capacity")
    assert "nodes: 16" in browser.text and "nodes of 16" not in browser.text
    assert "Poplar servers with capacity: 0 free" in browser.text
    assert "within one block -" not in browser.text and "within one site site" not in browser.text


def test_address_without_a_page_is_404_and_says_so(console: Console, browser: Browser) -> None:
    browser.sign_in("alice")
    assert browser.get("/ui/nowhere").status_code == 404
    assert "The console has no page at this address" in browser.text


def test_sign_out_is_possible_before_a_project_is_chosen(console: Console, browser: Browser) -> None:
    """A user who signed in with the wrong account needn't choose one of its projects first."""
    given = {"method": "password", "user": "alice", "domain": "Default", "password": "correct horse"}
    browser.post("/ui/sign-in", {**given, "next": "/"})
    assert "Choose a project" in browser.text and "Sign out alice" in browser.text
    browser.post("/ui/sign-out", {})
    assert "Sign in" in browser.text and not browser.cookie


def test_page_of_a_finished_sign_in_step_keeps_the_session(console: Console, browser: Browser) -> None:
    """An old tab with the form for a passcode or a project leads on and doesn't sign out."""
    browser.sign_in("alice")
    for path in ("/ui/passcode", "/ui/passcode?next=/order"):
        browser.get(path)
        assert browser.cookie and "alice in team-a" in browser.text, path
    assert "Order a pod" in browser.text
    answer = browser.post("/ui/passcode", {"passcode": "123456", "next": "/"})
    assert answer.status_code == 200 and browser.cookie and "alice in team-a" in browser.text


def test_actions_of_a_pod_follow_its_state(pods_console: Console, tab: tuple[Page, list[str]]) -> None:
    """A page opened before the pod was READY shows its consoles then, and no action once it is released."""
    page, messages = tab
    pod = pods_console.order()
    signed_in(page, pods_console.url, "alice")
    page.goto(f"{pods_console.url}/ui/pods/{pod.id}")
    assert not page.locator("text=Open a console…").count()
    pods_console.house.finish("train")
    page.wait_for_selector("text=Open a console…")
    page.focus("text=Report a node…")
    pods_console.house.service.pods.begin_release(_alice(pods_console), str(pod.id))
    pods_console.house.finish("train")
    page.wait_for_selector("text=The pod is released.")
    assert not page.locator("text=Release this pod…").count()
    assert page.locator("#acts").count() == 1 and not messages


def _alice(console: Console) -> Request:
    return Request(console.keystone.users["alice"][1], "127.0.0.1", "req-1")


def test_capacity_is_shown_over_time(pods_console: Console, browser: Browser) -> None:
    """Nodes by state and the queue, for operators; the pages of the queue and of capacity link to it and back."""
    house = pods_console.house
    browser.sign_in("olga")
    assert "Nothing was noted in this period" in browser.get("/ui/site/capacity").text
    CapacityKeeper(house.store, lambda: house.site).note()
    browser.get("/ui/site/capacity?span=1d")
    assert "h100 16" in browser.text and "Orders waiting" in browser.text
    assert "/ui/site/capacity.svg?span=1d" in browser.page.text
    picture = browser.get("/ui/site/capacity.svg?span=1d")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "<title>h100: free, 16 to 16</title>" in picture.text and "orders waiting" in picture.text
    assert browser.get("/ui/site/capacity.svg?span=2d").status_code == 400
    assert 'href="/ui/site/capacity"' in browser.get("/ui/site/queue").text
    assert browser.get("/ui/site/capacity?span=2d").status_code == 400
    browser.cookie = ""
    browser.sign_in("alice")
    assert browser.get("/ui/site/capacity").status_code == 403
    assert browser.get("/ui/site/capacity.svg").status_code == 403
