"""Nodes whose own checks fail are replaced only by the operator's choice, on fresh evidence, and not many at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.house import House, policy
from tests.engine.nodes.test_node_checks import choose
from tests.engine.replace.test_repairs import limits, order, port, read_fabric, repairs, said
from tests.engine.timehouse import HandClock, look, make
from tests.helpers.hostchecks import document, result
from weft.app.redact import redacted
from weft.engine.nodes.failingchecks import judged
from weft.engine.nodes.failures import claim_failure, refresh_failures
from weft.model.change import Replacement
from weft.model.pod import Aspect, PodState
from weft.model.views import DrainRequest

Report = Callable[..., None]
GONE = result("GPU_COUNT", "host", "failed", reason="7 of 8")
FINE = result("GPU_COUNT", "host")


@pytest.fixture
def report(house: House, clock: HandClock) -> Report:
    tokens: dict[str, str] = {}

    def send(node: str, *results: dict[str, Any], minutes: int = 0) -> None:
        if node not in tokens:
            tokens[node] = house.service.checks.make_token(house.operator, node).token
        reporter = house.service.checks.reporter(tokens[node], node, "192.0.2.1", "req-1", "weft-check")
        house.service.checks.report(reporter, document(*results))
        clock.forward(seconds=11 + 60 * minutes)

    return send


def test_node_whose_required_check_fails_is_replaced(house: House, clock: HandClock, report: Report) -> None:
    """After the site's time, with the check as the cause everywhere; one in a pod that only reports stays."""
    choose(house, codes={"GPU_COUNT": "replace"})
    pod, other = house.ready(order()), house.run(house.order(make("other", 1)), PodState.READY)
    report(pod.nodes[1], GONE)
    report(other.nodes[0], GONE, minutes=28)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    clock.forward(minutes=3)
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == 2 and pod.nodes[1] not in now.nodes
    (hold,) = house.service.nodes.holds(house.operator)
    assert hold.node == pod.nodes[1] and "its own check GPU_COUNT has failed since" in hold.why
    assert (look(house, other).generation, said(house, other)) == (1, "NODE_FAILS")
    tenant = redacted(house.service, policy()).pods.show(house.request(), "other")
    (text,) = (c.message for c in tenant.conditions if c.type is Aspect.NODES_FAIL)
    assert "its own check GPU_COUNT has failed since" in text and "7 of 8" not in text
    report(other.nodes[0], FINE)
    repairs(house).tend()
    assert not said(house, other)


@pytest.mark.parametrize(
    "way",
    [
        "exclude",
        "unknown",
        "left out",
        "old",
        "other values",
        "many",
        "mistake",
        "mended",
        "maintenance",
        "both",
    ],
)
def test_node_stays_unless_its_last_result_says_that_it_fails(
    house: House, clock: HandClock, report: Report, way: str
) -> None:
    """What failed still keeps the node from orders; it is no evidence for a replacement, and neither is a document that
    says both of a part, or one of a node that someone works on."""
    pod = house.ready(order())
    choose(house, codes={"GPU_COUNT": "exclude" if way == "exclude" else "replace"}, outage=2)
    report(pod.nodes[0], GONE, minutes=31)
    match way:
        case "unknown":
            report(pod.nodes[0], result("GPU_COUNT", "host", "unknown"))
        case "left out":
            report(pod.nodes[0], result("CLOCK"))
        case "old":
            choose(house, codes={"GPU_COUNT": "replace"}, age="10m")
        case "other values":
            kind = house.site.node_by_name[pod.nodes[0]].machine_type
            choose(house, codes={"GPU_COUNT": "replace"}, expected={kind: {"gpu_driver": "1.2"}})
        case "many":
            free = [n.name for n in house.site.nodes if n.is_whole and n.name not in pod.nodes]
            for node in free[:2]:
                report(node, GONE)
        case "mistake":
            house.service.checks.judge(house.operator, "GPU_COUNT", "mistake")
        case "maintenance":
            site = house.store.site().site
            nodes = tuple(
                n.model_copy(update={"maintenance": "fan"}) if n.name == pod.nodes[0] else n
                for n in site.nodes
            )
            house.store.activate_site(site.model_copy(update={"nodes": nodes}), "test")
        case "both":
            report(pod.nodes[0], FINE, GONE)
        case "mended":
            refresh_failures(house.database, house.keeper.site())
            report(pod.nodes[0], FINE)
        case _:
            pass
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    state = house.service.nodes.show(house.operator, pod.nodes[0]).checks
    assert state == ("ok" if way == "mended" else "failed")
    if way == "many":  # a day later it isn't a rollout any more, and the last results are still fresh
        clock.forward(hours=25)
        repairs(house).tend()
        assert look(house, pod).generation == 2


