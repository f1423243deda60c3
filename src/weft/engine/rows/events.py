"""Events of owners, written in the caller's transaction."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from weft.engine.base.database import Tx
from weft.engine.base.documents import message_json


def insert_event(
    tx: Tx, owner_id: UUID | str, kind: str, message: str, key: str | None = None, at: datetime | None = None
) -> None:
    """Add an event.

    Args:
        key: of the resource concerned.
        at: None: the transaction's time.
    """
    said = message_json(message)
    tx.run("insert_event", owner_id=owner_id, at=at or tx.now(), type=kind, message=said, key=key)


def announce(
    tx: Tx, owner_id: UUID | str, kind: str, message: str, key: str | None = None, at: datetime | None = None
) -> None:
    """As `insert_event`, and notify the owner's followers once the transaction is committed."""
    insert_event(tx, owner_id, kind, message, key, at)
    tx.run("notify", owner_id=str(owner_id))
