"""The events of all pods of a project, or of all projects, in one order in which nothing can appear later.

Numbers of rows are given before their transactions commit: a reader that continues after the highest number misses what
commits later. So the order is that of the transactions, and only those are delivered below which none is in progress
(`delivered` in `queries.sql` of this room): a long transaction delays events, and loses none.

Retention removes old events, wherever readers are: one that comes back after that is shown that it missed some.

Numbers of transactions are one server's. A database that was restored, or failed over to another server, begins another
life: positions of the former one are refused, since what was delivered then may be gone, and what came since may have
lower numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import message_text
from weft.model.errors import ConflictError, InputError
from weft.model.messages import pods
from weft.model.messages.orders import instead
from weft.model.views import EventPage, ProjectEvent

_POSITION = re.compile(r"([0-9a-f]{8})-([0-9]{1,9})-([0-9]{1,19})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader is.

    Attributes:
        mark: names the life of the database.
        life: number of the life in which the event was written; the mark's own, or an earlier one.
        xact: transaction that wrote it.
        sequence: its number; 0: before all events of the transaction.
    """

    mark: str
    life: int
    xact: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.mark}-{self.life}-{self.xact}-{self.sequence}"

    @classmethod
    def read(cls, text: str, field: str = "after") -> Self:
        """From its text. Raises `InputError` for a text that no answer of weft has."""
        found = _POSITION.fullmatch(text)
        if found is None or int(found[3]) >= 1 << 63:
            allowed = instead("must be `position` of an earlier answer, such as 3f9ac01e-1-1043-2201")
            raise InputError(field, text, allowed)
        return cls(found[1], *(int(found[n]) for n in (2, 3, 4)))

    @property
    def values(self) -> dict[str, Any]:
        """The position as parameters of queries."""
        return {"life": self.life, "xact": str(self.xact), "sequence": self.sequence}


@dataclass(frozen=True, slots=True)
class Life:
    """The life of the database by which positions are given."""

    mark: str
    number: int

    @property
    def begin(self) -> Position:
        """The position before everything that is kept."""
        return Position(self.mark, 0, 0, 0)

    @property
    def now(self) -> Position:
        """The position before everything of this life."""
        return Position(self.mark, self.number, 0, 0)


class EventStream:
    """Reads the stream; any number of processes may do so."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, project: str | None, after: Position | None, limit: int) -> EventPage:
        """Events after a position.

        Args:
            project: of the pods; None: all projects.
            after: None: the oldest that are kept.

        Raises:
            ConflictError: the position is of another life of the database.
        """
        with self._database.statement() as tx:
            life = self._life(tx)
            start = life.begin if after is None else after
            if start.mark != life.mark:
                raise ConflictError(pods.EVENTS_RESET())
            name, values = (
                ("stream_of_all", {}) if project is None else ("stream_of_project", {"project": project})
            )
            rows = tx.rows(name, limit=limit + 1, **values, **start.values)
            gap = None if after is None else tx.row("removed_after", project=project, **start.values)
        if gap is not None and not rows:
            start = Position(life.mark, gap["life"], int(gap["xact"]), gap["sequence"])
        return _page(life, rows[:limit], start, len(rows) > limit, gap is not None)

    def newest(self, project: str | None, limit: int) -> EventPage:
        """The last events, and where to go on after them."""
        with self._database.statement() as tx:
            life = self._life(tx)
            name, values = (
                ("newest_of_all", {}) if project is None else ("newest_of_project", {"project": project})
            )
            rows = tx.rows(name, limit=limit, **values)
        return _page(life, rows, life.now if not rows else life.begin, more=False)

    def _life(self, tx: Tx) -> Life:
        row = tx.row("event_life")
        if row is None or not row["here"]:
            with self._database.transaction() as own:
                if row is not None and not row["fresh"]:
                    own.run("hold_events")
                own.run("begin_event_life")
            row = tx.row("event_life")
        assert row is not None, "it always has one row"
        return Life(row["mark"], row["number"])


def _page(life: Life, rows: list[Row], before: Position, more: bool, removed: bool = False) -> EventPage:
    events = tuple(_event(life, row) for row in rows)
    position = events[-1].position if events else str(before)
    return EventPage(events=events, position=position, more=more, removed=removed)


def _event(life: Life, row: Mapping[str, Any]) -> ProjectEvent:
    return ProjectEvent.model_validate(
        {
            "sequence": row["sequence"],
            "at": row["at"],
            "type": row["type"],
            "message": message_text(row["message"]),
            "key": row["key"],
            "position": str(Position(life.mark, row["life"], int(row["xact"]), row["sequence"])),
            "pod_id": str(row["owner_id"]),
            "pod": row["pod"] or "",
            "project_id": row["project_id"],
        }
    )
