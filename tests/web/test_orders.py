"""Ordering by the form, and what follows: live page, extension, release."""

from __future__ import annotations

import re
import threading
from functools import partial
from html import unescape
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.helpers.consoles import PASSWORD, Browser, Console
from weft.api.streams import Streams
from weft.app.orderfile import load_order
from weft.generate.receipts import read, verify
from weft.model.errors import UnauthenticatedError, UnknownError
from weft.model.ordernames import OrderNames
from weft.web import orderforms
from weft.web.sessions import COOKIE

FIELDS = {"name": "train", "nodes.count": "2", "nodes.flavor": "gpu8", "nodes.image": "tiny"}


def yaml_of(page: httpx.Response) -> str:
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", page.text, re.DOTALL)
    assert found
    return unescape(found[1])


def test_order_is_planned_then_ordered(pods_console: Console, browser: Browser) -> None:
    """The planned text is ordered; planning makes no pod."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    planned = browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **FIELDS})
    assert "It fits now" in browser.text and "0x101" in browser.text and "2 server" in browser.text
    assert re.search(
        r'<svg [^>]*role="img".*?>leaf01</text>.*?>gpu01</text>.*?>gpu02</text>', planned.text, re.DOTALL
    )
    assert "no pods" in browser.get("/ui/").text
    browser.page = planned
    browser.post("/ui/order", {"do": "order", "yaml": yaml_of(planned)})
    assert "Pod train" in browser.text and "PLACED" in browser.text
    again = browser.post("/ui/order", {"do": "order", "yaml": yaml_of(planned)})
    assert again.status_code == 409


def test_fields_and_text_follow_each_other(pods_console: Console, browser: Browser) -> None:
    """Fields change only what they name in the text; the text fills the fields."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    text = "name: a\nnodes:\n  count: 1\n  flavor: gpu8\n  image: tiny\naccess:\n  ssh_from: [10.0.0.0/8]\n"
    page = browser.post("/ui/order", {"do": "plan-yaml", "yaml": text})
    assert re.search(r'<input[^>]* name="nodes.flavor"[^>]* value="gpu8"', page.text)
    page = browser.post("/ui/order", {"do": "plan", "yaml": text, **FIELDS, "lease.duration": "12h"})
    order = load_order(yaml_of(page))
    assert (order.name, order.nodes.count, order.lease.duration) == ("train", 2, "12h")
    assert [str(one) for one in order.access.ssh_from] == ["10.0.0.0/8"]


def test_refused_order_offers_what_fits(pods_console: Console, browser: Browser) -> None:
    """Its button has the order changed by the offer, and planning that succeeds."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    many = {**FIELDS, "nodes.count": "1000"}
    page = browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **many})
    assert "It fits now" not in browser.text
    offers = re.findall(r'name="yaml" value="([^"]*)"><button name="do" value="plan-yaml">([^<]*)', page.text)
    assert offers and "nodes.count" in offers[0][1], browser.text
    browser.post("/ui/order", {"do": "plan-yaml", "yaml": unescape(offers[0][0])})
    assert "It fits now" in browser.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [", "order:"),
        ("- a", "mapping"),
        ("name: train\nnodes: {count: none}", "nodes.count"),
        ("a: &a [b]\nc: *a", "aliases"),
        ("a: [" + "b," * 6000 + "]", "at most 5000"),
        ("name: '<script>alert(1)</script>'", "name"),
    ],
)
def test_invalid_order_is_shown_with_its_errors_and_text(
    console: Console, browser: Browser, text: str, said: str
) -> None:
    """The text is as it was typed."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    page = browser.post("/ui/order", {"do": "plan-yaml", "yaml": text})
    assert page.status_code == 200 and said in browser.text and "<script>" not in page.text.split("<main")[1]
    assert yaml_of(page).strip() == text.strip()


