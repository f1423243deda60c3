"""One attempt at a batch of a pod's resources: create and observe, or delete and observe.

Each attempt is a generator: it yields what to ask outside, and continues with the answer. Its notes are written
together with those of others (`weft.engine.visit.walker`, `Held.about_to_ask`); a row says `absent` only after
proof (docs/architecture.md). Nothing blocks here: what isn't at rest or gone yet is a `Wait`, and since when it
lasts is in the row (`since`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.hold.settings import LoopSettings
from weft.engine.proof.departure import ended, proofs
from weft.engine.proof.seen import as_left, differs, kept_item, left_alone, observed_change, seen_of
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.engine.visit.waits import Wait
from weft.model.errors import NotYetError, OutsideError, PermanentError, TemporaryError, WeftError
from weft.model.kindrow import Home
from weft.model.messages import outside, pods
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.ports.resources import ResourceDriver, Scope

Batch = list[ResourceRecord]
Ask = Callable[[], Any]
"""A request to the outside, run in a thread of its own; it writes nothing."""
Move = Generator[Ask, Any, Wait | None]
COMING_SECONDS = 30.0
"""How long after a request to a fabric it is asked, before a removal, whether the change is still on its way."""
MANY = 8
"""Servers of one batch that aren't observed right after their creation."""
Guard = Callable[[Batch], Iterable[tuple[str, WeftError]]]
"""Returns keys of resources that differ but must not be changed, with why; it asks outside, like an `Ask`."""


