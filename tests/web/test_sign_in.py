"""Signing in and out: what a session is, when it ends, and what an attacker can do."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.helpers.consoles import PASSWORD, Browser, Console
from weft.engine.store.websessions import MOST, WebSessions
from weft.model.errors import UnknownError
from weft.ports.cloud import AccessRule
from weft.testing.serving import served
from weft.web.sessions import COOKIE, SessionBook, SessionContents


def rows(console: Console) -> list[tuple[bytes, bytes]]:
    with psycopg.connect(console.house.database.url) as connection:
        return connection.execute("SELECT digest, sealed FROM web_session ORDER BY created_at").fetchall()


def test_password_and_project_lead_to_the_pods(console: Console, browser: Browser) -> None:
    """Each step has its own session id; earlier ones are no longer valid."""
    assert browser.get("/ui/").url.path == "/ui/sign-in"
    browser.post("/ui/sign-in", {"user": "alice", "domain": "Default", "password": PASSWORD, "next": "/"})
    assert "Choose a project" in browser.text and "team-c" in browser.text
    first = browser.cookie
    browser.post("/ui/project", {"project": "id-of-team-a", "next": "/"})
    assert browser.page.status_code == 200 and "alice in team-a" in browser.text
    assert browser.cookie != first and len(rows(console)) == 1
    second, browser.cookie = browser.cookie, first
    assert browser.get("/ui/").url.path == "/ui/sign-in"
    browser.cookie = second
    assert "team-a" in browser.get("/ui").text


def test_cookie_set_by_an_attacker_is_replaced(console: Console, browser: Browser) -> None:
    """Against session fixation: signing in never continues a session id that the browser sent."""
    browser.cookie = fixed = "A" * 43
    browser.sign_in("bob")
    assert browser.cookie != fixed
    assert rows(console)[0][0] == hashlib.sha256(browser.cookie.encode()).digest()


def test_neither_database_nor_cookie_reveals_a_token(console: Console, browser: Browser) -> None:
    """The row alone has no token, another session's id doesn't decrypt it, and pages have none."""
    page = browser.sign_in("bob")
    tokens = [token for token in console.keystone.identity.tokens if token.startswith("token-")]
    ((digest, sealed),) = rows(console)
    assert tokens and all(t.encode() not in sealed and t not in page.text for t in tokens)
    assert browser.cookie.encode() not in digest + sealed and browser.cookie not in page.text
    book = SessionBook(WebSessions(console.house.database))
    found = book.find(browser.cookie)
    assert found is not None and found.contents.token in tokens
    with psycopg.connect(console.house.database.url) as connection:
        other = "B" * 43
        connection.execute(
            "INSERT INTO web_session SELECT %s, sealed, user_id, created_at, expires_at FROM web_session",
            [hashlib.sha256(other.encode()).digest()],
        )
    assert book.find(other) is None and book.find("no id") is None


def test_wrong_password_shows_the_form_again(console: Console, browser: Browser) -> None:
    """The name is kept, the password isn't, and no session begins."""
    page = browser.sign_in("alice", "wr<o>ng")
    assert (
        page.status_code == 401 and 'value="alice"' in page.text and "wr" not in page.text.split("<form")[1]
    )
    assert not rows(console) and not browser.cookie


def test_passcode_is_required_after_the_password(console: Console, browser: Browser) -> None:
    """After the first factor, every page leads to the form for the second."""
    browser.sign_in("tom")
    assert "One-time passcode" in browser.text
    assert browser.get("/ui/?state=READY").url.path == "/ui/passcode" and "Pods" not in browser.text
    assert 'name="next" value="/?state=READY"' in browser.page.text
    assert browser.post("/ui/passcode", {"passcode": "000000", "next": "/"}).status_code == 401
    browser.post("/ui/passcode", {"passcode": "123 456", "next": "/"})
    assert "tom in team-a" in browser.text


def test_choice_of_a_project_with_a_revoked_token_leads_to_sign_in(
    console: Console, browser: Browser
) -> None:
    """Keystone refuses to list the projects: the session has ended, and there is no error page."""
    browser.sign_in("alice")
    console.keystone.ended += [*console.keystone.identity.tokens]
    page = browser.get("/ui/project")
    assert (page.status_code, page.url.path) == (200, "/ui/sign-in")


def test_application_credential_is_for_its_project(console: Console, browser: Browser) -> None:
    credential = console.keystone.users["bob"][1]
    console.keystone.users["c0ffee"] = ("s3cret", credential)
    browser.post(
        "/ui/sign-in", {"method": "credential", "credential": "c0ffee", "secret": "s3cret", "next": "/"}
    )
    assert "bob in team-b" in browser.text and "Change project" not in browser.text


def test_deleted_application_credential_is_refused(console: Console, browser: Browser) -> None:
    given = {"method": "credential", "credential": "gone", "secret": "s3cret", "next": "/"}
    page = browser.post("/ui/sign-in", given)
    assert page.status_code == 401 and "id or secret is wrong" in browser.text


