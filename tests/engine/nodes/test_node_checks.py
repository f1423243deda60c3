"""A node whose own checks fail gets no new orders, as the site has it; pods there stay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine.changes.test_change_loop import sized
from tests.engine.house import House, policy
from tests.engine.timehouse import HandClock, dispatching, look, make, queue
from tests.helpers.hostchecks import document, result
from weft.app.metrics import StoreCollector
from weft.app.redact import redacted
from weft.engine.base.unreadable import NEWER_WEFT
from weft.engine.watch.retention import Retention, RetentionSettings
from weft.model.errors import ConflictError, InputError, NewerError, RefusedError
from weft.model.hostchecks import CODES, Judged
from weft.model.pod import Aspect, PodState
from weft.model.site import ChecksPolicy, RetentionPolicy
from weft.planning.site.check import check_site
from weft.planning.site.hostchecks import expected_digests
from weftcheck.catalog import CODES as PROGRAMS

Report = Callable[..., None]
BAD = result("XID", "gpu0", "failed", reason="Xid 79")


@pytest.fixture
def report(house: House, clock: HandClock) -> Report:
    """Have a node report these results; the clock goes on, so that it may do so again."""
    tokens: dict[str, str] = {}

    def send(node: str, *results: dict[str, Any], **more: Any) -> None:
        if node not in tokens:
            tokens[node] = house.service.checks.make_token(house.operator, node).token
        reporter = house.service.checks.reporter(tokens[node], node, "192.0.2.1", "req-1", "weft-check")
        house.service.checks.report(reporter, document(*results, **more))
        clock.seconds += 11

    return send


def choose(house: House, **values: Any) -> None:
    site = house.store.site().site
    changed = site.model_copy(update={"checks": ChecksPolicy.model_validate(values)})
    house.store.activate_site(changed, "test")


def free(house: House) -> int:
    return house.service.capacity.show(house.operator).rows[0].free


def test_reports_that_arrive_after_a_later_one_end_no_failure(
    house: House, clock: HandClock, report: Report
) -> None:
    """They were made before the part failed; the last document stays, with machine and firmware."""
    began = house.database.now()
    times = [(began + timedelta(seconds=n)).isoformat() for n in (1, 5, 20, 25)]
    clock.seconds += 30
    part = {"kind": "gpu", "serial": "G1", "place": "gpu0", "firmware": "2"}
    report("gpu01", BAD, when=times[2], parts=[part])
    for when in (times[0], times[1], times[1]):
        report("gpu01", result("XID", "gpu0"), when=when, parts=[part | {"firmware": "1"}])
        assert free(house) == 15
    shown = house.service.checks.show(house.operator, "gpu01")
    assert shown.document is not None and shown.document.when.isoformat() == times[2]
    report("gpu01", result("XID", "gpu0"), when=times[3], parts=[part])
    assert free(house) == 16


@pytest.mark.parametrize(
    ("newest", "left"),
    [(result("XID", "gpu0"), 16), (result("XID", "gpu0", "unknown"), 15), (result("CLOCK"), 15)],
)
def test_failure_in_a_late_report_counts_unless_it_was_judged_since(
    house: House, clock: HandClock, report: Report, newest: dict[str, Any], left: int
) -> None:
    began = house.database.now()
    clock.seconds += 30
    report("gpu01", newest, when=(began + timedelta(seconds=20)).isoformat())
    report("gpu01", BAD, when=(began + timedelta(seconds=1)).isoformat())
    assert free(house) == left


def test_failure_of_a_machine_whose_clock_was_set_back_ends_with_its_second_report(
    house: House, clock: HandClock, report: Report
) -> None:
    began = house.database.now()
    report("gpu01", BAD, when=began.isoformat())
    for seconds, left in ((0, 15), (20, 16)):
        when = began - timedelta(hours=2) + timedelta(seconds=seconds)
        report("gpu01", result("XID", "gpu0"), when=when.isoformat())
        assert free(house) == left


def test_reports_time_without_a_zone_is_utc(house: House, clock: HandClock, report: Report) -> None:
    """Programs other than weft-check may write it so."""
    for found, number in ((BAD, 15), (result("XID", "gpu0"), 16)):
        report("gpu01", found, when=house.database.now().replace(tzinfo=None).isoformat())
        assert free(house) == number


def test_node_with_a_failed_check_gets_no_order_until_it_is_ok(house: House, report: Report) -> None:
    """In refusals, capacity, lists, audit, metrics and for a waiting order; a restart doesn't change that."""
    report("gpu01", BAD, result("CLOCK"))
    house.restart()
    with pytest.raises(RefusedError, match="checks 1") as refused:
        house.order(make("all", 16))
    assert "its own checks failed: XID" in str(refused.value.detail)
    with pytest.raises(RefusedError) as answered:
        redacted(house.service, policy()).pods.order(house.request(), make("all", 16))
    assert "XID" not in str(answered.value.detail) and "checks" not in str(answered.value.detail)
    assert free(house) == 15
    counts = {c.name: c.total for c in house.service.capacity.show(house.operator).rows[0].counts}
    assert counts["nodes with failed checks"] == 1
    row = house.service.nodes.show(house.operator, "gpu01")
    assert (row.state, row.checks, row.reason) == ("failed", "failed", "its own checks failed: XID")
    assert (
        "node gpu01 gets no new orders: its own checks failed: XID"
        in house.service.audits.run(house.operator).limits
    )
    metrics = {m.name: m for m in StoreCollector(house.store).collect()}
    assert metrics["weft_nodes_excluded_by_checks"].samples[0].value == 1
    states = {s.labels["state"]: s.value for s in metrics["weft_node_checks"].samples}
    assert (states["failed"], states["never"]) == (1, len(house.site.nodes) - 1)
    waits = queue(house, "waits", 16)
    dispatching(house, 1)[0]()
    assert look(house, waits).placed is None
    report("gpu01", result("XID"), result("CLOCK"))
    dispatching(house, 1)[0]()
    assert look(house, waits).placed is not None


