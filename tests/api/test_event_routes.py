"""The events of all pods of a project, as pages and as server-sent events."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from httpx import Client

from tests.api.test_streams import STREAM, Event, parsed
from tests.helpers.doors import ORDER, DoorsHouse
from weft.api import streams
from weft.testing.callers import by
from weft.testing.keystone import FakeIdentity


@contextmanager
def following(api: Client, query: str = "", **headers: str) -> Generator[Iterator[Event]]:
    with api.stream("GET", f"/v1/events{query}", headers={**STREAM, **headers}) as answer:
        assert answer.status_code == 200, answer.read()
        yield parsed(answer.iter_lines())


def page(api: Client, **query: Any) -> dict[str, Any]:
    return api.get("/v1/events", params=query).raise_for_status().json()


def test_pages_have_events_of_all_pods_of_the_project(api: Client, doors: DoorsHouse) -> None:
    """Each event once, and only the project's; the position of the last page waits for new ones."""
    api.post("/v1/pods", json=ORDER)
    api.post("/v1/pods", json={**ORDER, "name": "own", "nodes": {**ORDER["nodes"], "count": 1}})
    doors.finish("train")
    found, after = [], {}
    while True:
        one = page(api, limit=3, **after)
        found += one["events"]
        after = {"after": one["position"]}
        if not one["more"]:
            break
    listed = api.get("/v1/pods/train/events").json()["events"]
    own = ("sequence", "at", "type", "message", "key", "code", "params")
    assert [{f: e[f] for f in own} for e in found if e["pod"] == "train"] == listed
    assert {e["pod"] for e in found} == {"train", "own"}
    assert page(api, newest=2)["events"] == found[-2:]
    other = api.get("/v1/events", headers=by("b-member")).json()
    assert other["events"] == []
    everywhere = api.get("/v1/events?all_projects=true", headers=by("operator")).json()["events"]
    assert [e["position"] for e in everywhere] == [e["position"] for e in found]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(page, api, wait=30, **after)
        api.post("/v1/pods/train/release")
        assert waiting.result()["events"][0]["code"]


def test_project_stream_continues_after_the_last_seen_event(api: Client, doors: DoorsHouse) -> None:
    """The stream has the events of the pages, as they happen."""
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        seen = [next(events)]
        doors.finish("train")
        listed = page(api)["events"]
        seen += [next(events) for _ in listed[1:]]
    assert [e["data"] for e in seen] == listed
    assert [e["id"] for e in seen] == [e["position"] for e in listed]
    with following(api, "?newest=1", **{"Last-Event-ID": seen[1]["id"]}) as events:
        assert next(events)["data"] == listed[2], "`newest` applies to the first connection only"
    with following(api, "?newest=1") as events:
        assert next(events)["data"] == listed[-1]


def test_project_stream_after_a_restore_says_so(api: Client, doors: DoorsHouse) -> None:
    """The browser reconnects with a position of the old database, and then without one."""
    api.post("/v1/pods", json=ORDER)
    position = page(api)["position"]
    with psycopg.connect(doors.database.url) as connection:
        connection.execute("UPDATE event_life SET place = 'another server'")
    with following(api, **{"Last-Event-ID": position}) as events:
        (last,) = list(events)
    assert (last["event"], last["id"], last["data"]["code"]) == ("reset", "", "EVENTS_RESET")
    refused = api.get("/v1/events", params={"after": position})
    assert (refused.status_code, refused.json()["code"]) == (409, "EVENTS_RESET")


def test_project_stream_after_removed_events_says_so(api: Client, doors: DoorsHouse) -> None:
    """The notice comes once, before the events that are left; a page says it in a field."""
    api.post("/v1/pods", json=ORDER)
    position = page(api, limit=1)["position"]
    doors.finish("train")
    with doors.database.statement() as tx:
        assert (
            tx.run("prune_live_events", before=doors.clock.now() + timedelta(days=1), kept=1, limit=100) > 1
        )
    with following(api, **{"Last-Event-ID": position}) as events:
        first, second = next(events), next(events)
    assert (first["event"], first["data"]["code"]) == ("removed", "EVENTS_REMOVED")
    assert "event" not in second
    assert page(api, after=position)["removed"] and not page(api, after=second["id"])["removed"]


def test_project_stream_ends_with_its_token(
    api: Client, doors: DoorsHouse, identity: FakeIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events after the token's end aren't sent."""
    monkeypatch.setattr(streams, "COMMENT_SECONDS", 0.05)
    api.post("/v1/pods", json=ORDER)
    with following(api) as events:
        next(events)
        del identity.tokens[by("a-member")["X-Auth-Token"]]
        assert [e.get("event") for e in events][-1] == "over"


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("?after=17", {}, 400),
        ("?after=17", STREAM, 400),
        ("", {**STREAM, "Last-Event-ID": "17"}, 400),
        ("?wait=5", STREAM, 400),
        ("?newest=0", {}, 400),
        ("?newest=5&after=aaaaaaaa-1-1-1", {}, 400),
        ("?all_projects=true", {}, 403),
        ("?all_projects=true", STREAM, 403),
        ("?project=id-of-team-b", {}, 400),
    ],
)
def test_invalid_request_for_events_is_refused(
    api: Client, query: str, headers: dict[str, str], status: int
) -> None:
    """Before a stream begins, with a problem document."""
    refused = api.get(f"/v1/events{query}", headers=headers)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")


def test_events_of_a_project_hide_operators_texts(api: Client, doors: DoorsHouse) -> None:
    """The same table applies as for a pod's own list; operators see all."""
    made = api.post("/v1/pods", json=ORDER).json()["id"]
    with psycopg.connect(doors.database.url) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) VALUES (%s, now(), 'error', '\"host cn-17 is on fire\"')",
            [made],
        )
    assert "cn-17" not in api.get("/v1/events").text
    assert "cn-17" in api.get("/v1/events?all_projects=true", headers=by("operator")).text
