"""A held node is assigned again by itself once all tests that the site names have passed during the hold."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock, make, release
from tests.helpers.hostchecks import document, result
from tests.web.test_node_ways import measured
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.engine.nodes.nodetests import record_bandwidth
from weft.model.errors import ConflictError, ForbiddenError, InputError, NotFoundError, RefusedError
from weft.model.nodetests import NodeTestReceipt, NodeTestReport
from weft.model.site import AcceptancePolicy, ChecksPolicy

TESTED = {"after": ["pod", "quarantine"], "what": "burn-in", "tests": ["nccl", "disk"]}


def choose(house: House, **values: Any) -> None:
    site = house.store.site().site
    update = {"acceptance": AcceptancePolicy.model_validate(TESTED | values)}
    house.store.activate_site(site.model_copy(update=update), "test")


def say(
    house: House, node: str, test: str, status: str = "passed", ago: float = 0.0, **more: Any
) -> NodeTestReceipt:
    """Report a test that began some seconds ago."""
    started = house.database.now() - timedelta(seconds=ago)
    given = NodeTestReport.model_validate({"status": status, "started": started, **more})
    return house.service.checks.report_test(house.operator, node, test, given)


def held(house: House, node: str = "gpu03") -> dict[str, str]:
    """Test -> status, of the node's holds; empty: the node isn't held."""
    holds = house.service.nodes.show(house.operator, node).holds
    return {one.test: one.status for hold in holds for one in hold.tests}


def history(house: House, node: str = "gpu03") -> list[str]:
    return [str(e.message) for e in house.service.nodes.history(house.operator, node).entries]


def test_hold_ends_when_all_tests_have_passed(house: House) -> None:
    """In any order, a failed one again; a refusal, the audit and the history name what didn't pass."""
    choose(house)
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    house.service.nodes.hold(house.operator, "gpu03", "cabling")
    assert held(house) == {"nccl": "missing", "disk": "missing"}
    assert not say(house, "gpu03", "nccl", "failed", reason="rail 3: 190 Gb/s").accepted
    assert not say(house, "gpu03", "disk").accepted
    with pytest.raises(RefusedError) as refused:
        house.order(make("all", 16))
    assert "gpu03: held for burn-in (nccl didn't pass); cabling" in str(refused.value.detail)
    assert (
        "node gpu03 is held for burn-in: test nccl didn't pass"
        in house.service.audits.run(house.operator).limits
    )
    house.restart()
    assert held(house) == {"nccl": "failed", "disk": "passed"}
    assert not say(house, "gpu03", "nccl", "unknown").accepted
    done = say(house, "gpu03", "nccl")
    assert (done.accepted, [one.status for one in done.tests]) == (True, ["passed", "passed"])
    assert [h.what for h in house.service.nodes.show(house.operator, "gpu03").holds] == ["cabling"]
    assert history(house)[:5] == [
        "accepted for burn-in: it passed nccl, disk",
        "test nccl passed",
        "test nccl couldn't judge the node",
        "test disk passed",
        "test nccl failed: rail 3: 190 Gb/s",
    ]
    with pytest.raises(ConflictError, match="isn't held for 'burn-in'"):
        say(house, "gpu03", "nccl")


def test_result_from_before_the_hold_or_of_a_pod_does_not_count(house: House, clock: HandClock) -> None:
    """Begun before the hold or before the pod left, in the future, or while a pod has the node: refused."""
    choose(house)
    pod = house.ready(make("demo", 1))
    (node,) = pod.nodes
    house.service.nodes.hold(house.operator, node, "burn-in")
    clock.seconds += 60
    with pytest.raises(ConflictError, match=f"a pod has node {node}"):
        say(house, node, "nccl")
    release(house, pod)
    clock.seconds = time.time() + 60  # triggers have PostgreSQL's own time
    for ago, error, said in ((30 * 60, ConflictError, "began before"), (-3600, InputError, "started")):
        with pytest.raises(error, match=said):
            say(house, node, "nccl", ago=ago)
    assert held(house, node) == {"nccl": "missing", "disk": "missing"}
    say(house, node, "nccl")
    assert say(house, node, "disk").accepted


def test_result_that_arrives_after_a_later_run_does_not_count(house: House, clock: HandClock) -> None:
    """Of outside tests, own checks and bandwidth: what failed since isn't passed by an earlier run."""
    choose(house, tests=["nccl", "weft-check", "bandwidth"])
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    began = house.database.now()
    clock.seconds += 60
    say(house, "gpu03", "nccl", "failed", ago=20)
    with pytest.raises(ConflictError, match="nccl of node gpu03 began before"):
        say(house, "gpu03", "nccl", ago=40)
    site = house.store.site().site
    record_bandwidth(house.database, site, {"gpu03": "failed"}, began + timedelta(seconds=40), "olga")
    record_bandwidth(house.database, site, {"gpu03": "passed"}, began + timedelta(seconds=20), "olga")
    token = house.service.checks.make_token(house.operator, "gpu03").token
    reporter = house.service.checks.reporter(token, "gpu03", "192.0.2.1", "req-1", "weft-check")
    for failed, seconds in ((True, 40), (False, 20)):
        when = (began + timedelta(seconds=seconds)).isoformat()
        found = [result("XID", "gpu0", "failed" if failed else "ok"), result("MODULE")]
        house.service.checks.report(reporter, document(*found, when=when))
        clock.seconds += 11
    assert held(house) == dict.fromkeys(("nccl", "weft-check", "bandwidth"), "failed")
    assert not say(house, "gpu03", "nccl").accepted and held(house)["nccl"] == "passed"


