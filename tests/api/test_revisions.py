"""Webhooks, reservations and holds have a revision; `If-Match` with another one gets 412, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from httpx import Client

from tests.helpers.doors import DoorsHouse
from weft.testing.callers import by

HOOK = {"name": "ops", "url": "https://hooks.example.org/weft"}
BLOCK = {"name": "course", "project_id": "b" * 32, "nodes": ["gpu01"]}
OLGA = by("operator")


def refused(answer: Any, said: str) -> None:
    """412 with one sentence."""
    assert (answer.status_code, answer.json()["code"]) == (412, "REVISION_CHANGED"), answer.text
    assert said in answer.json()["detail"] and "read it again" in answer.json()["detail"]


def test_webhook_of_another_revision_is_not_changed(api: Client, doors: DoorsHouse) -> None:
    """Rotation and enabling make a new one; a webhook that was made again under its name has another, too."""
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


def test_delivery_leaves_the_revision_of_a_webhook(api: Client, doors: DoorsHouse) -> None:
    """What workers note of it is no change of it: the tag of the document is another one all the same."""
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
    """The highest revision counts where several end at once: one that came in between isn't ended unseen."""
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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/webhooks/nix/rotate"),
        ("POST", "/v1/webhooks/nix/enable"),
        ("DELETE", "/v1/webhooks/nix"),
        ("DELETE", "/v1/reservations/nix"),
        ("DELETE", "/v1/nodes/gpu01/hold"),
    ],
)
def test_malformed_if_match_is_refused(still_api: Client, method: str, path: str) -> None:
    """Before anything is looked for."""
    who = OLGA if "webhooks" not in path else by("a-member")
    odd = still_api.request(method, path, headers={**who, "If-Match": '"x"'})
    assert (odd.status_code, "If-Match" in odd.text) == (400, True)
    weak = still_api.request(method, path, headers={**who, "If-Match": 'W/"1"'})
    assert (weak.status_code, weak.json()["code"]) == (412, "PRECONDITION")
