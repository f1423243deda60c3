"""The database's records of a fabric's segments, for the driver that configures them (`weft.ports.ledger`)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC

from weft.engine.base.database import Database, Row
from weft.engine.base.documents import message_json, read
from weft.engine.base.postgres import stored
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.rows.records import RowState
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricType
from weft.model.ids import uuid_of
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.plan import Plan
from weft.model.resources import Resource
from weft.model.specs import SegmentSpec

log = logging.getLogger(__name__)

_SHOWN = 5
_MADE = [RowState.CREATING, RowState.PENDING, RowState.SETTLED, RowState.BROKEN]


class FabricLedger:
    """Segments of one fabric, read again on each call. Raises `TemporaryError` if the database is unreachable.

    Args:
        words: how numbers are written on fabrics of its type.
    """

    def __init__(self, database: Database, fabric: str, words: FabricType) -> None:
        self._database, self._fabric, self._words = database, fabric, words
        self._made: dict[tuple[object, ...], tuple[Mark, SegmentSpec]] = {}

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        states = [RowState.SETTLED] if settled else _MADE
        rows = self._database.rows("segments_wanted", fabric=self._fabric, states=states)
        # Every change of the fabric reads them all, and few differ from the last time.
        made: dict[tuple[object, ...], tuple[Mark, SegmentSpec]] = {}
        for row in rows:
            text = tuple(row.values())
            try:
                made[text] = self._made.get(text) or _made(row)
            except READING as error:
                # What a manager has under its mark is kept there: only what is known to be over is removed.
                log.error(
                    "%s", unreadable(f"segment {row['key']} of {row['owner_kind']} {row['owner_id']}", error)
                )
        if not settled:
            self._made = made
        return dict(made.values())

    def ever(self, mark: Mark) -> SegmentSpec | None:
        owner_id = uuid_of(mark.owner.id)
        row = self._database.row("segment_ever", id=owner_id, key=mark.key)
        if row is None:
            return None
        try:
            planned = read(Plan, row["plan"]).graph.by_key().get(mark.key)
            leaving = [Membership.model_validate(m) for ports in row["leaving"] for m in ports]
        except READING as error:
            raise unreadable(f"the plan of {mark.owner}", error) from error
        if planned is None or not isinstance(planned.spec, SegmentSpec):
            return None
        members = {m.port: m for m in (*leaving, *planned.spec.members)}
        return planned.spec.model_copy(update={"members": tuple(members[p] for p in sorted(members))})

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        owners = {i for m in marks if (i := uuid_of(m.owner.id)) is not None}
        if not owners:
            return {}
        rows = self._database.rows("segments_of", owners=list(owners))
        over = {
            (Owner(row["owner_kind"], str(row["owner_id"])), row["key"]): bool(row["over"]) for row in rows
        }
        return {m: over[m.owner, m.key] for m in marks if (m.owner, m.key) in over}

    def waiting(self) -> Sequence[str]:
        rows = self._database.rows("stale_numbers", fabric=self._fabric)
        said: list[str] = []
        for manager in sorted({row["manager"] for row in rows}):
            mine = [row for row in rows if row["manager"] == manager]
            keys = ", ".join(self._words.text(row["number"]) for row in mine[:_SHOWN])
            more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
            since = mine[0]["since"].astimezone(UTC)
            said.append(
                f"{manager} may still have {self._words.words} of released pods, which stay allocated until they are "
                f"seen gone: {keys}{more}, the first since {since:%Y-%m-%d %H:%M} UTC ({mine[0]['reason']})"
            )
        return said

    def record_event(self, owner: Owner, message: str) -> None:
        with self._database.transaction() as tx:
            tx.run("insert_segment_event", owner_id=owner.id, message=message_json(message))
            tx.run("wake_owner", id=owner.id)
            tx.run("notify", owner_id=owner.id)


def _made(row: Row) -> tuple[Mark, SegmentSpec]:
    """The segment of a row of `segments_wanted`. Raises the errors in `READING`."""
    if row["site"] is None:
        raise ValueError("its plan names no site")
    resource = read(Resource, stored(row["document"]))
    if not isinstance(resource.spec, SegmentSpec):
        raise ValueError(f"a {resource.kind}, not a segment")
    return Mark(row["site"], Owner(row["owner_kind"], row["owner_id"]), row["key"]), resource.spec