def test_each_hold_begins_without_results(house: House) -> None:
    choose(house)
    for _ in range(2):
        house.service.nodes.hold(house.operator, "gpu03", "burn-in")
        assert held(house)["nccl"] == "missing"
        say(house, "gpu03", "nccl")
        house.service.nodes.accept(house.operator, "gpu03")


def test_unknown_test_node_machine_or_caller_is_refused(house: House) -> None:
    """Also the name of the node's own checks; a project's member may not report."""
    choose(house)
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    for node, test, error in (
        ("gpu03", "other", ConflictError),
        ("gpu03", "weft-check", InputError),
        ("gpu03", "bandwidth", InputError),
        ("nix", "nccl", NotFoundError),
    ):
        with pytest.raises(error):
            say(house, node, test)
    given = NodeTestReport.model_validate({"status": "passed", "started": house.database.now()})
    with pytest.raises(ForbiddenError):
        house.service.checks.report_test(house.request(), "gpu03", "nccl", given)
    site = house.store.site().site
    nodes = tuple(n.model_copy(update={"serial": "S3"}) if n.name == "gpu03" else n for n in site.nodes)
    house.store.activate_site(site.model_copy(update={"nodes": nodes}), "test")
    for serial in (None, "S4"):
        with pytest.raises(ConflictError, match="another machine"):
            say(house, "gpu03", "nccl", serial=serial)
    assert say(house, "gpu03", "nccl", "failed", serial="s3").tests[0].status == "failed"


def test_own_checks_pass_or_fail_as_a_test_of_a_held_node(house: House, clock: HandClock) -> None:
    """Passed if what keeps nodes from orders was judged and is in order; a run from before the hold doesn't count."""
    choose(house, tests=["weft-check"])
    site = house.store.site().site
    house.store.activate_site(
        site.model_copy(update={"checks": ChecksPolicy.model_validate({"codes": {"CLOCK": "warn"}})}), "test"
    )
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    token = house.service.checks.make_token(house.operator, "gpu03").token
    reporter = house.service.checks.reporter(token, "gpu03", "192.0.2.1", "req-1", "weft-check")

    def report(*results: dict[str, Any], ago: float = 0.0) -> None:
        when = house.database.now() - timedelta(seconds=ago)
        house.service.checks.report(reporter, document(*results, when=when.isoformat()))
        clock.seconds += 11

    for results, ago, said in (
        ([result("XID", "gpu0")], 3600.0, "missing"),
        ([result("XID", "gpu0", "failed")], 0.0, "failed"),
        ([result("MODULE")], 0.0, "failed"),
        ([result("XID", "gpu0", "unknown")], 0.0, "failed"),
        ([result("XID", "gpu0"), result("MODULE", status="unknown")], 0.0, "unknown"),
    ):
        report(*results, ago=ago)
        assert held(house) == {"weft-check": said}
    report(result("XID", "gpu0"), result("MODULE"), result("CLOCK", status="failed"))
    assert held(house) == {}
    assert history(house)[0] == "accepted for burn-in: it passed weft-check"


def test_role_of_a_tester_reports_and_does_nothing_else(house: House, tmp_path: Path) -> None:
    """A role that the policy file names reports, and reads no reasons."""
    file = tmp_path / "policy.yaml"
    file.write_text("nodes:report_tests: role:tester\n")
    rules = Policy(file)
    service = Service(Desk(house.store, house.keeper, rules, house.time, house.listener, house.pulse))
    verbs, program = redacted(service, rules), house.request("tests", "tester")
    choose(house)
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    given = {"status": "failed", "started": house.database.now(), "reason": "secret"}
    answer = verbs.checks.report_test(program, "gpu03", "nccl", NodeTestReport.model_validate(given))
    assert [(t.test, t.status, t.reason) for t in answer.tests] == [
        ("nccl", "failed", ""),
        ("disk", "missing", ""),
    ]
    for forbidden in (lambda: verbs.nodes.accept(program, "gpu03"), lambda: verbs.nodes.list(program)):
        with pytest.raises(ForbiddenError):
            forbidden()


