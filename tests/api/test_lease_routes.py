"""Capacity, the queue, leases and reservations through HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from weft.testing.callers import by

BLOCK = {"name": "block", "project_id": "0123456789abcdef0123456789abcdef", "nodes": ["gpu01"]}
QUEUED: dict[str, Any] = {**ORDER, "queue": True}


def test_capacity_shows_sizes_to_tenants_and_locations_to_operators(api: Client) -> None:
    """By level and accelerator, now and later; the names of leaves are for operators."""
    for leaf in range(4):
        lease = {"end": "2027-01-31T18:00:00Z"}
        nodes = {**ORDER["nodes"], "count": 3}
        order = {"name": f"p{leaf}", "nodes": nodes, "lease": lease, "locality": {"required": "leaf"}}
        assert api.post("/v1/pods", json=order).status_code == 202
    mine = api.get("/v1/capacity?accelerator=h100&level=leaf").json()
    assert [x["count"] for x in mine["rows"][0]["largest"]] == [1]
    assert [row["shape"] for row in mine["rows"]] == ["nodes"]
    assert mine["rows"][0]["soon"][-1] == {"level": "leaf", "count": 4, "at": "2027-01-31T18:00:00Z"}
    assert "leaf0" not in str(mine)
    assert "leaf0" in api.get("/v1/capacity", headers=by("operator")).text


@pytest.mark.parametrize(
    "query", ["accelerator=abacus", "level=rack", "level=node", "duration=long", "duration=0h"]
)
def test_invalid_capacity_parameters_are_reported(still_api: Client, query: str) -> None:
    """400 with the parameter's name."""
    answer = still_api.get(f"/v1/capacity?{query}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("=")[0]


def test_caller_without_permission_sees_no_capacity(still_api: Client) -> None:
    """Neither without a role nor without a token."""
    assert still_api.get("/v1/capacity", headers=by("roleless")).status_code == 403
    assert still_api.get("/v1/capacity", headers=by("")).status_code == 401


def test_queued_order_shows_its_position(api: Client, doors: DoorsHouse) -> None:
    """PENDING with reason, position and expected start; an order that is withdrawn leaves no receipt."""
    doors.fill()
    made = api.post("/v1/pods", json=QUEUED)
    assert (made.status_code, made.json()["state"]) == (202, "PENDING")
    doors.worker.tend_queue()
    shown = api.get("/v1/pods").json()["pods"][0]
    assert shown["position"] == 1 and shown["expected_start"] is None
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
def test_invalid_lease_is_reported(still_api: Client, lease: dict[str, str], says: str) -> None:
    """One sentence, and no pod is created."""
    answer = still_api.post("/v1/pods", json={**ORDER, "lease": lease})
    assert answer.status_code == 400 and says in answer.json()["detail"]
    assert still_api.get("/v1/pods").json() == {"pods": []}


def test_lease_is_extended_to_a_later_end(api: Client) -> None:
    """The answer shows the new end; a time without zone, an empty body, and a pod without end are refused."""
    api.post("/v1/pods", json={**ORDER, "lease": {"end": "2027-01-31T18:00:00Z"}})
    until = {"until": "2027-02-01T18:00:00Z"}
    assert api.post("/v1/pods/train/extend", json=until).json()["lease_end"] == "2027-02-01T18:00:00Z"
    for body in ({"until": "2027-02-02T18:00:00"}, {}, {"until": "soon"}):
        answer = api.post("/v1/pods/train/extend", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "until")
    assert api.post("/v1/pods/train/extend", json=until, headers=by("a-reader")).status_code == 403
    api.post("/v1/pods", json={**ORDER, "name": "endless"})
    assert api.post("/v1/pods/endless/extend", json=until).status_code == 409


def test_failed_pod_is_retried(api: Client, doors: DoorsHouse) -> None:
    """A FAILED pod becomes READY; retrying any other is a conflict."""
    broken = doors.break_servers()
    api.post("/v1/pods", json=ORDER)
    assert api.post("/v1/pods/train/retry").status_code == 409
    doors.finish("train")
    assert api.get("/v1/pods/train").json()["state"] == "FAILED"
    assert api.post("/v1/pods/train/retry", headers=by("b-member")).status_code == 404
    broken.left = 0
    assert api.post("/v1/pods/train/retry").status_code == 202
    doors.finish("train")
    assert api.get("/v1/pods/train").json()["state"] == "READY"


def test_only_operators_see_and_make_reservations(api: Client) -> None:
    """Tenants may neither make, list nor delete them; a system reader may list."""
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
def test_invalid_reservation_is_reported(still_api: Client, change: dict[str, Any], field: str) -> None:
    """400 with the field's name."""
    answer = still_api.post("/v1/reservations", json={**BLOCK, **change}, headers=by("operator"))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