def test_credential_reads_only_what_its_access_rules_allow(console: Console, browser: Browser) -> None:
    """Rules name the API's paths: with one for capacity only, pods are refused."""
    rules = (AccessRule("accelerator-pod", "GET", "/v1/capacity"),)
    console.keystone.users["c0ffee"] = (
        "s3cret",
        replace(console.keystone.users["bob"][1], access_rules=rules),
    )
    given = {"method": "credential", "credential": "c0ffee", "secret": "s3cret", "next": "/"}
    assert browser.post("/ui/sign-in", given).status_code == 403
    assert "path /v1/pods is missing" in browser.text


def test_sign_out_ends_the_session_and_its_tokens(console: Console, browser: Browser) -> None:
    browser.sign_in("alice")
    cookie = browser.cookie
    assert browser.post("/ui/sign-out", {}).url.path == "/ui/sign-in"
    assert not rows(console) and len(console.keystone.ended) == 2
    browser.cookie = cookie
    assert browser.get("/ui/").url.path == "/ui/sign-in"


def test_session_ends_with_its_token(console: Console, browser: Browser) -> None:
    """Whether the token expired or was revoked."""
    browser.sign_in("bob")
    with psycopg.connect(console.house.database.url) as connection:
        connection.execute("UPDATE web_session SET expires_at = %s", [datetime(2020, 1, 1, tzinfo=UTC)])
    assert browser.get("/ui/pods/x?y=1").url.params["next"] == "/pods/x?y=1"
    browser.sign_in("bob")
    for token in [t for t in console.keystone.identity.tokens if t.startswith("token-")]:
        del console.keystone.identity.tokens[token]
    assert browser.get("/ui/").url.path == "/ui/sign-in" and "session has ended" in browser.text


def test_sessions_are_limited_in_time_and_number(console: Console) -> None:
    """A session lasts 12 hours at most, whatever its token; of too many sessions of a user the oldest ends."""
    book = SessionBook(WebSessions(console.house.database))
    far = datetime(2030, 1, 1, tzinfo=UTC)
    made = [book.begin(SessionContents("in", "t", "u"), far) for _ in range(MOST + 1)]
    found = book.find(made[-1].key)
    assert found is not None
    assert found.expires_at - console.house.database.now() < timedelta(hours=12, seconds=1)
    assert len(rows(console)) == MOST and book.find(made[0].key) is None


def test_session_is_shared_by_processes(console: Console, browser: Browser) -> None:
    browser.sign_in("bob")
    with served(console.process()) as url, Browser(url) as other:
        other.cookie = browser.cookie
        assert "bob in team-b" in other.get("/ui/").text
        other.post("/ui/sign-out", {})
    assert browser.get("/ui/").url.path == "/ui/sign-in"


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_form_of_another_site_is_refused(console: Console, browser: Browser, headers: dict[str, str]) -> None:
    """Also before there is a session: it would sign the victim in as the attacker."""
    given = {"user": "bob", "domain": "Default", "password": PASSWORD}
    assert browser.post("/ui/sign-in", given, **headers).status_code == 403
    browser.sign_in("bob")
    assert browser.post("/ui/sign-out", {}, **headers).status_code == 403
    assert browser.get("/ui/").status_code == 200


def test_form_needs_the_token_of_its_session(console: Console, browser: Browser) -> None:
    browser.sign_in("bob")
    for wrong in ("", "0" * 64, "é"):
        assert browser.post("/ui/sign-out", {"csrf": wrong}).status_code == 403
        browser.get("/ui/")
    old = browser.client.post(
        "/ui/sign-in",
        data={"user": "bob"},
        headers={"Origin": "https://evil.example"},
    )
    assert old.status_code == 403


@pytest.mark.parametrize(
    "back", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:1"]
)
def test_sign_in_does_not_redirect_to_other_sites(console: Console, browser: Browser, back: str) -> None:
    given = {"user": "bob", "domain": "Default", "password": PASSWORD, "next": back}
    assert browser.post("/ui/sign-in", given).url.host == "127.0.0.1"
    assert browser.page.url.path == "/ui/"


def test_browser_without_cookies_is_shown_the_reason(console: Console, browser: Browser) -> None:
    answer = browser.client.get("/ui/enter?next=/")
    assert answer.status_code == 400 and COOKIE in answer.text
    elsewhere = browser.client.get("/ui/sign-in", headers={"Host": "weft.example"})
    assert "plain HTTP" in elsewhere.text and "plain HTTP" not in browser.client.get("/ui/sign-in").text


def test_silent_keystone_is_a_page_with_503(console: Console, browser: Browser) -> None:
    """Users who are signed in stay so."""
    browser.sign_in("bob")
    console.keystone.identity.error = UnknownError("check a caller's token", "keystone", "no answer")
    assert browser.get("/ui/").status_code == 503
    assert len(rows(console)) == 1
