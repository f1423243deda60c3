"""Traces: remains of a pod that were found after its receipt was signed. Never removed silently."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from weft.engine.base.database import Database
from weft.engine.rows.events import announce
from weft.model.messages import Message, pods
from weft.model.owner import OwnerKind
from weft.model.resources import Kind

log = logging.getLogger(__name__)

SHOWN = timedelta(days=1)
"""How long the audit shows a trace after it is gone."""
MOST = 1000
"""Most traces that the audit shows, existing ones first, and that one query reads."""
MOST_OF_MARKS = 100
"""Most traces of one owner for remains known by their mark alone, which a tenant may have written."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Remains of a released owner.

    Attributes:
        place: cloud, fabric or manager of machines.
        subject: id outside.
        what: one sentence.
        others: it belongs to someone else, on a node that was the pod's: the receipt isn't wrong because of it.
        marked: it was found by its mark alone: no row has its id.
    """

    owner_id: UUID
    kind: str
    place: str
    subject: str
    what: str
    others: bool = False
    marked: bool = False


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """A trace that was recorded: the columns of its row. Attributes: gone_at: None: it still exists."""

    id: int
    owner_id: UUID
    kind: str
    place: str
    subject: str
    what: str
    others: bool
    found_at: datetime
    gone_at: datetime | None


@dataclass(frozen=True, slots=True)
class NamedTrace(FoundTrace):
    """A trace that was recorded, with its owner's name and kind, for the audit."""

    pod: str
    owner_kind: OwnerKind


class Traces:
    """Records traces: each once, with an alarm among its owner's events, and its end likewise."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def found(self, trace: Trace) -> None:
        """Record a trace and an alarm for its owner, unless it is known."""
        with self._database.transaction() as tx:
            now = tx.now()
            values: dict[str, object] = {"kind": trace.kind, "place": trace.place, "subject": trace.subject}
            values |= {"what": trace.what, "others": trace.others}
            values |= {"most": MOST_OF_MARKS if trace.marked else None}
            if tx.row("insert_trace", owner_id=trace.owner_id, at=now, **values) is None:
                return
            has_receipt = tx.row("receipt_of", owner_id=trace.owner_id) is not None
            wrong = has_receipt and not trace.others
            message = pods.RECEIPT_WRONG(what=trace.what) if wrong else trace.what
            announce(tx, trace.owner_id, "alarm", message)
        log.warning("owner %s: %s", trace.owner_id, message)

    def ended(self, trace_id: int, owner_id: UUID, message: str) -> None:
        """Note that a trace is gone, with an event of its owner; a second time changes nothing."""
        with self._database.transaction() as tx:
            if tx.run("end_trace", id=trace_id, at=tx.now()):
                announce(tx, owner_id, "release", message)

    def lately(self) -> list[NamedTrace]:
        """Traces that still exist, and those found in the last day."""
        with self._database.transaction() as tx:
            return tx.all(NamedTrace, "traces", since=tx.now() - SHOWN, limit=MOST)

    def open(self) -> list[FoundTrace]:
        """All traces that still exist, in the order in which they were found."""
        found: list[FoundTrace] = []
        while not found or len(found) % MOST == 0:
            after = found[-1].id if found else 0
            page = self._database.all(FoundTrace, "open_traces", after=after, limit=MOST)
            found += page
            if not page:
                break
        return found


def sentence(owner: OwnerKind, kind: str, place: str, subject: str) -> Message:
    """The message of a trace."""
    code = pods.SEGMENT_AFTER_RELEASE if kind == str(Kind.SEGMENT) else pods.RESOURCE_AFTER_RELEASE
    return code(kind=kind, id=subject, place=place, owner=str(owner))