def test_bandwidth_test_of_operators_passes_or_fails_as_a_test_of_a_held_node(house: House) -> None:
    """It tests nodes that are held, after the hold began; what doesn't count is left out."""
    choose(house, tests=["bandwidth", "disk"])
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    site, now = house.store.site().site, house.database.now()
    record_bandwidth(house.database, site, {"gpu03": "passed"}, now - timedelta(hours=1), "olga")
    assert held(house) == {"bandwidth": "missing", "disk": "missing"}
    record_bandwidth(house.database, site, {"gpu03": "incomplete", "gpu04": "passed"}, now, "olga")
    assert held(house) == {"bandwidth": "unknown", "disk": "missing"}
    say(house, "gpu03", "disk")
    record_bandwidth(house.database, site, {"gpu03": "passed"}, now, "olga")
    assert held(house) == {}


def test_hold_of_weft_is_not_accepted_before_its_tests_passed(house: House, clock: HandClock) -> None:
    """Only with a reason, which the history has; operators' own holds end; what the site names no more isn't wanted."""
    choose(house)
    for node in ("gpu03", "gpu04", "gpu05"):
        house.service.nodes.quarantine(house.operator, node, "flaps")
        house.service.nodes.clear(house.operator, node)
    clock.seconds = time.time() + 60  # triggers have PostgreSQL's own time
    say(house, "gpu03", "nccl")
    with pytest.raises(ConflictError, match=r"haven't passed since .*: disk; .*--without-test"):
        house.service.nodes.accept(house.operator, "gpu03")
    say(house, "gpu03", "disk", "failed")
    with pytest.raises(ConflictError, match="haven't passed since"):
        house.service.nodes.accept(house.operator, "gpu03", every=True)
    house.service.nodes.accept(house.operator, "gpu03", without_test="disk ordered")
    assert history(house)[0] == "accepted for burn-in without a test that the site wants: disk ordered"
    say(house, "gpu04", "nccl")
    choose(house, tests=["nccl"])
    assert not held(house, "gpu04"), "all that is still wanted has passed"
    with pytest.raises(ConflictError, match="haven't passed since"):
        house.service.nodes.accept(house.operator, "gpu05")
    house.service.nodes.hold(house.operator, "gpu06", "burn-in")
    assert not house.service.nodes.accept(house.operator, "gpu06").missing


def test_quarantine_during_a_hold_makes_all_tests_run_again(house: House, clock: HandClock) -> None:
    choose(house)
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    say(house, "gpu03", "nccl")
    house.service.nodes.quarantine(house.operator, "gpu03", "adapter exchanged")
    house.service.nodes.clear(house.operator, "gpu03")
    assert held(house) == {"nccl": "missing", "disk": "missing"}
    clock.seconds = time.time() + 60
    with pytest.raises(ConflictError, match="began before"):
        say(house, "gpu03", "nccl", ago=3600)
    assert not say(house, "gpu03", "disk").accepted


def test_own_checks_by_old_expectations_do_not_pass(house: House) -> None:
    """Nor without any, if the site expects something of the machine: they may have judged next to nothing."""
    choose(house, tests=["weft-check"])
    site = house.store.site().site
    kind = site.node_by_name["gpu03"].machine_type
    checks = ChecksPolicy.model_validate({"expected": {kind: {"modules": ["nvidia_peermem"]}}})
    house.store.activate_site(site.model_copy(update={"checks": checks}), "test")
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    token = house.service.checks.make_token(house.operator, "gpu03").token
    reporter = house.service.checks.reporter(token, "gpu03", "192.0.2.1", "req-1", "weft-check")
    now = house.database.now()
    receipt = house.service.checks.report(reporter, document(result("CLOCK"), when=now.isoformat()))
    assert receipt.outdated
    assert held(house) == {"weft-check": "unknown"}


def test_bandwidth_reported_again_after_the_hold_began_does_not_count(house: House) -> None:
    """What was measured before isn't a result of the hold, whenever it is reported; nor one of tomorrow."""
    choose(house, tests=["bandwidth"])
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    site, now = house.store.site().site, house.database.now()
    for began in (now - timedelta(hours=1), now + timedelta(days=1)):
        record_bandwidth(house.database, site, {"gpu03": "passed"}, began, "olga")
        assert held(house) == {"bandwidth": "missing"}


def test_bandwidth_test_that_began_last_is_a_nodes_last_one(house: House) -> None:
    """Whenever it was reported: one that failed isn't passed by an earlier one."""
    nodes = ["gpu03", "gpu04"]
    plan = house.service.bandwidth.nodes_plan(house.operator, nodes)
    good, now = measured(nodes, plan), house.database.now()
    slow = good | {"pairs": [[a, b, rail, 1.0, 1] for a, b, rail, *_ in good["pairs"]]}
    for document_, ago in ((slow, 60), (good, 120)):
        began = now - timedelta(seconds=ago)
        times = {"began": began.isoformat(), "ended": (began + timedelta(seconds=30)).isoformat()}
        house.service.bandwidth.report_nodes(house.operator, document_ | times)
    assert house.service.bandwidth.show_node(house.operator, "gpu03").certificate.result == "failed"