def test_ok_result_ends_neither_quarantine_nor_hold_nor_drain(house: House, report: Report) -> None:
    """What a machine says of itself only ends what it has said before."""
    house.service.nodes.quarantine(house.operator, "gpu01", "smoke")
    house.service.nodes.hold(house.operator, "gpu02", "burn-in")
    for node in ("gpu01", "gpu02"):
        report(node, BAD)
        report(node, result("XID"))
    states = {n.name: n.state for n in house.service.nodes.list(house.operator)}
    assert (states["gpu01"], states["gpu02"]) == ("quarantined", "held") and free(house) == 14


def test_pod_keeps_a_node_whose_checks_fail_and_says_so(house: House, report: Report) -> None:
    """A condition and an event, without the machine's words for tenants; none of it once the site ignores the check."""
    pod = house.ready(sized(2))
    node = pod.nodes[0]
    report(node, BAD, result("GPU_ECC", "gpu1", "failed"))
    seen = redacted(house.service, policy()).pods.show(house.request(), "train")
    assert seen.state is PodState.READY and look(house, pod).nodes == pod.nodes
    (condition,) = (c for c in seen.conditions if c.type is Aspect.CHECKS_FAIL)
    assert (
        condition.message == f"own checks of node {node} failed: GPU_ECC, XID"
        and condition.code == "NODE_CHECKS_FAILED"
    )
    events = redacted(house.service, policy()).pods.events(house.request(), "train")
    assert [e.message for e in events if e.type == "node"] == [condition.message]
    choose(house, failed="ignore")
    seen = house.service.pods.show(house.operator, "train")
    assert not [c for c in seen.conditions if c.type is Aspect.CHECKS_FAIL]


