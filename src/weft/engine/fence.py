"""The fence of an owner in a worker's hands: its token is checked by every write, and before everything that changes
something outside.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

from psycopg.types.json import Jsonb

from weft.engine.database import Database, Row, Tx
from weft.engine.documents import said
from weft.engine.ownerrecord import OwnerRecord
from weft.ports.fences import JointFence

HOLD_SECONDS = 30.0
"""How long an owner stays with a worker without a heartbeat."""
LATE = "a request was made of which nobody knows what became"
"""Why something is read back only later."""
LATE_SECONDS = 200.0
"""How long after its hold a lost worker's last request may still be under way: the drivers' timeout for one answer
(180 s), `FRESH_SECONDS`, and a margin. Each is preceded by a proof that the hold lasts."""
FRESH_SECONDS = 1.0
"""How long a proof that the hold lasts counts; each statement with the fence in it is one.

Whatever is sent within this time after a proof is as late, at worst, as a request that was sent with the proof and was
under way for so much longer: `LATE_SECONDS` covers that, and a lost worker's requests are met by rows that were written
before they were sent. The time is the process's own (`Database.monotonic`) and counts from before the statement was
sent, so that who was suspended in between asks again.
"""

Event = tuple[str, str, str | None]
"""Type, message, and the key of the resource that it is about."""


class LostError(Exception):
    """Another worker has the owner now, or the hold expired: stop immediately, write nothing."""


class ChangedError(LostError):
    """The owner has a newer generation than this visit works on, or was retried: stop immediately, write nothing, start
    again."""


class Fence:
    """One owner, held by this worker under a token.

    A lease is not a fence: a suspended worker may still believe in it. So each write locks the owner's row and checks
    the token first; an older holder gets `LostError` and nothing is written.

    Attributes:
        owner: its row as it was when it was taken, with what this visit has changed of it.
        leave: set when the worker should let go at the next step.
        at: the database's time at the last write or reading of resources.
        places: clouds and fabrics in which the owner has anything; None: not known, so all count.
    """

    places: Collection[str] | None = None

    def __init__(self, database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> None:
        self._database = database
        self.owner = owner
        self.leave = leave or threading.Event()
        self.lost = threading.Event()
        self.at = owner.since
        self.wanted = owner.wanted
        self._proved = float("-inf")
        self._says = False

    def flush(self) -> None:
        """Write what the visit has noted until now."""

    def forget(self) -> None:
        """What was read may be another thing by now."""

    @contextmanager
    def write(self, capacity: bool = False) -> Generator[Tx]:
        """A fenced transaction, after what was noted; also detects whether the desired state has changed.

        Args:
            capacity: numbers are claimed in it: one at a time, and that lock is taken before the owner's.
        """
        self.flush()
        if self.lost.is_set():
            raise LostError
        self.forget()  # whatever is written here is read again
        with self._database.transaction() as tx:
            if capacity:
                tx.row("lock_capacity")
            row = tx.row("check_token", id=self.owner.id, token=self.owner.token, at=tx.given)
            if row is None:
                self.lost.set()
                raise LostError
            if self._is_older(row):
                raise ChangedError
            self.wanted, self.at = row["wanted"], tx.begin_at(row["at"])
            self._says = False
            yield tx
        if self._says:
            self._database.tell(self.owner.id)

    def _fenced(self, name: str, **values: object) -> Row:
        """A write that is one statement with the fence in it; its row. Learns what `write` does."""
        if self.lost.is_set():
            raise LostError
        owner, began = self.owner, self._database.monotonic()
        with self._database.statement() as tx:
            held = {
                "id": owner.id,
                "token": owner.token,
                "generation": owner.generation,
                "retries": owner.retries,
            }
            row = tx.row(name, **held, at=tx.given, **values)
        if row is None:
            self._refused()
        self.wanted, self.at, self._proved = row["wanted"], row["at"], began
        return row

    def _refused(self) -> NoReturn:
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is not None and self._is_older(row):
            raise ChangedError
        self.lost.set()
        raise LostError

    def _is_older(self, row: Row) -> bool:
        """Whether this visit began with less than the row says now."""
        return (row["generation"], row["retries"]) != (self.owner.generation, self.owner.retries)

    def check(self) -> None:
        """Right before anything is changed outside: raise `LostError` unless the owner is still this worker's, as far
        as a proof of the last `FRESH_SECONDS` says, or the database now; and `ClosedError` or `UnknownError` unless the
        database is known to be the one that has done everything until now (`weft.engine.gate`).
        """
        if self.lost.is_set():
            raise LostError
        self._prove()
        self._database.gate.check(
            self.places
        )  # last: the proof may have come from another server than before

    def check_ahead(self) -> None:
        """Right before capacity is given back, or a receipt signed: raise `ClosedError` if the database is known to be
        behind what a cloud remembers. What was read is true, but not whose it is by now.
        """
        self._database.gate.check(())

    def _prove(self) -> None:
        began = self._database.monotonic()
        if began - self._proved < FRESH_SECONDS:
            return
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is None or self._is_older(row):
            self._refused()
        self._proved = began

    def renew(self, fences: Sequence[Fence]) -> None:
        """Renew the proofs of all these with one statement, if one is too old to count; whoever isn't held as it was is
        told so by its own `check`.
        """
        mine, began = [f for f in fences if f._database is self._database], self._database.monotonic()
        if all(began - f._proved < FRESH_SECONDS for f in mine):
            return
        owners = [{"id": str(f.owner.id), "token": f.owner.token} for f in mine]
        with self._database.statement() as tx:
            rows = {row["id"]: row for row in tx.rows("are_held", owners=Jsonb(owners))}
        for one in mine:
            row = rows.get(one.owner.id)
            if row is not None and not one._is_older(row):
                one._proved = max(one._proved, began)

    def late(self) -> float:
        """Seconds until nothing can come to be any more of whose request nobody knows what became; 0: it can't now."""
        self.flush()  # this visit's own requests are meant, and what a tenant has asked of a server meanwhile
        with self._database.statement() as tx:
            row = tx.row("late_for", id=self.owner.id)
        if row is None:
            return 0.0
        self.owner = replace(self.owner, late_until=row["late_until"])
        return max(0.0, float(row["seconds"]))

    def say_in(self, tx: Tx, events: Iterable[Event]) -> None:
        """In a transaction of `write`, after which whoever follows the owner is told."""
        rows = [
            {"owner_id": self.owner.id, "at": tx.now(), "type": kind, "message": said(message), "key": key}
            for kind, message, key in events
        ]
        if rows:
            tx.many("insert_event", rows)
            self._says = True


class OwnersFence(JointFence):
    """What a driver is given as `Scope.fence`."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __call__(self) -> None:
        self._fence.check()

    def renew(self, fences: Sequence[JointFence]) -> None:
        self._fence.renew([f._fence for f in fences if isinstance(f, OwnersFence)])