def test_check_that_is_mended_right_before_the_write_replaces_nothing(
    house: House, clock: HandClock, report: Report
) -> None:
    choose(house, codes={"GPU_COUNT": "replace"})
    pod = house.ready(order())
    report(pod.nodes[0], GONE, minutes=31)
    refresh_failures(house.database, house.keeper.site())
    with house.database.statement() as tx:
        assert [row["what"] for row in tx.rows("failures_of", pod_id=pod.id)] == ["GPU_COUNT"]
    report(pod.nodes[0], FINE)
    failure = claim_failure(house.database)
    assert failure is not None and failure.by_tenant and not failure.sound
    house.service.pods.plan_replacement(house.request(), "train", Replacement(node=pod.nodes[0]))
    repairs(house).tend()
    assert look(house, pod).generation == 1


def row(node: str, at: datetime, since: datetime, **more: Any) -> dict[str, Any]:
    values = {"node": node, "at": at, "since": since, "code": "XID", "expected": None, "confirmed": True}
    return {"judged": "open", **values, **more}


def test_failing_checks_are_judged_by_code_and_node(house: House, clock: HandClock) -> None:
    """One entry a node, of the check that fails longest; another check's rollout hides no other fault."""
    choose(house, codes={"XID": "replace", "GPU_ROWS": "replace"}, outage=2)
    site, now = house.store.site().site, clock.now()
    names = [n.name for n in site.nodes if n.is_whole]
    ago = now - timedelta(hours=1)
    many = [row(name, now, ago) for name in names[:3]]
    assert judged(many, site, now) == []
    assert [one["node"] for one in judged(many[:2], site, now)] == names[:2]
    real = [{**one, "judged": "real"} for one in many]
    assert [one["node"] for one in judged(real, site, now)] == names[:3]
    assert judged([{**one, "judged": "mistake"} for one in many], site, now + timedelta(days=2)) == []
    rows = [row(names[0], now, ago - timedelta(hours=1), code="GPU_ROWS"), *many]
    (found,) = judged(rows, site, now)
    assert (found["node"], found["code"]) == (names[0], "GPU_ROWS")
    assert judged([row("elsewhere", now, ago)], site, now) == []


@pytest.mark.parametrize("way", ["shown", "partial", "unreadable"])
def test_fabric_is_asked_right_before_an_adapter_is_the_cause(
    house: House, clock: HandClock, way: str
) -> None:
    """The last reading is minutes old: what is shown by now, or isn't known, replaces nothing."""
    pod = house.ready(order(count=2))
    guid = port(house, pod.nodes[0])
    house.fabric.cut(guid)
    read_fabric(house, clock, 12)
    match way:
        case "shown":
            house.fabric.repair(guid)
        case "partial":
            house.fabric.overlook(port(house, pod.nodes[1]))
        case _:
            for manager in house.fabric.managers:
                manager.reachable = False
    repairs(house).tend()
    assert look(house, pod).generation == 1
    assert said(house, pod) == ("ADAPTER_SHOWN" if way == "shown" else "FABRIC_UNKNOWN")


def test_drain_replaces_reported_nodes_beyond_the_limits_of_reports(house: House, clock: HandClock) -> None:
    """Maintenance isn't held up by the limits of a project that reports its drained nodes, and nothing is held. Both
    nodes go at once: that the first one's new server isn't there yet isn't taken for a deletion."""
    limits(house, unaccepted=1)
    pod = house.ready(order(count=2))
    by = clock.now() + timedelta(minutes=10)
    for node in pod.nodes:
        house.service.nodes.drain(house.operator, DrainRequest(target=node, by=by))
        house.service.pods.report_node(house.request(), "train", node, "slow")
    clock.forward(minutes=11)
    repairs(house).tend()
    repairs(house).tend()
    now = look(house, pod)
    assert not set(pod.nodes) & set(now.nodes) and not house.service.nodes.holds(house.operator)


def test_stuck_replacements_count_for_a_day(house: House, clock: HandClock) -> None:
    """With a cloud that builds nothing, no further four nodes are moved each hour; one project blocks half at most."""
    limits(house, at_once=2, unaccepted=9)
    pod = house.ready(order(count=4))
    made = house.service.pods.order(house.request("team-b"), order("other", 2))
    other = house.run(house.store.pods.find(made, None), PodState.READY)
    for node in pod.nodes[:2]:
        house.service.pods.report_node(house.request(), "train", node, "slow")
    repairs(house).tend()
    assert look(house, pod).generation == 2 and said(house, pod) == "TOO_MANY_OF_PROJECT"
    clock.forward(minutes=61)
    repairs(house).tend()
    assert look(house, pod).generation == 2, "it is stuck, and still counts"
    house.service.pods.report_node(house.request("team-b"), "other", other.nodes[0], "slow")
    repairs(house).tend()
    assert look(house, other).generation == 2
    clock.forward(hours=25)
    repairs(house).tend()
    assert look(house, pod).generation == 3
