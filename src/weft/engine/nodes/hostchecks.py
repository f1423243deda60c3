"""Results of nodes' own checks: each node's last document, which checks fail since when, and what changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import message_json
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.nodes.checktokens import use_token
from weft.engine.nodes.nodetests import AHEAD, entries_left, record_own_checks
from weft.engine.nodes.parthistory import note_parts
from weft.engine.rows.acceptance import follow_report
from weft.engine.rows.events import announce
from weft.model.errors import ConflictError, TemporaryError
from weft.model.hostchecks import (
    CheckDocument,
    CheckProblem,
    ComparedWith,
    Judged,
    KnownMachine,
    next_known,
    next_problems,
    row_values,
    with_late,
)
from weft.model.messages import hostchecks
from weft.model.messages.message import Message
from weft.model.site import Site

EVERY = timedelta(seconds=10)
"""Shortest time between two reports of a node."""
LATE = timedelta(hours=1)
"""A report that was made up to this long before the last one is late; with more, the machine's clock was set back."""
MOST_CHANGES = 20
"""Most changes of one report with entries of their own in the node's history; one entry counts the rest."""

_UNKNOWN = datetime.min.replace(tzinfo=UTC)

Problems = dict[tuple[str, str], CheckProblem]


def store_report(
    database: Database,
    node: str,
    token: str,
    document: CheckDocument,
    current: bool,
    counts: Callable[[str], bool] = lambda code: True,
    frees: bool = False,
    site: Site | None = None,
) -> Problems:
    """Store a document as the node's last one; returns what failed or is unknown now. One that was made before the last
    one, and arrives after it, ends no failure, and the last one stays.

    Args:
        token: id of the node's token, which must still be valid.
        current: whether it was checked against the values that are expected now.
        counts: whether a failed check of this code counts; pods there get an event then.
        frees: whether any result may let orders start that waited for the node.
        site: whose tests of held nodes own checks may be.

    Raises `UnauthenticatedError` for the token, `TemporaryError` if the node has just reported.
    """
    with database.transaction() as tx:
        tx.run("lock_node_check", node=node)
        use_token(tx, token)
        now, row = tx.now(), tx.row("node_check_to_change", node=node)
        if row is not None and timedelta(0) <= now - row["at"] < EVERY:
            wait = (row["at"] + EVERY - now).total_seconds()
            raise TemporaryError(
                "report checks", f"node {node}", "it has just reported", "report later", wait
            )
        if row is not None and timedelta(0) < _made(row) - document.when < LATE:
            return _store_late(tx, row, document, now, counts)
        current = current and (row is None or document.when >= _made(row))
        known = _known(row) if row else None
        if known is not None and site is not None:
            follow_report(tx, site, node, known, document)
        before = problems_in(row["problems"]) if row else {}
        problems = next_problems(document, before, now, current, _compared(row) if row else None)
        tx.run(
            "store_node_check",
            node=node,
            at=now,
            status=document.overall,
            expected=document.expected,
            problems=Jsonb(row_values(problems)),
            document=Jsonb(document.model_dump(mode="json")),
            known=Jsonb(next_known(known, document).model_dump(mode="json")),
        )
        note_parts(tx, node, now, document, _new(before, problems))
        _follow(tx, node, now, before, problems, counts)
        if frees or before != problems:
            tx.run("touch_queue", at=now)
        ended = site is not None and record_own_checks(tx, site, node, document, problems, current)
    if ended:
        database.gate.hurry()
    return problems


def _store_late(
    tx: Tx, row: Row, document: CheckDocument, now: datetime, counts: Callable[[str], bool]
) -> Problems:
    """Keep what failed in a document that was made before the node's last one; the last one stays the last."""
    node = row["node"]
    try:
        newest = CheckDocument.model_validate(row["document"])
    except READING as error:
        raise unreadable(f"the last report of node {node}", error) from error
    before = problems_in(row["problems"])
    problems = with_late(before, document, newest, now)
    tx.run("store_late_check", node=node, at=now, problems=Jsonb(row_values(problems)))
    _follow(tx, node, now, before, problems, counts)
    if before != problems:
        tx.run("touch_queue", at=now)
    return problems


def _follow(
    tx: Tx, node: str, now: datetime, before: Problems, after: Problems, counts: Callable[[str], bool]
) -> None:
    """Note what changed in the node's history, and notify the pods there."""
    if _note(tx, node, now, before, after):
        _notify_pods(tx, node, before, after, counts)


def _known(row: Row) -> KnownMachine:
    try:
        return KnownMachine.model_validate(row["known"] or _machine(row["document"]))
    except READING as error:
        raise unreadable(f"what is known of node {row['node']}", error) from error


def _made(row: Row) -> datetime:
    """When the last document was made; `_UNKNOWN` if its clock was ahead then, or another version of weft wrote it."""
    try:
        when = datetime.fromisoformat(row["document"]["when"])
        return when if when <= row["at"] + AHEAD else _UNKNOWN
    except READING:
        return _UNKNOWN


