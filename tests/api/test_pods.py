"""/v1/pods: ordering, showing and releasing pods, and who may see what."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import psycopg
import pytest
from httpx import Client
from psycopg.types.json import Jsonb

from tests.helpers.doors import ORDER, DoorsHouse
from weft.generate.receipts import verify
from weft.model.ids import format_guid
from weft.model.views import MOST_EVENTS
from weft.testing.callers import by

EVENT: dict[str, Any] = {"type": "step", "message": Jsonb("something"), "key": None}


def test_pod_is_ordered_shown_and_released(api: Client, doors: DoorsHouse) -> None:
    made = api.post("/v1/pods", json=ORDER)
    assert made.status_code == 202
    assert made.headers["location"] == f"/v1/pods/{made.json()['id']}"
    assert made.json()["state"] == "PLACED"
    doors.finish("train")
    assert [p["state"] for p in api.get("/v1/pods").json()["pods"]] == ["READY"]
    assert api.get(f"/v1/pods/{made.json()['id']}").json()["name"] == "train"
    assert api.post("/v1/pods/train/release").status_code == 202
    assert api.post("/v1/pods/train/release").json()["phase"] in ("serving", "releasing")
    doors.finish("train")
    signed = api.get("/v1/pods/train/receipt").json()
    assert verify(signed).valid


def test_plan_changes_nothing(still_api: Client) -> None:
    """POST /v1/pods/plan answers with a plan and leaves no pod."""
    plan = still_api.post("/v1/pods/plan", json=ORDER)
    assert plan.status_code == 200
    assert plan.json()["allotment"]["segment"] == "0x101"
    assert still_api.get("/v1/pods").json() == {"pods": []}


def test_events_after_a_sequence_are_listed(api: Client, doors: DoorsHouse) -> None:
    """`after` leaves out events up to that sequence number."""
    api.post("/v1/pods", json=ORDER)
    first = api.get("/v1/pods/train/events").json()["events"]
    assert {e["type"] for e in first} == {"state"}
    doors.finish("train")
    later = api.get(f"/v1/pods/train/events?after={first[-1]['sequence']}").json()["events"]
    assert later
    assert min(e["sequence"] for e in later) > first[-1]["sequence"]


def test_many_events_come_in_pages(api: Client, doors: DoorsHouse) -> None:
    """`next` is the `after` of the next page; the last page has none."""
    pod = UUID(api.post("/v1/pods", json=ORDER).json()["id"])
    begun = len(api.get("/v1/pods/train/events").json()["events"])
    with doors.database.transaction() as tx:
        tx.many("insert_event", [{**EVENT, "owner_id": pod, "at": tx.now()}] * (MOST_EVENTS + 1 - begun))
    first = api.get("/v1/pods/train/events").json()
    assert (len(first["events"]), first["next"]) == (MOST_EVENTS, first["events"][-1]["sequence"])
    rest = api.get(f"/v1/pods/train/events?after={first['next']}").json()
    assert len(rest["events"]) == 1 and "next" not in rest
    newest = api.get("/v1/pods/train/events?newest=2").json()
    assert newest == {"events": [first["events"][-1], rest["events"][0]]}
    assert api.get(f"/v1/pods/train/events?newest=2&after={first['next']}").json() == rest
    assert len(api.get(f"/v1/pods/train/events?newest={MOST_EVENTS}").json()["events"]) == MOST_EVENTS


def test_each_change_of_a_pod_answers_its_generation(api: Client, doors: DoorsHouse) -> None:
    """As `ETag`, with `wait` and without."""
    lease = {"end": "2027-01-02T00:00:00Z"}
    made = api.post("/v1/pods", json={**ORDER, "lease": lease})
    extended = api.post("/v1/pods/train/extend", json={"until": "2027-01-03T00:00:00Z"})
    released = api.post("/v1/pods/train/release")
    assert [one.headers["etag"] for one in (made, extended, released)] == ['"1"', '"2"', '"2"']


def test_wait_for_events_ends_without_any(
    api: Client, doors: DoorsHouse, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is an empty list, which is logged at DEBUG only."""
    api.post("/v1/pods", json=ORDER)
    last = api.get("/v1/pods/train/events").json()["events"][-1]["sequence"]
    with caplog.at_level(logging.DEBUG, "weft.api"):
        assert api.get(f"/v1/pods/train/events?after={last}&wait=0.05").json() == {"events": []}
        api.get("/v1/pods/train?until=PLACED&wait=0.05")
    assert [one.levelname for one in caplog.records if one.name == "weft.api"][-2:] == ["DEBUG", "DEBUG"]


