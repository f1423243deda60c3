"""Capacity, the queue, leases and reservations through HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from weft.testing.callers import by
from weft.testing.examples import ORDER
from weft.testing.verbs import FakeVerbs

BLOCK = {"name": "block", "project_id": "id-of-team-b", "nodes": ["gpu01"]}
QUEUED: dict[str, Any] = {**ORDER, "queue": True}


def test_a_tenant_sees_sizes_and_an_operator_sees_where(api: Client) -> None:
    """By level and accelerator, now and later; the leaf's name is the operator's."""
    mine = api.get("/v1/capacity?accelerator=h100&level=leaf").json()
    assert [x["count"] for x in mine["rows"][0]["largest"]] == [2]
    assert mine["rows"][0]["soon"][0]["at"] == "2027-01-31T12:00:00Z"
    assert "leaf1" not in str(mine)
    assert "leaf1" in api.get("/v1/capacity", headers=by("operator")).text


@pytest.mark.parametrize(
    "query", ["accelerator=abacus", "level=rack", "level=node", "duration=long", "duration=0h"]
)
def test_bad_values_of_capacity_are_told(api: Client, query: str) -> None:
    """Each gets a 400 that names the parameter."""
    answer = api.get(f"/v1/capacity?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_who_may_not_look_sees_no_capacity(api: Client) -> None:
    """No role, no answer; no token, no answer."""
    assert api.get("/v1/capacity", headers=by("roleless")).status_code == 403
    assert api.get("/v1/capacity", headers=by("")).status_code == 401


def test_a_queued_order_says_where_it_stands(api: Client, verbs: FakeVerbs) -> None:
    """PENDING with reason, position and expected start; released from the queue it leaves no receipt."""
    verbs.full = True
    made = api.post("/v1/pods", json=QUEUED)
    assert (made.status_code, made.json()["state"], made.json()["position"]) == (202, "PENDING", 1)
    shown = api.get("/v1/pods").json()["pods"][0]
    assert shown["expected_start"] == "2027-01-31T12:00:00Z" and "waiting for capacity" in shown["reason"]
    assert shown["segment"] is None
    gone = api.post("/v1/pods/train/release").json()
    assert (gone["state"], gone["has_receipt"]) == ("RELEASED", False)


@pytest.mark.parametrize(
    ("lease", "says"),
    [
        ({"duration": "forever"}, "a whole number with a unit s, m, h or d"),
        ({"duration": "1h", "end": "2027-01-31T18:00:00Z"}, "not both"),
        ({"start": "2027-01-31T18:00:00"}, "zone"),
        ({"start": "2027-01-31T18:00:00Z", "end": "2027-01-31T18:00:00Z"}, "later than start"),
    ],
)
def test_a_lease_that_makes_no_sense_is_told(api: Client, lease: dict[str, str], says: str) -> None:
    """One sentence, and no pod."""
    answer = api.post("/v1/pods", json={**ORDER, "lease": lease})
    assert answer.status_code == 400 and says in answer.json()["detail"]
    assert api.get("/v1/pods").json() == {"pods": []}


def test_a_lease_is_extended(api: Client) -> None:
    """The new end is shown; a time without zone, nothing at all, and a pod without end are refused."""
    api.post("/v1/pods", json={**ORDER, "lease": {"end": "2027-01-31T18:00:00Z"}})
    until = {"until": "2027-02-01T18:00:00Z"}
    assert api.post("/v1/pods/train/extend", json=until).json()["lease_end"] == "2027-02-01T18:00:00Z"
    for body in ({"until": "2027-02-02T18:00:00"}, {}, {"until": "soon"}):
        answer = api.post("/v1/pods/train/extend", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "until")
    assert api.post("/v1/pods/train/extend", json=until, headers=by("a-reader")).status_code == 403
    api.post("/v1/pods", json={**ORDER, "name": "endless"})
    assert api.post("/v1/pods/endless/extend", json=until).status_code == 409


def test_a_failed_pod_is_tried_again(api: Client, verbs: FakeVerbs) -> None:
    """From FAILED on to READY; a pod that hasn't failed is a conflict."""
    verbs.fail_pods.add("train")
    api.post("/v1/pods", json=ORDER)
    assert api.post("/v1/pods/train/retry").status_code == 409
    verbs.finish("train")
    assert api.get("/v1/pods/train").json()["state"] == "FAILED"
    assert api.post("/v1/pods/train/retry", headers=by("b-member")).status_code == 404
    assert api.post("/v1/pods/train/retry").json()["state"] == "WIRING"
    verbs.finish("train")
    assert api.get("/v1/pods/train").json()["state"] == "READY"


def test_reservations_are_the_operators(api: Client) -> None:
    """Made, listed and deleted by an operator; a tenant may do none of it; who only reads may list."""
    operator = by("operator")
    made = api.post("/v1/reservations", json=BLOCK, headers=operator)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/reservations/block")
    assert api.post("/v1/reservations", json=BLOCK, headers=operator).status_code == 409
    assert api.get("/v1/reservations", headers=by("system-reader")).json()["reservations"][0]["nodes"] == [
        "gpu01"
    ]
    for method, path in (("GET", ""), ("POST", ""), ("DELETE", "/block")):
        body = BLOCK if method == "POST" else None
        assert api.request(method, f"/v1/reservations{path}", json=body).status_code == 403
    assert api.delete("/v1/reservations/block", headers=operator).status_code == 200
    assert api.delete("/v1/reservations/block", headers=operator).status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nodes": []}, "document"),
        ({"name": "a b"}, "name"),
        ({"start": "2027-01-31T18:00:00"}, "start"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_bad_reservation_is_told(api: Client, change: dict[str, Any], field: str) -> None:
    """A 400 that names the field."""
    answer = api.post("/v1/reservations", json={**BLOCK, **change}, headers=by("operator"))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
