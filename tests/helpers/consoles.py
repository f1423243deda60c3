"""The console over a real weft and a small Keystone, and a client that does what a browser would: forms, links,
one cookie."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml
from fastapi import FastAPI

from tests.helpers.doors import ORDER, DoorsHouse
from weft.app.verbs import Request
from weft.drivers.openstack import KeystoneSignIn, Sessions
from weft.engine.store.websessions import WebSessions
from weft.model.order import Order
from weft.model.views import PodView
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity, FakeKeystone
from weft.testing.serving import served
from weft.web.app import add_console
from weft.web.guard import CSP
from weft.web.sessions import COOKIE, SessionBook

PASSWORD = "correct horse"
PEOPLE = ("alice", "bob", "rita", "olga", "sue", "tom")


class Console:
    """A console with the weft and Keystone behind it."""

    def __init__(self, house: DoorsHouse, folder: Path, keystone_url: str, keystone: FakeKeystone) -> None:
        profile = {"auth": {"auth_url": f"{keystone_url}/v3", "username": "weft", "password": "x"}}
        file = folder / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {"weft": profile}}))
        self.house, self.keystone = house, keystone
        self.sign_in = KeystoneSignIn(Sessions("weft", [file]))
        self.url = ""
        self.app: FastAPI | None = None

    def stand_before(self, house: DoorsHouse) -> None:
        """Serves this house from now on, with the initial users and without sessions."""
        assert self.app is not None
        self.house = house
        with house.database.transaction() as tx:
            tx.run("prune_web_sessions", before=datetime(9999, 1, 1, tzinfo=UTC), limit=10_000)
        fresh = people()
        self.keystone.identity.tokens, self.keystone.users = fresh.identity.tokens, fresh.users
        self.keystone.scoped, self.keystone.ended = fresh.scoped, []
        self.keystone.identity.error = None
        house.stand_behind(self.app, self.keystone.identity)
        self.app.state.sessions = SessionBook(WebSessions(house.database))

    def process(self) -> FastAPI:
        """Another API process with the console."""
        app = self.house.served(self.keystone.identity)
        add_console(app, self.sign_in, self.house.database)
        return app

    def order(self, **changes: Any) -> PodView:
        """Orders a pod as alice in team-a."""
        alice = self.keystone.users["alice"][1]
        order = Order.model_validate({**ORDER, **changes})
        return self.house.service.pods.create(Request(alice, "127.0.0.1", "req-0"), order)


def people() -> FakeKeystone:
    """A Keystone: alice has two projects, others one; olga is an operator, sue reads the system, tom needs a
    passcode."""
    # DoorClock is ahead of this machine's clock, so their tokens must last longer.
    late = datetime(2030, 1, 1, tzinfo=UTC)
    known = {token: replace(c, expires_at=late) for token, c in tokens().items()}
    keystone = FakeKeystone(FakeIdentity(known))
    by_name = {c.user_name: c for c in known.values()}
    by_name["tom"] = replace(by_name["alice"], user_id="id-of-tom", user_name="tom")
    for name in PEOPLE:
        keystone.users[name] = (PASSWORD, by_name[name])
        keystone.scoped[by_name[name].user_id, by_name[name].project_id] = by_name[name]
    other = replace(by_name["alice"], project_id="id-of-team-c", project_name="team-c")
    keystone.scoped["id-of-alice", "id-of-team-c"] = other
    keystone.passcodes["tom"] = "123456"
    return keystone


@contextmanager
def console_of(house: DoorsHouse, folder: Path) -> Generator[Console]:
    """A console on loopback, over HTTP."""
    keystone = people()
    with served(keystone.app()) as keystone_url:
        keystone.url = keystone_url
        console = Console(house, folder, keystone_url, keystone)
        console.app = console.process()
        with served(console.app) as console.url:
            yield console


class Browser:
    """An HTTP client that follows redirects, keeps the cookie, and sends forms with their hidden fields."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=60)
        self.cookie = ""
        self.page = httpx.Response(200)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.client.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._follow("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Sends the fields as given, with the last page's form token unless they have one."""
        csrf = re.search(r'name="csrf" value="([^"]+)"', self.page.text)
        token = {"csrf": csrf[1]} if csrf else {}
        return self._follow("POST", path, {**token, **fields}, {"Sec-Fetch-Site": "same-origin", **headers})

    def sign_in(
        self, name: str = "alice", password: str = PASSWORD, project: str = "team-a"
    ) -> httpx.Response:
        """Signs in as far as that goes without a passcode; alice also chooses the project."""
        given = {"method": "password", "user": name, "domain": "Default", "password": password}
        page = self.post("/ui/sign-in", {**given, "next": "/"})
        if "Choose a project" in page.text:
            page = self.post("/ui/project", {"project": f"id-of-{project}", "next": "/"})
        return page

    @property
    def text(self) -> str:
        """Text of the last page in one line."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.page.text)).split())

    def _follow(self, verb: str, path: str, form: Any, headers: dict[str, str]) -> httpx.Response:
        for _ in range(6):
            given = {**headers, **({"Cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {})}
            self.page = self.client.request(verb, path, data=form, headers=given)
            assert self.page.headers["content-security-policy"] == CSP, (verb, path, self.page.status_code)
            if set_cookie := self.page.headers.get("set-cookie"):
                assert set_cookie.startswith(f"{COOKIE}=") and "Path=/" in set_cookie, set_cookie
                assert {"Secure", "HttpOnly", "SameSite=lax"} <= set(set_cookie.split("; ")), set_cookie
                self.cookie = set_cookie.partition("=")[2].partition(";")[0].strip('"')
            if self.page.status_code not in (303, 307):
                return self.page
            verb, path, form = "GET", self.page.headers["location"], None
        raise AssertionError(f"redirected without an end: {path}")


def hidden(browser: Browser) -> dict[str, str]:
    """Hidden fields of the form in the page's main part."""
    main = browser.page.text.partition("<main")[2]
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', main)
    return {unescape(name): unescape(value) for name, value in fields}
