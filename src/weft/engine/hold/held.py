"""An owner held by a worker: its condition outside of the notes, its release, and how it is handed back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import inf

from psycopg.types.json import Jsonb

from weft.engine.base.database import Row
from weft.engine.base.documents import written
from weft.engine.base.epoch import note_epoch
from weft.engine.base.gate import ClosedError
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.base.world import World
from weft.engine.hold.heldnotes import News, NotesHeld
from weft.engine.hold.notes import Notes
from weft.engine.rows.ownerrecord import Abandonment
from weft.model.errors import ConflictError, TemporaryError
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause, Phase
from weft.model.receipt import ReceiptItem, SignedReceipt
from weft.model.site import Site
from weft.ports.witness import Witnesses

COUNTED_EVERY = 15.0
"""Seconds of work on a release that are written together; a process that dies loses no more than that."""
BETWEEN_PROCESSES = 300.0
"""Most seconds between two processes' visits to a release that count as work on it; visits of one process are rarely
so far apart."""


class Held(NotesHeld):
    """One owner, held by this worker under a token (see `Fence`); a pod is held as a `HeldPod`.

    Attributes:
        gone: it was released, and handed back with that.
        site_generation: the newest when it was claimed; None: not read.
        claims: how many claims its cloud had until then, its own included; None: not read.
        accepted: when a restored database was last accepted; None: never, or not read.
        world, site: what a visit works with; the same from its beginning to its end.
    """

    world: World
    site: Site
    site_generation: int | None = None
    claims: int | None = None
    accepted: datetime | None = None
    gone = False

    def alarm(self, message: str) -> None:
        """Report, once in a state, that a person must look: it exceeds its limit, or can't go on by itself."""
        with self.write() as tx:
            if tx.run("set_alarmed", id=self.owner.id):
                self.insert_events(tx, [("alarm", message, None)])

    def repaired(self) -> None:
        """What an operator asked to repair was repaired, or attempted."""
        with self.write() as tx:
            tx.run("repaired_owner", id=self.owner.id)

    def change_done(self) -> None:
        """Note that everything was observed to be as the newest generation wants it."""
        generation = self.owner.generation
        if self.owner.ready_generation == generation and self.owner.changed_at is None:
            return
        self._notes.done = True
        if generation > 1:
            self._notes.events.append(("change", pods.GENERATION_APPLIED(n=generation), None))
        self.owner = replace(self.owner, ready_generation=generation, changed_at=None, ready_at=self.at)

    def abandon(self, reason: str) -> None:
        """As an operator does (`Store.abandon`), because its release exceeds its limit."""
        asked = Abandonment("weft", reason, self.at, own=True, worked=self.worked)
        values = {"by": asked.by, "why": reason, "at": asked.at, "own": True}
        with self.write() as tx:
            if tx.run("abandon_owner", id=self.owner.id, **values):
                said = pods.ABANDON_REQUESTED(user=asked.by, reason=reason)
                self.insert_events(tx, [("release", said, None)])
        self.owner = replace(self.owner, abandoned=asked)

    def quarantine(self, nodes: Mapping[str, str]) -> None:
        """Keep nodes from being assigned. Args: nodes: node -> reason."""
        if not nodes:
            return
        if nodes.keys() - self.quarantined():
            self.flush()
            with self.lane.outside():
                self._database.gate.foretell()
        with self.write() as tx:
            for node, reason in sorted(nodes.items()):  # owners that share them lock them in the same order
                if tx.run("quarantine", node=node, reason=reason, at=tx.now(), pod_id=self.owner.id, by=""):
                    self.insert_events(tx, [("quarantine", f"{node}: {reason}", None)])
        self._database.gate.hurry()

    def quarantined(self) -> frozenset[str]:
        """Names of all quarantined nodes."""
        with self._database.statement() as tx:
            return frozenset(row["node"] for row in tx.rows("quarantines"))

    def set_aside(self) -> frozenset[str]:
        """Nodes in quarantine because something of this owner wasn't seen clean."""
        with self._database.statement() as tx:
            return frozenset(row["node"] for row in tx.rows("set_aside", owner_id=self.owner.id))

    @property
    def worked(self) -> float:
        """Seconds for which its release, or change, has been worked on so far."""
        at = self.owner.worked_at
        return self.owner.worked + (max(0.0, (self.at - at).total_seconds()) if at else 0.0)

    def count_work(self, by: str, on: bool) -> None:
        """Note how long it has been worked on, unless that was written a moment ago.

        The time since the last visit counts, unless the gate was closed at one of the two; between two processes no
        more than `BETWEEN_PROCESSES`: perhaps nothing was worked on.

        Args:
            by: this process.
            on: whether anything may be done now (`weft.engine.base.gate`).
        """
        owner, by = (
            self.owner,
            f"{by}/{self._database.losses}",
        )  # time without a connection doesn't count as work
        since = owner.changed_at
        what = f"change/{since.timestamp()}" if self.wanted == "present" and since else "release"
        known = owner.worked_by == f"{what} {by}" and owner.worked_at is not None
        recent = known and self.worked - owner.worked < COUNTED_EVERY
        if recent if on else owner.worked_at is None:
            return
        worked, since = 0.0, owner.worked_at
        if owner.worked_by.partition(" ")[0] == what:
            most = inf if owner.worked_by == f"{what} {by}" else BETWEEN_PROCESSES
            passed = (self.at - since).total_seconds() if on and since else 0.0
            worked = owner.worked + max(0.0, min(passed, most))
        at, by = self.at if on else None, f"{what} {by}"
        self.owner = replace(owner, worked=worked, worked_at=at, worked_by=by)
        self._notes.worked = worked, at, by

    def note_epoch(self, facts: Witnesses, cloud: str) -> None:
        """Before anything is created outside for the owner, let the cloud know of its claim. Raises `ClosedError`."""
        try:
            note_epoch(self._database, facts, self.owner.scope.site, cloud, self.claims)
        except ConflictError:
            raise ClosedError from None

    def note_end(self) -> None:
        """Before anything is removed, let the clouds know of the release, as far as they answer now: its own, or all
        for an owner that has resources only on fabrics."""
        clouds = self.world.clouds.keys()
        for cloud in sorted(clouds & (self.places or ()) or clouds):
            self._database.gate.note(cloud, self.claims)

    def closed(self) -> TemporaryError | None:
        """Why nothing of it may be changed outside; None: changes are allowed."""
        return self._database.gate.closed(self.places, self.world.clouds.keys())

    # -- the end ------------------------------------------------------------------------------------------------

    def given_back(self) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
        """Nodes that were freed before the end, in order of time, and what was read then, also of numbers."""
        with self._database.statement() as tx:
            return returned(tx.rows("given_back", owner_id=self.owner.id))

    def remember_kept(self, items: Sequence[ReceiptItem]) -> None:
        """Add what stays outside to the receipt, although the owner goes on."""
        with self.write() as tx:
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=self.owner.id, nodes=[], at=tx.now(), items=read)

    def released(
        self, receipt: SignedReceipt, kept: Iterable[tuple[str, int]] = (), reason: str = ""
    ) -> None:
        """The end: receipt, capacity and state in one statement. Capacity is returned here and not before.

        Args:
            kept: spaces and numbers that stay held.
            reason: why the release didn't end as it should.
        """
        self.flush()
        self.check_ahead()
        clean = News(
            Aspect.CLEAN, "false" if reason else "true", Cause.ABANDONED if reason else Cause.DONE, reason
        )
        self._become([clean], Phase.RELEASED, (), [("receipt", pods.RECEIPT_SIGNED(), None)])
        values = {"receipt": written(receipt), "kept": [f"{space} {number}" for space, number in kept]}
        notes, self._notes = self._notes, Notes()
        self._fenced(
            "release_held", **self._of_owner(notes), moved=True, events=notes.stored_events(), **values
        )
        self._database.notify(self.owner.id)
        self.gone = True

    def hand_back(self, delay: float, failures: int = 0) -> None:
        """Write the notes and hand the owner back; it is due after `delay` seconds, or at once if it was woken
        meanwhile.

        Raises like every write; then nothing was written, and the caller uses `hand_back_unwritten`.
        """
        if self.gone:
            return
        if self._notes:
            self._notes.hand_back(max(0.0, delay), failures, self.owner.woken)
            self.flush()
        else:
            self.hand_back_unwritten(delay, failures)

    def unchanged_nodes(self) -> Mapping[str, str] | None:
        """Nodes that were observed, if nothing else needs to be written and they may all be in its segment."""
        return None if self._lands is not None else self._notes.unchanged_nodes()

    def hand_back_unvisited(self) -> None:
        """Hand back an owner whose visit didn't begin: it is unchanged and keeps its place in the line."""
        self.hand_back_unwritten(None, self.owner.failures)

    def hand_back_unwritten(self, delay: float | None, failures: int = 0) -> None:
        """Hand it back without the notes. Unlike `hand_back`, this doesn't fail if the owner has another generation or
        another holder.

        Args:
            delay: None: it stays due since when it was.
        """
        lands, self._notes = self.lands, Notes()
        with self._database.statement() as tx:
            tx.run(
                "hand_back_owner",
                id=self.owner.id,
                token=self.owner.token,
                failures=failures,
                woken=self.owner.woken,
                delay=delay,
                lands=lands,
            )


def returned(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
    """Nodes and readings of rows of `given_back`. Raises `UnreadableError`."""
    try:
        items = [ReceiptItem.model_validate(i) for r in rows for i in r["items"]]
    except READING as error:
        raise unreadable("what was read of nodes that were given back", error) from error
    return tuple(n for r in rows for n in r["nodes"]), tuple(items)
