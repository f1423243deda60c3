"""Signing in by Keystone's WebSSO under attack: requests of other sites, replays, foreign tokens, wrong addresses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.helpers.consoles import Browser, Console
from weft.model.errors import InputError
from weft.web import websso
from weft.web.sessions import COOKIE

KEYSTONE = "https://keystone.example"
ADDRESS = f"{KEYSTONE}/v3/auth/OS-FEDERATION/websso/openid"
TOKEN = "gAAAAA-unscoped"


@pytest.fixture
def sso(console: Console) -> Iterator[httpx.Client]:
    """An HTTP client that follows no redirects, with a console that has WebSSO; Keystone knows a token of alice's."""
    assert console.app
    console.app.state.websso_url = ADDRESS
    alice = console.keystone.users["alice"][1]
    unscoped = replace(alice, project_id=None, project_name=None, project_domain_id=None, roles=frozenset())
    console.keystone.identity.tokens[TOKEN] = unscoped
    with httpx.Client(base_url=console.url, trust_env=False, timeout=60) as client:
        yield client
    console.app.state.websso_url = None


def begin(client: httpx.Client, **query: str) -> str:
    """The cookie of a sign-in that began here."""
    answer = client.get("/ui/sso/start", params=query, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 303 and answer.headers["location"].startswith(f"{ADDRESS}?origin=")
    cookie = answer.headers["set-cookie"]
    assert {"Secure", "HttpOnly", "SameSite=none", "Path=/", "Max-Age=600"} <= set(cookie.split("; "))
    return cookie.partition(";")[0]


def post(client: httpx.Client, cookie: str, token: str = TOKEN, **headers: str) -> httpx.Response:
    """Posts a token as Keystone's page does."""
    given = {"Origin": KEYSTONE, "Sec-Fetch-Site": "cross-site", "Cookie": cookie, **headers}
    return client.post("/ui/sso", data={"token": token}, headers=given)


def session_in(answer: httpx.Response) -> str:
    """The session's cookie; empty if there is none."""
    found = [
        one
        for one in answer.headers.get_list("set-cookie")
        if one.startswith(f"{COOKIE}=") and "Max-Age=0" not in one
    ]
    return found[0].partition("=")[2].partition(";")[0] if found else ""


def test_token_of_keystone_begins_a_session(sso: httpx.Client, console: Console, browser: Browser) -> None:
    """Without a project: the choice comes next, then the page that was requested; signing out revokes both tokens."""
    assert "Sign in with your organization" in browser.get("/ui/sign-in").text
    answer = post(sso, begin(sso, next="/capacity"))
    assert answer.status_code == 200 and 'content="0; url=/ui/enter?next=/capacity"' in answer.text
    assert f"{websso.COOKIE}=" in str(answer.headers.get_list("set-cookie")) and "Max-Age=0" in str(
        answer.headers
    )
    assert TOKEN not in answer.text + str(answer.headers)
    browser.cookie = session_in(answer)
    assert len(browser.cookie) == 43
    assert "Choose a project" in browser.get("/ui/enter?next=/capacity").text
    browser.post("/ui/project", {"project": "id-of-team-a", "next": "/capacity"})
    assert "alice in team-a" in browser.text and "Capacity" in browser.text
    browser.post("/ui/sign-out", {})
    assert TOKEN in console.keystone.ended and len(console.keystone.ended) == 2


def test_start_sends_this_consoles_origin(sso: httpx.Client, console: Console) -> None:
    """Its public address if it has one, with the proxy's prefix; `next` doesn't lead to other sites."""
    assert console.app
    kept = console.app.state.public_url
    try:
        for public, origin in (
            (None, f"{console.url}/ui/sso"),
            ("https://c.example/weft", "https://c.example/weft/ui/sso"),
        ):
            console.app.state.public_url = public
            to = sso.get("/ui/sso/start", headers={"Sec-Fetch-Site": "same-origin"}).headers["location"]
            assert parse_qs(urlsplit(to).query) == {"origin": [origin]}
    finally:
        console.app.state.public_url = kept
    for there in ("https://evil.example/", "//evil.example", "/\\evil.example", "x" * 3000):
        answer = post(sso, begin(sso, next=there))
        assert 'content="0; url=/ui/enter?next=/"' in answer.text, there


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://keystone.example"},
        {"Origin": "https://keystone.example:8443"},
        {"Origin": "https://keystone.example.evil.example"},
    ],
)
def test_post_of_another_origin_is_refused(sso: httpx.Client, headers: dict[str, str]) -> None:
    """Also if the browser has begun to sign in and the token is valid: it would be the attacker's account."""
    answer = post(sso, begin(sso), **headers)
    assert answer.status_code == 403 and not session_in(answer)


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://keystone.example:443", "https://keystone.example"),
        ("https://Keystone.Example", "https://keystone.example"),
        ("http://keystone.example:80", "http://keystone.example"),
        ("https://keystone.example:5000", "https://keystone.example:5000"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]"),
    ],
)
def test_origin_is_compared_in_the_form_that_browsers_send(
    sso: httpx.Client, console: Console, address: str, origin: str
) -> None:
    """Without the scheme's default port and in lower case; another port is another origin."""
    assert console.app
    console.app.state.websso_url = f"{address}/v3/auth/OS-FEDERATION/websso/openid"
    websso.check_address(console.app.state.websso_url)
    cookie = sso.get("/ui/sso/start").headers["set-cookie"].partition(";")[0]
    assert session_in(post(sso, cookie, Origin=origin))
    assert post(sso, cookie, Origin=f"{origin}1").status_code == 403


