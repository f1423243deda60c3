"""What can be changed has a generation or a revision; `If-Match` with another one is refused with 412."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import Client

from tests.helpers.doors import DoorsHouse
from tests.helpers.paths import DOCS
from weft.testing.callers import by

HOOK = {"name": "ops", "url": "https://hooks.example.org/weft"}
BLOCK = {"name": "course", "project_id": "b" * 32, "nodes": ["gpu01"]}
OLGA = by("operator")


IT_NEEDS_NONE = {
    "POST /v1/pods/{name}/retry": "only of a FAILED pod, which it is or not",
    "POST /v1/pods/{name}/abandon": "ends a release that was asked for already",
    "POST /v1/pods/{name}/report": "adds a report",
    "POST /v1/pods/{name}/servers/{server}/action": "acts on a server, and changes no document",
    "POST /v1/pods/{name}/servers/{server}/console": "acts on a server, and changes no document",
    "POST /v1/pods/{name}/bandwidth": "adds a result",
    "POST /v1/bandwidth": "adds a result",
    "POST /v1/webhooks/{name}/test": "sends a message, and changes no document",
    "POST /v1/networks/{name}/abandon": "ends a release that has begun already",
    "POST /v1/site/apply": "applies the active site, and answers with its generation",
    "POST /v1/site/destroy": "again it changes nothing",
    "POST /v1/site/abandon": "ends a removal that was asked for already",
    "PUT /v1/site/parts/{name}": "named by its contents",
    "POST /v1/site/adopt-cabling": "of what is discovered now",
    "POST /v1/audit": "names its findings by their contents",
    "POST /v1/audit/accept": "of the database as it is now",
    "PUT /v1/nodes/{name}/quarantine": "adds a reason; the first one stays",
    "PUT /v1/nodes/{name}/hold": "adds a hold, and leaves others as they are",
    "DELETE /v1/nodes/{name}/reports": "answers with what it cleared; it can be reported again",
    "POST /v1/drains": "the new time and reasons count; the plan before shows what is there",
    "POST /v1/nodes/{name}/checks": "of a node alone, and newer than the last",
    "DELETE /v1/nodes/{name}/checks": "until the node reports again",
    "PUT /v1/checks/{name}/judgement": "one word that replaces another one",
    "POST /v1/nodes/{name}/tests/{test}": "adds a result, which names the machine and its begin",
    "DELETE /v1/check-tokens/{name}": "a token never changes, and its id is never another one's",
}
"""Changes that don't take `If-Match`, and why."""
MAKES_OR_ASKS = {
    *("POST /v1/pods", "POST /v1/pods/plan", "POST /v1/pods/{name}/replace/plan", "POST /v1/webhooks"),
    *("POST /v1/reservations", "POST /v1/site/parts/missing", "POST /v1/nodes/{name}/check-tokens"),
}
"""Requests with a body that don't change an existing resource."""


def test_every_change_takes_a_condition() -> None:
    """Exceptions are listed with their reasons; an exception without its operation is an error."""
    described: dict[str, Any] = json.loads((DOCS / "schemas" / "openapi.json").read_text())
    without = {
        f"{method.upper()} {path}"
        for path, verbs in described["paths"].items()
        for method, verb in verbs.items()
        if method != "get" and all(one["name"].lower() != "if-match" for one in verb.get("parameters", ()))
    }
    assert without == {*IT_NEEDS_NONE} | MAKES_OR_ASKS


def refused(answer: Any, said: str) -> None:
    """Asserts 412 with one sentence that contains `said`."""
    assert (answer.status_code, answer.json()["code"]) == (412, "REVISION_CHANGED"), answer.text
    assert said in answer.json()["detail"] and "read it again" in answer.json()["detail"]


