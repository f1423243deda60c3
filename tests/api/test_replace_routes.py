"""Replacing a node through HTTP."""

from __future__ import annotations

from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from weft.testing.callers import by


def test_replacement_over_http_answers_status_etag_and_errors(api: Client, doors: DoorsHouse) -> None:
    """202 with ETag, 412 or 409 for another generation, 400 with the field, 403 for a reader, 404 for other
    projects' pods."""
    pod = api.post("/v1/pods", json=ORDER).json()
    doors.worker.run_once()
    path, node = "/v1/pods/train/replace", api.get("/v1/pods/train").json()["servers"][0]["node"]
    plan = api.post(f"{path}/plan", json={"node": node})
    assert plan.status_code == 200 and plan.json()["change"]["nodes_removed"] == [node]
    wrong = api.post(path, json={"node": "nowhere"})
    assert wrong.status_code == 400 and wrong.json()["errors"][0]["field"] == "node"
    assert api.post(path, json={"node": node, "by": "gpu16"}).status_code == 400
    assert api.post(path, json={"node": node, "with": "gpu16"}).status_code == 403
    assert api.post(path, json={"node": node}, headers=by("roleless")).status_code in (403, 404)
    assert api.post(path, json={"node": node}, headers={"If-Match": '"7"'}).status_code == 412
    operator = f"/v1/pods/{pod['id']}/replace"
    done = api.post(operator, json={"node": node, "with": "gpu16"}, headers=by("operator"))
    assert done.status_code == 202 and done.json()["change"]["nodes_added"] == ["gpu16"]
    assert done.headers["etag"] == '"2"'
