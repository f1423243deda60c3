"""A project's pages besides pods: events, webhooks, Neutron networks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from html import unescape

import httpx
import psycopg
import pytest

from tests.engine.house import policy
from tests.engine.sitehouse import SiteHouse
from tests.engine.tenanthouse import TenantHouse
from tests.helpers.consoles import Browser, Console, hidden
from weft.api.streams import Streams
from weft.app.redact import redacted
from weft.app.siteresources import SiteResourceVerbs
from weft.engine.base.database import Database
from weft.engine.site.siteplan import PlannedSite
from weft.model.pod import PodState
from weft.model.views import WebhookTest
from weft.testing.cloud import Fault
from weft.web import checktokens, webhooks
from weft.web.sessions import COOKIE

URL = "https://hooks.example.org/weft?token=x"


def test_webhook_is_created_tested_rotated_and_deleted(pods_console: Console, browser: Browser) -> None:
    """The secret is only in the answer that makes it; a rotation sent twice is done once."""
    browser.sign_in("alice")
    form = browser.get("/ui/webhooks/new")
    given = {"name": "ops", "url": URL, "events": "state NODE_"}
    for wrong in (
        {"url": "http://hooks.example.org/"},
        {"url": "https://10.0.0.1/"},
        {"name": ""},
        {"events": ";"},
    ):
        browser.page = form
        assert browser.post("/ui/webhooks/new", {**given, **wrong}).status_code == 400, wrong
    browser.page = form
    made = browser.post("/ui/webhooks/new", given)
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", made.text)
    assert secret and made.headers["cache-control"] == "no-store"
    browser.page = form
    assert browser.post("/ui/webhooks/new", given).status_code == 409
    browser.get("/ui/webhooks")
    assert "ops" in browser.text and "NODE_" in browser.text and secret[0] not in browser.page.text
    own = re.search(r'href="(/ui/webhooks/[0-9a-f-]{36})"', browser.page.text)
    assert own
    assert "Rotate the secret…" in browser.get(own[1]).text and secret[0] not in browser.page.text
    pods_console.house.service.webhooks.test = lambda *_: WebhookTest(  # type: ignore[method-assign]
        delivered=False, reason="it <refuses>", seconds=0.1
    )
    browser.post(f"{own[1]}/test", {})
    assert "was not delivered" in browser.text and "<refuses>" not in browser.page.text
    form = browser.get(f"{own[1]}/rotate")
    fields = hidden(browser)
    rotated = browser.post(f"{own[1]}/rotate", fields)
    again = re.search(r"whsec_[A-Za-z0-9+/=]+", rotated.text)
    assert again and again[0] != secret[0]
    browser.page = form
    assert browser.post(f"{own[1]}/rotate", fields).status_code == 409
    assert "signs, too" in browser.get(own[1]).text
    browser.get(f"{own[1]}/delete")
    browser.post(f"{own[1]}/delete", hidden(browser))
    assert "None." in browser.text


def test_webhooks_of_other_projects_are_404(pods_console: Console, browser: Browser) -> None:
    """Readers see no webhooks and no link; operators see all and may delete them, but get no secret."""
    browser.sign_in("alice")
    browser.get("/ui/webhooks/new")
    browser.post("/ui/webhooks/new", {"name": "ops", "url": URL, "events": ""})
    own = re.findall(r"/ui/webhooks/[0-9a-f-]{36}", browser.page.text)[0]
    browser.sign_in("rita")
    assert 'href="/ui/webhooks"' not in browser.get("/ui/").text
    for path in ("/ui/webhooks", "/ui/webhooks/new", "/ui/webhooks?all=true", own):
        assert browser.get(path).status_code == 403, path
    browser.sign_in("bob")
    assert "ops" not in browser.get("/ui/webhooks").text
    for path in (own, f"{own}/rotate", f"{own}/delete"):
        assert browser.get(path).status_code == 404, path
    for path in ("test", "enable", "rotate", "delete"):
        browser.get("/ui/")
        assert browser.post(f"{own}/{path}", {"seen": "x"}).status_code == 404, path
    browser.sign_in("olga")
    assert own in browser.get("/ui/webhooks?all=true").text
    assert "Rotate" not in browser.get(own).text and browser.get(f"{own}/rotate").status_code == 403
    browser.get(f"{own}/delete")
    browser.post(f"{own}/delete", hidden(browser))
    assert own not in browser.get("/ui/webhooks?all=true").text


def test_webhook_changed_since_its_page_is_not_enabled(pods_console: Console, browser: Browser) -> None:
    """Its secret is another one by then."""
    browser.sign_in("alice")
    browser.get("/ui/webhooks/new")
    browser.post("/ui/webhooks/new", {"name": "ops", "url": URL, "events": ""})
    own = re.findall(r"/ui/webhooks/[0-9a-f-]{36}", browser.page.text)[0]
    with psycopg.connect(pods_console.house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE webhook SET disabled_at = now()")
    browser.get(own)
    shown = hidden(browser)
    browser.get(f"{own}/rotate")
    browser.post(f"{own}/rotate", hidden(browser))
    browser.get(own)
    assert browser.post(f"{own}/enable", shown).status_code == 409
    browser.get(own)
    browser.post(f"{own}/enable", hidden(browser))
    assert "active" in browser.text


def test_forms_of_other_sites_change_no_webhook(pods_console: Console, browser: Browser) -> None:
    """Requests without the session's form token, or from another site."""
    browser.sign_in("alice")
    browser.get("/ui/webhooks/new")
    browser.post("/ui/webhooks/new", {"name": "ops", "url": URL, "events": ""})
    own = re.findall(r"/ui/webhooks/[0-9a-f-]{36}", browser.page.text)[0]
    for action in ("test", "enable", "rotate", "delete"):
        for fields, headers in (({"csrf": "x"}, {}), ({}, {"Sec-Fetch-Site": "cross-site"})):
            browser.get(f"{own}/delete")
            assert (
                browser.post(f"{own}/{action}", {**hidden(browser), **fields}, **headers).status_code == 403
            )


