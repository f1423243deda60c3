"""The operators' routes of the API."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from weft.model.resources import Kind
from weft.testing.callers import by
from weft.testing.cloud import Fault

LOOK = ["/v1/nodes", "/v1/audit", "/v1/audit-log"]


@pytest.mark.parametrize("path", [*LOOK, "/v1/site"])
@pytest.mark.parametrize("who", ["a-member", "a-reader", "a-admin", "roleless"])
def test_operators_routes_are_refused_to_tenants(still_api: Client, path: str, who: str) -> None:
    """403, whatever role they have in a tenant's project, admin included."""
    assert still_api.get(path, headers=by(who)).status_code == 403


@pytest.mark.parametrize("path", LOOK)
@pytest.mark.parametrize("who", ["operator", "system-admin", "system-reader"])
def test_admins_and_system_readers_may_read_operators_routes(still_api: Client, path: str, who: str) -> None:
    """Admin of the admin project, and admin and reader with system scope."""
    assert still_api.get(path, headers=by(who)).status_code == 200


def test_system_reader_can_change_nothing(still_api: Client) -> None:
    """Role reader allows no change, with system scope too."""
    reader = by("system-reader")
    assert still_api.put("/v1/site", json={"name": "s"}, headers=reader).status_code == 403
    assert still_api.post("/v1/audit", json={"repair": True}, headers=reader).status_code == 403
    assert still_api.post("/v1/audit/accept", headers=reader).status_code == 403
    assert (
        still_api.put("/v1/nodes/gpu01/quarantine", json={"reason": "x"}, headers=reader).status_code == 403
    )
    assert still_api.delete("/v1/nodes/gpu01/quarantine", headers=reader).status_code == 403
    assert still_api.put("/v1/nodes/gpu01/hold", json={"what": "x"}, headers=reader).status_code == 403
    assert still_api.delete("/v1/nodes/gpu01/hold", headers=reader).status_code == 403


def test_activated_site_is_shown_with_a_growing_generation(api: Client, doors: DoorsHouse) -> None:
    olga, site = by("operator"), doors.site.model_dump(mode="json")
    assert api.put("/v1/site", json=site, headers=olga).json()["generation"] == 2
    assert api.put("/v1/site", json=site, headers=olga).json()["generation"] == 3
    shown = api.get("/v1/site", headers=olga).json()
    assert (shown["generation"], shown["document"]["name"], shown["nodes"]) == (3, "lab", len(site["nodes"]))


def test_site_activated_from_an_older_generation_is_refused(api: Client, doors: DoorsHouse) -> None:
    """`If-Match` has the ETag of the site that was edited: 412 if another is in force since."""
    olga, site = by("operator"), doors.site.model_dump(mode="json")
    first = api.put("/v1/site", json=site, headers={**olga, "If-Match": '"1"'})
    assert (first.status_code, first.headers["etag"]) == (200, '"2"')
    assert api.get("/v1/site", headers=olga).headers["etag"].startswith('"2-')
    assert api.put("/v1/site", json=site, headers={**olga, "If-Match": '"1"'}).status_code == 412
    assert api.put("/v1/site", json=site, headers={**olga, "If-Match": "2"}).json()["generation"] == 3
    assert api.put("/v1/site", json=site, headers={**olga, "If-Match": "*"}).json()["generation"] == 4
    assert api.put("/v1/site", json=site, headers={**olga, "If-Match": 'W/"4"'}).status_code == 412
    for nonsense in ("x", '"-1"', '"1", "2"', "9" * 400, "٣"):
        answer = api.put("/v1/site", json=site, headers={**olga, "If-Match": nonsense.encode()})
        assert answer.status_code == 400, nonsense


def test_cabling_is_compared_and_adopted(api: Client, doors: DoorsHouse) -> None:
    """GET shows where a fabric differs from the site, POST makes a new generation of it; unknown fabrics are
    refused."""
    olga = by("operator")
    doors.pull_cable()
    found = api.get("/v1/site/differences?fabric=ib0", headers=olga).json()
    assert [d["kind"] for d in found["differences"]] == ["missing cable"]
    assert api.get("/v1/site/differences?fabric=nix", headers=olga).status_code == 400
    assert api.post("/v1/site/adopt-cabling", headers=by("system-reader")).status_code == 403
    assert api.post("/v1/site/adopt-cabling", headers=olga).json()["generation"] == 2
    assert api.get("/v1/site/differences", headers=olga).json()["differences"] == []
    assert api.get("/v1/site/differences").status_code == 403


def test_large_site_is_read_and_checked(still_api: Client) -> None:
    """A site of 4 MB, more than an order may have, is read, and each of its 4,000 nodes is reported as invalid."""
    site = {"name": "hall", "nodes": ["x" * 1000] * 4000}
    answer = still_api.put("/v1/site", json=site, headers=by("operator"))
    assert (answer.status_code, answer.json()["more_errors"] > 3000) == (400, True)


