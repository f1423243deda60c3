"""Long polls for a pod's state and for events: a waiting request uses no thread and is always answered."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import psycopg
import pytest
import uvicorn
from fastapi import FastAPI
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.waiting import wait_for
from weft.api.app import create_app
from weft.api.connections import configured, raise_file_limit
from weft.api.server import _Server, listening
from weft.api.waiting import WaitingRoom
from weft.model.errors import UnknownError
from weft.model.pod import PodState, wait_is_over
from weft.ports.cloud import Caller
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

AT_ONCE = 45.0
"""Seconds: an answer within this time didn't wait for the end of its 60 s."""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as made:
        yield made


@pytest.fixture
def app(doors: DoorsHouse, identity: FakeIdentity) -> FastAPI:
    return create_app(doors.service, identity)


@pytest.fixture
def url(app: FastAPI) -> Iterator[str]:
    with served(app) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with httpx.Client(base_url=url, headers=by("a-member"), trust_env=False, timeout=100) as made:
        yield made


def room(app: FastAPI) -> WaitingRoom:
    return app.state.waiting


def ask(client: Client, **given: object) -> httpx.Response:
    return client.get("/v1/pods/train", params={"wait": 60, **given})


def timed(client: Client, **given: object) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    answer = ask(client, **given)
    assert answer.status_code == 200, answer.text
    return answer.json(), time.monotonic() - began


def waiting_for(
    pool: ThreadPoolExecutor, client: Client, app: FastAPI, **given: object
) -> Future[httpx.Response]:
    """Starts a request and returns when it waits."""
    before = len(room(app))
    asked = pool.submit(ask, client, **given)
    wait_for(lambda: len(room(app)) > before)
    return asked


