"""PUT /v1/pods/{name} creates a pod, changes it, or leaves it as it is: answers, permissions, errors, conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.app.verbs import Request
from weft.model.order import Order
from weft.testing.callers import by, tokens


def more(**nodes: object) -> dict[str, Any]:
    return {**ORDER, "nodes": {**ORDER["nodes"], **nodes}}


def test_apply_creates_then_does_nothing_then_changes(api: Client) -> None:
    """First 202 with a Location, then 200 and `unchanged`, then 202 with the difference; the ETag is the
    generation."""
    first = api.put("/v1/pods/train", json=ORDER)
    assert (first.status_code, first.json()["outcome"], first.headers["etag"]) == (202, "created", '"1"')
    assert first.headers["location"] == f"/v1/pods/{first.json()['pod']['id']}"
    again = api.put("/v1/pods/train", json=ORDER)
    assert (again.status_code, again.json()["outcome"], again.headers["etag"]) == (200, "unchanged", '"1"')
    assert "location" not in again.headers
    third = api.put("/v1/pods/train", json=more(count=3))
    assert (third.status_code, third.json()["outcome"], third.headers["etag"]) == (202, "changed", '"2"')
    assert third.json()["change"]["fields"] == [{"field": "nodes.count", "was": "2", "becomes": "3"}]
    assert api.get("/v1/pods/train").headers["etag"].startswith('"2-')


def test_apply_of_an_older_generation_is_refused(api: Client) -> None:
    """A change that names generation 1 after another change made generation 2: 412, and nothing changes."""
    api.put("/v1/pods/train", json=ORDER)
    assert api.put("/v1/pods/train", json=more(count=3), headers={"If-Match": '"1"'}).status_code == 202
    late = api.put("/v1/pods/train", json=more(count=5), headers={"If-Match": '"1"'})
    assert late.status_code == 412 and late.json()["type"] == "urn:weft:problem:precondition"
    assert late.json()["detail"] == (
        "pod train was changed to generation 2 in the meantime: check it with `weft pod show`, and repeat the request"
    )
    assert api.get("/v1/pods/train").json()["nodes"] == 3


def test_release_and_extension_of_another_generation_are_refused(api: Client) -> None:
    """412, and nothing changes; the tags of `GET` and of the last change are accepted, and a release may be
    repeated."""
    lease = {"lease": {"end": "2027-01-10T00:00:00Z"}}
    tag = api.put("/v1/pods/train", json=ORDER | lease).headers["etag"]
    api.put("/v1/pods/train", json=more(count=3) | lease)
    later = {"until": "2027-01-11T00:00:00Z"}
    for path, body in (("release", None), ("extend", later)):
        late = api.post(f"/v1/pods/train/{path}", json=body, headers={"If-Match": tag})
        assert (late.status_code, late.json()["code"]) == (412, "CHANGED_MEANWHILE"), path
        assert "apply" not in late.json()["detail"], path
        odd = api.post(f"/v1/pods/train/{path}", json=body, headers={"If-Match": '"x"'})
        assert (odd.status_code, "If-Match" in odd.text) == (400, True), path
        none = api.post(f"/v1/pods/other/{path}", json=body, headers={"If-Match": tag})
        assert none.status_code == 404, path
    shown = api.get("/v1/pods/train")
    assert shown.json()["lease_end"] == "2027-01-10T00:00:00Z"
    assert "release" not in {one["type"] for one in api.get("/v1/pods/train/events").json()["events"]}
    longer = api.post("/v1/pods/train/extend", json=later, headers={"If-Match": shown.headers["etag"]})
    assert (longer.status_code, longer.json()["lease_end"]) == (202, later["until"])
    stale = api.post("/v1/pods/train/release", headers={"If-Match": shown.headers["etag"]})
    assert stale.status_code == 412, "it was extended since"
    for given in (longer.headers["etag"], longer.headers["etag"], "*"):
        gone = api.post("/v1/pods/train/release", headers={"If-Match": given})
        assert gone.status_code == 202, gone.text
    assert "release" in {one["type"] for one in api.get("/v1/pods/train/events").json()["events"]}


@pytest.mark.parametrize("given", ["1", "*", '"*"', '"x"', '"-1"', "9" * 40])
def test_if_match_other_than_a_generation_is_400(api: Client, given: str) -> None:
    """A generation or `*` is accepted; anything else in the header is bad input and changes nothing."""
    api.put("/v1/pods/train", json=ORDER)
    answer = api.put("/v1/pods/train", json=ORDER, headers={"If-Match": given})
    assert answer.status_code == (200 if given in ("1", "*") else 400), answer.text


def test_apply_can_be_limited_to_change_or_create(api: Client, doors: DoorsHouse) -> None:
    """`If-Match: *` never creates a pod, also after a release; `If-None-Match: *` never changes one."""
    change, create = {"If-Match": "*"}, {"If-None-Match": "*"}
    never = api.put("/v1/pods/train", json=ORDER, headers=change)
    assert (never.status_code, api.get("/v1/pods").json()) == (412, {"pods": []})
    assert never.json()["detail"] == "pod train doesn't exist, so it can't be changed"
    assert api.put("/v1/pods/train", json=ORDER, headers=create).json()["outcome"] == "created"
    assert api.put("/v1/pods/train", json=ORDER, headers=create).status_code == 412
    taken = api.put("/v1/pods/train", json=more(count=3), headers=create)
    assert (taken.status_code, "already exists" in taken.json()["detail"]) == (412, True)
    assert api.put("/v1/pods/train", json=more(count=3), headers=change).json()["outcome"] == "changed"
    for wrong in ({"If-None-Match": '"1"'}, {**change, **create}):
        bad = api.put("/v1/pods/train", json=ORDER, headers=wrong)
        assert (bad.status_code, bad.json()["errors"][0]["field"]) == (400, "If-None-Match")
    api.post("/v1/pods/train/release")
    doors.finish("train")
    assert api.put("/v1/pods/train", json=ORDER, headers=change).status_code == 412


def test_caller_who_may_only_change_applies_by_name(
    api: Client, server: tuple[FastAPI, str], doors: DoorsHouse, tmp_path: Path
) -> None:
    """An operator reserves `pods:create` for a role: other members may change existing pods but create none."""
    (tmp_path / "policy.yaml").write_text("'pods:create': role:orderer\n")
    policy = Policy(tmp_path / "policy.yaml")
    own = Service(Desk(doors.store, doors.keeper, policy, doors.time, doors.listener, doors.pulse))
    server[0].state.verbs = redacted(own, policy)
    refused = api.put("/v1/pods/train", json=ORDER)
    assert (refused.status_code, "pods:create" in refused.json()["detail"]) == (403, True)
    doors.service.pods.create(Request(tokens()["a-member"], "", "req"), Order.model_validate(ORDER))
    assert api.put("/v1/pods/train", json=more(count=3)).json()["outcome"] == "changed"
    assert api.put("/v1/pods/train", json=ORDER, headers=by("a-reader")).status_code == 403
    assert api.put("/v1/pods/train", json=ORDER, headers=by("roleless")).status_code == 403


def test_immutable_field_is_an_error_of_that_field(api: Client) -> None:
    """400 with the field and what to do instead, also for tenants."""
    api.put("/v1/pods/train", json=ORDER)
    answer = api.put("/v1/pods/train", json=more(image="other", count=9))
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["field"] == "nodes.image"
    assert "operators see" not in error["allowed"]
    assert api.get("/v1/pods/train").json()["nodes"] == 2


def test_name_in_path_and_order_must_match(api: Client) -> None:
    """Another name in the body than in the address is refused, by id as by name."""
    answer = api.put("/v1/pods/other", json=ORDER)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "name")
    pod = api.put("/v1/pods/train", json=ORDER).json()["pod"]["id"]
    assert api.put(f"/v1/pods/{pod}", json={**ORDER, "name": "else"}).status_code == 400
    assert api.put(f"/v1/pods/{pod}", json=ORDER).json()["outcome"] == "unchanged"


def test_apply_requires_the_policys_permission(api: Client, doors: DoorsHouse) -> None:
    """A reader may plan but not apply; by id another project's pod is 404, and a name means the caller's own pod."""
    pod = api.put("/v1/pods/train", json=ORDER).json()["pod"]["id"]
    assert api.put("/v1/pods/train", json=more(count=3), headers=by("a-reader")).status_code == 403
    assert api.post("/v1/pods/plan", json=more(count=3), headers=by("a-reader")).status_code == 200
    assert api.put(f"/v1/pods/{pod}", json=more(count=3), headers=by("b-member")).status_code == 404
    theirs = api.put("/v1/pods/train", json=more(count=3), headers=by("b-member"))
    assert theirs.json()["outcome"] == "created"
    assert api.get("/v1/pods/train").json()["nodes"] == 2


def test_plan_of_an_existing_pod_shows_the_difference(api: Client) -> None:
    """The route is that for new pods; the pod doesn't change."""
    assert api.post("/v1/pods/plan", json=ORDER).json()["change"] is None
    api.put("/v1/pods/train", json=ORDER)
    found = api.post("/v1/pods/plan", json=more(count=3)).json()
    assert (found["generation"], found["change"]["generation"]) == (2, 2)
    assert api.get("/v1/pods/train").json()["generation"] == 1


@pytest.mark.parametrize("remove", ["", "a" * 200, "../x", "a b", "\u0000"])
def test_invalid_names_of_nodes_to_remove_are_refused(api: Client, remove: str) -> None:
    """A string that can't be a node's or a server's name is 400."""
    api.put("/v1/pods/train", json=ORDER)
    answer = api.put("/v1/pods/train", params={"remove": remove}, json=ORDER)
    assert answer.status_code == 400, answer.text


def test_repeated_put_of_an_order_changes_nothing(api: Client) -> None:
    """Orders of several shapes, each sent twice."""
    for number in range(1, 6):
        order = Order.model_validate(
            {**ORDER, "name": f"p{number}", "nodes": {**ORDER["nodes"], "count": number}}
        )
        body = json.loads(order.model_dump_json(exclude_none=True))
        assert api.put(f"/v1/pods/p{number}", json=body).json()["outcome"] == "created"
        assert api.put(f"/v1/pods/p{number}", json=body).json()["outcome"] == "unchanged"