@dataclass
class _CreateResult:
    """Results of an attempt to create a batch.

    Attributes:
        asked: keys of those that were requested and answered.
        seen: what was observed after that; empty: not observed.
        ended: key -> proof that its predecessor ended.
        error: what ended the attempt, if no outcome did.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    asked: set[str] = field(default_factory=set[str])
    seen: Mapping[str, Observed] = field(default_factory=dict[str, Observed])
    ended: Mapping[str, str] = field(default_factory=dict[str, str])
    error: WeftError | None = None

    @property
    def failed(self) -> bool:
        return any(_is_real(o.error) for o in self.outcomes.values())


class Moves:
    """Works on batches of one visit's owner; `records` are the visit's own, with everything noted so far.

    Its generators run in one thread; only what they yield may run in others.
    """

    def __init__(self, held: Held, world: World, settings: LoopSettings, guard: Guard | None = None) -> None:
        self._held, self._world, self._settings, self._guard = held, world, settings, guard
        self._scope = replace(held.owner.scope, fence=held.fence)
        self.records = held.notes.records()

    def advance(self, batch: Batch) -> Move:
        """Create a batch, as far as possible now."""
        driver = self._world.driver(batch[0].resource.where)
        known = {r.key for r in batch if r.state is RowState.CREATING}
        asked = [r for r in batch if r.state not in (RowState.WANTED, RowState.DELETING)]
        if asked:
            at, requests = time.monotonic(), self._held.requests
            seen: Mapping[str, Observed] = yield lambda: self._find(driver, asked)
            self._seen(asked, seen)
            if requests == self._held.requests:
                self._keep(at, asked, seen)
        if self._held.owner.ready_generation:
            self._held.note(left_alone(self.fresh(batch)))
        broken = [r for r in self.fresh(batch) if r.state in (RowState.BROKEN, RowState.DELETING)]
        if broken:
            self._may_be_replaced(broken)
            yield from self._remove(driver, self.fresh(broken), RowState.WANTED)
        new = [r for r in self.fresh(batch) if self._may_be_made(r)]
        self._announce(new, known)
        differing = [r for r in self.fresh(batch) if r.differences]
        if new or differing:
            made: _CreateResult = yield from self._changing(
                lambda: self._make(driver, self.fresh(new), differing)
            )
            self._accepted(self.fresh([*new, *differing]), made)
        return self._wait(batch, RowState.SETTLED, "to settle")

    def _may_be_made(self, record: ResourceRecord) -> bool:
        """Whether to create it now; what broke waits, since to Nova a host is full for a moment after its last server
        was deleted."""
        if record.state is RowState.WANTED and record.attempts:
            return self._age(record) >= self._settings.delay(record.attempts)
        return record.state in (RowState.WANTED, RowState.CREATING)

    def retreat(self, batch: Batch) -> Move:
        """Remove a batch, as far as possible now."""
        driver = self._world.driver(batch[0].resource.where)
        coming: frozenset[str] = yield from self._coming(driver, batch)
        if there := [r for r in batch if r.key not in coming]:
            yield from self._remove(driver, there, RowState.ABSENT)
        return self._wait(batch, RowState.ABSENT, "to go")

    def _coming(self, driver: ResourceDriver, batch: Batch) -> Generator[Ask, Any, frozenset[str]]:
        """Keys of those that a fabric's manager is bringing into effect just now (`Observed.on_its_way`).

        It may have read its configuration already and write to ports later: removed now, such a resource would be read
        as gone, and come back for a moment after that. So it is removed once it shows, or has had its time.
        """
        young = [
            r
            for r in batch
            if r.kind.row.home is Home.FABRIC
            and r.state in (RowState.CREATING, RowState.PENDING)
            and self._age(r) < COMING_SECONDS
        ]
        if not young:
            return frozenset()
        seen: Mapping[str, Observed] = yield lambda: self._find(driver, young)
        return frozenset(r.key for r in young if self._age(r) < seen[r.key].on_its_way)

    def _announce(self, new: Batch, known: Collection[str]) -> None:
        """Note what is about to be created, so that after a lost answer it is found by its name, not created twice.

        Args:
            known: keys that were announced before.
        """
        self._held.note(
            [Change(r.key, RowState.CREATING, attempts=r.attempts) for r in new],
            [("step", pods.CREATING(name=r.resource.name), r.key) for r in new if r.key not in known],
        )

    def _make(self, driver: ResourceDriver, new: Batch, differing: Batch) -> _CreateResult:
        """Create, update, and observe those whose dependents wait for them to settle; ends at the first error."""
        made = _CreateResult()
        try:
            if new:
                made.ended = proofs(self._held.owner.project_id, new, self._world)
                made.outcomes |= driver.create(self._waited(new), _wanted(new), self._ids())
                made.asked |= {r.key for r in new}
            if differing and not made.failed:
                refused = dict(self._guard(differing)) if self._guard is not None else {}
                made.outcomes |= {key: Outcome(error=error) for key, error in refused.items()}
                self._held.fence.check()
                if change := [r for r in differing if r.key not in refused]:
                    made.outcomes |= driver.update(self._scope, _wanted(change), self._ids())
                made.asked |= {r.key for r in differing}
            # A refused resource has its reason; an observation would only call it missing.
            both = [r for r in (*new, *differing) if made.outcomes.get(r.key, Outcome()).error is None]
            if both and both[0].kind.row.settles and not made.failed and (differing or not _is_long(new)):
                ids = {key: o.id for key, o in made.outcomes.items() if o.id}
                made.seen = self._find(driver, both, ids, changed=True)
        except WeftError as error:
            made.error = error
        return made

    def _accepted(self, batch: Batch, made: _CreateResult) -> None:
        """Note the outcomes and what was observed then; raise the worst error after that."""
        self._held.notes.may_land([made.error, *(o.error for o in made.outcomes.values())])
        enough = RowState.PENDING if batch[0].kind.row.settles else RowState.SETTLED
        self._held.note(ended(r, made.ended[r.key]) for r in batch if r.key in made.ended)
        batch, changes = self.fresh(batch), list[Change]()
        errors: list[WeftError] = []
        for record in (r for r in batch if r.key in made.asked):
            outcome = made.outcomes.get(record.key) or Outcome(error=_no_answer(record))
            if outcome.error is None:
                why = pods.CREATING(name=record.resource.name) if _is_long(batch) else ""
                changes.append(Change(record.key, enough, outcome.id, why, attempts=record.attempts))
            else:
                errors.append(outcome.error)
                why = outcome.error.message
                changes.append(
                    Change(
                        record.key, record.state, outcome.id, why, record.differences, None, record.attempts
                    )
                )
        self._held.note(changes)
        _raise_worst(errors)
        if made.error is not None:
            raise made.error
        if made.seen:
            self._seen(self.fresh(batch), made.seen)

    def _may_be_replaced(self, batch: Batch) -> None:
        """Note that broken resources are removed, to be recreated, but not more often than the settings allow.

        Only breakages count: a request that was refused has broken nothing.
        """
        for record in (r for r in batch if r.state is RowState.BROKEN):
            broke = record.attempts + 1
            if broke >= self._settings.server_attempts:
                # a pod that has served is never FAILED, so that no retry is left
                served = self._held.owner.ready_generation and record.kind.row.on_host
                raise PermanentError(
                    outside.REQUEST(verb="create", what=record.resource.name),
                    record.resource.where,
                    outside.FAILED_TIMES(n=broke, why=record.reason),
                    outside.CHECK_THEN_REPLACE() if served else outside.CHECK_THEN_RELEASE(),
                )
            why = pods.RESOURCE_BROKEN(name=record.resource.name, why=record.reason)
            self._held.note(
                [Change(record.key, RowState.DELETING, reason=record.reason, attempts=broke)],
                [("error", why, record.key)],
            )

    def _remove(self, driver: ResourceDriver, batch: Batch, gone: RowState) -> Generator[Ask, Any, None]:
        """Request the removal of what isn't on its way out, and observe; each that is gone is noted as `gone`.

        A removal under way is requested again only after very long: the service may have forgotten it; or once a
        manager that has it should have completed it.
        """
        self._held.note(
            [Change(r.key, RowState.DELETING, attempts=r.attempts) for r in batch if _stays(r)],
            [("step", pods.REMOVING(name=r.resource.name), r.key) for r in batch if _stays(r)],
        )
        outcomes: dict[str, Outcome] = {}
        leaving = gone is RowState.ABSENT

        def take_away() -> Mapping[str, Observed]:
            under_way = [r for r in self.fresh(batch) if r.asked and not self._late(r)]
            seen = dict(self._find(driver, under_way, leaving=leaving)) if under_way else {}
            going = {r.key for r in under_way if self._is_going(r, seen[r.key])}
            to_ask = [r for r in self.fresh(batch) if r.key not in going]
            if to_ask:
                self._held.fence.check()
                scope = replace(self._waited(to_ask), leaving=leaving)
                what = self._left(to_ask) if leaving else _wanted(to_ask)
                outcomes.update(driver.delete(scope, what, self._ids()))
                seen |= self._find(driver, to_ask, leaving=leaving, changed=True)
            return seen

        seen: Mapping[str, Observed] = yield from self._changing(take_away)
        self._held.notes.may_land(o.error for o in outcomes.values())
        changes: list[Change] = []
        for record in self.fresh(batch):
            found, outcome = seen[record.key], outcomes.get(record.key)
            asked = found.there and (record.asked if outcome is None else outcome.error is None)
            # A broken resource keeps its reason until it is recreated.
            why = record.reason if gone is RowState.WANTED else found.reason or _answer_of(outcome)
            state = RowState.DELETING if found.there else gone
            change = Change(record.key, state, reason=why, attempts=record.attempts, asked=asked)
            if (state, why, asked) != (record.state, record.reason, record.asked):
                changes.append(change)
        self._remember_kept(self.fresh(batch), seen)
        self._held.note(changes)
        _raise_worst(o.error for k, o in outcomes.items() if o.error is not None and seen[k].there)

    def _is_going(self, record: ResourceRecord, seen: Observed) -> bool:
        overdue = 0.0 < seen.on_its_way <= self._age(record)
        return not seen.there or (seen.status is Status.PENDING and not overdue)

    def _remember_kept(self, batch: Batch, seen: Mapping[str, Observed]) -> None:
        """Put what stays of a pod that continues into its receipt, whatever the row says by then."""
        kept = [kept_item(r, seen[r.key], self._held.at) for r in batch if seen[r.key].status is Status.KEPT]
        if kept and self._held.wanted == "present":
            self._held.remember_kept(kept)

    def _seen(self, batch: Batch, seen: Mapping[str, Observed]) -> None:
        """Note what a listing of the batch showed."""
        enough = not batch[0].kind.row.settles
        changes = [observed_change(r, seen[r.key], self._held.at) for r in batch]
        changes = [
            replace(c, state=RowState.SETTLED)
            if enough and c.state is RowState.PENDING and not c.differences
            else c
            for c in changes
        ]
        news = [
            ("step", pods.RESOURCE_READY(name=r.resource.name, why=c.reason), r.key)
            for r, c in zip(batch, changes, strict=True)
            if c.state is RowState.SETTLED and r.state is not RowState.SETTLED
        ]
        self._held.note([c for r, c in zip(batch, changes, strict=True) if differs(r, c)], news)

    def _changing(self, ask: Ask) -> Generator[Ask, Any, Any]:
        """Ask for a change; other batches are looked at meanwhile."""
        self._held.changing()
        try:
            return (yield ask)
        finally:
            self._held.changing()

    def _keep(self, at: float, batch: Batch, seen: Mapping[str, Observed]) -> None:
        """Keep what was seen of servers at rest, for a verdict of the same visit. Args: at: before it was asked."""
        rest = (r for r in self.fresh(batch) if r.kind.row.boots and r.state is RowState.SETTLED)
        self._held.sights.update({r.key: (at, seen[r.key]) for r in rest})

    def _find(
        self,
        driver: ResourceDriver,
        batch: Batch,
        ids: Mapping[str, str] | None = None,
        leaving: bool = False,
        changed: bool = False,
    ) -> Mapping[str, Observed]:
        patient = self._held.wanted == "present"
        scope = replace(self._scope, patient=patient, leaving=leaving, changed=changed, glance=True)
        wanted = self._left(batch) if leaving else _wanted(batch)
        return seen_of(driver.find(scope, wanted, {**self._ids(), **(ids or {})}), batch)

    def _left(self, batch: Batch) -> list[Resource]:
        return [as_left(r, self.records.values()) for r in batch]

    def fresh(self, batch: Batch) -> Batch:
        """The current records of a batch."""
        return [self.records[r.key] for r in batch]

    def _ids(self) -> dict[str, str]:
        return {key: r.outside_id for key, r in self.records.items() if r.outside_id}

    def _wait(self, batch: Batch, end: RowState, what: str) -> Wait | None:
        """When to observe again what hasn't reached `end`. Raises `TemporaryError` once that takes too long."""
        left = [r for r in self.fresh(batch) if r.state is not end]
        if not left:
            return None
        names = [r.resource.name for r in left]
        reason = next((r.reason for r in left if r.reason), "no reason given")
        if any(self._late(r) for r in left):
            raise TemporaryError(
                outside.WAIT_FOR(names=names, end=what), left[0].resource.where, outside.NOT_YET(why=reason)
            )
        boots = end is RowState.SETTLED and all(is_booting(r) for r in left)
        of_fabric = left[0].kind.row.home is Home.FABRIC
        delay = self._settings.poll(min(self._age(r) for r in left), boots, of_fabric)
        return Wait(outside.SETTLING(names=names, why=reason), delay)

    def _waited(self, batch: Batch) -> Scope:
        return replace(self._scope, waited=min(self._age(r) for r in batch))

    def _age(self, record: ResourceRecord) -> float:
        """Seconds since it came into its state."""
        return max(0.0, (self._held.at - (record.since or self._held.at)) / timedelta(seconds=1))

    def _late(self, record: ResourceRecord) -> bool:
        s = self._settings
        return self._age(record) >= (s.patience_servers if record.kind.row.boots else s.patience)


