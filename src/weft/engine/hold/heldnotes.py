"""What a visit notes of its owner's resources, and when all of its notes are written.

A visit notes what it observed and decided, and continues by that. The notes are written in one statement, with the
fence in it, before anything is asked outside (`HeldNotes.write_before_asking`), and when the owner is handed back.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from weft.engine.base.database import Row, Tx
from weft.engine.hold.fence import Event, Fence, LostError
from weft.engine.hold.notes import Notes, as_text
from weft.engine.hold.status import UNCHANGED, OwnerStatus
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import OutsideError, WeftError
from weft.model.kindrow import Home

WRITTEN_EVERY = 0.25
"""Seconds for which observations and decisions are buffered before they are written; most clouds answer slower."""


class HeldNotes:
    """Resources of an owner, as its rows have them and as a visit has noted them since, and how notes are written.

    Attributes:
        unwritten: what was noted since the last write.
    """

    def __init__(self, fence: Fence, status: OwnerStatus) -> None:
        self._fence, self._status = fence, status
        self.unwritten = Notes()
        self._records: dict[str, ResourceRecord] = {}
        self._read_at: int | None = None  # `Fence.writes` when they were read
        self._ahead: tuple[int | None, Sequence[Row]] = None, ()
        self._written = float("-inf")
        self._waits_since: float | None = None
        self._lands: float | None = None

    # -- resources ----------------------------------------------------------------------------------------------

    def records(self) -> dict[str, ResourceRecord]:
        """Key -> resource, read once a visit, with what this visit has noted since.

        Nothing else writes them: a change creates another generation of the owner, which the fence refuses.
        """
        if self._read_at != self._fence.writes:
            (read_at, rows), self._ahead = self._ahead, (None, ())
            read = self._of_rows(rows) if read_at == self._fence.writes else self.read_resources()
            self._records.clear()
            self._records.update((r.key, r) for r in read)
            self._read_at = self._fence.writes
            if self._fence.owner.late_until is not None:
                self._look_for_all()
        return self._records

    def _look_for_all(self) -> None:
        """Mark all resources to be looked for: the last worker didn't hand the owner back, and may have requested
        anything without a note.
        """
        self.note(
            Change(r.key, RowState.CREATING, attempts=r.attempts)
            for r in tuple(self._records.values())
            if r.state is RowState.WANTED
        )

    def read_ahead(self, rows: Sequence[Row]) -> None:
        """Provide rows of `resources_of` that were read, for several owners at once, since it was claimed."""
        self._ahead = self._fence.writes, rows

    def read_resources(self) -> list[ResourceRecord]:
        """Read the resources now, after writing the notes."""
        self.flush()
        with self._fence.database.statement() as tx:
            rows = tx.rows("resources_of", owners=[self._fence.owner.id], at=tx.given)
        return self._of_rows(rows)

    def _of_rows(self, rows: Sequence[Row]) -> list[ResourceRecord]:
        self._fence.at = rows[0]["at"] if rows else self._fence.at
        return [ResourceRecord.of(row) for row in rows]

    def note(self, changes: Iterable[Change] = (), events: Iterable[Event] = ()) -> None:
        """Note changes of resources, and events, to be written with what comes next."""
        records = self.records()
        for change in changes:
            before = records.get(change.key)
            if before is None:  # no row: the write finds out whether this is the newest generation's
                self.unwritten.change(change, moved=False)
                continue
            records[change.key] = after = before.after(change, self._fence.at)
            goes = change.state is RowState.DELETING and before.kind.row.home is Home.FABRIC
            noted = change if after.former == before.former else replace(change, former=after.former)
            self.unwritten.change(noted, moved=before.state is not change.state, first=goes)
        self.unwritten.events += events

    # -- requests that may still take effect --------------------------------------------------------------------

    @property
    def lands(self) -> float | None:
        """Seconds for which a request with unknown or unwritten outcome may still take effect; None: there was none."""
        return 0.0 if self._lands is None and self.unwritten.changes else self._lands

    def may_land(self, errors: Iterable[WeftError | None]) -> None:
        """Note how long the requests behind these errors may still take effect; the owner's next holder waits for
        that."""
        seconds = max((e.lands for e in errors if isinstance(e, OutsideError)), default=0.0)
        if seconds > 0:
            self._lands = max(seconds, self._lands or 0.0)

    def late(self) -> float:
        """Seconds until no request with an unknown outcome can take effect any more; 0: none can now."""
        # Counts this visit's own requests, and what a tenant has asked of a server meanwhile.
        row = self.flush()
        if row is None:
            row = self._fence.database.row("late_for", id=self._fence.owner.id)
        if row is None or row["late_until"] is None:
            return 0.0
        self._fence.owner = replace(self._fence.owner, late_until=row["late_until"])
        return max(0.0, float(row["seconds"]))

    # -- writing it down ----------------------------------------------------------------------------------------

    def write_before_asking(self) -> None:
        """Write what must be written before anything is asked outside, and what has waited long enough.

        What is going to be requested is written before the first request of a visit, and so is a removal from a fabric:
        a process that changes a fabric for others puts back what the database still wants. Notes that aren't written
        when this worker dies are made up for by the next one, which finds that the hold ran out and looks for
        everything (`_look_for_all`).
        """
        notes, now = self.unwritten, self._fence.database.monotonic()
        if notes.first or (notes.announces and now - self._written > WRITTEN_EVERY):
            self.flush()
        elif notes and self._waits_since is None:
            self._waits_since = now
        elif notes and now - (self._waits_since or now) > WRITTEN_EVERY:
            self.flush()

    @contextmanager
    def write(self, capacity: bool = False) -> Generator[Tx]:
        """A fenced transaction, after the notes; see `Fence.transaction`."""
        self.flush()
        with self._fence.transaction(capacity) as tx:
            yield tx

    def flush(self) -> Row | None:
        """Write all notes in one statement; the database's times are known after it. Returns the row of `write_held`,
        or None if there was nothing."""
        if not self.unwritten and self._lands is None:
            return None
        fence, notes, self.unwritten = self._fence, self.unwritten, Notes()
        self._waits_since = None
        try:
            name = "write_held_watched" if notes.watched is not None else "write_held"
            row = fence.statement(name, **self._of_owner(notes), **notes.values(), lands=as_text(self._lands))
        except (WeftError, LostError):
            # As if the process had died right here; but the next news builds on what the owner became.
            if notes.changes:
                self._lands = self._lands or 0.0
            self.unwritten = Notes(conditions=notes.conditions, moved=notes.moved)
            fence.forget()
            raise
        at, self._written = row["at"], fence.database.monotonic()
        if notes.events:
            fence.database.notify(fence.owner.id)
        if self._lands is not None:  # and as the row says, in `late`
            fence.owner, self._lands = replace(fence.owner, late_until=at), None
        for key in notes.moved_resources:
            self._records[key] = self._records[key].moved(at)
        if notes.moved:
            self._status.since = at
        if notes.conditions:
            self._status.written(at)
        if notes.done:
            fence.owner = replace(fence.owner, ready_at=at)
        notes.log_withheld(row["withheld"])
        return row

    def release(self, **values: object) -> None:
        """Write the notes with the owner's release, in one statement. Args: values: of `release_held`."""
        notes, self.unwritten = self.unwritten, Notes()
        known = {**self._of_owner(notes), "moved": True, "events": notes.stored_events()}
        self._fence.statement("release_held", **known, **values)
        self._fence.database.notify(self._fence.owner.id)

    def discard(self) -> float | None:
        """Drop the notes; returns `lands`, which still counts."""
        lands, self.unwritten = self.lands, Notes()
        return lands

    def unchanged_nodes(self) -> Mapping[str, str] | None:
        """Nodes that were observed, if nothing else needs to be written and they may all be in its segment."""
        return None if self._lands is not None else self.unwritten.unchanged_nodes()

    def _of_owner(self, notes: Notes) -> Mapping[str, object]:
        return self._status.values() if notes.conditions else UNCHANGED
