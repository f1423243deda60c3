"""WebSSO with a real Keystone behind Apache's mod_auth_openidc and an OpenID provider, in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.helpers.consoles import Console
from tests.helpers.doors import DoorsHouse
from tests.helpers.federation import Federation, federation
from tests.web.test_in_chromium import tab
from weft.drivers.openstack import KeystoneIdentity, KeystoneSignIn, Sessions
from weft.web.sessions import COOKIE

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["tab"]
pytestmark = pytest.mark.nightly(
    reason="Keystone, Apache and an OpenID provider, 30 s; by day a small Keystone takes its place"
)


@pytest.fixture
def federated(
    still_console: tuple[Console, DoorsHouse], tmp_path: Path
) -> Iterator[tuple[Console, Federation]]:
    """A console with a real Keystone that trusts it as a dashboard."""
    console, house = still_console
    console.stand_before(house)
    app = console.app
    assert app
    kept = (app.state.identity, app.state.sign_in)
    with federation(tmp_path, f"{console.url}/ui/sso") as made:
        sessions = Sessions("weft", [made.clouds_yaml])
        app.state.identity, app.state.sign_in = KeystoneIdentity(sessions), KeystoneSignIn(sessions)
        app.state.websso_url = made.websso
        yield console, made
    app.state.identity, app.state.sign_in = kept
    app.state.websso_url = None


def test_user_of_the_provider_signs_in_and_out(
    federated: tuple[Console, Federation], tab: tuple[Page, list[str]]
) -> None:
    """The token is in no address, log, page, cookie or storage, and is revoked at the end."""
    console, cloud = federated
    page, messages = tab
    addresses: list[str] = []
    tokens: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on(
        "request",
        lambda request: tokens.append(request.post_data or "") if request.url.endswith("/ui/sso") else None,
    )
    page.goto(f"{console.url}/ui/events")
    page.click("text=Sign in with your organization")
    page.fill("input[name=sub]", "grace@example.org")
    page.click("button >> nth=0")
    page.wait_for_selector("h1 >> text=Choose a project")
    assert {"team-a", "team-b"} <= set(page.locator(".choices button").all_inner_texts())
    page.click("text=team-a")
    page.wait_for_selector("h1 >> text=Events")
    assert "grace@example.org in team-a" in page.inner_text(".who")
    token = tokens[-1].partition("token=")[2].partition("&")[0]
    assert len(token) > 100
    assert not [one for one in addresses if token in one]
    cookies = page.context.cookies()
    assert {c.get("name") for c in cookies if str(c.get("name")).startswith("__Host-weft")} == {COOKIE}
    assert token not in str(cookies) + page.content() + page.evaluate(
        "JSON.stringify([localStorage, sessionStorage])"
    )
    assert token not in cloud.logs()
    page.click("text=Sign out")
    page.wait_for_selector("h1 >> text=Sign in")
    gone = httpx.get(
        f"{cloud.url}/v3/auth/tokens",
        headers={"X-Auth-Token": token, "X-Subject-Token": token},
        trust_env=False,
    )
    assert gone.status_code in (401, 404)
    # The provider's page loads a font from elsewhere, and Keystone has no icon.
    assert not [one for one in messages if "ERR_NAME_NOT_RESOLVED" not in one and "404" not in one]


def test_token_cannot_be_used_from_another_site(
    federated: tuple[Console, Federation], tab: tuple[Page, list[str]]
) -> None:
    """An attacker's page posts a token into a browser that has begun to sign in; Keystone trusts only one
    dashboard."""
    console, cloud = federated
    page, _ = tab
    form = f'<form id="f" method="post" action="{console.url}/ui/sso"><input name="token" value="x"></form>'
    page.route("http://evil.localhost/**", lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto(f"{console.url}/ui/sign-in")
    page.click("text=Sign in with your organization")
    page.wait_for_selector("input[name=sub]")
    page.goto("http://evil.localhost/")
    page.evaluate("document.getElementById('f').submit()")
    page.wait_for_selector("text=wasn't sent by Keystone")
    assert COOKIE not in {c.get("name") for c in page.context.cookies()}
    page.goto(f"{cloud.websso}?origin=http://evil.localhost/ui/sso")
    page.fill("input[name=sub]", "grace@example.org")
    page.click("button >> nth=0")
    page.wait_for_load_state()
    assert "not a trusted dashboard" in page.content() or "requires authentication" in page.content()
