"""`weft node checks`, and the tokens with which nodes report their checks."""

from __future__ import annotations

import csv
import io

from tests.helpers.desk import Desk
from tests.helpers.hostchecks import document, result
from weft.model.site import AcceptancePolicy


def test_checks_of_a_node_are_reported_and_read(desk: Desk) -> None:
    """A token is shown once; failed checks come first; the list of nodes has the state; results are deleted,
    tokens revoked."""
    never = desk.weft("node", "checks", "gpu01", cloud="operator")
    assert never.code == 0 and "has never reported" in never.err
    made = desk.weft("node", "check-token", "gpu01", "--json", cloud="operator").json
    shown = desk.weft("node", "check-token", "gpu01", "-f", "value", "-c", "report", cloud="operator")
    assert shown.out == f"{desk.url}/v1/nodes/gpu01/checks\n"
    service = desk.house.service
    reporter = service.checks.reporter(made["token"], "gpu01", "192.0.2.1", "req-1", "weft-check/1")
    results = (
        result("CLOCK"),
        result("XID", "gpu0", "failed", reason="Xid 79"),
        result("MODULE", status="skipped"),
    )
    service.checks.report(reporter, document(*results))
    found = desk.weft("node", "checks", "gpu01", "-f", "csv", cloud="operator")
    rows = list(csv.DictReader(io.StringIO(found.out)))
    assert [(row["Code"], row["Status"]) for row in rows] == [
        ("XID", "failed"), ("CLOCK", "ok"), ("MODULE", "skipped")
    ]  # fmt: skip
    assert rows[0]["Since"] and not rows[1]["Since"] and "weft: failed; reported at " in found.err
    desk.house.door_clock.go_on(11)
    service.checks.report(reporter, document(result("CLOCK")))
    again = desk.weft("node", "checks", "gpu01", "-f", "value", "-c", "code", cloud="operator")
    assert again.out.split() == ["XID", "CLOCK"], "a failed check that wasn't judged again stays"
    assert "XID" in desk.weft("node", "show", "gpu01", cloud="operator").out
    listed = desk.weft("node", "list", "-f", "value", "-c", "name", "-c", "checks", cloud="operator").out
    assert "gpu01 failed\ngpu02 never\n" in listed
    for words in (
        ("checks", "gpu01"),
        ("check-token", "gpu01"),
        ("check-tokens",),
        ("forget-checks", "gpu01"),
        ("judge-check", "XID", "real"),
    ):
        assert desk.weft("node", *words).code == 2
    judged = desk.weft("node", "judge-check", "XID", "real", cloud="operator")
    assert judged.code == 0 and "check XID is real on gpu01" in judged.out
    forgot = desk.weft("node", "forget-checks", "gpu01", cloud="operator")
    assert forgot.code == 0 and "forgot" in forgot.out
    tokens = desk.weft("node", "check-tokens", "gpu01", cloud="operator")
    assert made["id"] in tokens.out and made["token"] not in tokens.out
    revoked = desk.weft("node", "revoke-check-token", made["id"], cloud="operator")
    assert revoked.code == 0 and f"token {made['id']} of node gpu01 is revoked" in revoked.out
    assert desk.weft("node", "revoke-check-token", made["id"], cloud="operator").code == 2
    wrong = desk.weft("node", "check-token", "gpu01", "--until", "soon", cloud="operator")
    assert wrong.code == 2 and "until" in wrong.err


def test_acceptance_tests_of_a_held_node_are_reported_and_read(desk: Desk) -> None:
    """Lists show the reason and what is missing; invalid values are refused; the last missing result ends the
    hold."""
    house = desk.house
    site = house.store.site().site
    policy = AcceptancePolicy(what="burn-in", tests=("nccl", "disk"))
    house.store.activate_site(site.model_copy(update={"acceptance": policy}), "operator")
    desk.weft("node", "hold", "gpu01", "--for", "burn-in", cloud="operator")
    started = house.door_clock.now().isoformat()

    def say(test: str, status: str, *more: str, began: str = started) -> tuple[int, str]:
        words = ("node", "report-test", "gpu01", test, "--status", status, "--started", began, *more)
        found = desk.weft(*words, cloud="operator")
        return found.code, found.out + found.err

    code, said = say("nccl", "failed", "--reason", "rail 3: 190 Gb/s")
    assert code == 0 and "still held for burn-in: nccl failed, disk missing" in said
    listed = desk.weft("node", "checks", "gpu01", "-f", "csv", cloud="operator").out
    rows = [(row["Code"], row["Status"], row["Reason"]) for row in csv.DictReader(io.StringIO(listed))]
    assert rows == [("site:nccl", "failed", "rail 3: 190 Gb/s"), ("site:disk", "missing", "")]
    assert "nccl didn't pass" in desk.weft("node", "show", "gpu01", cloud="operator").out
    for test, began, wrong in (
        ("nccl", "yesterday", "started"),
        ("other", started, "no test 'other'"),
        ("disk", "2026-01-01T00:00:00Z", "began before"),
    ):
        code, said = say(test, "passed", began=began)
        assert code == 2 and wrong in said, said
    say("disk", "passed")
    code, said = say("nccl", "passed")
    assert code == 0 and "is accepted for burn-in" in said
    assert desk.weft("node", "holds", "--json", cloud="operator").json == []
