"""Removes orphans of weft, kind by kind, each seen gone before its dependencies are removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.hold.ownerclaims import extend_holds
from weft.engine.proof.owners import Claim, Owners, Ownership
from weft.engine.rows.traces import Trace, Traces, sentence
from weft.engine.store.store import Store
from weft.model.errors import TemporaryError, WeftError
from weft.model.kindrow import AnyKind, Home
from weft.model.kinds import removal_order
from weft.model.owner import Owner
from weft.model.resources import Marked, Outcome
from weft.ports.clock import Clock

PATIENCE = 120.0
"""Seconds for one kind to be seen gone."""
PAUSE = 1.0
YOUNG = timedelta(minutes=10)
"""Something younger may still be under construction by a process that this database doesn't know."""

Confirmed = Collection[str] | Literal["all"]
"""Ids of pods that the operator has confirmed not to exist, though the database doesn't know them."""


@dataclass(frozen=True, slots=True)
class Stray:
    """Something outside that no live owner has."""

    thing: Marked
    ownership: Ownership

    @property
    def is_proved(self) -> bool:
        """Whether it is removed without confirmation: a released owner had it, or weft's own user created it twice."""
        claim = self.ownership.claim
        return claim is Claim.LEFT or (claim is Claim.SECOND and self.thing.ours is True)


def why_not(stray: Stray, now: datetime, confirmed: Confirmed) -> str:
    """Why it must not be removed; empty: it may."""
    claim, created = stray.ownership.claim, stray.thing.created
    if claim is Claim.OWNED:
        return "a live pod owns it"
    if claim is Claim.COPIED:
        return "it isn't weft's: someone must look at it"
    if claim in (Claim.SECOND, Claim.UNKNOWN_POD) and created is not None and now - created < YOUNG:
        return f"it is younger than {YOUNG.seconds // 60} minutes: check again later"
    if claim is Claim.UNKNOWN_POD and confirmed != "all" and _id(stray) not in confirmed:
        which = _id(stray) or "all"
        return (
            f"if the database was not restored from an older dump: weft audit --repair --unknown-pods {which}"
        )
    return ""


def _id(stray: Stray) -> str | None:
    return stray.ownership.owner.id if stray.ownership.owner else None


