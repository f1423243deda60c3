"""What is done with one batch of a pod's resources: made and seen at rest, or taken away and seen gone.

What is written before a call and what is read after it follow the rules of the loop (docs/architecture.md): a row
says `creating` before anybody outside is asked, and `absent` only after a listing didn't show the thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.engine.held import Held, InterruptedWalkError, LostError
from weft.engine.records import Change, ResourceRecord, RowState
from weft.engine.settings import LoopSettings
from weft.engine.world import World
from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.ports.clock import Clock
from weft.ports.resources import ResourceDriver

Batch = list[ResourceRecord]


class Moves:
    """Works on batches of one visit's pod; `records` has what is known of each resource, as it is written.

    Safe to use from several threads, as long as no two of them have the same resource.
    """

    def __init__(self, held: Held, world: World, clock: Clock, settings: LoopSettings) -> None:
        self._held, self._world, self._clock, self._settings = held, world, clock, settings
        self._scope = replace(held.pod.scope, fence=held.check)
        self.records = {r.key: r for r in held.resources()}

    def advance(self, batch: Batch) -> None:
        """Make a batch, as far as it goes."""
        driver = self._world.driver(batch[0].resource.where)
        asked = [r for r in batch if r.state is not RowState.WANTED]
        if asked:
            self._look(driver, asked)
        for record in [r for r in self.fresh(batch) if r.state is RowState.BROKEN]:
            self._take_away_broken(driver, record)
        fresh = [r for r in self.fresh(batch) if r.state in (RowState.WANTED, RowState.CREATING)]
        if fresh:
            self._create(driver, fresh)
        differing = [r for r in self.fresh(batch) if r.differences]
        if differing:
            self._held.check()
            self._outcomes(
                differing, driver.update(self._scope, _wanted(differing), self._ids()), RowState.PENDING
            )
        if batch[0].kind.row.settles:
            self._settle(driver, batch)
        else:
            pending = [r for r in self.fresh(batch) if r.state is RowState.PENDING]
            self._write([Change(r.key, RowState.SETTLED, r.outside_id, attempts=r.attempts) for r in pending])

    def _create(self, driver: ResourceDriver, batch: Batch) -> None:
        """Rows first, then the call: a lost answer is found again by its name, not made twice."""
        self._write(
            [Change(r.key, RowState.CREATING, attempts=r.attempts) for r in batch],
            [("step", f"creating {r.resource.name}", r.key) for r in batch],
        )
        self._held.check()
        outcomes = driver.create(self._scope, _wanted(batch), self._ids())
        self._outcomes(self.fresh(batch), outcomes, RowState.PENDING)

    def _outcomes(self, batch: Batch, outcomes: Mapping[str, Outcome], accepted: RowState) -> None:
        """Write what the attempts gave; raise the worst error after that."""
        changes: list[Change] = []
        errors: list[WeftError] = []
        for record in batch:
            outcome = outcomes.get(record.key, Outcome(error=_no_answer(record)))
            if outcome.error is None:
                changes.append(Change(record.key, accepted, outcome.id, attempts=record.attempts))
            else:
                errors.append(outcome.error)
                changes.append(
                    Change(record.key, record.state, outcome.id, str(outcome.error), attempts=record.attempts)
                )
        self._write(changes)
        if errors:
            raise worst(errors)

    def _settle(self, driver: ResourceDriver, batch: Batch) -> None:
        """Look until everything is at rest; a broken server is made anew a few times."""
        pause, deadline = self._waiting(batch)
        while waiting := [r for r in self.fresh(batch) if r.state is not RowState.SETTLED]:
            self._look(driver, waiting)
            waiting = [r for r in self.fresh(batch) if r.state is not RowState.SETTLED]
            broken = [r for r in waiting if r.state is RowState.BROKEN]
            for record in broken:
                self._take_away_broken(driver, record)
            lost = [r for r in self.fresh(waiting) if r.state in (RowState.WANTED, RowState.CREATING)]
            if lost:
                self._create(driver, lost)
            if not waiting:
                return
            if self._held.lost.is_set():
                raise LostError
            if self._held.wanted != "present":
                raise InterruptedWalkError
            if self._clock.monotonic() > deadline:
                raise self._impatient(waiting, "to settle")
            self._clock.sleep(pause)
            self._held.extend()  # also learns whether a release was asked meanwhile

    def _take_away_broken(self, driver: ResourceDriver, record: ResourceRecord) -> None:
        """Delete a broken thing and see it go, so that it can be made anew; not more often than the settings say.

        What broke counts, not what was asked: an attempt that was refused has broken nothing.
        """
        broke = record.attempts + 1
        if broke >= self._settings.server_attempts:
            raise PermanentError(
                f"create {record.resource.name}",
                record.resource.where,
                f"it broke {broke} times: {record.reason}",
                "look into the reason, then release the pod",
            )
        self._held.say(
            "error", f"{record.resource.name} is broken and is made anew: {record.reason}", record.key
        )
        self._remove(driver, [record])
        self._write([Change(record.key, RowState.WANTED, reason=record.reason, attempts=broke)])

    def retreat(self, batch: Batch) -> None:
        """Take a batch away, as far as it goes."""
        driver = self._world.driver(batch[0].resource.where)
        self._write(
            [Change(r.key, RowState.DELETING, r.outside_id, attempts=r.attempts) for r in batch],
            [
                ("step", f"removing {r.resource.name}", r.key)
                for r in batch
                if r.state is not RowState.DELETING
            ],
        )
        self._remove(driver, self.fresh(batch))

    def _remove(self, driver: ResourceDriver, batch: Batch) -> None:
        """Ask for removal and look until a listing doesn't show the things any more; each that is gone is written."""
        pause, deadline = self._waiting(batch)
        self._held.check()
        outcomes = driver.delete(self._scope, _wanted(batch), self._ids())
        left = batch
        while True:
            errors = [o.error for o in outcomes.values() if o.error is not None]
            seen = self._find(driver, left)
            gone = [r for r in left if not seen[r.key].there]
            self._write(
                [Change(r.key, RowState.ABSENT, reason=seen[r.key].reason, attempts=r.attempts) for r in gone]
            )
            left = [r for r in left if seen[r.key].there]
            if not left:
                return
            if errors:
                raise worst(errors)
            if self._held.lost.is_set():
                raise LostError
            why = {r.key: seen[r.key].reason for r in left}
            self._write(
                Change(r.key, RowState.DELETING, r.outside_id, why[r.key], attempts=r.attempts)
                for r in self.fresh(left)
                if r.reason != why[r.key]
            )
            if self._clock.monotonic() > deadline:
                raise self._impatient(self.fresh(left), "to go")
            again = [r for r in left if seen[r.key].status is not Status.PENDING]
            self._held.check()
            outcomes = driver.delete(self._scope, _wanted(again), self._ids()) if again else {}
            self._clock.sleep(pause)

    def _look(self, driver: ResourceDriver, batch: Batch) -> None:
        """One listing for the batch, written down."""
        seen = self._find(driver, batch)
        changes = [observed_change(r, seen[r.key]) for r in batch]
        news = [
            ("step", f"{r.resource.name} is there{f' ({c.reason})' if c.reason else ''}", r.key)
            for r, c in zip(batch, changes, strict=True)
            if c.state is RowState.SETTLED and r.state is not RowState.SETTLED
        ]
        self._write([c for r, c in zip(batch, changes, strict=True) if _differs(r, c)], news)

    def _find(self, driver: ResourceDriver, batch: Batch) -> Mapping[str, Observed]:
        return seen_of(driver.find(self._scope, _wanted(batch), self._ids()), batch)

    def _write(self, changes: Iterable[Change], events: Iterable[tuple[str, str, str | None]] = ()) -> None:
        changes = list(changes)
        if not changes and not list(events):
            return
        self._held.change(changes, events)
        for change in changes:
            old = self.records[change.key]
            self.records[change.key] = ResourceRecord(
                resource=old.resource,
                state=change.state,
                outside_id=change.outside_id or old.outside_id,
                reason=change.reason,
                differences=change.differences,
                facts=change.facts or old.facts,
                attempts=change.attempts,
                started_at=old.started_at,
                finished_at=old.finished_at,
            )

    def fresh(self, batch: Batch) -> Batch:
        return [self.records[r.key] for r in batch]

    def _ids(self) -> dict[str, str]:
        return {key: r.outside_id for key, r in self.records.items() if r.outside_id}

    def _waiting(self, batch: Batch) -> tuple[float, float]:
        """Pause between two looks, and the end of patience."""
        boots, s = batch[0].kind.row.boots, self._settings
        pause, patience = (s.poll_servers, s.patience_servers) if boots else (s.poll_others, s.patience)
        return pause, self._clock.monotonic() + patience

    def _impatient(self, batch: Batch, what: str) -> TemporaryError:
        names = ", ".join(r.resource.name for r in batch[:3])
        more = f" and {len(batch) - 3} more" if len(batch) > 3 else ""
        reason = next((r.reason for r in batch if r.reason), "no reason given")
        return TemporaryError(
            f"wait for {names}{more} {what}",
            batch[0].resource.where,
            f"not yet ({reason})",
        )


