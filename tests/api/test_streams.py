"""A pod's events as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
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
    """The events of an open stream, with `id` and `event`."""
    with api.stream("GET", f"/v1/pods/{name}/events", headers={**STREAM, **headers}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield parsed(answer.iter_lines())


def parsed(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "event" in fields:
            yield {**fields, "data": json.loads(fields["data"]) if fields["data"] else None}
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields[name] = value.strip()


def test_events_come_as_they_happen(api: Client, doors: DoorsHouse) -> None:
    """The same events as the list's, each once, in order."""
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        first = next(events)
        assert (first["event"], first["data"]["code"]) == ("state", "POD_STATE")
        doors.finish("train")
        listed = api.get("/v1/pods/train/events").json()["events"]
        seen = [first, *(next(events) for _ in listed[1:])]
        assert [e["data"] for e in seen] == listed
        assert [int(e["id"]) for e in seen] == [e["sequence"] for e in listed]


def test_stream_goes_on_after_the_last_event_that_was_seen(api: Client, doors: DoorsHouse) -> None:
    """What a browser sends when it comes back."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    listed = api.get("/v1/pods/train/events").json()["events"]
    with following(api, **{"Last-Event-ID": str(listed[2]["sequence"])}) as events:
        assert next(events)["data"] == listed[3]


def test_stream_of_anothers_pod_is_not_found(api: Client) -> None:
    """As the list is."""
    made = api.post("/v1/pods", json=ORDER).json()["id"]
    found = api.get(f"/v1/pods/{made}/events", headers={**STREAM, **by("b-member")})
    assert (found.status_code, found.headers["content-type"]) == (404, "application/problem+json")


def test_stream_ends_with_its_token(
    api: Client, doors: DoorsHouse, identity: FakeIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that happens afterwards is shown."""
    monkeypatch.setattr(streams, "COMMENT_SECONDS", 0.05)
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        next(events)
        del identity.tokens[by("a-member")["X-Auth-Token"]]
        assert [e["event"] for e in events][-1] == "over"


def test_streams_of_a_user_are_bounded(api: Client, doors: DoorsHouse, server: tuple[FastAPI, str]) -> None:
    """A place is free again once a client has gone."""
    state = server[0].state
    before, state.streams = state.streams, Streams(of_user=1)
    try:
        api.post("/v1/pods", json=ORDER)
        with following(api) as events:
            next(events)
            refused = api.get("/v1/pods/train/events", headers=STREAM)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        doors.finish("train")
        wait_for(lambda: not len(state.streams))
        with following(api) as events:
            next(events)
    finally:
        state.streams = before
