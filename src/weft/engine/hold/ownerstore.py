"""Owners other than pods: how they are created, and what the audit and the sweep read of them."""

from __future__ import annotations

import threading
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.errors import UniqueViolation

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import message_json
from weft.engine.base.unreadable import UnreadableError
from weft.engine.hold.held import Held
from weft.engine.hold.heldpod import HeldPod
from weft.engine.rows.events import announce
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, NotFoundError
from weft.model.messages import pods
from weft.model.owner import Owner, OwnerKind


def make_owner(tx: Tx, kind: OwnerKind, site: str, project_id: str, name: str, by: str) -> Owner:
    """Create a site's or a network's row, which the loop works on from now on; `weft.engine.visit.resourcerules`
    says what is wanted of it.

    It is released, repaired and abandoned like a pod, by its id (`Store.release` …).

    Args:
        site: whose mark its resources bear.
        project_id: of the tenant, for a tenant's resources; of weft's service project, for the site's own.
        name: unique among the live ones of its kind and project.

    Raises `ConflictError` if one of that name exists.
    """
    assert kind != "pod", "a pod is created from an order"
    owner, at = Owner(kind, str(uuid4())), tx.now()
    values = {"kind": kind, "site": site, "project_id": project_id, "name": name, "by": by}
    try:
        tx.run("insert_owner", id=owner.id, at=at, **values)
    except UniqueViolation:
        raise ConflictError(f"{kind} {name!r} already exists") from None
    announce(tx, owner.id, "state", pods.STATE(state="PLACED", why=pods.MADE_BY(user=by)))
    return owner


def release_owner(tx: Tx, owner_id: UUID, message: str, at: datetime | None) -> bool:
    """Request the release of an owner that isn't a pod; False if that was done before."""
    row = tx.row("release_owner", id=owner_id, message=message_json(message), at=at)
    return row is not None and row["asked"]


def read_owner(tx: Tx, owner_id: UUID) -> OwnerRecord:
    """An owner of any kind. Raises `NotFoundError`, `UnreadableError`."""
    row = tx.row("owner_by_id", id=owner_id) or tx.row("pod_by_id", id=owner_id)
    if row is None:
        raise NotFoundError(f"there is no owner {owner_id}")
    return record_of(row)


def record_of(row: Row) -> OwnerRecord:
    """A row of `pod` or of `owner`. Raises `UnreadableError`."""
    return PodRecord.of(row) if row["kind"] == "pod" else OwnerRecord.of(row)


def hold(database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> Held:
    """An owner that was claimed just now."""
    return HeldPod(database, owner, leave) if isinstance(owner, PodRecord) else Held(database, owner, leave)


def live_owners(database: Database) -> tuple[list[OwnerRecord], dict[UUID, str]]:
    """Owners other than pods that aren't released; and id -> why of those whose rows can't be read."""
    return _readable(database.rows("live_owners"))


def _readable(rows: list[Row]) -> tuple[list[OwnerRecord], dict[UUID, str]]:
    found: list[OwnerRecord] = []
    unread: dict[UUID, str] = {}
    for row in rows:
        try:
            found.append(OwnerRecord.of(row))
        except UnreadableError as error:
            unread[row["id"]] = str(error)
    return found, unread