def test_operator_chooses_what_follows_by_code(house: House, report: Report) -> None:
    """exclude, warn and ignore; of unknown and missing results; at once when the site changes."""
    report("gpu01", BAD, result("CLOCK"))
    report("gpu02", result("CLOCK", status="unknown"))
    choose(house, codes={"XID": "warn"})
    row = house.service.nodes.show(house.operator, "gpu01")
    assert (row.state, row.checks, free(house)) == ("free", "failed", 16)
    assert row.reason == "its own checks failed, and don't keep it from orders: XID"
    choose(house, codes={"XID": "ignore"})
    row = house.service.nodes.show(house.operator, "gpu01")
    assert (row.state, row.checks, row.reason) == ("free", "ok", "")
    choose(house, failed="warn", codes={"XID": "exclude"}, unknown="exclude")
    states = {n.name: n.state for n in house.service.nodes.list(house.operator)}
    assert (states["gpu01"], states["gpu02"], free(house)) == ("failed", "failed", 14)
    report("gpu03", result("CLOCK"))
    choose(house, failed="ignore", missing="exclude")
    assert free(house) == 3
    waits = queue(house, "waits", 4)
    dispatching(house, 1)[0]()
    report("gpu05", result("CLOCK"))
    dispatching(house, 1)[0]()
    assert look(house, waits).placed is not None
    house.release(look(house, waits))
    house.run(waits, PodState.RELEASED)
    report("gpu05", result("CLOCK"))
    assert free(house) == 4
    assert house.service.nodes.show(house.operator, "gpu04").reason == "it has never reported its own checks"
    choose(house, failed="ignore", missing="exclude", age="10s")
    assert free(house) == 0