def _is_long(batch: Batch) -> bool:
    """Whether so many servers are requested at once that a look right afterwards costs the cloud more than it shows: it
    asks for all in detail, while they begin to boot. The boot keeper looks for those that have."""
    return len(batch) >= MANY and batch[0].kind.row.boots and batch[0].kind.row.on_host


def is_booting(record: ResourceRecord) -> bool:
    """Whether the boot keeper will see it boot: only once everything was requested for it."""
    row = record.kind.row
    return row.boots and row.on_host and record.state is RowState.PENDING and not record.differences


def _stays(record: ResourceRecord) -> bool:
    """Whether its removal hasn't been decided yet."""
    return record.state is not RowState.DELETING


def _answer_of(outcome: Outcome | None) -> str:
    """Why a resource wasn't removed, by the service's answer."""
    return "" if outcome is None or outcome.error is None else outcome.error.message


def _wanted(batch: Iterable[ResourceRecord]) -> list[Resource]:
    return [r.resource for r in batch]


def _no_answer(record: ResourceRecord) -> TemporaryError:
    return TemporaryError(
        f"ask for {record.resource.name}", record.resource.where, "the driver returned no result"
    )


def _raise_worst(errors: Iterable[WeftError]) -> None:
    """Raise the worst error; a resource that only takes its time is no error: the row says how far it is."""
    if real := [e for e in errors if _is_real(e)]:
        raise worst(real)


def _is_real(error: WeftError | None) -> bool:
    return error is not None and not isinstance(error, NotYetError)


def worst(errors: Iterable[WeftError]) -> WeftError:
    """The worst of these errors: what a person must change comes before what will be retried."""
    ordered = sorted(errors, key=lambda e: isinstance(e, TemporaryError) and 2 - e.alarming)
    return (
        ordered[0]
        if ordered
        else OutsideError("walk the graph", "weft", "nothing is ready", "report this as a defect")
    )
