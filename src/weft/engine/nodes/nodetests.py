"""Outside tests of held nodes: results are kept with the hold, which ends when all that the site names have passed.

A result counts for the hold during which the test began and reported, and while no pod has the node: what a tenant's
guest or an earlier run said never ends a hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_json
from weft.engine.base.epoch import RESTORED
from weft.engine.book.stops import Stops
from weft.engine.rows.holds import BANDWIDTH, BY_WEFT, holds_of
from weft.engine.rows.stoprows import Hold
from weft.model.errors import ConflictError, InputError
from weft.model.hostchecks import CheckDocument, CheckProblem
from weft.model.messages import hostchecks
from weft.model.nodetests import OWN_CHECKS, NodeTest, NodeTestReceipt, TestOutcome, tests_of
from weft.model.site import ChecksPolicy, Site

AHEAD = timedelta(minutes=1)
"""How far a test's clock may be ahead of the database's."""
MOST_SAID = 50
"""Most nodes that an audit names."""
MOST_A_DAY = 200
"""Most entries of a node's history within a day that come from its own checks and from tests."""
_SAID = {
    "passed": hostchecks.TEST_PASSED,
    "failed": hostchecks.TEST_FAILED,
    "unknown": hostchecks.TEST_UNKNOWN,
}


def record_test(
    database: Database,
    site: Site,
    node: str,
    name: str,
    status: TestOutcome,
    started: datetime,
    reason: str,
    by: str,
) -> NodeTestReceipt:
    """Keep a test's result with the hold of a node, and end the hold if all tests that the site names have passed.

    Args:
        started: when it began, by its own clock.
        reason: what it found, for operators.
        by: who reports it.

    Raises:
        InputError: it began in the future.
        ConflictError: the site names no such test, the node isn't held for tests, a pod has it, the test began
            before results count or before its last run, or the database was restored and isn't accepted.
    """
    policy = site.acceptance
    if name not in policy.tests:
        raise ConflictError(hostchecks.TEST_NOT_NAMED(test=name, names=policy.tests))
    with database.transaction() as tx:
        if tx.row("is_behind") is not None:
            raise ConflictError(RESTORED)
        hold = next((one for one in holds_of(tx, node) if one.what == policy.what), None)
        now = tx.now()
        if hold is None:
            raise ConflictError(hostchecks.NOT_HELD_FOR_TESTS(node=node, what=policy.what))
        if tx.row("pod_has_node", node=node) is not None:
            raise ConflictError(hostchecks.TESTED_IN_POD(node=node))
        if started > now + AHEAD:
            raise InputError("started", started.isoformat(), "the time when the test began, which has passed")
        if started < (since := max(hold.counts_from, _last_run(hold, name))):
            raise ConflictError(hostchecks.TESTED_BEFORE(node=node, test=name, since=since))
        ended, tests = _record(tx, site, hold, name, status, started, reason, by)
    if ended:
        database.gate.hurry()
    return NodeTestReceipt(node=node, what=policy.what, accepted=ended, tests=tests)


def record_own_checks(
    tx: Tx,
    site: Site,
    node: str,
    document: CheckDocument,
    problems: Mapping[Any, CheckProblem],
    current: bool,
) -> bool:
    """As `record_test`, for the node's own checks if they are one of the site's tests; whether a hold ended.

    Args:
        problems: what failed or is unknown now, also what failed before and wasn't judged again.
        current: whether it was checked against the values that are expected now; otherwise nothing has passed.
    """
    policy = site.acceptance
    if OWN_CHECKS not in policy.tests or tx.row("is_behind") is not None:
        return False
    hold = next((one for one in holds_of(tx, node) if one.what == policy.what), None)
    if hold is None or not hold.counts_from <= document.when <= tx.now() + AHEAD:
        return False
    if document.when < _last_run(hold, OWN_CHECKS):
        return False
    if tx.row("pod_has_node", node=node) is not None:
        return False
    status, reason = outcome(document, problems.values(), site.checks)
    if status == "passed" and not current:
        status, reason = "unknown", "checked against other values than the site expects now"
    return _record(tx, site, hold, OWN_CHECKS, status, document.when, reason, BY_WEFT)[0]


