"""Webhooks over HTTP and on the command line."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.helpers.doors import DoorsHouse
from weft.testing.callers import by

HOOK = {"name": "ops", "url": "https://hooks.example.org/weft?token=x", "events": ["state", "NODE_"]}


def test_webhook_is_created_shown_rotated_and_deleted(api: Client, doors: DoorsHouse) -> None:
    """Only the answers that create a secret have it."""
    made = api.post("/v1/webhooks", json=HOOK)
    assert made.status_code == 201 and made.json()["secret"].startswith("whsec_")
    listed = api.get("/v1/webhooks").json()["webhooks"]
    assert [(h["name"], h["state"], h["events"]) for h in listed] == [("ops", "active", ["state", "NODE_"])]
    shown = api.get("/v1/webhooks/ops")
    assert "secret" not in shown.json() and made.json()["secret"] not in shown.text
    rotated = api.post("/v1/webhooks/ops/rotate").json()
    assert rotated["secret"] != made.json()["secret"] and rotated["old_secret_until"]
    assert api.get("/v1/webhooks", headers=by("b-member")).json()["webhooks"] == []
    assert api.get(f"/v1/webhooks/{listed[0]['id']}", headers=by("b-member")).status_code == 404
    assert len(api.get("/v1/webhooks?all_projects=true", headers=by("operator")).json()["webhooks"]) == 1
    assert api.post("/v1/webhooks/ops/enable").json()["state"] == "active"
    assert api.delete("/v1/webhooks/ops").json()["name"] == "ops"
    assert api.get("/v1/webhooks/ops").status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "http://hooks.example.org/"),
        ("url", "https://10.0.0.1/"),
        ("url", "https://[::ffff:127.0.0.1]/"),
        ("url", "https://hooks.example.org:8443/"),
        ("url", "https://user:pw@hooks.example.org/"),
        ("url", "https://hooks.example.org/\u00e4"),
        ("name", "a/b"),
        ("name", ""),
        ("events", ["state; DROP"]),
        ("events", ["state"] * 21),
        ("secret", "mine"),
    ],
)
def test_invalid_webhook_is_refused(api: Client, field: str, value: object) -> None:
    """With the field; no webhook is created."""
    refused = api.post("/v1/webhooks", json={**HOOK, field: value})
    assert refused.status_code == 400 and refused.json()["errors"][0]["field"].startswith(field)
    assert api.get("/v1/webhooks").json()["webhooks"] == []


def test_reader_may_neither_create_nor_see_webhooks(api: Client) -> None:
    """A URL may be a secret."""
    assert api.post("/v1/webhooks", json=HOOK, headers=by("a-reader")).status_code == 403
    assert api.get("/v1/webhooks", headers=by("a-reader")).status_code == 403
    assert api.get("/v1/webhooks?all_projects=true").status_code == 403
