"""Lists of pods in pages: the next page starts after a name and an id, whatever changed meanwhile."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from weft.engine.base.database import Database, Row
from weft.engine.base.documents import message_text
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.hold.settings import limit_values
from weft.model.errors import InputError
from weft.model.messages import outside
from weft.model.pod import Phase, PodState
from weft.model.views import PodSearch, PodSummary

UNREADABLE = "weft can't read its row in the database; an operator must look at it"
SHOWN_AFTER_RELEASE = timedelta(days=1)
"""How long lists show a released pod."""
_FIRST = UUID(int=0)


def page(database: Database, search: PodSearch, project_id: str | None) -> list[PodSummary]:
    """A page of pods by name, and by id where several have it; no more than `search.limit`.

    Args:
        project_id: only of this project; None: of all, or of `search.project`.

    Raises `InputError` for a marker that no page gave.
    """
    name, pod_id = _marker(search.marker)
    project = project_id or search.project
    values: dict[str, object] = {"name": search.name, "state": search.state, "node": search.node}
    values |= {"server": search.server, "alarmed": search.alarmed, **limit_values()}
    values |= {"after_name": name, "after_id": pod_id, "limit": search.limit}
    with database.transaction() as tx:
        values["at"] = tx.now()
        values["since"] = tx.now() - SHOWN_AFTER_RELEASE
        if project is None:
            rows = tx.rows("pods_of_all", **values)
        else:
            rows = tx.rows("pods_of_project", project_id=project, **values)
    return [_summary(row) for row in rows]


def _marker(text: str | None) -> tuple[str, UUID]:
    if text is None:
        return "", _FIRST
    name, _, pod_id = text.rpartition(":")
    try:
        return name, UUID(pod_id)
    except ValueError:
        raise InputError("marker", text, "`next` of the previous page") from None


def _summary(row: Row) -> PodSummary:
    """A row of a list; one that can't be read is included and says so."""
    parked, left = row.pop("parked"), row.pop("left")
    if left:
        row["reason"] = outside.NEEDS_NEWER().stored()
    elif parked is not None:
        row["reason"] = f"{UNREADABLE}: {parked}"
    try:
        return PodSummary.model_validate({**row, "id": str(row["id"]), "reason": message_text(row["reason"])})
    except READING as error:
        return PodSummary(
            id=str(row["id"]),
            name=row["name"],
            project_id=row["project_id"],
            phase=Phase.ORDERED,
            state=PodState.FAILED,
            reason=f"{UNREADABLE}: {unreadable('it', error).answer}",
            since=row["since"],
            created_at=row["created_at"],
            nodes=row["nodes"] or 0,
        )
