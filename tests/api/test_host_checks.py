"""Nodes report their own checks, each with a token of its own, and may do nothing else."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from httpx import Client

from tests.helpers.doors import DoorsHouse
from tests.helpers.hostchecks import document, make_token, report, result
from weft.testing.callers import by

OLGA = by("operator")
DAY = 86_400


def state(api: Client, node: str = "gpu01") -> str:
    return api.get(f"/v1/nodes/{node}", headers=OLGA).json()["checks"]


def checks(api: Client, node: str = "gpu01") -> Any:
    return api.get(f"/v1/nodes/{node}/checks", headers=OLGA).json()


def messages(api: Client, node: str = "gpu01") -> list[str]:
    entries = api.get(f"/v1/nodes/{node}/history", headers=OLGA).json()["entries"]
    return [entry["message"] for entry in entries if entry["type"] == "check"]


def test_state_of_a_check_follows_its_last_result_and_age(api: Client, doors: DoorsHouse) -> None:
    """The states never, ok, failed, unknown and old; a failed check stays failed, however old, until it is
    reported ok."""
    assert state(api) == "never" and checks(api)["document"] is None
    token = make_token(api)["token"]
    fine = document(result("CLOCK"), result("XID", "gpu0"))
    answer = report(api, token, fine)
    assert (answer.status_code, answer.json()) == (
        200,
        {"node": "gpu01", "state": "ok", "outdated": False, "left_out": []},
    )
    assert report(api, token, fine).status_code == 503, "10 s between two"
    doors.door_clock.go_on(11)
    assert (
        report(api, token, document(result("CLOCK", status="unknown"), result("XID", "gpu0"))).json()["state"]
        == "unknown"
    )
    doors.door_clock.go_on(11)
    bad = document(result("CLOCK"), result("XID", "gpu0", "failed", reason="Xid 79"))
    assert report(api, token, bad).json()["state"] == "failed"
    row = api.get("/v1/nodes/gpu01", headers=OLGA).json()
    assert [(c["code"], c["subject"]) for c in row["failed_checks"]] == [("XID", "gpu0")]
    doors.restart()
    doors.door_clock.go_on(3 * DAY)
    assert state(api) == "failed"
    # Reported as unread, then not reported at all: neither makes it ok.
    for again in (document(result("XID", status="unknown")), document(result("CLOCK"))):
        assert report(api, token, again).json()["state"] == "failed"
        doors.door_clock.go_on(11)
    assert report(api, token, fine).json()["state"] == "ok"
    doors.door_clock.go_on(2 * DAY)
    assert state(api) == "old"
    assert messages(api) == ["check XID of gpu0 no longer fails", "check XID of gpu0 failed: Xid 79"]


def test_token_is_for_one_node_and_for_reports_alone(api: Client) -> None:
    """For another node, existing or not, 403; on every other route 401. Tokens of tenants and operators can't
    report."""
    made = make_token(api)
    token, fine = made["token"], document(result("CLOCK"))
    for node in ("gpu02", "nix", "GPU01"):
        assert report(api, token, fine, node).status_code == 403
    for header in ({"X-Auth-Token": token}, {"Authorization": f"Bearer {token}"}):
        bare = {"X-Auth-Token": ""} | header
        for method, path in (
            ("GET", "/v1/nodes/gpu01/checks"),
            ("DELETE", "/v1/nodes/gpu01/checks"),
            ("GET", "/v1/nodes/gpu01"),
            ("GET", "/v1/check-tokens"),
            ("POST", "/v1/nodes/gpu01/check-tokens"),
            ("GET", "/v1/pods"),
        ):
            assert api.request(method, path, headers=bare).status_code == 401, path
    for who in ("operator", "a-member"):
        assert api.post("/v1/nodes/gpu01/checks", json=fine, headers=by(who)).status_code == 403
        assert report(api, who, fine).status_code == 401
    wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
    for other in (wrong, token.upper(), f"wct_{'0' * 16}_{token[-43:]}", f"{token}x", "x"):
        assert report(api, other, fine).status_code == 401, other
    assert state(api) == "never"


def test_check_token_is_shown_once_and_can_be_revoked(api: Client, doors: DoorsHouse) -> None:
    """Lists leave the secret out; revoked tokens, too many, too long lifetimes and unknown nodes are refused."""
    made = make_token(api)
    token, fine = made["token"], document(result("CLOCK"))
    listed = api.get("/v1/check-tokens", headers=OLGA).json()["tokens"]
    assert [(one["id"], one["node"], one["used_at"]) for one in listed] == [(made["id"], "gpu01", None)]
    assert token[-43:] not in json.dumps(listed)
    with psycopg.connect(doors.database.url) as connection:
        stored = connection.execute("SELECT check_token::text FROM check_token").fetchall()
    assert token[-43:] not in str(stored) and token[-43:].encode().hex() not in str(stored)
    doors.restart()
    assert report(api, token, fine).status_code == 200
    assert api.get("/v1/check-tokens?node=gpu01", headers=OLGA).json()["tokens"][0]["used_at"]
    assert api.get("/v1/check-tokens?node=gpu02", headers=OLGA).json()["tokens"] == []
    doors.door_clock.go_on(400 * DAY)
    assert report(api, token, fine).status_code == 401
    other = make_token(api, until="2028-12-01T00:00:00Z")
    revoked = api.delete(f"/v1/check-tokens/{other['id']}", headers=OLGA)
    assert revoked.status_code == 200 and "token" not in revoked.json()
    assert report(api, other["token"], fine).status_code == 401
    assert api.delete(f"/v1/check-tokens/{other['id']}", headers=OLGA).status_code == 404
    for until in ("2020-01-01T00:00:00Z", "2039-01-01T00:00:00Z", "tomorrow"):
        wrong = api.post("/v1/nodes/gpu01/check-tokens", json={"until": until}, headers=OLGA)
        assert wrong.status_code == 400 and "until" in wrong.text
    assert api.post("/v1/nodes/nix/check-tokens", json={}, headers=OLGA).status_code == 404
    for _ in range(4):
        make_token(api)
    assert api.post("/v1/nodes/gpu01/check-tokens", json={}, headers=OLGA).status_code == 409
    actions = api.get("/v1/audit-log?action=node check-token", headers=OLGA)
    assert token[-43:] not in actions.text and "gpu01" in actions.text


def test_unknown_members_of_a_document_are_ignored_and_named(api: Client, doors: DoorsHouse) -> None:
    """Control characters in their names are replaced; the state follows from the known results."""
    token = make_token(api)["token"]
    hostile = result("XID", "gpu0\n\x1b[31m", "failed", reason="\u202egnissap\x00", more={"a": [1]})
    given = document(hostile, result("CLOCK"), status="ok", extra=1)
    given["host"]["rack\n"] = "r1"
    answer = report(api, token, given).json()
    assert answer["state"] == "failed"
    assert answer["left_out"] == ["extra", "host.rack?", "results[0].more"]
    (problem,) = checks(api)["problems"]
    assert (problem["subject"], problem["reason"]) == ("gpu0??[31m", "?gnissap?")
    doors.door_clock.go_on(11)
    many = document(result("CLOCK"), **{f"m{n}": n for n in range(50)})
    assert report(api, token, many).json()["left_out"][-1] == "30 more"


INVALID: tuple[tuple[dict[str, Any], str], ...] = (
    ({"version": 2}, "version"),
    ({"version": True}, "version"),
    ({"results": {}}, "results"),
    ({"results": [7]}, "results[0]"),
    ({"results": [result("clock")]}, "results[0].code"),
    ({"results": [result("CLOCK", "x" * 201)]}, "results[0].subject"),
    ({"results": [result("CLOCK", status="fine")]}, "results[0].status"),
    ({"results": [result("CLOCK", reason="x" * 1001)]}, "results[0].reason"),
    ({"results": [result("CLOCK")] * 1001}, "results"),
    ({"host": None}, "host"),
    ({"expected": "md5:1"}, "expected"),
    ({"when": "now"}, "when"),
)


def test_invalid_document_is_refused_with_its_field(api: Client) -> None:
    """400 with the field, and nothing is stored."""
    token = make_token(api)["token"]
    for change, field in INVALID:
        answer = report(api, token, document(result("CLOCK")) | change)
        assert answer.status_code == 400, answer.text
        assert any(one["field"].startswith(field) for one in answer.json()["errors"]), answer.text
    for text in (r"\ud800", r"\u0000", "[" * 500):
        bad = f'{{"version": 1, "host": ["{text}"], "results": ["{text}"], "{text}": "{text}"}}'
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "X-Auth-Token": ""}
        assert api.post("/v1/nodes/gpu01/checks", content=bad, headers=headers).status_code == 400
    assert state(api) == "never"


def test_document_of_another_machine_is_refused(api: Client, doors: DoorsHouse) -> None:
    """If the site knows the serial number or UUID, a document without them is refused too; nothing changes."""
    token = make_token(api)["token"]
    site = doors.store.site().site
    nodes = [
        n.model_copy(update={"serial": "S1", "product_uuid": "aaaa-bbbb"}) if n.name == "gpu01" else n
        for n in site.nodes
    ]
    doors.store.activate_site(site.model_copy(update={"nodes": tuple(nodes)}), "test")
    for host in ({"serial": "S2", "product_uuid": "AAAA-BBBB"}, {"serial": "S1"}, {}):
        answer = report(api, token, document(result("CLOCK"), host=host))
        assert answer.status_code == 409 and "another machine" in answer.json()["detail"]
    assert state(api) == "never"
    assert report(api, token, document(result("CLOCK"))).status_code == 200


def test_host_checks_add_at_most_200_entries_a_day_to_the_history(api: Client, doors: DoorsHouse) -> None:
    """At most 20 for a report, and 200 for a day, however often results change."""
    token = make_token(api)["token"]
    many = [result("PCI_LINK", f"0000:{n:02x}:00.0", "failed") for n in range(100)]
    assert report(api, token, document(*many)).status_code == 200
    assert len(messages(api)) == 20 and messages(api)[0] == "81 further checks failed, or no longer do"
    for turn in range(12):
        doors.door_clock.go_on(11)
        status = "ok" if turn % 2 == 0 else "failed"
        report(api, token, document(*[one | {"status": status} for one in many]))
    assert len(messages(api)) == 200


def test_operators_can_delete_reported_results(api: Client) -> None:
    """With an entry in the node's history; 409 if there are none, 403 for others."""
    token = make_token(api)["token"]
    report(api, token, document(result("XID", status="failed")))
    for who in ("a-member", "system-reader"):
        assert api.delete("/v1/nodes/gpu01/checks", headers=by(who)).status_code == 403
        assert api.post("/v1/nodes/gpu01/check-tokens", json={}, headers=by(who)).status_code == 403
    assert api.get("/v1/nodes/gpu01/checks", headers=by("system-reader")).status_code == 200
    assert api.get("/v1/nodes/gpu01/checks", headers=by("a-member")).status_code == 403
    assert api.delete("/v1/nodes/gpu01/checks", headers=OLGA).json()["state"] == "never"
    assert api.delete("/v1/nodes/gpu01/checks", headers=OLGA).status_code == 409
    assert messages(api)[0] == "what its checks had reported was forgotten" and state(api) == "never"
    assert api.get("/v1/nodes/nix/checks", headers=OLGA).status_code == 404
