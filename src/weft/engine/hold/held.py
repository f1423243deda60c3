"""An owner held by a worker: what a visit knows of it, and the parts by which it notes and writes.

Each part is a module of its own; all of them write through the `Fence`, after the notes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from datetime import datetime

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import written
from weft.engine.base.world import World
from weft.engine.hold.fence import Event, Fence
from weft.engine.hold.heldnotes import HeldNotes
from weft.engine.hold.heldnumbers import HeldNumbers
from weft.engine.hold.holdings import Holdings
from weft.engine.hold.lane import ALONE, VisitLane
from weft.engine.hold.ownersgate import OwnersGate
from weft.engine.hold.quarantine import Quarantine
from weft.engine.hold.status import News, OwnerStatus
from weft.engine.hold.work import Work
from weft.engine.rows.ownerrecord import Abandonment, OwnerRecord
from weft.engine.rows.records import Change, ResourceRecord
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause, Phase
from weft.model.receipt import ReceiptItem, SignedReceipt
from weft.model.resources import Observed
from weft.model.site import Site


class Held:
    """One owner, held by this worker under a token; a pod is held as a `HeldPod`.

    Attributes:
        fence: every write, and every change outside, passes it.
        status: phase and conditions.
        notes: its resources, and what isn't written yet.
        work: counts for how long its release or change was worked on.
        gate: whether the database may be trusted with it.
        holdings: its nodes and numbers.
        numbers: claims and returns them.
        quarantine: keeps nodes from being assigned.
        gone: whether it was released, and so handed back.
        site_stamp: `SiteRecord.stamp` of the newest site when it was claimed; None: there was none, or not read.
        accepted: when a restored database was last accepted; None: never, or not read.
        lane: how the visit yields to the worker's other visits.
        sights: key -> when this visit asked for servers that it saw at rest, by this process's clock, and what it saw;
            only what no request for a change was made since, nor was under way then (`changing`).
        requests: how often `changing` was called.
        world, site: what a visit works with; the same from its beginning to its end.
    """

    world: World
    site: Site
    site_stamp: tuple[int, datetime] | None = None
    accepted: datetime | None = None
    lane: VisitLane = ALONE
    gone = False

    def __init__(self, database: Database, owner: OwnerRecord, leave: threading.Event | None = None) -> None:
        self.fence = Fence(database, owner, leave)
        self.sights, self.requests = dict[str, tuple[float, Observed]](), 0
        self.status = OwnerStatus(owner)
        self.notes = HeldNotes(self.fence, self.status)
        self.work = Work(self.fence, self.notes)
        self.gate = OwnersGate(self.fence)
        self.holdings = Holdings(self.fence)
        self.numbers = HeldNumbers(self.fence, self.notes)
        self.quarantine = Quarantine(self.fence, self.notes, self._outside)

    def _outside(self) -> AbstractContextManager[None]:
        """`VisitLane.outside` of the present lane, which is known only after the claim."""
        return self.lane.outside()

    @property
    def owner(self) -> OwnerRecord:
        """Its row as it was when it was claimed, with what this visit has changed of it."""
        return self.fence.owner

    @property
    def wanted(self) -> str:
        """`present` or `absent`, as last written or read."""
        return self.fence.wanted

    @property
    def at(self) -> datetime:
        """The database's time at the last write or reading of resources."""
        return self.fence.at

    # -- what a visit notes -------------------------------------------------------------------------------------

    def resources(self) -> list[ResourceRecord]:
        """All of the owner's resources, as noted so far."""
        return list(self.notes.records().values())

    def note(self, changes: Iterable[Change] = (), events: Iterable[Event] = ()) -> None:
        """Note changes of resources, and events, to be written with what comes next."""
        self.notes.note(changes, events)

    def become(
        self,
        *news: News,
        phase: Phase | None = None,
        without: Collection[Aspect] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Note another phase, other conditions, and events; what isn't new is left out."""
        status, said = self.status, list(events)
        phase = phase or status.phase
        if not said and not status.differs(news, phase, without):
            return
        reason, before = status.reason, status.become(news, phase, without, self.at)
        if (status.state, status.reason) != (before, reason):
            said.append(("state", pods.STATE(state=status.state, why=status.reason), None))
        self.notes.unwritten.become(status.state is not before, said)

    def explain(self, message: str, cause: Cause = Cause.TRIED_AGAIN) -> None:
        """Record why the owner makes no progress; one that was READY isn't known to be so any more."""
        self.become(self.status.explained(message, cause))

    def change_done(self) -> None:
        """Note that everything was observed to be as the newest generation wants it."""
        owner, generation = self.owner, self.owner.generation
        if owner.ready_generation == generation and owner.changed_at is None:
            return
        self.notes.unwritten.done = True
        if generation > 1:
            self.notes.unwritten.events.append(("change", pods.GENERATION_APPLIED(n=generation), None))
        self.fence.owner = replace(owner, ready_generation=generation, changed_at=None, ready_at=self.at)

    def about_to_ask(self) -> None:
        """Call before anything is asked outside: lets visits that go first pass, and writes what must be written before
        (`HeldNotes.write_before_asking`)."""
        self.lane.give_way()
        self.notes.write_before_asking()

    def changing(self) -> None:
        """Call before a change is requested outside, and once it was answered: earlier observations no longer count."""
        self.requests += 1
        self.sights.clear()

    # -- what is written at once --------------------------------------------------------------------------------

    def alarm(self, message: str) -> None:
        """Report, once in a state, that a person must look: it exceeds its limit, or can't go on by itself."""
        with self.notes.write() as tx:
            if tx.run("set_alarmed", id=self.owner.id):
                self.fence.insert_events(tx, [("alarm", message, None)])

    def repaired(self) -> None:
        """Record that the repair which an operator asked for was made, or attempted."""
        with self.notes.write() as tx:
            tx.run("repaired_owner", id=self.owner.id)

    def abandon(self, reason: str) -> None:
        """Abandon the owner, as an operator does (`Store.abandon`), because its release exceeds its limit."""
        asked = Abandonment("weft", reason, self.at, own=True, worked=self.work.seconds)
        values = {"by": asked.by, "why": reason, "at": asked.at, "own": True}
        with self.notes.write() as tx:
            if tx.run("abandon_owner", id=self.owner.id, **values):
                said = pods.ABANDON_REQUESTED(user=asked.by, reason=reason)
                self.fence.insert_events(tx, [("release", said, None)])
        self.fence.owner = replace(self.owner, abandoned=asked)

    @contextmanager
    def next_generation(self) -> Generator[tuple[Tx, int]]:
        """A fenced transaction, under the lock of numbers, that begins the next generation of an owner without an
        order."""
        with self.notes.write(capacity=True) as tx:
            row = tx.row("follow_owner", id=self.owner.id, at=tx.now())
            assert row is not None, "a pod's generations are those of its order"
            yield tx, row["generation"]
        self.fence.owner = replace(self.owner, generation=row["generation"], changed_at=row["changed_at"])

    def remember_kept(self, items: Sequence[ReceiptItem]) -> None:
        """Add what stays outside to the receipt, although the owner continues."""
        with self.notes.write() as tx:
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=self.owner.id, nodes=[], at=tx.now(), items=read)

    # -- the end ------------------------------------------------------------------------------------------------

    def released(
        self, receipt: SignedReceipt, kept: Iterable[tuple[str, int]] = (), reason: str = ""
    ) -> None:
        """End the owner: write receipt, capacity and state in one statement. Capacity is returned here and not before.

        Args:
            kept: spaces and numbers that stay held.
            reason: why the release didn't end as it should.
        """
        self.notes.flush()
        self.fence.check_ahead()
        clean = News(
            Aspect.CLEAN, "false" if reason else "true", Cause.ABANDONED if reason else Cause.DONE, reason
        )
        before = copy(self.status)
        self.become(clean, phase=Phase.RELEASED, events=[("receipt", pods.RECEIPT_SIGNED(), None)])
        try:
            self.notes.release(receipt=written(receipt), kept=[f"{space} {number}" for space, number in kept])
        except BaseException:
            # What is noted next, such as why it wasn't written, must not call it RELEASED.
            self.status.back_to(before)
            raise
        self.gone = True

    def hand_back(self, delay: float, failures: int = 0) -> None:
        """Write the notes and hand the owner back; it is due after `delay` seconds, or at once if it was woken
        meanwhile.

        Raises like every write; then nothing was written, and the caller uses `hand_back_unwritten`.
        """
        if self.gone:
            return
        if self.notes.unwritten:
            self.notes.unwritten.hand_back(max(0.0, delay), failures, self.owner.woken)
            self.notes.flush()
        else:
            self.hand_back_unwritten(delay, failures)

    def hand_back_unvisited(self) -> None:
        """Hand back an owner whose visit didn't begin: it is unchanged and keeps its place in the line."""
        self.hand_back_unwritten(None, self.owner.failures)

    def hand_back_unwritten(self, delay: float | None, failures: int = 0) -> None:
        """Hand it back without the notes. Unlike `hand_back`, this doesn't fail if the owner has another generation or
        another holder.

        Args:
            delay: None: it stays due since when it was.
        """
        lands, owner = self.notes.discard(), self.owner
        given = {"failures": failures, "woken": owner.woken, "delay": delay, "lands": lands}
        self.fence.database.run("hand_back_owner", id=owner.id, token=owner.token, **given)
