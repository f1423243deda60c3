"""What happened to a node. Triggers write when pods get and leave it, and the queries of holds, drains and quarantines
write with the thing itself; this module reads it, and writes replacements."""

from __future__ import annotations

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_json, message_text
from weft.engine.rows.records import PodRecord
from weft.model.change import PodChange
from weft.model.messages import nodes
from weft.model.views import NodeHistoryEntry


def node_history(database: Database, node: str, before: int | None, limit: int) -> list[NodeHistoryEntry]:
    """The newest entries first. Args: before: only those with a lower sequence number; None: all."""
    rows = database.rows("history_of_node", node=node, before=before, limit=limit)
    return [NodeHistoryEntry.model_validate({**row, "message": message_text(row["message"])}) for row in rows]


def note_replaced(tx: Tx, pod: PodRecord, change: PodChange, by: str, cause: str = "") -> None:
    """A replacement, at the old node and at the new one, in the transaction of the change.

    Args:
        by: the user.
        cause: why, if weft replaces without a request.
    """
    values = {"at": tx.now(), "by": by, "pod_id": pod.id, "pod": pod.name, "project_id": pod.project_id}
    where = {"pod": pod.name, "project": pod.project_id}
    for old, new in zip(change.nodes_removed, (*change.nodes_added, *change.spares_used), strict=True):
        why = {"cause": cause} if cause else {}
        said = {old: nodes.REPLACED_BY(by=new, **why, **where), new: nodes.REPLACES(node=old, **where)}
        for node, text in said.items():
            tx.run("note_replaced", node=node, message=message_json(text), **values)
