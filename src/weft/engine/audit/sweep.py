"""The sweep: looks again for what a receipt reports as gone, and removes what is weft's own.

A worker that was suspended in the middle of a creation, a cloud that restored something, a subnet manager with an old
file: each can leave remains after a receipt that was correct when it was signed. So released pods are checked for a
day: all marks and all ports with each sweep, individual resources by id at growing intervals. Findings are removed with
the audit's checks, and reported: an alarm among the pod's events, a correction next to its receipt, an audit finding, a
metric.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from typing import TypeVar
from uuid import UUID

from weft.engine.audit.latenumbers import free_numbers
from weft.engine.audit.outside import Outside, look_outside
from weft.engine.audit.strangers import StrangerCheck
from weft.engine.audit.strayturns import next_turn
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.unreadable import UnreadableError
from weft.engine.base.world import World
from weft.engine.hold.ownerstore import read_owner
from weft.engine.proof.othersports import held_by_others
from weft.engine.proof.owners import Owners
from weft.engine.proof.seen import seen_of
from weft.engine.proof.takeback import Stray, TakeBack
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import ResourceRecord
from weft.engine.rows.released import (
    released_owners,
    released_pods,
)
from weft.engine.rows.traces import FoundTrace, Trace, Traces, sentence
from weft.engine.store.store import Store
from weft.model.errors import WeftError
from weft.model.kindrow import Home
from weft.model.kinds import Kind, removal_order
from weft.model.messages import pods
from weft.model.site import Site
from weft.ports.clock import Clock
from weft.ports.resources import Scope

log = logging.getLogger(__name__)

ReleasedOwner = TypeVar("ReleasedOwner", bound=OwnerRecord)

EVERY = 300.0
"""Seconds between two sweeps."""
LONGEST = 1800.0
"""Seconds after which another worker sweeps, if one hasn't finished."""
LOOKED_AFTER = timedelta(days=1)
"""How long after its release a pod is searched for."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """Settings of the sweep. Args: every: seconds between two sweeps."""

    every: float = EVERY


class Sweeper(Periodic):
    """Sweeps for remains of released owners. Any number may run; the database decides whose turn it is."""

    def __init__(
        self,
        store: Store,
        world: Callable[[], World],
        site: Callable[[], Site],
        clock: Clock,
        settings: SweepSettings | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._store, self._world, self._site, self._clock = store, world, site, clock
        self._settings = settings or SweepSettings()
        self._traces = Traces(store.database)
        super().__init__("sweep", self.run_due, pulse, self._settings.every + LONGEST)

    def run_due(self) -> float:
        """Sweep, if it is due and no other process does; returns seconds until it may be due again."""
        with self._store.database.transaction() as tx:
            now = tx.now()
            mine = tx.row("take_sweep", at=now, later=now + timedelta(seconds=LONGEST)) is not None
            due = tx.row("sweep")
        if not mine:
            left = (due["next_at"] - now).total_seconds() if due else 0.0
            return min(max(left, 1.0), self._settings.every)
        try:
            unread = self.sweep()
        except WeftError as error:  # such as a gate that closed meanwhile
            log.warning("sweep: %s", error)
            unread = [f"it broke off: {error}"]
        with self._store.database.transaction() as tx:
            later = tx.now() + timedelta(seconds=self._settings.every)
            tx.run("end_sweep", at=tx.now(), next=later, unread="; ".join(unread)[:2000])
        return self._settings.every

    def sweep(self) -> list[str]:
        """One round; returns what could not be read. Nothing is judged while the gate is closed
        (`weft.engine.base.gate`)."""
        world, site, database = self._world(), self._site(), self._store.database
        database.gate.look()
        if (closed := database.gate.closed()) is not None:
            log.warning("sweep: %s", closed)
            return [str(closed)]  # what looks like remains to this database may be another pod's
        outside = look_outside(world, site.name, self._clock)
        unread = [
            str(e) for e in (*outside.marked.values(), *outside.wires.values()) if isinstance(e, WeftError)
        ]
        kept = self._take_back(outside, world, unread)
        since, still, looked = outside.began_at - LOOKED_AFTER, self._traces.open(), set[UUID]()

        def looked_for(owners: Iterable[ReleasedOwner]) -> Iterator[ReleasedOwner]:
            for owner in owners:
                looked.add(owner.id)
                self._look_if_due(owner, still, outside, world, kept, unread)
                yield owner

        list(looked_for(released_owners(database, since)))
        pods = looked_for(released_pods(database, since))
        unread += StrangerCheck(self._store, world, site, self._traces).check(pods, outside)
        unread += self._look_for_others({one.owner_id for one in still} - looked, still, outside, world, kept)
        unread += free_numbers(self._store, world, site, self._clock)
        self._end_wires(outside)
        return unread

    # -- marks ----------------------------------------------------------------------------------------------------

    def _take_back(self, outside: Outside, world: World, unread: list[str]) -> Collection[str]:
        """Remove what carries a released owner's mark, or a number that only such an owner had; and duplicates.

        Returns ids of what stays of a site because others use it.
        """
        things = outside.things()
        with self._store.database.transaction() as tx:
            owners = Owners.read(tx, things, outside.began_at)
        strays = [s for t in things if (s := Stray(t, owners.of(t))).is_proved]
        # A round serves all owners: it doesn't wait for what may never go; the next round asks again.
        taken = TakeBack(self._store, world, self._clock, outside.began_at, patience=0.0)
        kept, errors = held_by_others(world, strays)
        unread += map(str, errors.values())
        taken.remove(next_turn(self._store.database, [s for s in strays if s.thing.id not in kept]))
        for (kind, thing_id), why in taken.left.items():
            log.warning("sweep: %s %s can't be taken back: %s", kind, thing_id, why)
        return kept.keys()

    # -- ids ------------------------------------------------------------------------------------------------------

    def _look_if_due(
        self,
        owner: OwnerRecord,
        still: list[FoundTrace],
        outside: Outside,
        world: World,
        kept: Collection[str],
        unread: list[str],
    ) -> None:
        """Look for everything that an owner had by its id, whatever its mark says now.

        Args:
            still: open traces.
            kept: ids of what stays.
            unread: gets what could not be read.
        """
        mine = [one for one in still if one.owner_id == owner.id]
        if not mine and not self._due(owner, outside.began_at):
            return
        if owner.site is None or (owner.released_at or outside.began_at) >= outside.began_at:
            return
        try:
            errors = self._look_for(owner, mine, world, kept)
        except UnreadableError as error:  # one owner's rows must not stop the others
            errors = [str(error)]
        unread += errors
        if not errors:
            with self._store.database.transaction() as tx:
                tx.run("set_swept", id=owner.id, at=tx.now())

    def _look_for_others(
        self,
        ids: Iterable[UUID],
        still: list[FoundTrace],
        outside: Outside,
        world: World,
        kept: Collection[str],
    ) -> list[str]:
        """Owners released longer ago that still have traces; returns what could not be read."""
        unread: list[str] = []
        for owner_id in ids:
            try:
                with self._store.database.statement() as tx:
                    owner = read_owner(tx, owner_id)
            except UnreadableError as error:
                unread.append(str(error))
                continue
            self._look_if_due(owner, still, outside, world, kept, unread)
        return unread

    def _due(self, owner: OwnerRecord, now: datetime) -> bool:
        """5, 10, 20, 40 … minutes after the release: most late effects come soon."""
        if owner.released_at is None or owner.swept_at is None:
            return True
        return now - owner.swept_at >= max(
            timedelta(seconds=self._settings.every), owner.swept_at - owner.released_at
        )

    def _look_for(
        self, owner: OwnerRecord, still: list[FoundTrace], world: World, kept: Collection[str]
    ) -> list[str]:
        """Look for one owner. What exists is deleted, in order; the next sweep checks again. Returns what is unread."""
        traced = {(one.kind, one.place) for one in still}
        records = [
            r
            for r in self._store.pods.resources(owner.id)
            if r.kind.row.home is not Home.FABRIC
            and not r.kind.row.lent
            and (r.outside_id or (r.kind, r.resource.where) in traced)
        ]
        records = self._not_taken_over(owner, records, still)
        ids = _ids(records)
        unread, blocked = list[str](), False
        for kind in removal_order():
            for where in sorted({r.resource.where for r in records if r.kind is kind}):
                group = [r for r in records if r.kind is kind and r.resource.where == where]
                try:
                    there = self._look_at(owner, where, group, ids, still, world)
                    for batch in there if not blocked else ():
                        if what := [r.resource for r in batch if r.outside_id not in kept]:
                            scope = replace(_leaving(owner), fence=self._store.database.gate.check)
                            world.driver(where).delete(scope, what, {**ids, **_ids(batch)})
                    blocked = blocked or bool(there)
                except WeftError as error:
                    unread.append(str(error))
        return unread

    def _not_taken_over(
        self, owner: OwnerRecord, records: list[ResourceRecord], still: list[FoundTrace]
    ) -> list[ResourceRecord]:
        """The records that no live owner has by now: a site's next owner adopts what an abandoned one left."""
        rows = self._store.database.rows("ids_in_use", ids=sorted(_ids(records).values()))
        taken = {row["id"] for row in rows}
        for trace in still:
            if trace.subject in taken:
                self._traces.ended(trace.id, owner.id, f"{trace.kind} {trace.subject} has another owner now")
        return [r for r in records if r.outside_id not in taken]

    def _look_at(
        self,
        owner: OwnerRecord,
        where: str,
        group: list[ResourceRecord],
        ids: dict[str, str],
        still: list[FoundTrace],
        world: World,
    ) -> list[list[ResourceRecord]]:
        """The records of a group, and of their predecessors, that exist by their ids; each key once per list.

        Records traces, and ends each whose own id is proved gone.
        """
        found, gone = list[list[ResourceRecord]](), dict[str, str]()
        known = [r for r in group if r.outside_id]
        for batch in (*_predecessors(known), known):
            wanted, its = [r.resource for r in batch], {**ids, **_ids(batch)}
            seen = seen_of(world.driver(where).find(_leaving(owner), wanted, its), batch) if batch else {}
            gone |= {r.outside_id or "": seen[r.key].reason for r in batch if not seen[r.key].there}
            there = [r for r in batch if seen[r.key].there]
            for record in there:
                subject = seen[record.key].id
                what = sentence(owner.kind, record.kind, where, subject)
                self._traces.found(Trace(owner.id, record.kind, where, subject, what))
            found += [there] if there else []
        looked = {r.outside_id for r in (*chain.from_iterable(_predecessors(known)), *known)}
        for trace in (one for one in still if (one.kind, one.place) == (group[0].kind, where)):
            subject = trace.subject
            if subject not in looked:  # was found by its mark
                one, its = group[0], {**ids, group[0].key: subject}
                seen = seen_of(world.driver(where).find(_leaving(owner), [one.resource], its), [one])
                gone |= {} if seen[one.key].there else {subject: seen[one.key].reason}
            if subject in gone:
                self._traces.ended(
                    trace.id, owner.id, pods.RESOURCE_GONE(kind=trace.kind, id=subject, why=gone[subject])
                )
        return found

    def _end_wires(self, outside: Outside) -> None:
        """End traces on fabrics that this round's reading of the whole fabric doesn't show any more."""
        for trace in self._traces.open():
            found = outside.marked.get(trace.place)
            if trace.kind != str(Kind.SEGMENT) or found is None or isinstance(found, WeftError):
                continue
            if trace.found_at < outside.began_at and all(t.id != trace.subject for t in found):
                message = pods.SEGMENT_GONE(id=trace.subject, place=trace.place)
                self._traces.ended(trace.id, trace.owner_id, message)


def _ids(records: Iterable[ResourceRecord]) -> dict[str, str]:
    return {r.key: r.outside_id for r in records if r.outside_id}


def _predecessors(records: Iterable[ResourceRecord]) -> list[list[ResourceRecord]]:
    """Replaced servers: the first of each record, then the second, and so on."""
    each = [r.predecessors for r in records if r.kind.row.on_host]
    return [[r for r in nth if r is not None] for nth in zip_longest(*each)]


def _leaving(owner: OwnerRecord) -> Scope:
    return replace(owner.scope, leaving=True, by_id=True)