def test_check_that_fails_on_many_nodes_at_once_takes_only_the_first(
    house: House, report: Report, clock: HandClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An alarm at once; another check still counts there; after a day all of them are kept from orders."""
    choose(house, outage=3)
    for number in range(1, 7):
        report(f"gpu{number:02}", result("GPU_DRIVER", status="failed"), result("XID"))
    assert free(house) == 13
    assert (
        "check GPU_DRIVER began to fail on more than 3 nodes within a day: 3 of them, gpu06 too"
        in caplog.text
    )
    assert any(
        "3 of them get new orders all the same" in said
        for said in house.service.audits.run(house.operator).limits
    )
    metrics = {m.name: m for m in StoreCollector(house.store).collect()}
    (sample,) = metrics["weft_checks_suspended"].samples
    assert (sample.labels, sample.value) == ({"check": "GPU_DRIVER"}, 3)
    report("gpu06", result("GPU_DRIVER", status="failed"), BAD)
    assert free(house) == 12
    clock.seconds += 86_400
    assert free(house) == 10


@pytest.mark.parametrize(
    ("judged", "left", "later"), [("real", 10, 10), ("mistake", 16, 16), ("open", 13, 10)]
)
def test_operator_judges_a_check_that_fails_on_many_nodes(
    house: House, report: Report, clock: HandClock, judged: Judged, left: int, later: int
) -> None:
    """Real: all are kept from orders at once; a mistake: none, also after the day. What fails later is new, and what
    passes is mended."""
    choose(house, outage=3)
    for number in range(1, 7):
        report(f"gpu{number:02}", result("GPU_DRIVER", status="failed"))
    done = house.service.checks.judge(house.operator, "GPU_DRIVER", judged)
    assert done.nodes == tuple(f"gpu{n:02}" for n in range(1, 7)) and free(house) == left
    report("gpu01", result("GPU_DRIVER", status="failed", reason="again"))
    house.restart()
    assert free(house) == left
    entries = house.service.nodes.history(house.operator, "gpu01").entries
    assert entries[0].code == "NODE_CHECK_JUDGED" and entries[0].by == "admin-admin"
    report("gpu07", result("GPU_DRIVER", status="failed"))
    assert free(house) == left - (judged != "open")
    report("gpu07", result("GPU_DRIVER"))
    clock.seconds += 86_400
    assert free(house) == later
    for number in range(1, 7):
        report(f"gpu{number:02}", result("GPU_DRIVER"))
    assert free(house) == 16
    with pytest.raises(ConflictError, match="fails on no node"):
        house.service.checks.judge(house.operator, "GPU_DRIVER", judged)
    with pytest.raises(InputError, match="code of a check"):
        house.service.checks.judge(house.operator, "gpu driver", judged)


def test_node_that_left_the_site_is_not_judged(house: House, report: Report) -> None:
    """It isn't shown among those where the check fails; if it comes back, the check is open there."""
    for number in (1, 2):
        report(f"gpu{number:02}", result("GPU_DRIVER", status="failed"))
    site = house.store.site().site
    links = tuple(one for one in site.links if "gpu02/" not in f"{one.a} {one.b}")
    nodes = tuple(node for node in site.nodes if node.name != "gpu02")
    house.store.activate_site(site.model_copy(update={"nodes": nodes, "links": links}), "test")
    assert house.service.checks.judge(house.operator, "GPU_DRIVER", "mistake").nodes == ("gpu01",)
    assert house.service.nodes.history(house.operator, "gpu02").entries[0].code != "NODE_CHECK_JUDGED"
    house.store.activate_site(site, "test")
    assert free(house) == 15


@pytest.mark.parametrize(
    ("values", "skipped", "left"),
    [({"gpus": 8}, False, 15), ({"gpus": 8}, True, 15), ({"gpus": 9, "numa_nodes": 2}, False, 16)],
)
def test_mistake_is_about_the_value_that_was_expected(
    house: House, report: Report, values: dict[str, Any], skipped: bool, left: int
) -> None:
    """Once it is corrected, a node that fails against the right one isn't excused, also if its GPUs were given to a
    guest in between; one that changes another value says nothing of it."""
    kind = house.site.node_by_name["gpu01"].machine_type
    names = [f"gpu{number:02}" for number in range(1, 7)]

    def expect(values: dict[str, Any]) -> str:
        choose(house, outage=3, expected={kind: values})
        return expected_digests(house.store.site().site)["gpu01"]

    digest = expect({"gpus": 9})
    for name in names:
        report(name, result("GPU_COUNT", status="failed", expected="9"), expected=digest)
    house.service.checks.judge(house.operator, "GPU_COUNT", "mistake")
    assert free(house) == 16
    digest = expect(values)
    if skipped:
        report("gpu06", result("GPU_COUNT", status="skipped", reason="given to a guest"), expected=digest)
    for name in names[:-1]:
        report(name, result("GPU_COUNT"), expected=digest)
    report("gpu06", result("GPU_COUNT", status="failed", expected=str(values["gpus"])), expected=digest)
    assert free(house) == left


def test_good_rollout_ends_the_brake(house: House, report: Report) -> None:
    """What passes again no longer counts: those that are left are within the limit, and are kept from orders."""
    choose(house, outage=3)
    for number in range(1, 7):
        report(f"gpu{number:02}", result("GPU_DRIVER", status="failed"))
    assert free(house) == 13
    for number in range(1, 4):
        report(f"gpu{number:02}", result("GPU_DRIVER"))
    assert free(house) == 13 and not [
        said for said in house.service.audits.run(house.operator).limits if "began to fail" in said
    ]
    assert house.service.nodes.show(house.operator, "gpu06").state == "failed"


def test_wrong_or_changed_value_takes_no_whole_machine_type(house: House, report: Report) -> None:
    """Sites with fewer nodes than `outage` have the brake, too; where results are required, new values take no node
    before its result is old by age."""
    names = [n.name for n in house.site.nodes if n.role == "compute"]
    kind = house.site.node_by_name["gpu01"].machine_type
    choose(house, missing="exclude", age="1h")
    for name in names:
        report(name, result("GPU_DRIVER"))
    full = free(house)
    assert full == 16
    choose(house, missing="exclude", age="1h", expected={kind: {"gpu_driver": "1.2"}})
    assert free(house) == full and house.service.nodes.show(house.operator, "gpu01").checks == "old"
    choose(house)
    for name in names:
        report(name, result("GPU_DRIVER", status="failed"))
    assert free(house) == 8
    assert any(
        "began to fail on more than half of a machine type's nodes within a day: 8 of them" in said
        for said in house.service.audits.run(house.operator).limits
    )


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"nothing_expected": False}, "failed"),
        ({"nothing_expected": True, "reason": "ECC is Disabled"}, "ok"),
        ({"nothing_expected": False, "reason": "no expected value"}, "failed"),
        ({"reason": "no expected value"}, "failed"),
    ],
)
def test_skipped_check_ends_a_failure_only_if_nothing_is_expected(
    house: House, report: Report, more: dict[str, Any], state: str
) -> None:
    """A broken GPU that is given to a guest isn't read: the node gets no order again because of it. What the program
    says in words doesn't count, and programs before the member say nothing of it."""
    report("gpu01", result("GPU_STATE", "gpu0", "failed"), result("CLOCK"))
    report("gpu01", result("GPU_STATE", "host", "skipped", **more), result("CLOCK"))
    assert house.service.nodes.show(house.operator, "gpu01").checks == state
    report("gpu01", result("GPU_STATE", "gpu0"), result("CLOCK"))
    assert house.service.nodes.show(house.operator, "gpu01").checks == "ok"


