"""An owner held by a worker: its rows, and what a visit notes of it.

A visit notes what it observed and decided, and goes on by that. The notes are written in one statement, with the fence
in it, before anything is asked outside (`NotesHeld.about_to_ask`), and when the owner is handed back.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row
from weft.engine.base.documents import message_json
from weft.engine.base.postgres import FIRST
from weft.engine.hold.fence import Event, LostError
from weft.engine.hold.heldnumbers import NumbersHeld
from weft.engine.hold.lane import ALONE, VisitLane
from weft.engine.hold.notes import Notes, as_text
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import OutsideError, WeftError
from weft.model.kindrow import Home
from weft.model.messages import pods, same
from weft.model.pod import (
    DECIDES,
    Aspect,
    Cause,
    Condition,
    Phase,
    PodState,
    Truth,
    changed,
    check_transition,
    find,
    summary,
    why,
)

WRITTEN_EVERY = 0.25
"""Seconds for which observations and decisions are buffered before they are written; most clouds answer slower."""
_NOW = FIRST
"""`since` of a condition that is about to be written: the database sets the time."""


class News(NamedTuple):
    """What is new of one aspect of an owner."""

    aspect: Aspect
    status: Truth
    cause: Cause
    message: str = ""


class NotesHeld(NumbersHeld):
    """Resources, phase and conditions of an owner, as its row has them and as a visit has noted them since.

    Attributes:
        lane: how the visit yields to the worker's other visits.
    """

    lane: VisitLane = ALONE

    def __init__(self, database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> None:
        super().__init__(database, owner, leave)
        self.phase, self.conditions = owner.phase, owner.conditions
        self.reason = owner.reason
        self.since = owner.since
        self._records: dict[str, ResourceRecord] = {}
        self._read = False
        self._ahead: Sequence[Row] | None = None
        self._notes = Notes()
        self._written = float("-inf")
        self._waits_since: float | None = None
        self._lands: float | None = None

    @property
    def lands(self) -> float | None:
        """Seconds for which a request with unknown or unwritten outcome may still take effect; None: there was none."""
        return 0.0 if self._lands is None and self._notes.changes else self._lands

    def may_land(self, errors: Iterable[WeftError | None]) -> None:
        """Note how long the requests behind these errors may still take effect; the owner's next holder waits for
        that."""
        seconds = max((e.lands for e in errors if isinstance(e, OutsideError)), default=0.0)
        if seconds > 0:
            self._lands = max(seconds, self._lands or 0.0)

    # -- resources ----------------------------------------------------------------------------------------------

    def records(self) -> dict[str, ResourceRecord]:
        """Key -> resource, read once a visit, with what this visit has noted since.

        Nothing else writes them: a change creates another generation of the owner, which the fence refuses.
        """
        if not self._read:
            rows, self._ahead = self._ahead, None
            fresh = {r.key: r for r in (self.read_resources() if rows is None else self._of_rows(rows))}
            self._records.clear()
            self._records.update(fresh)
            self._read = True
            if self.owner.late_until is not None:
                self._look_for_all()
        return self._records

    def _look_for_all(self) -> None:
        """The last worker didn't hand it back as it should have, and may have requested anything without a note of
        it."""
        self.note(
            Change(r.key, RowState.CREATING, attempts=r.attempts)
            for r in tuple(self._records.values())
            if r.state is RowState.WANTED
        )

    def read_ahead(self, rows: Sequence[Row]) -> None:
        """Provide rows of `resources_of` that were read, for several owners at once, since it was claimed."""
        self._ahead = rows

    def forget(self) -> None:
        self._read, self._ahead = False, None

    def resources(self) -> list[ResourceRecord]:
        """All of the owner's resources, as noted so far."""
        return list(self.records().values())

    def read_resources(self) -> list[ResourceRecord]:
        """Read them now, after writing the notes."""
        self.flush()
        with self._database.statement() as tx:
            rows = tx.rows("resources_of", owners=[self.owner.id], at=tx.given)
        return self._of_rows(rows)

    def _of_rows(self, rows: Sequence[Row]) -> list[ResourceRecord]:
        self.at = rows[0]["at"] if rows else self.at
        return [ResourceRecord.of(row) for row in rows]

    def note(self, changes: Iterable[Change] = (), events: Iterable[Event] = ()) -> None:
        """Note changes of resources, and events, to be written with what comes next."""
        records = self.records()
        for change in changes:
            before = records.get(change.key)
            if before is None:  # no row: the write finds out whether this is the newest generation's
                self._notes.change(change, moved=False)
                continue
            records[change.key] = after = before.after(change, self.at)
            goes = change.state is RowState.DELETING and before.kind.row.home is Home.FABRIC
            noted = change if after.former == before.former else replace(change, former=after.former)
            self._notes.change(noted, moved=before.state is not change.state, first=goes)
        self._notes.events += events

    def about_to_ask(self) -> None:
        """Call before anything is asked outside: writes what must be written before, and what has waited long enough.

        What is going to be requested is written before the first request of a visit, and so is a removal from a fabric:
        a process that changes a fabric for others puts back what the database still wants. Notes that aren't written
        when this worker dies are made up for by the next one, which finds that the hold ran out and looks for
        everything (`_look_for_all`).
        """
        self.lane.give_way()
        notes, now = self._notes, self._database.monotonic()
        if notes.first or (notes.announces and now - self._written > WRITTEN_EVERY):
            self.flush()
        elif notes and self._waits_since is None:
            self._waits_since = now
        elif notes and now - (self._waits_since or now) > WRITTEN_EVERY:
            self.flush()

    def change(self, changes: Iterable[Change], events: Iterable[Event] = ()) -> None:
        """Write resources and events now."""
        self.note(changes, events)
        self.flush()

    def say(self, kind: str, message: str, key: str | None = None) -> None:
        """Write an event now."""
        self.change((), [(kind, message, key)])

    # -- phase and conditions -----------------------------------------------------------------------------------

    @property
    def state(self) -> PodState:
        return summary(self.phase, self.conditions)

    def become(
        self,
        *news: News,
        phase: Phase | None = None,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Note another phase, other conditions, and events; what isn't new is left out."""
        written = list(events)
        dropped = any(find(self.conditions, a) for a in without)
        if dropped or written or any(self._is_news(n) for n in news) or phase not in (None, self.phase):
            self._become(news, phase or self.phase, without, written)

    def set(
        self,
        *news: News,
        phase: Phase | None = None,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """As `become`, and write it now."""
        self.become(*news, phase=phase, without=without, events=events)
        self.flush()

    def explain(self, message: str, cause: Cause = Cause.TRIED_AGAIN) -> None:
        """Record why the owner makes no progress; one that was READY isn't known to be so any more."""
        aspect = Aspect.READY if self.state is PodState.FAILED else DECIDES[self.state]
        known = find(self.conditions, aspect)
        status = "unknown" if self.state is PodState.READY else known.status if known else "false"
        self.become(News(aspect, status, cause, message))

    def _is_news(self, news: News) -> bool:
        known = find(self.conditions, news.aspect)
        if known is None or (known.status, known.reason) != (news.status, news.cause):
            return True
        return not same(known.message, news.message)

    def _become(
        self, news: Iterable[News], phase: Phase, without: Collection[Aspect], events: list[Event]
    ) -> None:
        check_transition(self.phase, phase)
        state, reason = self.state, self.reason
        made = (
            Condition(type=n.aspect, status=n.status, reason=n.cause, message=n.message, since=_NOW)
            for n in news
        )
        self.conditions = changed(self.conditions, *made, without=without)
        self.phase, self.reason = phase, why(phase, self.conditions)
        if self.state is not state:
            self.since, self._notes.moved = self.at, True
        if (self.state, self.reason) != (state, reason):
            events.append(("state", pods.STATE(state=self.state, why=self.reason), None))
        self._notes.conditions = True
        self._notes.events += events

    # -- writing it down ----------------------------------------------------------------------------------------

    def flush(self) -> Row | None:
        """Write all notes in one statement; the database's times are known after it."""
        if not self._notes and self._lands is None:
            return None
        notes, self._notes = self._notes, Notes()
        self._waits_since = None
        try:
            name = "write_held_watched" if notes.watched is not None else "write_held"
            row = self._fenced(name, **self._of_owner(notes), **notes.values(), lands=as_text(self._lands))
        except (WeftError, LostError):
            # As if the process had died right here; but the next news builds on what the owner became.
            if notes.changes:
                self._lands = self._lands or 0.0
            self._notes = Notes(conditions=notes.conditions, moved=notes.moved)
            self.forget()
            raise
        at, self._written = row["at"], self._database.monotonic()
        if notes.events:
            self._database.notify(self.owner.id)
        if self._lands is not None:
            self.owner, self._lands = (
                replace(self.owner, late_until=at),
                None,
            )  # and as the row says, in `late`
        for key in notes.moved_resources:
            self._records[key] = self._records[key].moved(at)
        if notes.moved:
            self.since = at
        if notes.conditions:
            known = self.conditions
            self.conditions = tuple(
                c.model_copy(update={"since": at}) if c.since == _NOW else c for c in known
            )
        if notes.done:
            self.owner = replace(self.owner, ready_at=at)
        notes.log_withheld(row["withheld"])
        return row

    def _of_owner(self, notes: Notes) -> dict[str, object]:
        if not notes.conditions:
            return {"phase": "", "state": "", "reason": Jsonb(""), "conditions": Jsonb([])}
        stored = [
            c.model_dump(mode="json") | ({"since": None} if c.since == _NOW else {}) for c in self.conditions
        ]
        return {
            "phase": self.phase,
            "state": self.state,
            "reason": message_json(self.reason),
            "conditions": Jsonb(stored),
        }
