"""How a cloud that doesn't answer, and a project that asks too much, affect other requests."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import pytest

from tests.helpers.doors import ORDER, DoorsHouse
from weft.api import threadshares
from weft.api.app import STRANGERS, STRANGERS_SHARE
from weft.api.asking import neighbourhood
from weft.api.threadshares import SHARE, WAITING, ThreadShares
from weft.model.errors import TemporaryError
from weft.ports.cloud import Caller
from weft.ports.patience import patience
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

LONG = 60.0


def test_hanging_cloud_delays_only_requests_to_it(doors: DoorsHouse) -> None:
    """A member sends more plans than there are threads: other projects' requests, operators' and health checks
    are answered. Plans beyond the project's share are refused with `Retry-After`."""
    gone = threading.Event()
    asked: list[str] = []
    real = doors.cloud.check_order

    def hanging(project: str, *given: Any, **named: Any) -> Any:
        asked.append(project)
        if project == "id-of-team-a":
            assert gone.wait(LONG)
        return real(project, *given, **named)

    doors.cloud.check_order = hanging
    with served(doors.served(FakeIdentity(tokens()))) as url, ThreadPoolExecutor(SHARE + WAITING + 9) as pool:

        def get(who: str, path: str) -> int:
            return httpx.get(f"{url}{path}", headers=by(who), trust_env=False, timeout=LONG).status_code

        def plan(who: str) -> httpx.Response:
            return httpx.post(
                f"{url}/v1/pods/plan", json=ORDER, headers=by(who), trust_env=False, timeout=LONG
            )

        assert get("b-member", "/v1/pods") == 200
        plans: list[Future[httpx.Response]] = [
            pool.submit(plan, "a-member") for _ in range(SHARE + WAITING + 1)
        ]
        refused = None
        while refused is None:  # whichever of them came last
            refused = next((p.result() for p in plans if p.done()), None)
            time.sleep(0.01)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert f"{SHARE + WAITING} requests" in refused.json()["detail"]
        assert (
            get("b-member", "/v1/pods") == get("a-member", "/v1/pods") == get("operator", "/v1/nodes") == 200
        )
        assert get("", "/healthz") == 200 and get("", "/metrics") == 200
        assert plan("b-member").status_code == 200
        assert asked.count("id-of-team-a") == SHARE
        gone.set()
        assert sorted({p.result().status_code for p in plans}) == [200, 503]
        assert sum(p.result().status_code == 503 for p in plans) == 1


def test_request_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a project without requests is forgotten."""
    monkeypatch.setattr(threadshares, "WAIT_SECONDS", 0.05)
    gone, begun = threading.Event(), threading.Event()

    def hang() -> float | None:
        begun.set()
        gone.wait(LONG)
        return patience()

    async def ask() -> None:
        shares = ThreadShares(threads=2, share=1)
        async with anyio.create_task_group() as tasks:
            seen: list[float | None] = []

            async def hanging() -> None:
                seen.append(await shares.run("a", hang, 7.0))

            tasks.start_soon(hanging)
            while not begun.is_set():
                await anyio.sleep(0.01)
            with pytest.raises(TemporaryError, match="no thread was free"):
                await shares.run("a", lambda: None)
            assert await shares.run("b", lambda: "at once") == "at once"
            gone.set()
        assert seen == [7.0]
        assert not shares._shares  # pyright: ignore[reportPrivateUsage]

    anyio.run(ask)


class Keystone(FakeIdentity):
    """Keystone that doesn't answer about tokens that begin with `bad`; nothing is cached."""

    def __init__(self) -> None:
        super().__init__(tokens())
        self.asked = threading.Semaphore(0)
        self.over = threading.Event()

    def remembered(self, token: str) -> Caller | None:
        return None

    def check(self, token: str) -> Caller:
        if token.startswith("bad"):
            self.asked.release()
            self.over.wait(LONG)
        return super().check(token)


def test_bad_tokens_of_one_address_do_not_block_others(still_doors: DoorsHouse) -> None:
    """More bad tokens than threads: one address has only its share of the threads that ask Keystone."""
    keystone = Keystone()
    with served(still_doors.served(keystone)) as url, ThreadPoolExecutor(STRANGERS + 4) as pool:

        def ask(token: str, address: str) -> int:
            transport = httpx.HTTPTransport(local_address=address)
            with httpx.Client(transport=transport, base_url=url, timeout=LONG) as client:
                return client.get("/v1/pods", headers={"X-Auth-Token": token}).status_code

        asked = [pool.submit(ask, f"bad{n}", "127.0.0.1") for n in range(STRANGERS + 4)]
        try:
            for _ in range(STRANGERS_SHARE):
                assert keystone.asked.acquire(timeout=LONG)
            assert ask("a-member", "127.0.0.2") == 200
            assert not any(one.done() for one in asked)
        finally:
            keystone.over.set()
        assert {one.result() for one in asked} == {401}


def test_number_of_concurrent_users_is_limited() -> None:
    gone = threading.Event()

    async def ask() -> None:
        shares = ThreadShares(threads=4, share=2, most=2)
        async with anyio.create_task_group() as tasks:
            for who in ("a", "b"):
                tasks.start_soon(shares.run, who, lambda: gone.wait(LONG))
            while len(shares._shares) < 2:  # pyright: ignore[reportPrivateUsage]
                await anyio.sleep(0.01)
            with pytest.raises(TemporaryError, match="2 requests are already being"):
                await shares.run("c", lambda: None)
            gone.set()
        assert await shares.run("c", lambda: "its turn") == "its turn"

    anyio.run(ask)


@pytest.mark.parametrize(
    ("address", "shared"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", ""),
    ],
)
def test_addresses_of_one_host_share_a_limit(address: str, shared: str) -> None:
    assert neighbourhood(address) == shared