def test_post_without_an_origin_is_refused(sso: httpx.Client) -> None:
    answer = sso.post("/ui/sso", data={"token": TOKEN}, headers={"Cookie": begin(sso)})
    assert answer.status_code == 403 and not session_in(answer)


@pytest.mark.parametrize(
    "cookie", ["", f"{websso.COOKIE}=", f"{websso.COOKIE}=x", f"{websso.COOKIE}={'a' * 43}"]
)
def test_answer_without_the_cookie_of_a_sign_in_is_refused(sso: httpx.Client, cookie: str) -> None:
    """Keystone's answer to a sign-in that began elsewhere, or that is sent a second time."""
    answer = post(sso, cookie)
    assert answer.status_code == 403 and not session_in(answer) and "begin again" in answer.text


@pytest.mark.parametrize(
    "site",
    ["cross-site", "same-site"],
)
def test_sign_in_cannot_be_begun_by_another_site(sso: httpx.Client, site: str) -> None:
    """Its link leads to the sign-in page and sets no cookie."""
    answer = sso.get("/ui/sso/start", headers={"Sec-Fetch-Site": site})
    assert answer.headers["location"].endswith("/ui/sign-in") and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "token", ["", "of-another-keystone", "a b", "a\r\nX-Evil: 1", "ä", "x" * 100_000, " " + TOKEN]
)
def test_unknown_token_is_refused(sso: httpx.Client, token: str) -> None:
    """Of another Keystone, revoked, or no token at all."""
    answer = post(sso, begin(sso), token)
    assert answer.status_code in (401, 413) and not session_in(answer)
    assert "X-Evil" not in str(answer.headers)


def test_token_with_a_project_is_refused(sso: httpx.Client, console: Console) -> None:
    """WebSSO gives tokens without a project, so this one comes from elsewhere."""
    scoped = "token-of-a-project"
    console.keystone.identity.tokens[scoped] = console.keystone.users["alice"][1]
    answer = post(sso, begin(sso), scoped)
    assert answer.status_code == 401 and "without a project" in answer.text and not session_in(answer)
    console.keystone.identity.tokens.pop(TOKEN)
    assert post(sso, begin(sso)).status_code == 401


def test_token_is_neither_logged_nor_shown(sso: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """At any log level, also if Keystone refuses it."""
    caplog.set_level(logging.DEBUG)
    for token in (TOKEN, "secret-token-that-is-refused"):
        answer = post(sso, begin(sso), token)
        assert token not in answer.text + str(answer.headers)
        assert not [line for line in caplog.text.splitlines() if token in line]


def test_malformed_forms_are_refused(sso: httpx.Client) -> None:
    given = {"Origin": KEYSTONE, "Cookie": begin(sso)}
    assert sso.post("/ui/sso", json={"token": TOKEN}, headers=given).status_code == 415
    twice = f"token={TOKEN}&token=x"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert sso.post("/ui/sso", content=twice, headers={**given, **kind}).status_code == 400


def test_console_without_federation_has_no_button_or_routes(console: Console, browser: Browser) -> None:
    """And invalid addresses of WebSSO are refused at start."""
    assert "organization" not in browser.get("/ui/sign-in").text
    assert browser.get("/ui/sso/start").status_code == 404
    assert browser.post("/ui/sso", {"token": TOKEN}, Origin=KEYSTONE).status_code == 404
    for wrong in (
        "https://keystone.example/v3",
        "ftp://k/v3/auth/OS-FEDERATION/websso/x",
        f"{ADDRESS}?origin=x",
        "https:///v3/auth/OS-FEDERATION/websso/openid",
        "https://k:x/v3/auth/OS-FEDERATION/websso/openid",
        "https://user:secret@k/v3/auth/OS-FEDERATION/websso/openid",
        "https://k/v3/auth/OS-FEDERATION/websso/open id",
    ):
        with pytest.raises(InputError):
            websso.check_address(wrong)


def test_text_that_websso_cannot_keep_is_shown_to_be_copied(sso: httpx.Client) -> None:
    """The way back from the identity provider has no form that could carry it."""
    answer = sso.post(
        "/ui/order",
        data={"do": "order", "yaml": "name: <mine>"},
        headers={"Sec-Fetch-Site": "same-origin", "Cookie": f"{COOKIE}={'A' * 43}"},
    )
    assert answer.status_code == 401 and "copy it first" in answer.text
    assert "name: &lt;mine&gt;</textarea>" in answer.text