def test_project_events_follow_on_the_page(pods_console: Console, browser: Browser) -> None:
    """The page has the newest; its stream continues with rows for the page, and without events of others."""
    house = pods_console.house
    pods_console.order()
    browser.sign_in("alice")
    browser.get("/ui/events")
    assert "ordered" in browser.text
    source = re.search(r'<weft-follow src="([^"]+)"', browser.page.text)
    assert source
    seen: list[str] = []
    done = threading.Event()

    def follow() -> None:
        headers = {"Cookie": f"{COOKIE}={browser.cookie}"}
        with httpx.stream(
            "GET", pods_console.url + unescape(source[1]), headers=headers, timeout=60
        ) as answer:
            for line in answer.iter_lines():
                seen.append(line)
                if "READY" in line:
                    break
        done.set()

    thread = threading.Thread(target=follow)
    thread.start()
    with house.working():
        assert done.wait(60)
    thread.join(10)
    assert "event: events" in seen and any(line.startswith("id: ") for line in seen)
    assert not any("ordered" in line for line in seen), "events on the page aren't sent again"
    browser.sign_in("bob")
    assert "ordered" not in browser.get("/ui/events").text
    assert browser.get("/ui/events?all=true").status_code == 403
    assert browser.get("/ui/events/live?after=1&all=true").status_code == 403
    browser.sign_in("olga")
    assert "train" in browser.get("/ui/events?all=true").text