class TakeBack:
    """One round of removals.

    Args:
        listed_at: when the listing began that shows them.
        pause: seconds between two looks at what is being removed.
        patience: seconds for one kind to be seen gone. 0: it is observed once more, and left to the next round.
    """

    def __init__(
        self,
        store: Store,
        world: World,
        clock: Clock,
        listed_at: datetime,
        confirmed: Confirmed = (),
        pause: float = PAUSE,
        patience: float = PATIENCE,
    ) -> None:
        self._patience = patience
        self._store, self._world, self._clock = store, world, clock
        self._listed_at, self._confirmed, self._pause = listed_at, confirmed, pause
        self.left: dict[tuple[AnyKind, str], str] = {}
        """Thing that was to be removed and wasn't seen gone -> why."""

    def remove(self, strays: Iterable[Stray]) -> None:
        """Remove strays; where one kind isn't seen gone, its dependencies stay. Raises if nothing may be changed
        now."""
        self._store.database.gate.check()
        wanted = [s for s in strays if not why_not(s, self._clock.now(), self._confirmed)]
        for stray in wanted:
            self._record_trace(stray)
        stuck: set[tuple[str, Owner | None]] = set()
        for kind in removal_order():
            for where in sorted({s.thing.where for s in wanted}):
                batch = [s for s in wanted if s.thing.kind is kind and s.thing.where == where]
                ready = [s for s in batch if (where, s.ownership.owner) not in stuck]
                for stray in (s for s in batch if s not in ready):
                    self.left[kind, stray.thing.id] = "something still depends on it"
                self._remove_kind(where, kind, ready)
                stuck |= {(where, s.ownership.owner) for s in batch if (kind, s.thing.id) in self.left}
        self._end_traces([s.thing for s in wanted if (s.thing.kind, s.thing.id) not in self.left])

    def _record_trace(self, stray: Stray) -> None:
        """Record a trace: its existence makes the pod's receipt wrong."""
        thing, owner = stray.thing, stray.ownership.owner
        if stray.ownership.claim is Claim.LEFT and owner is not None:
            what = sentence(owner.kind, thing.kind, thing.where, thing.id)
            traces = Traces(self._store.database)
            by_mark = stray.ownership.by_mark and thing.ours is not True
            marked = thing.kind.row.home is not Home.FABRIC and by_mark
            traces.found(Trace(UUID(owner.id), thing.kind, thing.where, thing.id, what, marked=marked))

    def _end_traces(self, gone: Iterable[Marked]) -> None:
        """End traces of what was seen gone; a segment's trace ends with the next reading of its fabric."""
        ended = {(t.kind, t.where, t.id) for t in gone if t.kind.row.home is not Home.FABRIC}
        traces = Traces(self._store.database)
        for trace in traces.open() if ended else ():
            if (trace.kind, trace.place, trace.subject) in ended:
                traces.ended(
                    trace.id, trace.owner_id, f"{trace.kind} {trace.subject} was removed and seen gone"
                )

    def _remove_kind(self, where: str, kind: AnyKind, batch: Sequence[Stray]) -> None:
        """Remove one kind in one place; a live pod's duplicates only while no worker holds that pod."""
        seconds = {s.ownership.owner for s in batch if s.ownership.claim is Claim.SECOND}
        self._until_gone(where, [s.thing for s in batch if s.ownership.claim is not Claim.SECOND])
        for owner in sorted(o for o in seconds if o):
            things = [s.thing for s in batch if s.ownership.owner == owner]
            held = self._store.claim_owner(UUID(owner.id), "audit")
            if held is None:
                self.left.update({(kind, t.id): "its owner is being worked on: try again" for t in things})
                continue
            try:
                self._until_gone(where, things, held)
            finally:
                held.hand_back_unwritten(0.0, held.owner.failures)  # its own loop continues as before

    def _until_gone(self, where: str, things: list[Marked], held: Held | None = None) -> None:
        deadline = self._clock.monotonic() + self._patience
        asked = False
        while things := self._still_ours(things):
            if held is not None:
                extend_holds(self._store.database, [held])
                if held.fence.lost.is_set():
                    return
            things = self._once(where, things)
            if not things:
                return
            if not self._patience and not asked:
                asked = True
                continue
            if self._clock.monotonic() >= deadline:
                for thing in things:
                    self.left.setdefault((thing.kind, thing.id), "it was not seen gone")
                return
            self._clock.sleep(self._pause)

    def _once(self, where: str, things: list[Marked]) -> list[Marked]:
        """Request removal; returns those to request again: not seen gone yet, or refused for a while. `left` says
        why."""
        try:
            self._store.database.gate.check()
            outcomes = self._world.driver(where).remove_marked(things)
        except WeftError as error:
            outcomes = {t.id: Outcome(error=error) for t in things}
        again: list[Marked] = []
        for thing in things:
            outcome = outcomes.get(thing.id, Outcome(thing.id))
            self.left.pop((thing.kind, thing.id), None)
            if outcome.error is not None:
                self.left[thing.kind, thing.id] = str(outcome.error)
            going = outcome.id is not None or isinstance(outcome.error, TemporaryError)
            # A segment's removal is judged by the next reading of the fabric.
            if going and thing.kind.row.home is not Home.FABRIC:
                again.append(thing)
        return again

    def _still_ours(self, things: list[Marked]) -> list[Marked]:
        """The things that still have no owner, by another reading."""
        if not things:
            return []
        with self._store.database.transaction() as tx:
            owners = Owners.read(tx, things, self._listed_at)
        now = self._clock.now()
        return [t for t in things if not why_not(Stray(t, owners.of(t)), now, self._confirmed)]
