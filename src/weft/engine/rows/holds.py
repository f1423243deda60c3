"""Holds of nodes: what a node must be accepted for before it is assigned again."""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_json
from weft.engine.rows.basis import check_revision
from weft.engine.rows.records import PodRecord
from weft.engine.rows.stoprows import Hold
from weft.model.errors import ConflictError
from weft.model.messages import bandwidth, hostchecks, maintenance
from weft.model.nodetests import tests_of
from weft.model.site import AcceptancePolicy, Site

MOST_HOLDS = 20
"""Most holds of one node."""
REPAIR = "repair"
"""What a replaced node must be accepted for."""
BANDWIDTH = "bandwidth"
"""Name of the bandwidth test in `acceptance.tests` of the site."""
NO_TESTS = AcceptancePolicy()
BY_WEFT = "weft"
"""Who holds a node that was replaced."""


def hold_node(database: Database, node: str, what: str, by: str) -> None:
    """Keep a node from being assigned until it is accepted for this; again: the first hold stays as it is.

    Once this returns, no order gets the node: it waits for a claim that is being written.
    """
    database.gate.foretell()
    with database.placing() as tx:
        now = tx.now()
        known = {one.what for one in holds_of(tx, node)}
        if what not in known and len(known) >= MOST_HOLDS:
            raise ConflictError(maintenance.TOO_MANY_HOLDS(node=node, most=MOST_HOLDS))
        tx.run("hold_for_acceptance", node=node, what=what, at=now, by=by)
        tx.run("touch_queue", at=now)
    database.gate.hurry()


def check_unaccepted(tx: Tx, node: str, project: str | None, site: Site) -> None:
    """Raise `ConflictError` if a project had so many nodes replaced that aren't accepted yet that it may have no more.

    Args:
        node: the one that would be replaced; if it is held for repair already, it is no further one.
        project: whose member asks; None: an operator asks, who is not limited.
    """
    if project is None:
        return
    row, most = tx.row("count_unaccepted", project_id=project, node=node, what=REPAIR), site.repair.unaccepted
    if row is not None and row["number"] >= most:
        raise ConflictError(maintenance.REPLACED_UNACCEPTED(nodes=row["number"], most=most))


def hold_replaced(
    tx: Tx, node: str, pod: PodRecord, by: str, project: str | None, site: Site, cause: str = ""
) -> None:
    """Hold a node of a pod that is being replaced, in the transaction of that change: once the pod has left it, it is
    assigned to no order until it is accepted. A hold of the same name that a person set becomes weft's, too. Args and
    errors as for `check_unaccepted`.

    Args:
        by: the user.
        cause: why, if weft replaces without a request.
    """
    check_unaccepted(tx, node, project, site)
    why = {"cause": cause} if cause else {}
    said = maintenance.NODE_REPLACED(pod=pod.name, project=pod.project_id, user=by, **why)
    values = {"pod_id": pod.id, "project_id": project, "cause": message_json(said)}
    tx.run("hold_replaced", node=node, what=REPAIR, at=tx.now(), by=BY_WEFT, **values)


def accept_node(
    database: Database,
    node: str,
    what: str | None,
    every: bool,
    by: str,
    policy: AcceptancePolicy = NO_TESTS,
    without: str | None = None,
    revision: int | None = None,
) -> tuple[list[Hold], list[Hold]]:
    """End a node's holds; returns those that ended, and those that are left.

    Args:
        what: what the node is accepted for; None: its only hold.
        every: all of them.
        by: the user.
        policy: tests that must have passed before holds of weft's own end.
        without: why they end without.
        revision: the expected highest revision of the holds that end; None: any.

    Raises:
        PreconditionError: they have another revision.
        ConflictError: there is no such hold, or there are several and none is named; a test hasn't passed.
    """
    with database.transaction() as tx:
        holds = holds_of(tx, node)
        names = [one.what for one in holds]
        if not holds:
            raise ConflictError(maintenance.NODE_NOT_HELD(node=node))
        if what is not None and what not in names:
            raise ConflictError(maintenance.NODE_NOT_HELD_FOR(node=node, what=what, names=names))
        if what is None and len(holds) > 1 and not every:
            raise ConflictError(maintenance.SEVERAL_HOLDS(node=node, names=names))
        ended = [one for one in holds if every or what in (None, one.what)]
        check_revision(f"what node {node} is held for", max(one.revision for one in ended), revision)
        tested = [one for one in ended if _tests(one, policy)]
        if without is None:
            _check_tests(tx, node, tested, policy)
        reason = without if tested else None
        tx.run(
            "accept_node", node=node, whats=[one.what for one in ended], at=tx.now(), by=by, without=reason
        )
        tx.run("touch_queue", at=tx.now())
        tx.run("notify", owner_id="")
    database.gate.hurry()
    return ended, [one for one in holds if one not in ended]


def holds_of(tx: Tx, node: str) -> list[Hold]:
    """What a node is held for, locked, the oldest first."""
    return tx.all(Hold, "holds_of", node=node)


def _tests(hold: Hold, policy: AcceptancePolicy) -> list[str]:
    """What must have passed before this hold is accepted: nothing for operators' own holds; the bandwidth test for all
    of weft's, also for repair; the others for the hold with which their results are kept."""
    if not hold.is_own:
        return []
    return [test for test in policy.tests if test == BANDWIDTH or hold.what == policy.what]


def _check_tests(tx: Tx, node: str, holds: Sequence[Hold], policy: AcceptancePolicy) -> None:
    """Raise `ConflictError` unless all tests of these holds have passed since results count."""
    proved = [one for one in holds if BANDWIDTH in _tests(one, policy)]
    if proved:
        _check_bandwidth(tx, node, max(proved, key=lambda one: one.counts_from))
    for hold in holds:
        results = tests_of((one for one in _tests(hold, policy) if one != BANDWIDTH), hold.tests)
        if open_tests := [one.test for one in results if one.status != "passed"]:
            values = {"node": node, "what": hold.what, "tests": open_tests, "since": hold.counts_from}
            raise ConflictError(hostchecks.TESTS_NOT_PASSED(**values))


def _check_bandwidth(tx: Tx, node: str, hold: Hold) -> None:
    """Raise `ConflictError` unless the last test that operators reported says that it passed, and began since results
    count: a document can be reported long after it was measured."""
    last, since = tx.row("bandwidth_of_node", node=node), hold.counts_from
    began = None if last is None else last["began"]
    old = began is None or began < since
    found = "missing" if last is None else "older" if old else last["result"]
    if found != "passed":
        values = {"node": node, "what": hold.what, "since": since, "found": found}
        raise ConflictError(bandwidth.BANDWIDTH_NOT_PROVED(**values))
