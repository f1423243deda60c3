"""Servers of pods over HTTP: actions and consoles."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from weft.testing.callers import by


def ready(api: Client, doors: DoorsHouse) -> str:
    """Makes a READY pod; name of one of its nodes."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    return api.get("/v1/pods/train").json()["servers"][0]["node"]


def test_server_is_rebooted_and_has_a_console(api: Client, doors: DoorsHouse) -> None:
    node = ready(api, doors)
    done = api.post(f"/v1/pods/train/servers/{node}/action", json={"action": "reboot"})
    assert done.status_code == 202 and done.json()["node"] == node and done.json()["password"] is None
    rescued = api.post(f"/v1/pods/train/servers/{node}/action", json={"action": "rescue"})
    assert rescued.json()["password"] == "s3cret"
    found = api.post(f"/v1/pods/train/servers/{node}/console")
    assert (found.status_code, found.json()["type"]) == (200, "novnc")
    assert "s3cret" not in api.get("/v1/pods/train/events").text
    log = api.get("/v1/audit-log", headers=by("operator")).text
    assert "pod rescue" in log and "s3cret" not in log and found.json()["url"] not in log


@pytest.mark.parametrize(
    "body", [{}, {"action": "format"}, {"action": None}, {"action": "reboot", "force": True}, []]
)
def test_unknown_action_is_reported(api: Client, doors: DoorsHouse, body: object) -> None:
    answer = api.post(f"/v1/pods/train/servers/{ready(api, doors)}/action", json=body)
    assert answer.status_code == 400, answer.text
    assert not doors.cloud.acts
    assert api.post("/v1/pods/other/servers/gpu01/action", json=body).status_code in (400, 404)


def test_caller_without_permission_is_refused(api: Client, doors: DoorsHouse) -> None:
    node = ready(api, doors)
    for path, body in (("action", {"action": "reset"}), ("console", None)):
        url = f"/v1/pods/train/servers/{node}/{path}"
        assert api.post(url, json=body, headers=by("a-reader")).status_code == 403
        assert api.post(url, json=body, headers=by("b-member")).status_code == 404
        assert api.post(url, json=body, headers=by("")).status_code == 401
    assert api.post("/v1/pods/train/servers/gpu99/console").status_code == 404
    assert api.post(f"/v1/pods/train/servers/{'x' * 300}/console").status_code in (400, 404)
    assert api.post("/v1/pods/train/servers/a%00b/console").status_code in (400, 404)
    assert not doors.cloud.acts


def test_unknown_server_is_refused_with_the_pods_nodes(api: Client, doors: DoorsHouse) -> None:
    """For tenants too."""
    api.post("/v1/pods", json=ORDER)
    doors.finish("train")
    nodes = sorted(server["node"] for server in api.get("/v1/pods/train").json()["servers"])
    answer = api.post("/v1/pods/train/servers/nosuch/action", json={"action": "reboot"})
    said = f"pod train has no server on a node 'nosuch', and none of that name; its servers are on {', '.join(nodes)}"
    assert (answer.status_code, answer.json()["detail"]) == (404, said)