@pytest.mark.parametrize(
    "query",
    [
        "after=-1",
        "after=x",
        "after=99999999999999999999",
        "wait=61",
        "wait=nan",
        "gather=11",
        "newest=0",
        "newest=1001",
        "newest=x",
    ],
)
def test_invalid_parameters_of_events_are_reported(api: Client, query: str) -> None:
    """400 with the parameter's name."""
    api.post("/v1/pods", json=ORDER)
    answer = api.get(f"/v1/pods/train/events?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_name_is_unique_within_a_project(api: Client) -> None:
    """A second order of a name is a conflict; another project may use it."""
    assert api.post("/v1/pods", json=ORDER).status_code == 202
    again = api.post("/v1/pods", json=ORDER)
    assert (again.status_code, again.json()["type"]) == (409, "urn:weft:problem:conflict")
    assert api.post("/v1/pods", json=ORDER, headers=by("b-member")).status_code == 202


def test_user_data_may_be_48_kib_of_punctuation(api: Client) -> None:
    """Commas, brackets and braces within a text don't count as values."""
    table = "[1,2],{3,4}," * 4_000 + '"\\'
    order = {**ORDER, "access": {"user_data": f"#!/bin/sh\n# {table}"}}
    assert api.post("/v1/pods", json=order).status_code == 202


def test_pod_name_in_the_form_of_an_id_is_refused(api: Client) -> None:
    """It would be read as an id."""
    name = api.post("/v1/pods", json=ORDER).json()["id"]
    for path in ("/v1/pods", "/v1/pods/plan"):
        bad = api.post(path, json={**ORDER, "name": name}, headers=by("b-member"))
        assert (bad.status_code, bad.json()["errors"][0]["field"]) == (400, "name")
        assert "a name that isn't like a pod's id" in bad.json()["detail"]


@pytest.mark.parametrize("tail", ["", "/events", "/receipt", "/release"])
def test_pod_is_invisible_to_another_project(api: Client, tail: str) -> None:
    """team-b gets the same 404 for team-a's pod, by name and id, as for one that doesn't exist."""
    pod = api.post("/v1/pods", json=ORDER).json()
    method = "POST" if tail == "/release" else "GET"

    def ask(name: str) -> dict[str, object]:
        answer = api.request(method, f"/v1/pods/{name}{tail}", headers=by("b-member"))
        assert answer.status_code == 404
        body = answer.json()
        assert body.pop("request_id") == answer.headers["x-openstack-request-id"]
        return {key: str(value).replace(name, "NAME") for key, value in body.items()}

    never = ask("never-was")
    assert ask("train") == never
    assert ask(pod["id"]) == never
    assert api.get("/v1/pods/train").json()["state"] == "PLACED"


def test_token_without_a_project_learns_nothing_about_pods(api: Client, doors: DoorsHouse) -> None:
    """The same 404 whether no, one or two projects have a pod of the name, or one that can't be read; operators
    see more."""
    pod = api.post("/v1/pods", json=ORDER).json()["id"]
    answers = [api.get("/v1/pods/train", headers=by("unscoped"))]
    api.post("/v1/pods", json=ORDER, headers=by("b-member"))
    with psycopg.connect(doors.database.url) as connection:
        connection.execute("""UPDATE pod SET ordered = ordered || '{"version": 99}' WHERE id = %s""", (pod,))
    for name in ("train", "never-was", pod):
        answers += [api.get(f"/v1/pods/{name}{tail}", headers=by("unscoped")) for tail in ("", "/events")]
        answers.append(api.post(f"/v1/pods/{name}/release", headers=by("unscoped")))
    assert {answer.status_code for answer in answers} == {404}
    assert api.get("/v1/pods/train", headers=by("system-reader")).status_code == 409
    assert api.get(f"/v1/pods/{pod}", headers=by("system-reader")).status_code == 502


def test_another_projects_pods_are_not_listed(api: Client) -> None:
    """A list has the caller's project only, or all of them for an operator who asks with `all_projects`."""
    api.post("/v1/pods", json=ORDER)
    assert api.get("/v1/pods", headers=by("b-member")).json() == {"pods": []}
    assert api.get("/v1/pods?all_projects=true", headers=by("b-member")).status_code == 403
    assert api.get("/v1/pods", headers=by("operator")).json() == {"pods": []}
    other = api.get("/v1/pods?project=id-of-team-b")
    assert (other.status_code, other.json()["errors"][0]["field"]) == (400, "project")
    assert "must be omitted without all_projects" in other.json()["detail"]
    assert len(api.get("/v1/pods?project=id-of-team-a").json()["pods"]) == 1
    for who in ("operator", "system-admin", "system-reader"):
        seen = api.get("/v1/pods?all_projects=true", headers=by(who))
        assert [p["name"] for p in seen.json()["pods"]] == ["train"]


def test_reader_may_show_but_not_order_or_release(api: Client) -> None:
    """Role reader: 200 for showing and planning, 403 for every change."""
    api.post("/v1/pods", json=ORDER)
    reader = by("a-reader")
    assert api.get("/v1/pods/train", headers=reader).status_code == 200
    assert api.post("/v1/pods/plan", json=ORDER, headers=reader).status_code == 200
    refused = api.post("/v1/pods", json={**ORDER, "name": "more"}, headers=reader)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:weft:problem:forbidden")
    assert api.post("/v1/pods/train/release", headers=reader).status_code == 403


@pytest.mark.parametrize("who", ["roleless", "system-reader"])
def test_order_without_a_role_in_a_project_is_refused(still_api: Client, who: str) -> None:
    """403, also for a token without a project."""
    assert still_api.post("/v1/pods", json=ORDER, headers=by(who)).status_code == 403


@pytest.mark.parametrize(
    ("headers", "detail"), [({"X-Auth-Token": ""}, "no token"), (by("expired"), "not valid")]
)
def test_no_token_or_an_expired_one_is_refused(
    still_api: Client, headers: dict[str, str], detail: str
) -> None:
    """401 with `WWW-Authenticate`, before anything else is checked."""
    for method, path in (
        ("GET", "/v1/pods"),
        ("POST", "/v1/pods"),
        ("PUT", "/v1/site"),
        ("GET", "/v1/pods/x/events"),
    ):
        answer = still_api.request(method, path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Keystone")
        assert detail in answer.json()["detail"]


def test_tenant_sees_no_guids_hosts_or_other_projects(api: Client, doors: DoorsHouse) -> None:
    """In plans, pods, events and errors; operators see them there."""
    doors.break_servers()
    pod = api.post("/v1/pods", json=ORDER).json()["id"]
    doors.finish("train")
    paths = ("/v1/pods/train", "/v1/pods/train/events", "/v1/pods")
    mine = [api.post("/v1/pods/plan", json=ORDER).text, *(api.get(p).text for p in paths)]
    guid = format_guid(doors.site.node_by_name["gpu01"].hcas[0].port_guid)
    for secret in (guid, "cn-17"):
        assert not [text for text in mine if secret in text]
    theirs = [api.get(p, headers=by("operator")).text for p in ("/v1/pods/" + pod, f"/v1/pods/{pod}/events")]
    theirs.append(api.post("/v1/pods/plan", json={**ORDER, "name": "next"}, headers=by("operator")).text)
    for secret in ("0x0002c9", "cn-17", '"host":"gpu03"'):
        assert [text for text in theirs if secret in text], secret


@pytest.mark.parametrize("name", ["%2E%2E", "a%2Fb", "%00", "%FF", "x" * 3000, "🙂"])
def test_strange_names_are_not_found(still_api: Client, name: str) -> None:
    """Whatever the path has in place of a name: 404, never a failure."""
    assert still_api.get(f"/v1/pods/{name}").status_code == 404


def test_pods_come_in_pages(api: Client) -> None:
    """`next` is there while a page is full; filters and limits are checked."""
    for name in ("a", "b", "c"):
        api.post("/v1/pods", json={**ORDER, "name": name})
    page = api.get("/v1/pods?limit=2").json()
    assert [p["name"] for p in page["pods"]] == ["a", "b"] and page["next"].startswith("b:")
    rest = api.get("/v1/pods", params={"limit": 2, "marker": page["next"]}).json()
    assert [p["name"] for p in rest["pods"]] == ["c"] and rest.get("next") is None
    assert [p["name"] for p in api.get("/v1/pods?name=b").json()["pods"]] == ["b"]
    assert api.get("/v1/pods?state=READY").json()["pods"] == []
    for query in ("limit=0", "limit=1001", "limit=x", "state=HAPPY", "node=", "colour=blue"):
        wrong = api.get(f"/v1/pods?{query}")
        assert wrong.status_code == 400 and query.split("=")[0] in wrong.text, query


def test_order_of_a_project_with_overdue_releases_is_refused(api: Client, doors: DoorsHouse) -> None:
    """409 with their number, once it reaches `queue.overdue_releases` of the site (default 3)."""
    for name in ("a", "b", "c"):
        assert api.post("/v1/pods", json={**ORDER, "name": name}).status_code == 202
        doors.finish(name)
    with psycopg.connect(doors.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET state = 'RELEASING', worked = 960, worked_by = 'release test'")
    refused = api.post("/v1/pods", json=ORDER)
    assert refused.status_code == 409
    assert "3 of at most 3 releases of the project don't end" in refused.text
    assert "remove what `weft pod show` names" in refused.text