def record_bandwidth(
    database: Database, site: Site, results: Mapping[str, str], began: datetime, by: str
) -> None:
    """As `record_test`, for operators' bandwidth test, on the nodes that are held for it. A result that doesn't count
        is left out instead of raising.

    Args:
        results: node -> passed, failed, or incomplete.
        began: when it was measured, by the reporter's clock; it may be reported much later.
    """
    if BANDWIDTH not in site.acceptance.tests:
        return
    for node, result in sorted(results.items()):
        status: TestOutcome = (
            "passed" if result == "passed" else "failed" if result == "failed" else "unknown"
        )
        with contextlib.suppress(ConflictError, InputError):
            record_test(database, site, node, BANDWIDTH, status, began, "", by)


def outcome(
    document: CheckDocument, problems: Iterable[CheckProblem], policy: ChecksPolicy
) -> tuple[TestOutcome, str]:
    """Own checks' result as a test: failed if one keeps a node from orders; unknown unless all such were judged."""
    excluding = [one for one in problems if policy.excludes(one.code)]
    for status in ("failed", "unknown"):
        if codes := sorted({one.code for one in excluding if one.status == status}):
            return status, ", ".join(codes)
    judged = any(one.status == "ok" for one in document.results)
    return ("passed", "") if judged else ("unknown", "nothing was judged")


def tests_said(stops: Mapping[str, Stops]) -> list[str]:
    """What the audit reports of held nodes whose tests didn't pass, one sentence each."""
    said = [
        f"node {node} is held for {hold.what}: {_names(failed)} didn't pass"
        for node, one in sorted(stops.items())
        for hold in one.holds
        if (failed := hold.failed_tests)
    ]
    more = len(said) - MOST_SAID
    return (
        said if more <= 0 else [*said[:MOST_SAID], f"{more} further held nodes have tests that didn't pass"]
    )


def entries_left(tx: Tx, node: str, now: datetime) -> int:
    """How many entries of today's the node's history has room for."""
    row = tx.row("count_check_entries", node=node, since=now - timedelta(days=1))
    return MOST_A_DAY - (row["number"] if row else 0)


def _names(tests: list[str]) -> str:
    return f"test{'s' if len(tests) > 1 else ''} {', '.join(tests)}"


def _last_run(hold: Hold, name: str) -> datetime:
    """When the run began whose result the hold has: results of earlier runs, which may arrive later, don't count."""
    known = hold.tests.get(name)
    return hold.since if known is None else datetime.fromisoformat(known["started"])


def _record(
    tx: Tx, site: Site, hold: Hold, name: str, status: TestOutcome, started: datetime, reason: str, by: str
) -> tuple[bool, tuple[NodeTest, ...]]:
    """Store a result; whether the hold ended, and names of all its tests."""
    node, what, now = hold.node, hold.what, tx.now()
    given = {
        "status": status,
        "at": now.isoformat(),
        "started": started.isoformat(),
        "reason": reason,
        "by": by,
    }
    known = hold.tests
    stored = {test: one for test, one in known.items() if test in site.acceptance.tests} | {name: given}
    tx.run("store_node_tests", node=node, what=what, tests=Jsonb(stored))
    before = known.get(name, {})
    if (before.get("status"), before.get("reason")) != (status, reason) and entries_left(tx, node, now) > 0:
        why = {"reason": reason} if reason and status != "passed" else {}
        message = _SAID[status](test=name, **why)
        tx.run("note_check", node=node, at=now, message=message_json(message), by=by)
    tests = tests_of(site.acceptance.tests, stored)
    if any(one.status != "passed" for one in tests):
        return False, tests
    tx.run("accept_tested_node", node=node, what=what, tests=list(site.acceptance.tests), at=now, by=BY_WEFT)
    tx.run("touch_queue", at=now)
    tx.run("notify", owner_id="")
    return True, tests