def test_invalid_site_is_reported(api: Client) -> None:
    """The error names the field."""
    answer = api.put("/v1/site", json={"name": 1}, headers=by("operator"))
    assert answer.status_code == 400 and "name" in [e["field"] for e in answer.json()["errors"]]


def test_node_is_quarantined_and_cleared(api: Client) -> None:
    """The list shows the reason; clearing twice is a conflict; unknown nodes are 404."""
    olga = by("operator")
    put = api.put("/v1/nodes/gpu01/quarantine", json={"reason": "fan"}, headers=olga)
    assert put.json()["state"] == "quarantined"
    listed = {n["name"]: n["reason"] for n in api.get("/v1/nodes", headers=olga).json()["nodes"]}
    assert listed["gpu01"] == "fan"
    assert api.delete("/v1/nodes/gpu01/quarantine", headers=olga).json()["state"] == "free"
    assert api.delete("/v1/nodes/gpu01/quarantine", headers=olga).status_code == 409
    assert api.put("/v1/nodes/nix/quarantine", json={"reason": "x"}, headers=olga).status_code == 404


def test_node_is_held_and_accepted(api: Client) -> None:
    """A hold has a name, by which it is accepted; the answer and the list of holds show what is still missing."""
    olga = by("operator")
    hold = "/v1/nodes/gpu01/hold"
    assert api.put(hold, json={"what": "burn-in"}, headers=olga).json()["state"] == "held"
    assert api.put(hold, json={"what": "firmware & disks"}, headers=olga).status_code == 200
    held = [(h["node"], h["what"]) for h in api.get("/v1/holds", headers=olga).json()["holds"]]
    assert held == [("gpu01", "burn-in"), ("gpu01", "firmware & disks")]
    refused = api.delete(hold, headers=olga)
    assert (refused.status_code, refused.json()["code"]) == (409, "SEVERAL_HOLDS")
    done = api.delete(hold, params={"what": "burn-in"}, headers=olga).json()
    assert ([h["what"] for h in done["missing"]]) == ["firmware & disks"]
    assert api.delete(hold, params={"all": "true"}, headers=olga).json()["missing"] == []
    assert api.delete(hold, headers=olga).status_code == 409
    shown = api.get("/v1/nodes/gpu01", headers=olga).json()
    assert (shown["state"], shown["holds"]) == ("free", [])
    for method, body in (("PUT", {"what": "x"}), ("DELETE", None)):
        answer = api.request(method, "/v1/nodes/nix/hold", json=body, headers=olga)
        assert (answer.status_code, answer.json()["code"]) == (404, "NODE_UNKNOWN")
    assert api.get("/v1/nodes/nix", headers=olga).status_code == 404


def test_leaf_is_drained_and_undrained(api: Client) -> None:
    """With a time and a reason; an unknown place, a time without zone, and ending a drain that isn't there are
    refused."""
    olga = by("operator")
    body = {"target": "leaf01", "by": "2027-06-01T18:00:00Z", "reason": "RMA", "public": "new switch"}
    done = api.post("/v1/drains", json=body, headers=olga).json()
    assert (len(done["nodes"]), done["pods"], done["broken"]) == (4, [], [])
    listed = api.get("/v1/drains", headers=olga).json()["drains"]
    assert [(d["by"], d["public"]) for d in listed] == [("2027-06-01T18:00:00Z", "new switch")] * 4
    assert api.get("/v1/nodes/gpu01", headers=olga).json()["drain"]["reason"] == "RMA"
    for wrong in ({"target": "nix"}, {**body, "by": "2027-06-01T18:00:00"}, {**body, "public": "a\nb"}, {}):
        assert api.post("/v1/drains", json=wrong, headers=olga).status_code == 400
    for role in ("system-reader", "a-member"):
        assert api.post("/v1/drains", json=body, headers=by(role)).status_code == 403
        assert api.delete("/v1/drains/leaf01", headers=by(role)).status_code == 403
    assert len(api.delete("/v1/drains/leaf01", headers=olga).json()["nodes"]) == 4
    assert api.post("/v1/drains", json={**body, "plan": True}, headers=olga).json() == done
    assert api.post("/v1/drains", json={**body, "plan": True}, headers=by("system-reader")).status_code == 403
    assert api.get("/v1/drains", headers=olga).json()["drains"] == [], "a plan drains nothing"
    again = api.delete("/v1/drains/leaf01", headers=olga)
    assert (again.status_code, again.json()["code"]) == (409, "NOT_DRAINED")


@pytest.mark.parametrize(
    "body", [{}, {"what": ""}, {"what": "x" * 201}, {"what": "a\nb"}, {"what": "x", "by": "y"}]
)
def test_invalid_name_of_a_hold_is_refused(still_api: Client, body: dict[str, object]) -> None:
    assert still_api.put("/v1/nodes/gpu01/hold", json=body, headers=by("operator")).status_code == 400


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": None}, {"reason": "x", "until": "y"}])
def test_quarantine_with_anything_but_a_reason_is_refused(still_api: Client, body: dict[str, object]) -> None:
    """Other fields are refused, and so is a missing reason."""
    assert still_api.put("/v1/nodes/gpu01/quarantine", json=body, headers=by("operator")).status_code == 400