def test_webhook_of_another_revision_is_not_changed(api: Client, doors: DoorsHouse) -> None:
    """Rotating and enabling it make a new revision; a webhook made again under the same name has another one, too."""
    api.post("/v1/webhooks", json=HOOK)
    shown = api.get("/v1/webhooks/ops")
    first, tag = shown.json()["revision"], shown.headers["etag"]
    assert tag.startswith(f'"{first}-')
    rotated = api.post("/v1/webhooks/ops/rotate", headers={"If-Match": tag})
    assert rotated.status_code == 200 and rotated.json()["revision"] > first
    assert rotated.headers["etag"] == f'"{rotated.json()["revision"]}"'
    for path in ("/rotate", "/enable"):
        refused(api.post(f"/v1/webhooks/ops{path}", headers={"If-Match": tag}), "webhook ops was changed")
    refused(api.delete("/v1/webhooks/ops", headers={"If-Match": tag}), "webhook ops was changed")
    assert api.get("/v1/webhooks/ops").json()["old_secret_until"] == rotated.json()["old_secret_until"]
    now = api.get("/v1/webhooks/ops").headers["etag"]
    assert api.post("/v1/webhooks/ops/enable", headers={"If-Match": now}).status_code == 200
    assert api.delete("/v1/webhooks/ops", headers={"If-Match": "*"}).status_code == 200
    api.post("/v1/webhooks", json=HOOK)
    refused(api.delete("/v1/webhooks/ops", headers={"If-Match": f'"{first}"'}), f"not {first}")
    assert api.delete("/v1/webhooks/ops").status_code == 200


def test_delivery_keeps_a_webhooks_revision(api: Client, doors: DoorsHouse) -> None:
    """Its state is part of the document's tag but not of the revision."""
    api.post("/v1/webhooks", json=HOOK)
    before = api.get("/v1/webhooks/ops")
    with doors.database.statement() as tx:
        tx.run("release_webhook", id=before.json()["id"], token=0)
        tx.row("fail_webhook", id=before.json()["id"], token=0, reason='"late"', delay="5 s", disable=False)
    after = api.get("/v1/webhooks/ops")
    assert after.json()["state"] == "failing" and after.json()["revision"] == before.json()["revision"]
    assert after.headers["etag"] != before.headers["etag"]
    assert api.delete("/v1/webhooks/ops", headers={"If-Match": before.headers["etag"]}).status_code == 200


def test_reservation_of_another_revision_is_not_deleted(api: Client) -> None:
    made = api.post("/v1/reservations", json=BLOCK, headers=OLGA)
    shown = api.get("/v1/reservations/course", headers=OLGA)
    assert shown.json() == made.json() == api.get("/v1/reservations", headers=OLGA).json()["reservations"][0]
    assert made.headers["etag"] == f'"{made.json()["revision"]}"'
    api.delete("/v1/reservations/course", headers=OLGA)
    api.post("/v1/reservations", json=BLOCK, headers=OLGA)
    tag = {"If-Match": shown.headers["etag"]}
    refused(api.delete("/v1/reservations/course", headers={**OLGA, **tag}), "reservation course was changed")
    tag = {"If-Match": api.get("/v1/reservations/course", headers=OLGA).headers["etag"]}
    assert api.delete("/v1/reservations/course", headers={**OLGA, **tag}).status_code == 200
    assert api.delete("/v1/reservations/course", headers={**OLGA, **tag}).status_code == 404
    assert api.get("/v1/reservations/course", headers=OLGA).status_code == 404
    assert api.get("/v1/reservations/course").status_code == 403, "for operators"


def test_hold_of_another_revision_is_not_ended(api: Client, doors: DoorsHouse) -> None:
    """Several holds ended at once have the highest revision among them: one added in between isn't ended unseen."""
    hold = "/v1/nodes/gpu01/hold"
    first = api.put(hold, json={"what": "burn-in"}, headers=OLGA).json()["holds"][0]["revision"]
    again = api.put(hold, json={"what": "burn-in"}, headers=OLGA).json()["holds"][0]["revision"]
    assert first == again, "the first hold stays as it is"
    api.delete(hold, headers=OLGA)
    second = api.put(hold, json={"what": "burn-in"}, headers=OLGA).json()["holds"][0]["revision"]
    asked = {"what": "burn-in"}
    refused(api.delete(hold, params=asked, headers={**OLGA, "If-Match": f'"{first}"'}), "node gpu01")
    third = api.put(hold, json={"what": "disks"}, headers=OLGA).json()["holds"][1]["revision"]
    every = {"all": "true"}
    refused(api.delete(hold, params=every, headers={**OLGA, "If-Match": f'"{second}"'}), f"is {third}, not")
    assert len(api.get("/v1/holds", headers=OLGA).json()["holds"]) == 2
    ended = api.delete(hold, params=every, headers={**OLGA, "If-Match": f'"{third}"'})
    assert ended.status_code == 200 and len(ended.json()["accepted"]) == 2


