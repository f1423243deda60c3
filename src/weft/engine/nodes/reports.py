"""Reports of nodes by projects that had them. A report takes the node from no one: only orders of the same project do
without it, until an operator clears the report."""

from __future__ import annotations

from weft.engine.base.database import Database
from weft.engine.base.documents import message_json
from weft.engine.queue.changes import check_confirmed
from weft.engine.rows.events import announce
from weft.engine.rows.records import PodRecord
from weft.engine.rows.stoprows import Report, of_row
from weft.model.errors import ConflictError
from weft.model.messages import nodes


def report_node(database: Database, node: str, pod: PodRecord, reason: str, by: str, most: int) -> Report:
    """Report a node that a pod holds; returns the report. An equal report changes nothing.

    Args:
        by: the user.
        most: reports that a project may have.

    Raises `ConflictError` if the project reported it with another reason, has too many reports, or the pod no longer
    holds the node; `TemporaryError` while the pod's claim may yet be dropped.
    """
    database.gate.foretell()
    with database.placing() as tx:
        check_confirmed(tx, pod, "report a node of", "report")
        now = tx.now()
        known = tx.row("report_of", node=node, project_id=pod.project_id)
        if known is not None and known["reason"] != reason:
            raise ConflictError(nodes.REPORTED_ALREADY(node=node, at=known["at"]))
        if known is not None:
            return of_row(Report, known)
        row = tx.row("count_reports", project_id=pod.project_id)
        if row is not None and row["number"] >= most:
            raise ConflictError(nodes.TOO_MANY_REPORTS(nodes=row["number"], most=most))
        said = nodes.REPORTED(pod=pod.name, project=pod.project_id, reason=reason)
        where = {"node": node, "pod_id": pod.id, "project_id": pod.project_id, "pod": pod.name, "at": now}
        made = tx.row("report_node", by=by, reason=reason, message=message_json(said), **where)
        if made is None:
            raise ConflictError(nodes.NOT_OF_POD(node=node, pod=pod.name))
        announce(tx, pod.id, "report", nodes.REPORTED_IN_POD(node=node, user=by))
        tx.run("touch_queue", at=now)
    database.gate.hurry()
    return of_row(Report, made)


def clear_reports(database: Database, node: str, project: str | None, by: str) -> list[Report]:
    """End the reports of a node: a project's, or all; returns them. Args: by: the user.

    Raises `ConflictError` if there is none.
    """
    with database.placing() as tx:
        now = tx.now()
        ended = tx.rows("clear_reports", node=node, project_id=project, at=now, by=by)
        if not ended:
            raise ConflictError(nodes.NOT_REPORTED(node=node))
        tx.run("touch_queue", at=now)
        tx.run("notify", owner_id="")
    database.gate.hurry()
    return [of_row(Report, row) for row in ended]