def test_reader_may_not_order(console: Console, browser: Browser) -> None:
    browser.sign_in("rita")
    browser.get("/ui/order")
    text = orderforms.written(orderforms.filled({}, FIELDS))
    assert browser.post("/ui/order", {"do": "order", "yaml": text}).status_code == 403


def test_fields_change_the_text_at_their_path() -> None:
    """Also where the order lacks the field, and with values that YAML would read otherwise."""
    document: dict[str, Any] = {"name": "no", "nodes": {"count": "2"}, "access": {"user_data": "a\nb: c\n"}}
    text = orderforms.written(
        orderforms.filled(document, {"locality.required": "leaf", "lease.duration": " "})
    )
    assert orderforms.read(text) == {**document, "locality": {"required": "leaf"}}
    assert "user_data: |" in text and "count: 2" in text


def test_pod_page_follows_the_pod(pods_console: Console, browser: Browser) -> None:
    """Events have ids, the stream begins after the last one, and ends with the session."""
    pod = pods_console.order()
    browser.sign_in("alice")
    page = browser.get(f"/ui/pods/{pod.id}")
    connect = re.search(r'sse-connect="([^"]+)"', page.text)
    assert connect
    headers = {"Cookie": f"{COOKIE}={browser.cookie}"}
    timer = threading.Timer(0.5, pods_console.house.finish, ["train"])
    with browser.client.stream("GET", connect[1], headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["x-accel-buffering"] == "no" and stream.headers["cache-control"] == "no-store"
        timer.start()
        seen: list[str] = []
        for line in stream.iter_lines():
            seen.append(line)
            assert seen.count(":") < 8, "the stream had only comments for two minutes"
            if "state-ready" in line:
                break
    timer.join()
    ids = [int(line.removeprefix("id: ")) for line in seen if line.startswith("id: ")]
    assert ids == sorted(ids) and ids[-1] > int(connect[1].rpartition("=")[2])
    assert "event: pod" in seen
    last = browser.get(f"/ui/pods/{pod.id}").text
    newest = re.search(r"live\?after=(\d+)", last)
    assert newest
    with browser.client.stream(
        "GET", f"/ui/pods/{pod.id}/live", headers={**headers, "Last-Event-ID": newest[1]}
    ) as stream:
        lines = stream.iter_lines()
        assert [next(lines) for _ in range(3)] == ["retry: 3000", "", ":"]
        pods_console.app.state.waiting.end_all()  # type: ignore[union-attr]
        assert list(lines) == [""]
    pods_console.app.state.waiting._ended = False  # type: ignore[union-attr]


class _Finishing:
    """The verbs, with the pod becoming READY before the call number `before`."""

    def __init__(self, console: Console, verbs: Any, before: int) -> None:
        self._console, self._verbs, self.left = console, verbs, before

    @property
    def pods(self) -> Any:
        """The verbs of pods."""
        return SimpleNamespace(**{n: partial(self._ask, n) for n in ("find", "events", "show")})

    def _ask(self, name: str, *given: Any, **more: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            self._console.house.finish("train")
        return getattr(self._verbs.pods, name)(*given, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._verbs, name)


@pytest.mark.parametrize("before", range(3))
def test_state_of_a_page_is_not_older_than_its_events(
    pods_console: Console, browser: Browser, before: int
) -> None:
    """If the pod becomes READY while its page is made, the page has that state, or the stream begins before that
    event."""
    pod = pods_console.order()
    browser.sign_in("alice")
    assert pods_console.app is not None
    verbs: Any = pods_console.app.state.verbs
    finishing = _Finishing(pods_console, verbs, before)
    pods_console.app.state.verbs = finishing
    text = browser.get(f"/ui/pods/{pod.id}").text
    pods_console.app.state.verbs = verbs
    assert finishing.left < 0, "the page made enough calls"
    known, newest = (
        re.search(r"live\?after=(\d+)", page) for page in (text, browser.get(f"/ui/pods/{pod.id}").text)
    )
    assert known and newest and ("state-ready" in text or int(known[1]) < int(newest[1]))


def test_event_streams_are_bounded_and_only_for_those_who_see_the_pod(
    pods_console: Console, browser: Browser
) -> None:
    pod = pods_console.order()
    browser.sign_in("bob")
    assert browser.get(f"/ui/pods/{pod.id}/live").status_code == 404
    browser.cookie = ""
    assert browser.get(f"/ui/pods/{pod.id}/live").url.path == "/ui/sign-in"
    browser.sign_in("alice")
    assert pods_console.app is not None
    before, pods_console.app.state.streams = pods_console.app.state.streams, Streams(of_user=0)
    assert browser.get(f"/ui/pods/{pod.id}/live").status_code == 503
    pods_console.app.state.streams = before


def test_lease_form_sent_twice_extends_once(pods_console: Console, browser: Browser) -> None:
    pod = pods_console.order(lease={"end": "2027-01-02T00:00:00Z"})
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/extend")
    given = re.search(r'name="from" value="([^"]+)"', browser.page.text)
    assert given
    fields = {"from": unescape(given[1]), "hours": "12"}
    browser.post(f"/ui/pods/{pod.id}/extend", fields)
    assert "ends 2027-01-02 12:00:00 UTC" in browser.text
    assert browser.post(f"/ui/pods/{pod.id}/extend", fields).status_code == 409
    browser.get(f"/ui/pods/{pod.id}")
    for hours in ("x", "0", "10001", "000001" + "9" * 10, "0" * 5_000 + "1"):
        assert browser.post(f"/ui/pods/{pod.id}/extend", {**fields, "hours": hours}).status_code == 400, hours


def test_refused_extension_shows_the_form_again(pods_console: Console, browser: Browser) -> None:
    """With the input and the reason; a pod without a lease has no such page."""
    pod = pods_console.order(lease={"end": "2027-01-02T00:00:00Z"})
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/extend")
    given = re.search(r'name="from" value="([^"]+)"', browser.page.text)
    assert given
    fields = {"from": unescape(given[1]), "hours": "1.5"}
    assert browser.post(f"/ui/pods/{pod.id}/extend", fields).status_code == 400
    assert "a whole number of hours" in browser.text and 'value="1.5"' in browser.page.text
    browser.post(f"/ui/pods/{pod.id}/extend", {**fields, "hours": "2"})
    assert "ends 2027-01-02 02:00:00 UTC" in browser.text
    assert "Extend the lease…" in browser.text
    endless = pods_console.order(name="endless")
    assert browser.get(f"/ui/pods/{endless.id}/extend").status_code == 409 and "has no lease" in browser.text
    assert "Extend the lease…" not in browser.get(f"/ui/pods/{endless.id}").text
    assert browser.post(f"/ui/pods/{endless.id}/extend", {**fields, "hours": "2"}).status_code == 409


def test_release_is_confirmed_by_name(pods_console: Console, browser: Browser) -> None:
    """The page says what is lost; another name releases nothing."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/release")
    assert "2 servers and everything on their own disks" in browser.text and "train-0" in browser.text
    assert browser.post(f"/ui/pods/{pod.id}/release", {"name": "other"}).status_code == 400
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    pods_console.house.finish("train")
    browser.get(f"/ui/pods/{pod.id}")
    assert "RELEASED" in browser.text and "Release this pod" not in browser.text
    browser.cookie = ""
    browser.sign_in("bob")
    browser.get("/ui/")
    assert browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"}).status_code == 404


def test_receipt_is_shown_and_downloaded(pods_console: Console, browser: Browser) -> None:
    """The downloaded receipt verifies with the site's key; other projects get 404, and a pod that isn't released
    has none."""
    pod = pods_console.order()
    browser.sign_in("alice")
    assert browser.get(f"/ui/pods/{pod.id}/receipt").status_code == 409
    pods_console.house.finish("train")
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    pods_console.house.finish("train")
    page = browser.get(f"/ui/pods/{pod.id}/receipt")
    assert "Clean: every plane was read back" in browser.text and "weft-receipt" in page.text
    key = re.search(r'id="key" value="([^"]+)"', page.text)
    assert key
    verdict = verify(read(browser.get(f"/ui/pods/{pod.id}/receipt.json").text), unescape(key[1]))
    assert verdict.valid and verdict.trusted
    assert "attachment" in browser.page.headers["content-disposition"]
    browser.cookie = ""
    browser.sign_in("bob")
    assert browser.get(f"/ui/pods/{pod.id}/receipt.json").status_code == 404


def test_text_of_an_order_is_kept_when_the_session_ends(pods_console: Console, browser: Browser) -> None:
    """Whether the session's row or its token ended; also while a project is chosen. Nothing is ordered."""
    text = "name: kept\nnodes:\n  count: 2\n  flavor: gpu8\n  image: <tiny>\n"
    for end in ("row", "token"):
        browser.sign_in("alice")
        browser.get("/ui/order")
        if end == "row":
            browser.cookie = "A" * 43
        else:
            pods_console.keystone.identity.error = UnauthenticatedError("expired")
        page = browser.post("/ui/order", {"do": "order", "yaml": text})
        pods_console.keystone.identity.error = None
        assert page.status_code == 401 and "text that you sent is kept" in browser.text, end
        wrong = {"method": "password", "user": "alice", "domain": "Default", "password": "no"}
        given = {"draft": draft_in(page), "next": "/order?draft=true"}
        again = browser.post("/ui/sign-in", {**wrong, **given})
        assert again.status_code == 401 and draft_in(again) == text
        browser.post("/ui/sign-in", {**wrong, **given, "password": PASSWORD})
        browser.post("/ui/project", {"project": "id-of-team-a", "next": "/order?draft=true"})
        assert yaml_of(browser.page) == text and "Nothing is planned yet" in browser.text, end
        assert "no pods" in browser.get("/ui/").text
        assert text not in unescape(browser.get("/ui/order").text)


def test_order_sent_without_a_session_is_kept_up_to_a_size(console: Console, browser: Browser) -> None:
    """Not from another site, nor beyond the size of a form; a text that the sign-in form can't carry is shown to
    be copied."""
    sent = {"do": "order", "yaml": "name: a"}
    answer = browser.post("/ui/order", sent, **{"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403 and "name: a" not in answer.text
    assert browser.post("/ui/order", {**sent, "yaml": "x" * 140_000}).status_code == 413
    assert browser.post("/ui/order", {**sent, "yaml": "x" * 120_000}).status_code == 401
    assert "too long to be kept" in browser.text and "x" * 120_000 in browser.text
    assert 'name="draft"' not in browser.page.text
    assert browser.post("/ui/order", {**sent, "yaml": ""}).status_code == 200


def draft_in(page: httpx.Response) -> str:
    found = re.search(r'name="draft" value="([^"]*)"', page.text, re.DOTALL)
    assert found
    return unescape(found[1])


def test_form_offers_flavors_and_images_of_the_project(pods_console: Console, browser: Browser) -> None:
    """Only flavors that the site describes; if the cloud can't be asked, none are offered and the form stays."""
    house = pods_console.house
    house.cloud.offers.flavors["m1.small"] = house.cloud.offers.flavors["gpu8"]
    browser.sign_in("alice")
    form = browser.get("/ui/order").text
    assert 'list="flavors"' in form and 'list="images"' in form and "/ui/order/names" in form
    names = browser.get("/ui/order/names").text
    for one in ("gpu8", *house.cloud.offers.images):
        assert f'<option value="{one}">' in names
    assert "m1.small" not in names and "<html" not in names

    def unread(_: str) -> OrderNames:
        raise UnknownError("list flavors", "nova", "no answer")

    house.cloud.order_names = unread  # type: ignore[method-assign]
    assert "<option" not in browser.get("/ui/order/names").text
