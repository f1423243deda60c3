"""An owner held by a worker. Every write goes through the fence: the token is checked in the same transaction."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import NamedTuple, NoReturn

from psycopg.types.json import Jsonb

from weft.engine.database import Database, Row, Tx
from weft.engine.documents import written
from weft.engine.epoch import note_epoch
from weft.engine.ownerrecord import OwnerRecord, Taken
from weft.engine.postgres import FIRST
from weft.engine.records import Change, ResourceRecord, StaleNumber
from weft.engine.world import World
from weft.model.errors import PermanentError
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
from weft.model.receipt import ReceiptItem, SignedReceipt
from weft.model.site import Site
from weft.ports.witness import Witnesses

log = logging.getLogger(__name__)

HOLD_SECONDS = 30.0
"""How long an owner stays with a worker without a heartbeat."""
LATE_SECONDS = 200.0
"""How long after its hold a lost worker's last request may still be under way: the drivers' timeout for one answer
(180 s) and a margin. Each is preceded by a look whether the hold lasts."""

_NOW = FIRST
"""Since when a condition lasts that is about to be written: the database says what time it is then."""


class News(NamedTuple):
    """What there is to say of one aspect of an owner."""

    aspect: Aspect
    status: Truth
    cause: Cause
    message: str = ""


Event = tuple[str, str, str | None]
"""Type, message, and the key of the resource that it is about."""


class LostError(Exception):
    """Another worker has the owner now, or the hold expired: stop immediately, write nothing."""


class ChangedError(LostError):
    """The owner has a newer generation than this visit works on: stop immediately, write nothing, start again."""


class Held:
    """One owner, held by this worker under a token; a pod is held as a `HeldPod`.

    A lease is not a fence: a suspended worker may still believe in it. So each write locks the owner's row and checks
    the token first; an older holder gets `LostError` and nothing is written.

    Attributes:
        owner: its row as it was when it was taken, with what this visit has changed of it.
        leave: set when the worker should let go at the next step.
        at: the database's time at the last write or reading of resources.
        world, site: what a visit works with; the same from its beginning to its end.
    """

    world: World
    site: Site

    def __init__(self, database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> None:
        self._database = database
        self.leave = leave or threading.Event()
        self.at = owner.since
        self.owner = owner
        self.phase, self.conditions = owner.phase, owner.conditions
        self.reason = owner.reason
        self.since = owner.since
        self.wanted = owner.wanted
        self._woken = owner.woken
        self.lost = threading.Event()
        self._records: dict[str, ResourceRecord] = {}
        self._read = False

    @contextmanager
    def write(self, capacity: bool = False) -> Generator[Tx]:
        """A fenced transaction; also detects whether the desired state has changed.

        Args:
            capacity: numbers are claimed in it: one at a time, and that lock is taken before the owner's.
        """
        if self.lost.is_set():
            raise LostError
        self._read = False  # whatever is written here is read again
        with self._database.transaction() as tx:
            if capacity:
                tx.row("lock_capacity")
            row = tx.row("check_token", id=self.owner.id, token=self.owner.token, at=tx.given)
            if row is None:
                self.lost.set()
                raise LostError
            if row["generation"] != self.owner.generation:
                raise ChangedError
            self.wanted, self.at = row["wanted"], tx.begin_at(row["at"])
            yield tx

    def _fenced(self, name: str, **values: object) -> Row:
        """A write that is one statement with the fence in it; its row. Learns what `write` does."""
        if self.lost.is_set():
            raise LostError
        owner = self.owner
        with self._database.statement() as tx:
            row = tx.row(
                name, id=owner.id, token=owner.token, generation=owner.generation, at=tx.given, **values
            )
        if row is None:
            self._refused()
        self.wanted, self.at = row["wanted"], row["at"]
        return row

    def _refused(self) -> NoReturn:
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is not None and row["generation"] != self.owner.generation:
            raise ChangedError
        self.lost.set()
        raise LostError

    def check(self) -> None:
        """Right before anything is changed outside: raise `LostError` unless the owner is still this worker's."""
        if self.lost.is_set():
            raise LostError
        with self._database.statement() as tx:
            row = tx.row("is_held", id=self.owner.id, token=self.owner.token)
        if row is None or row["generation"] != self.owner.generation:
            self._refused()

    def late(self) -> float:
        """Seconds until nothing that an earlier holder asked for can still come to be; 0: it can't any more."""
        if self.owner.late_until is None:
            return 0.0
        with self._database.statement() as tx:
            row = tx.row("late_for", id=self.owner.id)
        return max(0.0, float(row["seconds"])) if row else 0.0

    def extend(self) -> None:
        """Sign of life; called by the worker's heartbeat."""
        with self._database.statement() as tx:
            row = tx.row("extend_lease", id=self.owner.id, token=self.owner.token, hold=HOLD_SECONDS)
        if row is None:
            self.lost.set()
        else:
            self.wanted = row["wanted"]

    def records(self) -> dict[str, ResourceRecord]:
        """Key -> resource, read once a visit, and as this visit has written it since.

        Nobody else writes them: a change makes another generation of the owner, which the fence refuses.
        """
        if not self._read:
            fresh = {r.key: r for r in self.read_resources()}
            self._records.clear()
            self._records.update(fresh)
            self._read = True
        return self._records

    def resources(self) -> list[ResourceRecord]:
        return list(self.records().values())

    def read_resources(self) -> list[ResourceRecord]:
        """What the database has now."""
        with self._database.statement() as tx:
            rows = tx.rows("resources_of", owner_id=self.owner.id, at=tx.given)
        self.at = rows[0]["at"] if rows else self.at
        return [ResourceRecord.of(row) for row in rows]

    def change(self, changes: Iterable[Change], events: Iterable[Event] = ()) -> None:
        """Write resources and events together."""
        changes, told = list(changes), _told(events)
        if not changes and not told:
            return
        rows = [
            {
                "key": c.key,
                "state": c.state,
                "outside_id": c.outside_id,
                "reason": c.reason,
                "differences": [d.model_dump(mode="json") for d in c.differences],
                "facts": dict(c.facts or {}),
                "attempts": c.attempts,
                "asked": c.asked,
            }
            for c in changes
        ]
        row = self._fenced("write_held", changes=Jsonb(rows), events=Jsonb(told))
        records = self.records()
        for change in changes:
            records[change.key] = records[change.key].after(change, row["at"])

    def say(self, kind: str, message: str, key: str | None = None) -> None:
        """Write an event."""
        self.change((), [(kind, message, key)])

    @property
    def state(self) -> PodState:
        return summary(self.phase, self.conditions)

    def set(
        self,
        *news: News,
        phase: Phase | None = None,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Change the owner's phase and conditions, and write events; what is no news writes nothing."""
        told = list(events)
        dropped = any(find(self.conditions, a) for a in without)
        if dropped or told or any(self._is_news(n) for n in news) or phase not in (None, self.phase):
            self._set("set_held", news, phase or self.phase, without, told)

    def explain(self, message: str, cause: Cause = Cause.TRIED_AGAIN) -> None:
        """Say why the owner doesn't get on from where it is; one that was READY isn't known to be so any more."""
        aspect = Aspect.READY if self.state is PodState.FAILED else DECIDES[self.state]
        known = find(self.conditions, aspect)
        status = "unknown" if self.state is PodState.READY else known.status if known else "false"
        self.set(News(aspect, status, cause, message))

    def _is_news(self, news: News) -> bool:
        known = find(self.conditions, news.aspect)
        return known is None or (known.status, known.reason, known.message) != news[1:]

    def _set(
        self,
        statement: str,
        news: Iterable[News],
        phase: Phase,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
        **values: object,
    ) -> None:
        check_transition(self.phase, phase)
        before = (self.state, self.reason)
        conditions = changed(
            self.conditions,
            *(
                Condition(type=n.aspect, status=n.status, reason=n.cause, message=n.message, since=_NOW)
                for n in news
            ),
            without=without,
        )
        state, reason = summary(phase, conditions), why(phase, conditions)
        told = list(events)
        if (state, reason) != before:
            told.append(("state", f"{state}: {reason}" if reason else str(state), None))
        stored = [
            c.model_dump(mode="json") | ({"since": None} if c.since == _NOW else {}) for c in conditions
        ]
        row = self._fenced(
            statement,
            phase=phase,
            conditions=Jsonb(stored),
            state=state,
            reason=reason,
            events=Jsonb(_told(told)),
            **values,
        )
        at = row["at"]
        self.since = self.since if state is before[0] else at
        self.conditions = tuple(
            c.model_copy(update={"since": at}) if c.since == _NOW else c for c in conditions
        )
        self.phase, self.reason = phase, reason

    def alarm(self, message: str) -> None:
        """Say, once in a state, that a person must look: it lasts too long, or can't go on by itself."""
        with self.write() as tx:
            if tx.run("set_alarmed", id=self.owner.id):
                self._events(tx, [("alarm", message, None)])

    def repaired(self) -> None:
        """What an operator asked to repair was repaired, or tried."""
        with self.write() as tx:
            tx.run("repaired_owner", id=self.owner.id)

    def number_taken(self, taken: Taken) -> None:
        """Write down that a number is somebody else's: it is replaced once nothing of the owner is left outside."""
        with self.write() as tx:
            tx.run("number_taken", id=self.owner.id, taken=Jsonb(asdict(taken)))
        self.owner = replace(self.owner, taken=taken)

    def given_back(self) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
        """Nodes that were given back before the end, the first one first; what was read then, also of numbers."""
        if self.owner.generation == 1:
            return (), ()
        with self._database.statement() as tx:
            rows = tx.rows("given_back", owner_id=self.owner.id)
        items = (ReceiptItem.model_validate(i) for r in rows for i in r["items"])
        return tuple(n for r in rows for n in r["nodes"]), tuple(items)

    def change_done(self) -> None:
        """Everything was seen to be as the newest generation wants it."""
        if self.owner.ready_generation == self.owner.generation and self.owner.changed_at is None:
            return
        with self.write() as tx:
            tx.run("change_done", id=self.owner.id, at=tx.now())
            if self.owner.generation > 1:
                self._events(tx, [("change", f"generation {self.owner.generation} is applied", None)])
        generation, at = self.owner.generation, self.at
        self.owner = replace(self.owner, ready_generation=generation, changed_at=None, ready_at=at)

    def note_epoch(self, facts: Witnesses, cloud: str) -> None:
        """Before anything is made outside for the owner, the cloud knows that it was claimed."""
        note_epoch(self._database, facts, self.owner.scope.site, cloud)

    @contextmanager
    def next_generation(self) -> Generator[tuple[Tx, int]]:
        """A fenced transaction, under the lock of numbers, that begins a newer generation of what is wanted of it."""
        with self.write(capacity=True) as tx:
            row = tx.row("follow_owner", id=self.owner.id, at=tx.now())
            assert row is not None, "a pod's generations are those of its order"
            yield tx, row["generation"]
        self.owner = replace(self.owner, generation=row["generation"], changed_at=row["changed_at"])

    def hold_number(self, tx: Tx, space: str, number: int) -> None:
        """In a transaction under the lock of numbers. Raises `PermanentError` if somebody else has it."""
        who = tx.row("who_holds", space=space, number=number)
        if who is None:
            tx.run("hold_number", space=space, number=number, owner_id=self.owner.id)
        elif who["owner_id"] != self.owner.id:
            name = f"{who['kind']} {who['name']}" if who["name"] else f"owner {who['owner_id']}"
            raise PermanentError(
                f"hold {space} {number}",
                str(self.owner),
                f"{name} has it",
                f"give it another, or release {name}",
            )

    def numbers(self) -> frozenset[tuple[str, int]]:
        """Spaces and numbers that it holds."""
        with self._database.statement() as tx:
            rows = tx.rows("numbers_of", owner_id=self.owner.id)
        return frozenset((r["space"], r["number"]) for r in rows)

    def give_back_numbers(self, numbers: Collection[tuple[str, int]], items: Sequence[ReceiptItem]) -> None:
        """Numbers that nothing of it uses any more; what was read of that is part of its receipt."""
        with self.write() as tx:
            for space, number in sorted(numbers):
                tx.run("give_back_number", space=space, number=number, owner_id=self.owner.id)
                self._events(tx, [("release", f"{space} {number} was read back clean and is free", None)])
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=self.owner.id, nodes=[], at=tx.now(), items=read)
            tx.run("touch_queue", at=tx.now())

    def keep_stale_numbers(self, stale: Iterable[StaleNumber]) -> None:
        """Numbers that nobody else may be given, though the owner's segment is gone: `weft.engine.fabrickeeper` frees
        them.
        """
        with self.write() as tx:
            for key in stale:
                tx.run(
                    "hold_stale_number",
                    fabric=key.fabric,
                    manager=key.manager,
                    number=key.number,
                    owner_id=self.owner.id,
                    reason=key.reason,
                )
                text = f"segment {key.text} stays held: {key.manager}: {key.reason}"
                self._events(tx, [("release", text, None)])

    def released(
        self, receipt: SignedReceipt, kept: Iterable[tuple[str, int]] = (), reason: str = ""
    ) -> None:
        """The end: receipt, capacity and state in one statement. Capacity comes back here and not before.

        Args:
            kept: spaces and numbers that stay held.
            reason: why it ended otherwise than it should.
        """
        cause = Cause.ABANDONED if reason else Cause.DONE
        clean = News(Aspect.CLEAN, "false" if reason else "true", cause, reason)
        signed = ("receipt", "receipt signed", None)
        values = {"receipt": written(receipt), "kept": [f"{space} {number}" for space, number in kept]}
        self._set("release_held", [clean], Phase.RELEASED, (), [signed], **values)

    def give_up(self, delay: float, failures: int = 0) -> None:
        """Let go; look again after `delay` seconds, or at once if somebody woke it meanwhile."""
        with self._database.statement() as tx:
            tx.run(
                "give_up_owner",
                id=self.owner.id,
                token=self.owner.token,
                failures=failures,
                woken=self._woken,
                delay=delay,
            )

    def _events(self, tx: Tx, events: Iterable[Event]) -> None:
        rows = [
            {"owner_id": self.owner.id, "at": tx.now(), "type": kind, "message": message, "key": key}
            for kind, message, key in events
        ]
        if rows:
            tx.many("insert_event", rows)
            tx.run("notify", owner_id=str(self.owner.id))


def _told(events: Iterable[Event]) -> list[dict[str, str | None]]:
    return [{"type": kind, "message": message, "key": key} for kind, message, key in events]