def test_wait_is_answered_when_the_pod_is_ready(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    """READY, and RELEASED. The answer is the whole pod, with its generation."""
    made = client.post("/v1/pods", json=ORDER).json()
    ready = waiting_for(pool, client, app, until="READY")
    doors.finish("train")
    answer = ready.result(AT_ONCE)
    assert (answer.json()["state"], len(answer.json()["servers"])) == ("READY", 2)
    assert answer.headers["etag"].startswith('"1-')
    gone = waiting_for(pool, client, app, until="RELEASED,FAILED")
    client.post("/v1/pods/train/release")
    doors.finish("train")
    assert gone.result(AT_ONCE).json()["state"] == "RELEASED"
    # By name there is none any more; by id it is the same pod.
    client.post("/v1/pods", json=ORDER)
    old = client.get(f"/v1/pods/{made['id']}", params={"until": "RELEASED", "wait": 60})
    assert old.json()["id"] == made["id"] and old.json()["state"] == "RELEASED"
    assert len(room(app)) == 0


def test_reached_or_unreachable_state_is_answered_at_once(client: Client, doors: DoorsHouse) -> None:
    client.post("/v1/pods", json=ORDER)
    assert timed(client, until="PLACED")[0]["state"] == "PLACED"
    doors.finish("train")
    for state in ("READY", " READY , FAILED", "PLACED", "BOOTING"):
        pod, took = timed(client, until=state)
        assert pod["state"] == "READY" and took < AT_ONCE
    client.post("/v1/pods/train/release")
    doors.finish("train")
    for state in ("READY", "RELEASING", "FAILED", "RELEASED"):
        pod, took = timed(client, until=state)
        assert pod["state"] == "RELEASED" and took < AT_ONCE


def test_failed_pod_ends_a_wait_except_for_its_release(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    doors.break_servers()
    client.post("/v1/pods", json=ORDER)
    ready = waiting_for(pool, client, app, until="READY")
    assert doors.finish("train").state is PodState.FAILED
    assert ready.result(AT_ONCE).json()["state"] == "FAILED"
    assert timed(client, until="READY")[1] < AT_ONCE
    gone = waiting_for(pool, client, app, until="RELEASED")
    client.post("/v1/pods/train/release")
    doors.finish("train")
    assert gone.result(AT_ONCE).json()["state"] == "RELEASED"


def test_wait_ends_at_its_limit_with_the_pod_as_it_is(client: Client) -> None:
    client.post("/v1/pods", json=ORDER)
    assert ask(client, until="READY", wait=0.05).json()["state"] == "PLACED"
    assert client.get("/v1/pods/train?until=READY").json()["state"] == "PLACED", "without wait it doesn't"


def test_wait_for_ready_includes_a_change_under_way(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    """A READY pod that is being changed isn't what was ordered yet."""
    client.post("/v1/pods", json=ORDER)
    doors.finish("train")
    more = {**ORDER, "nodes": {**ORDER["nodes"], "count": 3}}
    assert client.put("/v1/pods/train", json=more).json()["outcome"] == "changed"
    waiting = waiting_for(pool, client, app, until="READY")
    wait_for(lambda: doors.finish("train").changed_at is None or doors.worker.run_once() is None)
    while doors.store.pods.find("train", "id-of-team-a").changed_at is not None:
        doors.store.wake(doors.store.pods.find("train", "id-of-team-a").id)
        doors.worker.run_once()
    pod = waiting.result(AT_ONCE).json()
    assert (pod["state"], pod["changing_since"], len(pod["servers"])) == ("READY", None, 3)


@pytest.mark.parametrize(
    ("query", "field", "says"),
    [
        ("until=REDY", "until", "states of a pod, separated by commas: PENDING, PLACED"),
        ("until=", "until", "READY"),
        ("until=READY,,FAILED", "until", "READY"),
        ("wait=5", "until", "READY"),
        ("until=READY&wait=61", "wait", "a number of seconds from 0 to 60"),
        ("until=READY&wait=x", "wait", "a number of seconds"),
        ("until=READY&wait=nan", "wait", "a number of seconds"),
        ("until=READY&wait=-1", "wait", "a number of seconds"),
    ],
)
def test_invalid_wait_is_reported(client: Client, query: str, field: str, says: str) -> None:
    """One sentence with the field and what is allowed; 404 for those who may not see the pod."""
    client.post("/v1/pods", json=ORDER)
    answer = client.get(f"/v1/pods/train?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field and says in answer.json()["detail"]
    for headers, status in ((by(""), 401), (by("b-member"), 404), (by("roleless"), 404)):
        assert client.get(f"/v1/pods/train?{query}", headers=headers).status_code == status


def test_caller_without_permission_does_not_wait_for_a_pod(client: Client, app: FastAPI) -> None:
    """By name and id: at once, the same 404 as for one that doesn't exist."""
    pod = client.post("/v1/pods", json=ORDER).json()
    for name in ("train", pod["id"], "nix"):
        for tail in ("?until=READY&wait=60", "/events?after=999999&wait=60"):
            answer = client.get(f"/v1/pods/{name}{tail}", headers=by("b-member"))
            assert (answer.status_code, answer.elapsed.total_seconds() < AT_ONCE) == (404, True)
    assert client.get("/v1/pods/nix?until=READY&wait=60").status_code == 404


def test_token_revoked_during_a_wait_is_refused(
    client: Client, app: FastAPI, doors: DoorsHouse, identity: FakeIdentity, pool: ThreadPoolExecutor
) -> None:
    client.post("/v1/pods", json=ORDER)
    ready = waiting_for(pool, client, app, until="READY")
    del identity.tokens["a-member"]
    doors.finish("train")
    assert ready.result(AT_ONCE).status_code == 401


def silent(token: str) -> Caller:
    raise UnknownError("check a caller's token", "Keystone", "no answer")


def test_completed_change_is_answered_although_keystone_is_down_by_then(
    client: Client, app: FastAPI, identity: FakeIdentity
) -> None:
    """An order or release answered with an error would be sent again. Reads are refused."""
    known, asked = FakeIdentity(identity.tokens).remembered, list[str]()

    def at_first(token: str) -> Caller | None:
        asked.append(token)
        return known(token) if len(asked) == 1 else None

    identity.remembered = at_first
    identity.check = silent
    waits = {"wait": 0.05}
    made = client.post("/v1/pods", json=ORDER, params={"until": "READY", **waits})
    assert (made.status_code, made.headers["location"]) == (202, f"/v1/pods/{made.json()['id']}"), made.text
    asked.clear()
    gone = client.post("/v1/pods/train/release", params={"until": "RELEASED", **waits})
    assert (gone.status_code, gone.json()["name"]) == (202, "train"), gone.text
    asked.clear()
    assert ask(client, until="RELEASED", wait=0.05).status_code == 503
    assert len(room(app)) == 0


def test_many_waits_use_no_thread_or_connection_each(
    url: str, client: Client, app: FastAPI, doors: DoorsHouse
) -> None:
    """All are answered; meanwhile other requests are served, and a single connection asks the database."""
    client.post("/v1/pods", json=ORDER)
    raise_file_limit()  # as `weft serve` does
    room(app).most, threads = 1000, threading.active_count()
    parts = httpx.URL(url)
    request = "GET /v1/pods/train?until=READY&wait=60 HTTP/1.1\r\nHost: x\r\nX-Auth-Token: a-member\r\n\r\n"
    sockets: list[socket.socket] = []
    try:
        for _ in range(120):
            sockets.append(socket.create_connection((parts.host, parts.port), timeout=100))
            sockets[-1].sendall(request.encode())
        wait_for(lambda: len(room(app)) == len(sockets), 100)
        assert threading.active_count() <= threads + 45, (
            "the server's own threads for requests, and the lookout"
        )
        with psycopg.connect(doors.database.url) as connection:
            (count,) = connection.execute("SELECT count(*) FROM pg_stat_activity").fetchone() or (0,)
            assert count < 40
        assert client.get("/v1/pods").json()["pods"][0]["state"] == "PLACED"
        doors.finish("train")
        for one in sockets:
            assert b"200 OK" in one.recv(200)
    finally:
        for one in sockets:
            one.close()
    wait_for(lambda: len(room(app)) == 0)


def test_longest_wait_is_answered_when_too_many_wait(
    client: Client, app: FastAPI, pool: ThreadPoolExecutor
) -> None:
    """With the pod as it is: no request is refused, and connections are left for others."""
    client.post("/v1/pods", json=ORDER)
    room(app).most = 2
    first, second = (waiting_for(pool, client, app, until="READY") for _ in range(2))
    third = pool.submit(ask, client, until="READY")
    assert first.result(AT_ONCE).json()["state"] == "PLACED"
    assert not second.done() and not third.done()
    wait_for(lambda: len(room(app)) == 2)
    room(app).end_all()


def test_wait_ends_when_its_client_disconnects(
    url: str, client: Client, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    """Its place is free at once, and no error is logged."""
    client.post("/v1/pods", json=ORDER)
    parts = httpx.URL(url)
    for path in ("train?until=READY&wait=60", "train/events?after=999999&wait=60"):
        one = socket.create_connection((parts.host, parts.port))
        head = f"GET /v1/pods/{path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: a-member\r\n\r\n"
        one.sendall(head.encode())
        wait_for(lambda: len(room(app)) == 1)
        one.close()
        wait_for(lambda: len(room(app)) == 0, AT_ONCE)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_stopping_server_answers_waiting_requests(doors: DoorsHouse, pool: ThreadPoolExecutor) -> None:
    """At once, with the pod as it is; the client asks the next server."""
    app = create_app(doors.service, FakeIdentity(tokens()))
    listener = listening("127.0.0.1", 0)
    server = _Server(configured(app), app.state.waiting)
    thread = threading.Thread(target=uvicorn.Server.run, args=(server, [listener]), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=base, headers=by("a-member"), trust_env=False, timeout=100) as client:
        client.post("/v1/pods", json=ORDER)
        asked = waiting_for(pool, client, app, until="READY")
        server.should_exit = True
        assert asked.result(AT_ONCE).json()["state"] == "PLACED"
        thread.join(AT_ONCE)
    assert not thread.is_alive()
    listener.close()


def test_stopping_server_ends_event_streams(doors: DoorsHouse, pool: ThreadPoolExecutor) -> None:
    """At once and completely: the client reconnects with the last id, to whichever process serves by then."""
    app = create_app(doors.service, FakeIdentity(tokens()))
    listener = listening("127.0.0.1", 0)
    server = _Server(configured(app), app.state.waiting)
    thread = threading.Thread(target=uvicorn.Server.run, args=(server, [listener]), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=base, headers=by("a-member"), trust_env=False, timeout=100) as client:
        client.post("/v1/pods", json=ORDER)
        asked = {"Accept": "text/event-stream"}
        with client.stream("GET", "/v1/pods/train/events?after=0", headers=asked) as stream:
            texts = stream.iter_text()
            assert "id: 1" in next(text for text in texts if "data:" in text)
            rest = pool.submit(lambda: "".join(texts))
            server.should_exit = True
            rest.result(AT_ONCE)
        thread.join(AT_ONCE)
    assert not thread.is_alive()
    listener.close()


def test_wait_survives_a_cut_database_connection(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    """Listener and pool reconnect, and the waiting request is answered."""
    client.post("/v1/pods", json=ORDER)
    ready = waiting_for(pool, client, app, until="READY")
    with psycopg.connect(doors.database.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    wait_for(lambda: _survives(lambda: doors.store.pods.which("train", "id-of-team-a")))
    doors.finish("train")
    assert ready.result(30).json()["state"] == "READY"


def _survives(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return False
    return True


def test_gathered_events_are_answered_together(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    """`gather` waits for more events; they keep their order, and none is sent twice."""
    client.post("/v1/pods", json=ORDER)
    last = client.get("/v1/pods/train/events").json()["events"][-1]["sequence"]
    asked = pool.submit(client.get, "/v1/pods/train/events", params={"after": last, "wait": 60, "gather": 3})
    wait_for(lambda: len(room(app)) == 1)
    pod = doors.store.pods.find("train", "id-of-team-a")
    doors.store.release(pod.id, "first")
    wait_for(lambda: len(room(app)) == 0)
    with psycopg.connect(doors.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) VALUES (%s, now(), 'x', '\"y\"')", [pod.id]
        )
    events = asked.result(30).json()["events"]
    assert len(events) == 2 and events[0]["sequence"] < events[1]["sequence"]
    assert client.get(f"/v1/pods/train/events?after={events[-1]['sequence']}").json() == {"events": []}


@pytest.mark.parametrize(
    ("goal", "state", "changing", "over"),
    [
        ("READY", "READY", False, True),
        ("READY", "READY", True, False),
        ("READY", "DEGRADED", False, False),
        ("READY", "PENDING", False, False),
        ("READY", "FAILED", False, True),
        ("READY", "RELEASING", False, True),
        ("DEGRADED", "DEGRADED", True, True),
        ("RELEASED", "FAILED", False, False),
        ("RELEASED RELEASING", "FAILED", False, False),
        ("READY RELEASED", "FAILED", False, True),
        ("RELEASED", "RELEASING", False, False),
        ("FAILED", "READY", False, False),
        ("FAILED", "RELEASING", False, True),
        ("PLACED", "READY", False, True),
        ("PLACED", "BOOTING", False, False),
        ("READY RELEASED", "RELEASING", False, False),
    ],
)
def test_wait_ends_in_its_states_or_at_its_limit(goal: str, state: str, changing: bool, over: bool) -> None:
    states = {PodState(one) for one in goal.split()}
    assert wait_is_over(states, PodState(state), changing) is over


def test_released_state_ends_every_wait() -> None:
    for goal in PodState:
        assert wait_is_over({goal}, PodState.RELEASED, False)


def test_order_and_release_can_wait_for_completion(
    client: Client, app: FastAPI, doors: DoorsHouse, pool: ThreadPoolExecutor
) -> None:
    """The answers are those without waiting, only later."""
    ordered = pool.submit(client.post, "/v1/pods", params={"until": "READY", "wait": 60}, json=ORDER)
    wait_for(lambda: len(room(app)) > 0)
    doors.finish("train")
    made = ordered.result(AT_ONCE)
    pod = made.json()
    assert (made.status_code, pod["state"], made.headers["location"]) == (
        202,
        "READY",
        f"/v1/pods/{pod['id']}",
    )
    released = pool.submit(client.post, "/v1/pods/train/release", params={"until": "RELEASED", "wait": 60})
    wait_for(lambda: len(room(app)) > 0)
    doors.finish("train")
    gone = released.result(AT_ONCE)
    assert (gone.status_code, gone.json()["state"], gone.json()["has_receipt"]) == (202, "RELEASED", True)


def test_order_is_kept_although_its_wait_fails(
    client: Client, app: FastAPI, pool: ThreadPoolExecutor
) -> None:
    """The wait ends before the pod is ready, or the client disconnects."""
    short = client.post("/v1/pods", params={"until": "READY", "wait": 0.05}, json=ORDER)
    assert (short.status_code, short.json()["state"]) == (202, "PLACED")
    with pytest.raises(httpx.ReadTimeout):
        client.post(
            "/v1/pods", params={"until": "READY", "wait": 60}, json={**ORDER, "name": "cut"}, timeout=1.0
        )
    assert client.get("/v1/pods/cut").json()["state"] == "PLACED"
    wait_for(lambda: len(room(app)) == 0)


@pytest.mark.parametrize("query", ["until=REDY&wait=5", "wait=5", "until=READY&wait=61"])
def test_invalid_wait_orders_and_releases_nothing(client: Client, query: str) -> None:
    assert client.post(f"/v1/pods?{query}", json=ORDER).status_code == 400
    assert client.get("/v1/pods/train").status_code == 404
    client.post("/v1/pods", json=ORDER).raise_for_status()
    assert client.post(f"/v1/pods/train/release?{query}").status_code == 400
    assert client.get("/v1/pods/train").json()["state"] == "PLACED"
    assert client.post(f"/v1/pods/nobodys/release?{query}").status_code == 404, (
        "a missing pod is reported before the query"
    )


class Watched:
    """Counts the open watches, and can notify them."""

    def __init__(self) -> None:
        self.open = 0
        self.begun = 0
        self.seen: Callable[[], None] = lambda: None

    @contextmanager
    def __call__(self, seen: Callable[[], None]) -> Generator[None]:
        self.open, self.begun, self.seen = self.open + 1, self.begun + 1, seen
        try:
            yield
        finally:
            self.open -= 1


def test_streams_that_wait_for_the_same_share_one_watch() -> None:
    """What it sees ends all their waits, from any thread; it ends with the last stream."""

    async def story() -> None:
        room, watch = WaitingRoom(), Watched()
        waits = [asyncio.create_task(room.until_together("a", watch, 60)) for _ in range(5)]
        other = asyncio.create_task(room.until_together("b", watch, 60))
        await asyncio.sleep(0.01)
        assert (watch.open, watch.begun, len(room)) == (2, 2, 6)
        other.cancel()
        waits[0].cancel()
        await asyncio.wait({other, waits[0]})
        assert watch.open == 1 and len(room) == 4
        await asyncio.to_thread(watch.seen)  # this notifies the watch of "b", which has ended
        await asyncio.sleep(0.01)
        assert not any(one.done() for one in waits[1:])
        for one in waits[1:]:
            one.cancel()
        await asyncio.wait(waits)
        assert (watch.open, len(room)) == (0, 0)
        waits = [asyncio.create_task(room.until_together("a", watch, 60)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await asyncio.to_thread(watch.seen)
        assert await asyncio.wait_for(asyncio.gather(*waits), 5) == [False] * 3
        assert await room.until_together("a", watch, 0.01) is False, "its time is up"
        assert (watch.open, watch.begun, len(room)) == (0, 4, 0)

    asyncio.run(story())


def test_evicted_stream_leaves_the_watch_to_the_others() -> None:
    """A watch that can't begin is not kept: the next stream tries again."""

    async def story() -> None:
        room, watch = WaitingRoom(most=2), Watched()
        waits = [asyncio.create_task(room.until_together("a", watch, 60)) for _ in range(3)]
        assert await asyncio.wait_for(waits[0], 5) is True
        assert watch.open == 1 and not waits[1].done()
        room.end_all()
        assert await asyncio.wait_for(asyncio.gather(*waits[1:]), 5) == [True, True]
        assert await asyncio.wait_for(room.until_together("a", watch, 60), 5) is True, "the server stops"
        assert watch.open == 0

        def broken(_: Callable[[], None]) -> Any:
            raise ValueError("no database")

        for _ in range(2):
            with pytest.raises(ValueError, match="no database"):
                await room.until_together("c", broken, 60)

    asyncio.run(story())
