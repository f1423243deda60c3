"""A pod's events as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.waiting import wait_for
from weft.api import streams
from weft.api.streams import Streams
from weft.testing.callers import by
from weft.testing.keystone import FakeIdentity

STREAM = {"Accept": "text/event-stream"}
Event = dict[str, Any]


@contextmanager
def following(api: Client, name: str = "train", **headers: str) -> Generator[Iterator[Event]]:
    """The events of an open stream, each with its `id`."""
    with api.stream("GET", f"/v1/pods/{name}/events", headers={**STREAM, **headers}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield parsed(answer.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "data" in fields:
            yield {**fields, "data": json.loads(fields["data"]) if fields["data"] else None}
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.strip()


@pytest.fixture
def places(server: tuple[FastAPI, str]) -> Iterator[Callable[[int], Streams]]:
    """Sets how many streams a user may have."""
    state = server[0].state
    before = state.streams

    def places(of_user: int) -> Streams:
        state.streams = Streams(of_user)
        return state.streams

    yield places
    state.streams = before


def test_events_come_as_they_happen(api: Client, doors: DoorsHouse) -> None:
    """The events of the list, each once and in order."""
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        first = next(events)
        assert (first["data"]["type"], first["data"]["code"]) == ("state", "POD_STATE")
        doors.finish("train")
        listed = api.get("/v1/pods/train/events").json()["events"]
        seen = [first, *(next(events) for _ in listed[1:])]
        assert [e["data"] for e in seen] == listed
        assert [int(e["id"]) for e in seen] == [e["sequence"] for e in listed]
        assert not any("event" in e for e in seen), "an EventSource would take `error` for a lost connection"


def test_stream_continues_after_the_last_seen_event(api: Client, doors: DoorsHouse) -> None:
    """The browser sends `Last-Event-ID` when it reconnects."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    listed = api.get("/v1/pods/train/events").json()["events"]
    with following(api, **{"Last-Event-ID": str(listed[2]["sequence"])}) as events:
        assert next(events)["data"] == listed[3]


def test_stream_of_another_projects_pod_is_404(api: Client) -> None:
    """As for the list of events."""
    made = api.post("/v1/pods", json=ORDER).json()["id"]
    found = api.get(f"/v1/pods/{made}/events", headers={**STREAM, **by("b-member")})
    assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json")


def test_stream_ends_with_its_token(
    api: Client, doors: DoorsHouse, identity: FakeIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events after the token's end aren't sent."""
    monkeypatch.setattr(streams, "COMMENT_SECONDS", 0.05)
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        next(events)
        del identity.tokens[by("a-member")["X-Auth-Token"]]
        assert [e.get("event") for e in events][-1] == "over"


def test_streams_of_a_user_are_bounded(
    api: Client, doors: DoorsHouse, places: Callable[[int], Streams]
) -> None:
    """A client that has gone frees its place."""
    streams = places(1)
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        next(events)
        refused = api.get("/v1/pods/train/events", headers=STREAM)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    doors.finish("train")
    wait_for(lambda: not len(streams))
    with following(api) as events:
        next(events)


def test_concurrent_streams_of_a_user_are_bounded(api: Client, places: Callable[[int], Streams]) -> None:
    """A place is used from the stream's answer on, not from its first event."""
    streams = places(2)
    api.post("/v1/pods", json=ORDER)
    with ExitStack() as opened, ThreadPoolExecutor(6) as pool:
        ask = partial(api.build_request, "GET", "/v1/pods/train/events", headers=STREAM)
        answers = list(pool.map(lambda _: api.send(ask(), stream=True), range(6)))
        for answer in answers:
            opened.callback(answer.close)
        assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503, 503, 503]
    wait_for(lambda: not len(streams))


@pytest.mark.parametrize("parameter", ["wait", "gather", "newest"])
def test_list_parameter_is_refused_for_a_stream(api: Client, parameter: str) -> None:
    """If it were ignored, the stream would begin elsewhere than was asked for."""
    api.post("/v1/pods", json=ORDER)
    with api.stream("GET", "/v1/pods/train/events", params={parameter: "1"}, headers=STREAM) as refused:
        assert refused.status_code == 400
        assert (
            json.loads(refused.read())["detail"]
            == f"{parameter}: '1' is not allowed: must be omitted for a stream"
        )