def test_audit_repairs_only_on_request(api: Client, doors: DoorsHouse) -> None:
    """GET only reports, POST with `repair: true` repairs, any other body is refused."""
    olga = by("operator")
    api.post("/v1/pods", json=ORDER)
    doors.orphan(doors.finish("train"))
    found = api.get("/v1/audit", headers=olga).json()["findings"][0]
    assert found["repaired"] is None
    for wrong in ({"repair": False}, {"repair": True, "findings": ["x"]}, {"repair": True, "findings": []}):
        assert api.post("/v1/audit", json=wrong, headers=olga).status_code == 400
    other = {"repair": True, "findings": [found["key"][::-1]]}
    refused = api.post("/v1/audit", json=other, headers=olga)
    assert refused.status_code == 400 and found["key"][::-1] in refused.json()["detail"]
    both = {"repair": True, "findings": [found["key"], found["key"][::-1]]}
    assert api.post("/v1/audit", json=both, headers=olga).status_code == 400
    assert api.get("/v1/audit", headers=olga).json()["findings"][0]["key"] == found["key"]
    assert api.post("/v1/audit/accept", headers=olga).json()["findings"]
    assert (
        api.post("/v1/audit", json={"repair": True}, headers=olga).json()["findings"][0]["repaired"] is True
    )


def test_changes_are_logged_with_user_and_address(api: Client, doors: DoorsHouse) -> None:
    """The log has the caller, the address and the request's id."""
    answer = api.put("/v1/site", json=doors.site.model_dump(mode="json"), headers=by("operator"))
    entry = api.get("/v1/audit-log", headers=by("operator")).json()["entries"][0]
    assert (entry["user"], entry["action"], entry["address"]) == ("olga", "site activate", "127.0.0.1")
    assert entry["request_id"] == answer.headers["x-openstack-request-id"]
    after = entry["sequence"]
    assert api.get(f"/v1/audit-log?after={after}", headers=by("operator")).json() == {"entries": []}
    assert api.get("/v1/audit-log?limit=0", headers=by("operator")).status_code == 400


def test_only_operators_abandon_a_pod(api: Client, doors: DoorsHouse) -> None:
    """Tenants 403, although they may release it; operators 409 before the release, 202 afterwards."""
    pod = api.post("/v1/pods", json=ORDER, headers=by("a-member")).json()["id"]
    asked = {"reason": "its project is deleted"}
    assert api.post(f"/v1/pods/{pod}/abandon", json=asked, headers=by("a-member")).status_code == 403
    assert api.post(f"/v1/pods/{pod}/abandon", json=asked, headers=by("operator")).status_code == 409
    doors.finish("train")
    doors.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    api.post(f"/v1/pods/{pod}/release", headers=by("a-member"))
    doors.worker.run_once()
    assert api.post(f"/v1/pods/{pod}/abandon", json={}, headers=by("operator")).status_code == 400
    assert api.post(f"/v1/pods/{pod}/abandon", json=asked, headers=by("operator")).status_code == 202


def test_unknown_pods_are_confirmed_by_id(api: Client) -> None:
    """With a pod's id or `all`; anything else is refused."""
    olga = by("operator")
    wrong = api.post("/v1/audit", json={"repair": True, "unknown_pods": ["train"]}, headers=olga)
    assert wrong.status_code == 400 and "unknown_pods" in wrong.text
    right = {"repair": True, "unknown_pods": ["all", "00000000-1111-2222-3333-444444444444"]}
    assert api.post("/v1/audit", json=right, headers=olga).status_code == 200


def test_impact_of_a_leaf_is_read_by_operators_only(api: Client) -> None:
    """Its pods and whether they would fit elsewhere; for an unknown target a similar name is suggested."""
    api.post("/v1/pods", json=ORDER).raise_for_status()
    node = api.get("/v1/pods/train").json()["placed"][0]["node"]
    for who in ("operator", "system-reader"):
        found = api.get("/v1/site/impact", params={"target": node}, headers=by(who)).json()
        assert [(p["pod"], p["nodes"], p["elsewhere"]["fits"]) for p in found["pods"]] == [
            ("train", [node], True)
        ]
    listed = {"target": node, "place": "false", "limit": "1"}
    assert (
        api.get("/v1/site/impact", params=listed, headers=by("operator")).json()["pods"][0]["elsewhere"]
        is None
    )
    for who in ("a-member", "a-admin"):
        assert api.get("/v1/site/impact", params={"target": node}, headers=by(who)).status_code == 403
    for wrong in (
        {"target": "leaf1"},
        {"target": ""},
        {"target": "x" * 256},
        {"target": node, "limit": "1001"},
        {},
    ):
        refused = api.get("/v1/site/impact", params=wrong, headers=by("operator"))
        assert refused.status_code == 400, wrong
    assert "such as leaf01" in api.get("/v1/site/impact?target=leaf1", headers=by("operator")).text