def _compared(row: Row) -> ComparedWith:
    try:
        return ComparedWith.of(row["expected"], row["document"]["results"])
    except READING as error:
        raise unreadable(f"the last report of node {row['node']}", error) from error


def _machine(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored document that describe the machine."""
    return {"host": document["host"], "parts": document.get("parts", ())}


def problems_in(rows: Iterable[Row | dict[str, Any]]) -> Problems:
    """The column `problems`. Raises `UnreadableError`."""
    try:
        found = [CheckProblem.model_validate(row) for row in rows]
    except READING as error:
        raise unreadable("problems that a node's checks found", error) from error
    return {one.key: one for one in found}


@dataclass(frozen=True, slots=True)
class StoredReport:
    """What a node reported last, as it is stored. Attributes: document, problems: as JSON."""

    at: datetime
    document: dict[str, Any]
    problems: list[dict[str, Any]]


def last_report(database: Database, node: str) -> StoredReport | None:
    """What a node reported last; None if it has never reported."""
    row = database.row("node_check", node=node)
    return None if row is None else StoredReport(row["at"], row["document"], row["problems"])


def forget_report(database: Database, node: str, by: str) -> None:
    """Forget what a node reported, as after its mainboard was exchanged. Raises `ConflictError` if there is nothing."""
    with database.transaction() as tx:
        tx.run("lock_node_check", node=node)
        if not tx.run("forget_node_check", node=node):
            raise ConflictError(hostchecks.NOTHING_REPORTED(node=node))
        now = tx.now()
        tx.run("forget_tests_of_nodes", nodes=[node], at=now)
        _write(tx, node, now, [hostchecks.FORGOTTEN()], by)
        tx.run("touch_queue", at=now)


def judge_check(database: Database, nodes: Collection[str], code: str, judged: Judged, by: str) -> list[str]:
    """Write operators' judgement of a check on all nodes where it fails now; returns these.

    Args:
        nodes: those of the site: for one that left it nothing is shown, so nothing is judged.
        by: the user.

    Raises `ConflictError` if it fails nowhere.
    """
    with database.transaction() as tx:
        values = {"code": code, "judged": Jsonb({} if judged == "open" else {"judged": judged})}
        said = message_json(hostchecks.JUDGED(check=code, judged=judged))
        asked = {"nodes": list(nodes), "at": tx.now(), "message": said, "by": by}
        found = [row["node"] for row in tx.rows("judge_check", **asked, **values)]
        if not found:
            raise ConflictError(hostchecks.FAILS_NOWHERE(check=code))
        tx.run("touch_queue", at=tx.now())
    return found


def checks_failed(rows: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages about failed checks of a pod's nodes. Args: rows: of node and code."""
    codes: dict[tuple[str, bool], dict[str, None]] = {}
    for row in rows:
        codes.setdefault((row["node"], row["inner_host"]), {})[row["code"]] = None
    return [_failed_in_pod(node, inner, list(mine)) for (node, inner), mine in sorted(codes.items())]


def _failed_in_pod(node: str, inner: bool, checks: list[str]) -> Message:
    """The message for a pod. Args: inner: only servers of weft's own for the pod are there."""
    return (hostchecks.INNER_FAILED_IN_POD if inner else hostchecks.FAILED_IN_POD)(node=node, checks=checks)


def _new(before: Problems, after: Problems) -> list[CheckProblem]:
    """The problems that are failed now and weren't before."""
    failed = [one for one in after.values() if one.status == "failed"]
    return [one for one in failed if one.key not in before or before[one.key].status != "failed"]


def _notify_pods(tx: Tx, node: str, before: Problems, after: Problems, counts: Callable[[str], bool]) -> None:
    """Write an event of each pod there, if a check newly failed that counts."""
    codes = sorted({one.code for one in _new(before, after) if counts(one.code)})
    if not codes:
        return
    for row in tx.rows("pods_of_nodes", nodes=[node]):
        announce(tx, row["pod_id"], "node", _failed_in_pod(node, row["inner_host"], codes))


def _note(tx: Tx, node: str, now: datetime, before: Problems, after: Problems) -> bool:
    """Note in the node's history what newly failed, or no longer fails; whether there was room for it."""
    said: list[Message] = [
        hostchecks.FAILED(check=one.code, subject=one.subject, reason=one.reason)
        for one in _new(before, after)
    ]
    for key, one in before.items():
        if one.status == "failed" and (key not in after or after[key].status != "failed"):
            said.append(hostchecks.MENDED(check=one.code, subject=one.subject))
    if not said:
        return False
    room = entries_left(tx, node, now)
    if room <= 0:
        return False
    most = min(MOST_CHANGES, room)
    if len(said) > most:
        said = [*said[: most - 1], hostchecks.MORE_CHANGES(number=len(said) - most + 1)]
    _write(tx, node, now, said, "")
    return True


def _write(tx: Tx, node: str, now: datetime, said: Iterable[Message], by: str) -> None:
    for message in said:
        tx.run("note_check", node=node, at=now, message=message_json(message), by=by)
