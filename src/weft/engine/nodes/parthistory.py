"""Where parts with serial numbers were, and what failed of them, as nodes' own checks reported it.

A node says of itself what it has, so this is for people to read: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Tx
from weft.model.hostchecks import CheckDocument, CheckedPart, CheckProblem
from weft.model.views import PartFailure, PartHistory, PartStay

MOST = 1000
"""Most stays, and most failures, in one answer."""


def note_parts(
    tx: Tx, node: str, now: datetime, document: CheckDocument, failed: Iterable[CheckProblem]
) -> None:
    """Note where the parts of a document are now, and which of their checks newly failed."""
    if not document.parts:
        return
    parts = list({(one.kind, one.serial): one for one in document.parts}.values())
    tx.run("parts_seen", node=node, at=now, parts=Jsonb([one.model_dump() for one in parts]))
    rows = [
        {
            "kind": part.kind,
            "serial": part.serial,
            "at": now,
            "node": node,
            "place": part.place,
            "code": one.code,
            "reason": one.reason[:1000],
        }
        for one in failed
        for part in parts
        if _is_of(one.subject, part)
    ]
    tx.many("insert_part_failure", rows)


def _is_of(subject: str, part: CheckedPart) -> bool:
    """Whether a check's subject is the part, or a port of it."""
    return subject == part.place or subject.startswith(f"{part.place}/")


def part_history(database: Database, serial: str) -> PartHistory | None:
    """A part's stays and failures, the newest first; None if no node has reported such a part."""
    with database.statement() as tx:
        stays = tx.rows("stays_of_part", serial=serial, limit=MOST)
        failures = tx.rows("failures_of_part", serial=serial, limit=MOST)
    if not stays:
        return None
    return PartHistory(
        serial=serial,
        kind=stays[0]["kind"],
        model=stays[0]["model"],
        stays=tuple(PartStay.model_validate({f: row[f] for f in PartStay.model_fields}) for row in stays),
        failures=tuple(PartFailure.model_validate(row) for row in failures),
    )
