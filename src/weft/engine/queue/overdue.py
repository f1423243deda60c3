"""Limits how many releases of one project may last too long: each may hold numbers that others wait for.

A tenant can keep its pod's resources from being deleted for as long as it likes, so what it may keep is bounded:
whatever would give the project more nodes or numbers asks here: an order, one that leaves the queue, a pod that grows.
"""

from __future__ import annotations

from typing import Any

from weft.engine.base.database import Tx
from weft.engine.hold.settings import LoopSettings
from weft.model.errors import ConflictError
from weft.model.messages import orders
from weft.model.pod import PodState
from weft.model.site import Site

LIMIT = LoopSettings().limits[PodState.RELEASING]
"""Seconds of work on a release after which it is overdue: time in which weft couldn't work on it doesn't count
against the project."""


def check_overdue(tx: Tx, project: str, site: Site) -> None:
    """Raise `ConflictError` if the project's limit of releases that are overdue, or that ended with numbers in use, is
    reached; in the caller's transaction."""
    if many := _too_many(tx, project, site):
        raise ConflictError(orders.RELEASES_OVERDUE(**many))


def why_not_started(tx: Tx, project: str, site: Site) -> str:
    """Why a waiting order can't start because of that limit; empty if it may."""
    many = _too_many(tx, project, site)
    return orders.WAITS_FOR_RELEASES(**many) if many else ""


def _too_many(tx: Tx, project: str, site: Site) -> dict[str, Any]:
    """Values of the message: how many, the limit, and which releases; empty if there aren't too many."""
    rows = tx.rows("overdue_of_project", project_id=project, seconds=LIMIT)
    most = site.queue.overdue_releases
    if len(rows) < most:
        return {}
    return {"releases": len(rows), "most": most, "pods": [row["name"] for row in rows]}
