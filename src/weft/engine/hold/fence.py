"""The fence of an owner that a worker holds: every write, and every change outside, first checks its token."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NoReturn

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import message_json
from weft.engine.base.gate import ClosedError
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.model.errors import TemporaryError
from weft.ports.fences import JointFence

HOLD_SECONDS = 30.0
"""How long an owner stays with a worker without a heartbeat."""
LATE = "the outcome of a request is unknown"
"""Reason why something is read back only later."""
LATE_SECONDS = 200.0
"""How long after its hold a lost worker's last request may still be under way: the drivers' timeout for one answer
(180 s), `FRESH_SECONDS`, and a margin. Each is preceded by a proof that the hold lasts."""
FRESH_SECONDS = 1.0
"""Seconds for which a proof that the hold lasts counts; each statement with the fence in it is one.

A request sent within this time after a proof is at worst as late as one that was sent with the proof and took that much
longer: `LATE_SECONDS` covers that, and the rows written before a lost worker's requests say what they may create. The
time is the process's own (`Database.monotonic`) and counts from before the statement was sent, so that a process
suspended in between asks again.
"""

Event = tuple[str, str, str | None]
"""Type, message, and key of the resource concerned."""


class LostError(Exception):
    """Another worker has the owner now, or the hold expired: stop immediately, write nothing."""


class ChangedError(LostError):
    """The owner has a newer generation than this visit works on, or a retry was requested: stop immediately, write
    nothing, start again."""


class Fence(JointFence):
    """One owner, held by this worker under a token; drivers call it before each request (`Scope.fence`).

    A lease is not a fence: a suspended worker may still believe in it. So each write locks the owner's row and checks
    the token first; an older holder gets `LostError` and nothing is written.

    Attributes:
        owner: its row as it was when it was claimed, with what this visit has changed of it.
        leave: set when the worker should hand it back at the next step.
        lost: set once another worker has it.
        at: the database's time at the last write or reading of resources.
        wanted: what was wanted of the owner by then: `present` or `absent`.
        places: clouds and fabrics in which the owner has anything; None: unknown, so all count.
        writes: number of transactions that wrote rows of the owner; what was read before the last one may have changed.
    """

    places: Collection[str] | None = None

    def __init__(self, database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> None:
        self.database = database
        self.owner = owner
        self.leave = leave or threading.Event()
        self.lost = threading.Event()
        self.at = owner.since
        self.wanted = owner.wanted
        self.writes = 0
        self._proved = float("-inf")
        self._says = False

    def forget(self) -> None:
        """Discard what was read, which may have changed."""
        self.writes += 1

    @contextmanager
    def transaction(self, capacity: bool = False) -> Generator[Tx]:
        """A fenced transaction, for `HeldNotes.write`; also detects whether the desired state has changed.

        Args:
            capacity: numbers are claimed in it: one such transaction at a time; its lock is taken before the owner's.
        """
        if self.lost.is_set():
            raise LostError
        self.forget()  # rows written here are read again
        with self.database.transaction() as tx:
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
            self.database.notify(self.owner.id)

    def statement(self, name: str, **values: object) -> Row:
        """A write that is one statement with the fence in it; returns its row. Updates this fence as `transaction`
        does."""
        if self.lost.is_set():
            raise LostError
        owner, began = self.owner, self.database.monotonic()
        with self.database.statement() as tx:
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
        row = self.database.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is not None and self._is_older(row):
            raise ChangedError
        self.lost.set()
        raise LostError

    def _is_older(self, row: Row) -> bool:
        """Whether this visit began with an older state than the row has now."""
        return (row["generation"], row["retries"]) != (self.owner.generation, self.owner.retries)

    def __call__(self) -> None:
        self.check()

    def check(self) -> None:
        """Call right before any change outside. Raises `LostError` unless this worker still holds the owner, by a proof
        of the last `FRESH_SECONDS` or by the database now; and `ClosedError` or `UnknownError` unless the database is
        known to be the one that has done everything so far (`weft.engine.base.gate`).
        """
        if self.lost.is_set():
            raise LostError
        self._prove()
        # Last: the proof may have come from another server than before.
        self.database.gate.check(self.places)

    def check_ahead(self) -> None:
        """Call right before capacity is returned or a receipt signed. Raises `ClosedError` if the database is known to
        be behind what a cloud remembers, `UnknownError` while no cloud has been read: what was read is true, but it may
        belong to another owner by now.
        """
        if (closed := self.closed(())) is not None:
            raise closed

    def closed(self, places: Collection[str] | None, clouds: Collection[str] = ()) -> TemporaryError | None:
        """Why nothing of the owner may be changed at these places; None: it may. A release that an operator has
        abandoned isn't stopped by a cloud that can't be read. Args: clouds: all of the site's, if known."""
        closed, asked = self.database.gate.closed(places, clouds), self.owner.abandoned
        if asked is not None and not asked.own and not isinstance(closed, ClosedError):
            return None  # a cloud that is gone must not block it: nothing changes, what is unseen is kept
        return closed

    def _prove(self) -> None:
        began = self.database.monotonic()
        if began - self._proved < FRESH_SECONDS:
            return
        row = self.database.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is None or self._is_older(row):
            self._refused()
        self._proved = began

    def renew(self, fences: Sequence[JointFence]) -> None:
        """Renew the proofs of all these with one statement if one is too old; an owner that was lost or changed raises
        at its own `check`.
        """
        mine = [f for f in fences if isinstance(f, Fence) and f.database is self.database]
        began = self.database.monotonic()
        if all(began - f._proved < FRESH_SECONDS for f in mine):
            return
        owners = [{"id": str(f.owner.id), "token": f.owner.token} for f in mine]
        rows = {row["id"]: row for row in self.database.rows("are_held", owners=Jsonb(owners))}
        for one in mine:
            row = rows.get(one.owner.id)
            if row is not None and not one._is_older(row):
                one._proved = max(one._proved, began)

    def insert_events(self, tx: Tx, events: Iterable[Event]) -> None:
        """Add events in a transaction of this fence, after which followers of the owner are notified."""
        rows = [
            {
                "owner_id": self.owner.id,
                "at": tx.now(),
                "type": kind,
                "message": message_json(message),
                "key": key,
            }
            for kind, message, key in events
        ]
        if rows:
            tx.many("insert_event", rows)
            self._says = True
