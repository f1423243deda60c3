"""Signing in by Keystone's WebSSO, attacked: posts of other sites, replays, tokens of others, wrong addresses."""

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
    """A browser that follows nothing, before a console with WebSSO; Keystone knows a token of alice's."""
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
    """As Keystone's page does."""
    given = {"Origin": KEYSTONE, "Sec-Fetch-Site": "cross-site", "Cookie": cookie, **headers}
    return client.post("/ui/sso", data={"token": token}, headers=given)


def session_in(answer: httpx.Response) -> str:
    """The session's cookie; empty: none was given."""
    found = [
        one
        for one in answer.headers.get_list("set-cookie")
        if one.startswith(f"{COOKIE}=") and "Max-Age=0" not in one
    ]
    return found[0].partition("=")[2].partition(";")[0] if found else ""


def test_token_of_keystone_begins_a_session(sso: httpx.Client, console: Console, browser: Browser) -> None:
    """Without a project: the choice comes next, then the page that was wanted; sign-out revokes both tokens."""
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


def test_start_names_this_console_as_origin(sso: httpx.Client, console: Console) -> None:
    """Its public address if there is one, with the proxy's prefix; and `next` leads nowhere else."""
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
    """Also in a browser that has begun to sign in, and with a good token: that would be the attacker's account."""
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
    """Without the scheme's own port, in lower case; another port is another origin."""
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
def test_browser_that_did_not_begin_here_is_refused(sso: httpx.Client, cookie: str) -> None:
    """A page of Keystone that someone else's sign-in led to; or the answer came a second time."""
    answer = post(sso, cookie)
    assert answer.status_code == 403 and not session_in(answer) and "begin again" in answer.text


@pytest.mark.parametrize(
    "site",
    ["cross-site", "same-site"],
)
def test_other_sites_cannot_begin(sso: httpx.Client, site: str) -> None:
    """A link of theirs leads to the page for signing in, without the cookie."""
    answer = sso.get("/ui/sso/start", headers={"Sec-Fetch-Site": site})
    assert answer.headers["location"].endswith("/ui/sign-in") and "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "token", ["", "of-another-keystone", "a b", "a\r\nX-Evil: 1", "ä", "x" * 100_000, " " + TOKEN]
)
def test_token_that_this_keystone_does_not_know_is_refused(sso: httpx.Client, token: str) -> None:
    """Another Keystone's, one that was revoked, or no token at all."""
    answer = post(sso, begin(sso), token)
    assert answer.status_code in (401, 413) and not session_in(answer)
    assert "X-Evil" not in str(answer.headers)


def test_token_of_a_project_is_refused(sso: httpx.Client, console: Console) -> None:
    """WebSSO gives tokens without one: this one was taken from elsewhere."""
    scoped = "token-of-a-project"
    console.keystone.identity.tokens[scoped] = console.keystone.users["alice"][1]
    answer = post(sso, begin(sso), scoped)
    assert answer.status_code == 401 and "without a project" in answer.text and not session_in(answer)
    console.keystone.identity.tokens.pop(TOKEN)
    assert post(sso, begin(sso)).status_code == 401


def test_token_is_not_logged(sso: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Nor on a page, at any level of the log; also if Keystone refuses it."""
    caplog.set_level(logging.DEBUG)
    for token in (TOKEN, "secret-token-that-is-refused"):
        answer = post(sso, begin(sso), token)
        assert token not in answer.text + str(answer.headers)
        assert not [line for line in caplog.text.splitlines() if token in line]


def test_forms_of_other_kinds_are_refused(sso: httpx.Client) -> None:
    given = {"Origin": KEYSTONE, "Cookie": begin(sso)}
    assert sso.post("/ui/sso", json={"token": TOKEN}, headers=given).status_code == 415
    twice = f"token={TOKEN}&token=x"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert sso.post("/ui/sso", content=twice, headers={**given, **kind}).status_code == 400


def test_console_without_federation_has_no_such_way(console: Console, browser: Browser) -> None:
    """No button, no routes."""
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


def test_text_that_is_not_kept_is_shown_to_be_copied(sso: httpx.Client) -> None:
    """The identity provider's way back has no form."""
    answer = sso.post(
        "/ui/order",
        data={"do": "order", "yaml": "name: <mine>"},
        headers={"Sec-Fetch-Site": "same-origin", "Cookie": f"{COOKIE}={'A' * 43}"},
    )
    assert answer.status_code == 401 and "copy it first" in answer.text
    assert "name: &lt;mine&gt;</textarea>" in answer.text