def seen_of(seen: Mapping[str, Observed], batch: Batch) -> Mapping[str, Observed]:
    """What `find` answered, if it did for every one of a batch. Raises `UnknownError`: no answer is not absent."""
    missing = [r for r in batch if r.key not in seen]
    if missing:
        names = ", ".join(r.resource.name for r in missing[:3])
        raise UnknownError(f"look for {names}", missing[0].resource.where, "the driver gave no answer")
    return seen


def observed_change(record: ResourceRecord, seen: Observed) -> Change:
    """What a look means for a row. Absent means: to be made (again)."""
    if not seen.there:
        return Change(record.key, RowState.CREATING, reason="it is not there", attempts=record.attempts)
    states = {
        Status.SETTLED: RowState.SETTLED,
        Status.PENDING: RowState.PENDING,
        Status.BROKEN: RowState.BROKEN,
    }
    state = RowState.PENDING if seen.differences else states[seen.status]
    reason = seen.reason or "; ".join(
        f"{d.field} is {d.observed}, wanted {d.wanted}" for d in seen.differences
    )
    return Change(record.key, state, seen.id, reason, seen.differences, seen.facts, record.attempts)


def _differs(record: ResourceRecord, change: Change) -> bool:
    return (record.state, record.outside_id, record.reason, record.differences) != (
        change.state,
        change.outside_id or record.outside_id,
        change.reason,
        change.differences,
    )


def _wanted(batch: Iterable[ResourceRecord]) -> list[Resource]:
    return [r.resource for r in batch]


def _no_answer(record: ResourceRecord) -> TemporaryError:
    return TemporaryError(
        f"ask for {record.resource.name}", record.resource.where, "the driver gave no answer"
    )


def worst(errors: Iterable[WeftError]) -> WeftError:
    """What a person must change comes before what will be tried again."""
    ordered = sorted(errors, key=lambda e: isinstance(e, TemporaryError) and 2 - e.alarming)
    return (
        ordered[0]
        if ordered
        else OutsideError("walk the graph", "weft", "nothing is ready", "report this as a defect")
    )
