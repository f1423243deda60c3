"""Records that weft keeps: events, receipts, the audit log."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_text, read
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.rows.holds import BY_WEFT
from weft.model.receipt import Correction, SignedReceipt
from weft.model.views import MOST_EVENTS, AuditLogEntry, AuditLogSearch, EventView


class RecordRows:
    """Reads and writes records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def events(self, pod_id: UUID, after: int, newest: int | None = None) -> list[EventView]:
        """Events with a sequence above `after`, by sequence, `MOST_EVENTS` at most.

        Args:
            newest: only the last so many of them; None: the first ones.
        """
        query = "events_of" if newest is None else "newest_events_of"
        limit = MOST_EVENTS if newest is None else min(newest, MOST_EVENTS)
        rows = self._database.rows(query, owner_id=pod_id, after=after, limit=limit)
        return [EventView.model_validate({**row, "message": message_text(row["message"])}) for row in rows]

    def receipt(self, pod_id: UUID) -> SignedReceipt | None:
        """The signed receipt with its corrections; None: there is none yet. Raises `UnreadableError`."""
        with self._database.statement() as tx:
            row = tx.row("receipt_of", owner_id=pod_id)
            traces = tx.rows("traces_of", owner_id=pod_id)
        try:
            signed = read(SignedReceipt, row["document"]) if row else None
            found = tuple(Correction.model_validate(t) for t in traces)
            return signed and signed.model_copy(update={"corrections": found})
        except READING as error:
            raise unreadable(f"the receipt of pod {pod_id}", error) from error

    def log(self, **entry: Any) -> None:
        """Write to the audit log; the values are those of `insert_audit_log`."""
        self._database.run("insert_audit_log", **entry)

    def audit_log(self, search: AuditLogSearch) -> list[AuditLogEntry]:
        """Newest first. A reader that continues after the last one misses none: entries in progress get higher numbers,
        or are waited for."""
        with self._database.transaction() as tx:
            (row,) = tx.rows_after("hold_audit_log", "last_in_audit_log")
        rows = self._database.rows("audit_log", last=row["last"], **search.model_dump())
        return [AuditLogEntry.model_validate(row) for row in rows]


def log_own(tx: Tx, action: str, subject: str, outcome: str) -> None:
    """Write to the audit log what weft did without a request, in the transaction in which it did."""
    who = {
        "user_id": BY_WEFT,
        "user_name": BY_WEFT,
        "address": "",
        "user_agent": "",
        "request_id": f"req-{uuid4()}",
    }
    nowhere = dict.fromkeys(("user_domain_id", "project_id", "project_domain_id"))
    done = {"action": action, "subject": subject[:255], "outcome": outcome[:500], "counted": False}
    tx.run("insert_audit_log", **who, **nowhere, **done)
