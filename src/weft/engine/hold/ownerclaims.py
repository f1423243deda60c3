"""Claims owners that are due, many with one statement, and hands unchanged ones back in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.unreadable import UnreadableError
from weft.engine.hold.fence import HOLD_SECONDS
from weft.engine.hold.held import Held
from weft.engine.hold.ownerstore import hold, record_of
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

MANY = 32
"""Owners per statement that extends holds or hands owners back."""


@dataclass(frozen=True, slots=True)
class UnreadableOwner:
    """An owner held by a worker whose rows can't be read.

    Attributes:
        lands: as `HeldNotes.lands`.
    """

    id: UUID
    token: int
    woken: int
    error: UnreadableError
    lands: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimedOwners:
    """Owners held by a worker, the one that has waited longest first, with their resources read ahead."""

    readable: tuple[Held, ...]
    unreadable: tuple[UnreadableOwner, ...]

    @property
    def number(self) -> int:
        """How many owners were claimed, readable or not."""
        return len(self.readable) + len(self.unreadable)


def claim_work(
    database: Database, worker: str, late: float, most: int, releases: int, leave: threading.Event
) -> ClaimedOwners:
    """Claim owners with work to do: being built, changed or repaired, or observed to differ; and releases.

    Args:
        late: see `LoopSettings`.
        most: without releases; `releases`, which come first, limits these.
        leave: see `Held`.
    """
    return _claim("claim_work", database, leave, worker=worker, late=late, most=most, releases=releases)


def claim_ready(
    database: Database, worker: str, late: float, most: int, leave: threading.Event
) -> ClaimedOwners:
    """Claim owners that were as they should be when last observed."""
    return _claim("claim_ready", database, leave, worker=worker, late=late, most=most)


def _claim(name: str, database: Database, leave: threading.Event, **values: object) -> ClaimedOwners:
    readable: list[Held] = []
    unreadable: list[UnreadableOwner] = []
    with database.statement() as tx:
        rows = tx.rows(name, hold=HOLD_SECONDS, **values)
        resources: dict[UUID, list[Row]] = {row["id"]: [] for row in rows}
        for one in tx.rows("resources_of", owners=list(resources), at=tx.given) if rows else ():
            resources[one["owner_id"]].append(one)
        for row in rows:
            whole = _whole(tx, row)
            try:
                held = hold(database, record_of(whole), leave)
            except UnreadableError as error:
                unreadable.append(UnreadableOwner(row["id"], whole["token"], whole["woken"], error))
                continue
            if row["site_generation"] is not None:
                held.site_stamp = row["site_generation"], row["site_activated_at"]
            held.gate.claims, held.accepted = row["number"], row["accepted_at"]
            held.notes.read_ahead(resources[row["id"]])
            readable.append(held)
    return ClaimedOwners(tuple(readable), tuple(unreadable))


def _whole(tx: Tx, row: Row) -> Row:
    """A pod's row is complete; another owner's is read."""
    if row["kind"] == "pod":
        return row
    found = tx.row("owner_by_id", id=row["id"])
    assert found is not None, "it was claimed just now"
    return found


def extend_holds(database: Database, held: Sequence[Held]) -> list[Held]:
    """Heartbeats for owners held by a worker, `MANY` at a time. Returns those whose rows were locked, to be tried again
    soon; of those that another worker holds by now, `Held.lost` is set.
    """
    left: list[Held] = []
    for many in (held[i : i + MANY] for i in range(0, len(held), MANY)):
        owners = [{"id": str(one.owner.id), "token": one.owner.token} for one in many]
        rows = database.rows("extend_holds", owners=Jsonb(owners), hold=HOLD_SECONDS)
        found = {row["id"]: row for row in rows}
        for one in many:
            if (row := found.get(one.owner.id)) is None:
                one.fence.lost.set()
                continue
            one.fence.wanted = row["wanted"]
            if not row["extended"]:
                left.append(one)
    return left


class UnchangedOwners:
    """Owners that were observed to be unchanged, to be handed back in batches. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._seen: list[tuple[Held, float]] = []
        self._since = 0.0

    def add(self, held: Held, delay: float) -> None:
        """Add an owner that is due again after `delay` seconds."""
        with self._lock:
            if not self._seen:
                self._since = time.monotonic()
            self._seen.append((held, delay))

    @property
    def many(self) -> bool:
        """Whether there are enough to be handed back now."""
        return len(self._seen) >= MANY

    @property
    def age(self) -> float | None:
        """Seconds since the first of them was added; None: there is none."""
        with self._lock:
            return time.monotonic() - self._since if self._seen else None

    def hand_back(self) -> list[Held]:
        """Hand back all that were added and return them, except those whose rows are locked, which go with the next
        batch. Those with a newer generation are due at once.

        If the database is unreachable, they are claimed again when their holds run out.
        """
        with self._lock:
            seen, self._seen = self._seen, []
        if not seen:
            return []
        owners = [
            {
                "id": str(held.owner.id),
                "token": held.owner.token,
                "generation": held.owner.generation,
                "woken": held.owner.woken,
                "delay": delay,
            }
            for held, delay in seen
        ]
        nodes = [
            {"id": str(held.owner.id), "node": node}
            for held, _ in seen
            for node in held.notes.unchanged_nodes() or ()
        ]
        try:
            with self._database.statement() as tx:
                rows = tx.rows("hand_back_unchanged", owners=Jsonb(owners), nodes=Jsonb(nodes), at=tx.given)
        except WeftError as error:
            log.warning("%d visited owners can't be handed back: %s", len(seen), error)
            return [held for held, _ in seen]
        gone = {row["id"]: row["gone"] for row in rows}
        for held, delay in seen:
            if not gone.get(held.owner.id, True):
                self.add(held, delay)
        over = [held for held, _ in seen if gone.get(held.owner.id, True)]
        for held in over:
            if held.owner.id not in gone:
                _hand_back_unwritten(held)
        return over


def _hand_back_unwritten(held: Held) -> None:
    try:
        held.hand_back_unwritten(0.0, held.owner.failures)
    except WeftError as error:
        log.warning("%s (%s) can't be handed back: %s", held.owner, held.owner.id, error)
