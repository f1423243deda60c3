"""Viewers who share a reading: access and errors are each viewer's own."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.consoles import Browser, Console
from weft.api.together import SharedReadings, together
from weft.app.nodepages import NodeMark
from weft.app.policy import Policy
from weft.app.verbs import Request
from weft.model.errors import ForbiddenError, UnauthenticatedError, WeftError
from weft.ports.cloud import AccessRule
from weft.testing.callers import tokens

MOST = tuple(AccessRule("accelerator-pod", "GET", path) for path in ("/v1/pods", "/v1/site/health/nodes"))
"""Access rules of a credential that may not read nodes."""


@pytest.mark.parametrize("restricted_first", [True, False])
def test_access_rules_are_checked_for_each_viewer_of_a_shared_reading(
    console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch, restricted_first: bool
) -> None:
    keystone, house = console.keystone, console.house
    assert console.app
    shared: Any = console.app.state.together
    keystone.users["c0ffee"] = ("s3cret", replace(keystone.users["olga"][1], access_rules=MOST))
    go, plain = threading.Event(), house.service.nodes.marks

    def slow(*given: Any) -> list[NodeMark]:
        assert go.wait(30)
        return plain(*given)

    monkeypatch.setattr(house.service.nodes, "marks", slow)
    with Browser(console.url) as limited, ThreadPoolExecutor(3) as pool:
        browser.sign_in("olga")
        credential = {"method": "credential", "credential": "c0ffee", "secret": "s3cret", "next": "/"}
        assert limited.post("/ui/sign-in", credential).status_code == 200
        cookies = (limited.cookie, browser.cookie) if restricted_first else (browser.cookie, limited.cookie)
        asked: list[Future[int]] = []
        try:
            for number, cookie in enumerate((browser.cookie, *cookies)):
                asked.append(pool.submit(_status, console.url, cookie))
                _until(lambda n=number: asked[n].done() or bool(shared._next if n else shared._running))
                time.sleep(0.2)
        finally:
            go.set()
        found = [one.result(30) for one in asked]
    assert found == [200, *((403, 200) if restricted_first else (200, 403))]


def _status(url: str, cookie: str) -> int:
    with Browser(url) as one:
        one.cookie = cookie
        return one.get("/ui/site/picture.json").status_code


def _until(done: Any) -> None:
    for _ in range(300):
        if done():
            return
        time.sleep(0.02)
    raise AssertionError("not in time")


@pytest.mark.parametrize("kind", [ForbiddenError, UnauthenticatedError])
def test_refusal_applies_only_to_its_own_caller(kind: type[WeftError]) -> None:
    """Members of a project share readings; that one's token ended doesn't sign the others out."""
    alice = tokens()["a-member"]
    state = SimpleNamespace(policy=Policy(), together=SharedReadings())
    http: Any = SimpleNamespace(app=SimpleNamespace(state=state))

    async def ask(name: str) -> str:
        async def read() -> str:
            await asyncio.sleep(0)
            if name != "tom":
                raise kind(f"{name} may not")
            return "fine"

        request = Request(replace(alice, user_id=name, user_name=name), "127.0.0.1", "req-0")
        return await together(http, request, ("nodes",), read)

    async def story() -> Any:
        return await asyncio.gather(ask("alice"), ask("ann"), ask("tom"), return_exceptions=True)

    assert [str(one) for one in asyncio.run(story())] == ["alice may not", "ann may not", "fine"]