def test_retention_keeps_failed_checks_of_silent_nodes(
    house: House, report: Report, clock: HandClock
) -> None:
    """A broken node that is switched off gets no orders because its result is old; other old results go."""
    report("gpu01", BAD)
    report("gpu02", result("XID"))
    clock.seconds += 3 * 86_400
    retention = Retention(house.database, lambda: house.site, RetentionSettings(pause=0.0))
    removed, _, failed = retention.run(RetentionPolicy(node_history="1d"))
    assert removed["results of nodes' checks"] == 1 and not failed
    states = [house.service.nodes.show(house.operator, name).checks for name in ("gpu01", "gpu02")]
    assert states == ["failed", "never"] and free(house) == 15


def test_unknown_code_of_a_check_in_the_site_is_refused(house: House) -> None:
    """With its place in the file; the known codes are those of weft-check."""
    assert PROGRAMS.keys() == CODES
    site = house.site.model_copy(update={"checks": ChecksPolicy(codes={"XIDS": "warn", "XID": "warn"})})
    assert [path for path, _, _ in check_site(site)] == [("checks", "codes", "XIDS")]


def test_result_against_earlier_expected_values_is_old(house: House, report: Report) -> None:
    """Once the site expects others; a machine type that no host has is refused."""
    report("gpu01", result("CLOCK"))
    report("gpu02", BAD)
    kind = house.site.node_by_name["gpu01"].machine_type
    choose(house, expected={kind: {"gpus": 8}})
    assert [house.service.nodes.show(house.operator, n).checks for n in ("gpu01", "gpu02")] == [
        "old",
        "failed",
    ]
    report("gpu02", result("XID"))
    assert house.service.nodes.show(house.operator, "gpu02").checks == "failed", "it ends no failure"
    choose(house, expected={kind: {}})
    assert house.service.nodes.show(house.operator, "gpu01").checks == "old", (
        "an empty set is a set of its own"
    )
    choose(house)
    assert house.service.nodes.show(house.operator, "gpu01").checks == "ok"
    values = {"h200x9": {"gpus": 9}}
    site = house.site.model_copy(update={"checks": ChecksPolicy.model_validate({"expected": values})})
    assert [path for path, _, _ in check_site(site)] == [("checks", "expected", "h200x9")]


def test_report_after_one_of_a_newer_weft_is_left_to_that(
    house: House, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of the node has a field that this version doesn't know: 503, and nothing is lost."""
    report("gpu01", result("CLOCK"))
    monkeypatch.setattr(NEWER_WEFT, "is_set", lambda: True)
    for column, value in (("known", '{"later": 1}'), ("problems", '[{"later": 1}]')):
        with psycopg.connect(house.database.url) as connection:
            row = connection.execute(f"SELECT {column} FROM node_check").fetchone()
            connection.execute(f"UPDATE node_check SET {column} = %s::jsonb", [value])
        with pytest.raises(NewerError, match="newer weft"):
            report("gpu01", result("CLOCK"))
        with psycopg.connect(house.database.url) as connection:
            assert row is not None
            connection.execute(f"UPDATE node_check SET {column} = %s", [Jsonb(row[0])])
    report("gpu01", result("CLOCK"))