def test_drain_of_another_revision_is_not_ended(api: Client) -> None:
    """A new time or reason makes a new revision; of several nodes the highest counts."""

    def drained(target: str, reason: str) -> dict[str, int]:
        assert (
            api.post("/v1/drains", json={"target": target, "reason": reason}, headers=OLGA).status_code == 200
        )
        listed = api.get("/v1/drains", headers=OLGA).json()["drains"]
        return {one["node"]: one["revision"] for one in listed}

    first = drained("gpu01", "fans")["gpu01"]
    assert drained("gpu01", "fans")["gpu01"] == first, "nothing changed"
    second = drained("gpu01", "disks")["gpu01"]
    refused(api.delete("/v1/drains/gpu01", headers={**OLGA, "If-Match": f'"{first}"'}), f"is {second}, not")
    leaf = api.get("/v1/nodes/gpu01", headers=OLGA).json()["leaf"]
    every = drained(leaf, "the leaf")
    refused(api.delete(f"/v1/drains/{leaf}", headers={**OLGA, "If-Match": f'"{second}"'}), "drain of gpu01, ")
    newest = max(every.values())
    ended = api.delete(f"/v1/drains/{leaf}", headers={**OLGA, "If-Match": f'"{newest}"'})
    assert ended.status_code == 200 and {*ended.json()["nodes"]} == {*every}
    assert api.delete("/v1/drains/gpu01", headers={**OLGA, "If-Match": '"1"'}).status_code == 409


def test_quarantine_of_another_revision_is_not_cleared(api: Client) -> None:
    """A reason added makes a new revision, and so does a new quarantine after one that was cleared."""
    path = "/v1/nodes/gpu01/quarantine"

    def quarantined(reason: str) -> int:
        return api.put(path, json={"reason": reason}, headers=OLGA).json()["quarantine_revision"]

    first = quarantined("fans")
    assert api.get("/v1/nodes/gpu01", headers=OLGA).json()["quarantine_revision"] == first
    assert api.delete(path, headers={**OLGA, "If-Match": f'"{first}"'}).status_code == 200
    assert api.get("/v1/nodes/gpu01", headers=OLGA).json()["quarantine_revision"] is None
    second = quarantined("fans")
    refused(api.delete(path, headers={**OLGA, "If-Match": f'"{first}"'}), f"is {second}, not {first}")
    assert api.delete(path, headers={**OLGA, "If-Match": "*"}).status_code == 200
    assert api.delete(path, headers={**OLGA, "If-Match": f'"{second}"'}).status_code == 409


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/drains/gpu01"),
        ("DELETE", "/v1/nodes/gpu01/quarantine"),
        ("POST", "/v1/webhooks/nix/rotate"),
        ("POST", "/v1/webhooks/nix/enable"),
        ("DELETE", "/v1/webhooks/nix"),
        ("DELETE", "/v1/reservations/nix"),
        ("DELETE", "/v1/nodes/gpu01/hold"),
    ],
)
def test_malformed_if_match_is_refused(still_api: Client, method: str, path: str) -> None:
    """Before the resource is looked up."""
    who = OLGA if "webhooks" not in path else by("a-member")
    odd = still_api.request(method, path, headers={**who, "If-Match": '"x"'})
    assert (odd.status_code, "If-Match" in odd.text) == (400, True)
    weak = still_api.request(method, path, headers={**who, "If-Match": 'W/"1"'})
    assert (weak.status_code, weak.json()["code"]) == (412, "PRECONDITION")