def test_invalid_positions_and_too_many_streams_are_refused(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("alice")
    assert browser.get("/ui/events/live").status_code == 400
    assert browser.get("/ui/events/live?after=nix").status_code == 400
    browser.get("/ui/events")
    source = re.search(r'<weft-follow src="([^"]+)"', browser.page.text)
    assert source and pods_console.app
    kept = pods_console.app.state.streams
    pods_console.app.state.streams = Streams(of_user=0)
    try:
        assert browser.get(unescape(source[1])).status_code == 503
    finally:
        pods_console.app.state.streams = kept


def test_webhooks_and_tokens_are_in_pages(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links to the first and the next page keep the list's filter."""
    monkeypatch.setattr(webhooks, "SHOWN", 2)
    monkeypatch.setattr(checktokens, "SHOWN", 2)
    browser.sign_in("alice")
    form = browser.get("/ui/webhooks/new")
    for name in ("one", "three", "two"):
        browser.page = form
        browser.post("/ui/webhooks/new", {"name": name, "url": URL, "events": ""})
    browser.sign_in("olga")
    form = browser.get("/ui/site/check-tokens/new")
    for _ in range(3):
        browser.page = form
        browser.post("/ui/site/check-tokens/new", {"node": "gpu01", "until": ""})
    for path, here in (("/ui/webhooks?all=true", ">two<"), ("/ui/site/check-tokens?node=gpu01", "Revoke")):
        first = browser.get(path).text
        following = re.search(r'<a href="([^"]+)">Next page</a>', first)
        assert following and "First page" not in first
        last = browser.get(unescape(following[1])).text
        assert here in last and "Next page" not in last
        assert f'<a href="{path}">First page</a>' in last


def test_site_without_applied_resources_says_so(pods_console: Console, browser: Browser) -> None:
    """And there is no removal to abandon."""
    browser.sign_in("olga")
    assert "was ever applied" in browser.get("/ui/site/resources").text
    assert browser.get("/ui/site/resources/abandon").status_code == 404
    browser.sign_in("alice")
    assert browser.get("/ui/site/resources").status_code == 403
    browser.get("/ui/")
    assert browser.post("/ui/site/resources/abandon", {"seen": "x", "reason": "x"}).status_code == 403
    assert (
        "None." in browser.get("/ui/networks").text
        and browser.get("/ui/networks?all=true").status_code == 403
    )
    assert browser.get("/ui/networks/nix").status_code == 404


@pytest.fixture
def tenant_house(database: Database, database_url: str) -> Iterator[TenantHouse]:
    """A house whose cloud has tenants' networks."""
    house = TenantHouse(database, database_url)
    yield house
    house.close()


def test_stuck_release_of_a_network_is_abandoned(
    console: Console, browser: Browser, tenant_house: TenantHouse
) -> None:
    """From the alarm to the button; name and reason are required; for other projects the network doesn't exist."""
    house = tenant_house
    assert console.app
    console.app.state.verbs = redacted(house.service, policy())
    network = house.network()
    port = house.adapter(network)
    house.ready(network)
    owner = house.owner(network)
    browser.sign_in("olga")
    path = f"/ui/networks/{network.id}"
    assert path in browser.get("/ui/networks?all=true").text
    browser.get(path)
    assert "gpu15" in browser.text and "Ways out" not in browser.text
    assert browser.get(f"{path}/abandon").status_code == 409
    for manager in house.fabric.managers:
        manager.reachable = False
    house.cloud.lose(port)
    house.cloud.lose(network)
    house.look()
    house.visit(owner)
    assert "Abandon the release…" in browser.get(path).text
    form = browser.get(f"{path}/abandon")
    fields = hidden(browser)
    for wrong in ({"reason": "scrapped", "name": "nix"}, {"reason": " ", "name": "mine"}):
        browser.page = form
        assert browser.post(f"{path}/abandon", {**fields, **wrong}).status_code == 400
    browser.page = form
    browser.post(f"{path}/abandon", {**fields, "reason": "scrapped", "name": "mine"})
    assert "scrapped" in browser.text
    house.visit(owner, PodState.RELEASED)
    browser.sign_in("alice")
    assert browser.get(path).status_code == 404 and browser.get(f"{path}/abandon").status_code == 404


def test_shown_site_plan_is_applied(
    console: Console, browser: Browser, database: Database, database_url: str
) -> None:
    """A plan that changed since is refused; tenants can't apply one."""
    house = SiteHouse(database, database_url)
    try:
        assert console.app
        console.app.state.verbs = redacted(house.service, policy())
        browser.sign_in("olga")
        assert "/ui/site/resources/plan" in browser.get("/ui/site/resources").text
        form = browser.get("/ui/site/resources/plan")
        assert "create network" in browser.text and "Apply" in browser.text
        fields = hidden(browser)
        assert browser.post("/ui/site/resources/apply", {**fields, "seen": "x"}).status_code == 409
        assert "was ever applied" in browser.get("/ui/site/resources").text
        browser.page = form
        browser.post("/ui/site/resources/apply", fields)
        assert browser.page.status_code == 200 and "applied" in browser.text
        house.visits(6)
        assert "READY" in browser.get("/ui/site/resources").text
        assert "Nothing differs" in browser.get("/ui/site/resources/plan").text
        browser.sign_in("alice")
        assert browser.get("/ui/site/resources/plan").status_code == 403
        browser.get("/ui/")
        assert browser.post("/ui/site/resources/apply", fields).status_code == 403
    finally:
        house.close()


def test_site_activated_during_apply_is_not_applied_unseen(
    console: Console, browser: Browser, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generation that was shown is applied."""
    house = SiteHouse(database, database_url)
    plain = SiteResourceVerbs._planned  # pyright: ignore[reportPrivateUsage]
    try:
        assert console.app
        console.app.state.verbs = redacted(house.service, policy())
        browser.sign_in("olga")
        browser.get("/ui/site/resources/plan")
        fields, shown = hidden(browser), house.store.site().generation

        def overtaken(self: SiteResourceVerbs, adopt: bool) -> PlannedSite:
            found = plain(self, adopt)
            house.change(storage={"mtu": 8000})
            return found

        monkeypatch.setattr(SiteResourceVerbs, "_planned", overtaken)
        assert browser.post("/ui/site/resources/apply", fields).status_code == 200
        assert house.service.site.resources(house.operator).generation == shown
    finally:
        house.close()


def test_stuck_removal_of_the_site_is_abandoned(
    console: Console, browser: Browser, database: Database, database_url: str
) -> None:
    """With a word and a reason, once the removal of its applied resources doesn't end."""
    house = SiteHouse(database, database_url)
    try:
        assert console.app
        console.app.state.verbs = redacted(house.service, policy())
        house.applied()
        browser.sign_in("olga")
        browser.get("/ui/site/resources")
        assert "READY" in browser.text and "Ways out" not in browser.text
        assert browser.get("/ui/site/resources/abandon").status_code == 409
        house.cloud.plant(Fault.UNDELETABLE, times=None)
        house.service.site.destroy(house.operator)
        house.visits(1)
        assert "Abandon the removal…" in browser.get("/ui/site/resources").text
        browser.get("/ui/site/resources/abandon")
        fields = hidden(browser)
        assert (
            browser.post("/ui/site/resources/abandon", {**fields, "reason": "x", "name": "x"}).status_code
            == 400
        )
        browser.get("/ui/site/resources/abandon")
        name = house.site.name
        browser.post("/ui/site/resources/abandon", {**hidden(browser), "reason": "scrapped", "name": name})
        assert "scrapped" in browser.text
    finally:
        house.close()
