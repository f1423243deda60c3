"""Starts waiting orders: processes the queue when something has changed, and assigns nodes to the next order.

Any number of workers may do this. A row decides whose turn it is; each assignment is decided again in its
transaction, under the claim lock: two workers can't assign a node twice, and one that dies in between has changed
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.base.database import Tx
from weft.engine.base.documents import message_json, written
from weft.engine.base.epoch import check_epoch
from weft.engine.base.world import World
from weft.engine.book.capacity import Capacity, read_capacity, seconds_of
from weft.engine.book.claimrows import claim_plan
from weft.engine.book.holdrows import Booked
from weft.engine.book.occupancy import ANSWERED_WITHIN, UNANSWERED
from weft.engine.queue.agenda import EVERY, Agenda, WaitingNote, agenda
from weft.engine.queue.gather import PlanningInput, Window, gather, health
from weft.engine.queue.overdue import why_not_started
from weft.engine.queue.waiter import Waiter
from weft.engine.queue.waiting import EPOCH, time_of, write_booking
from weft.engine.queue.waitlist import Waitlist
from weft.engine.rows.basis import SiteChangedError, check_active
from weft.engine.rows.events import announce
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.store.store import Store
from weft.model.errors import InputError, WeftError
from weft.model.ids import moment, span
from weft.model.messages import pods, same
from weft.model.messages import queue as queued
from weft.model.messages.documents import coded
from weft.model.plan import Plan
from weft.model.site import Site
from weft.planning.queue.keep import Keep
from weft.planning.shapes.shape import Needs, Resolved

log = logging.getLogger(__name__)

MOST_STEPS = 500
"""Maximum starts and refusals per run; the rest is left to the next one."""
AGAIN = 1.0
"""Seconds after which an order that waits for Nova's answer is tried again."""
LEFT_SECONDS = 5.0
"""Seconds for which the queue is left to workers of a newer weft before it is looked at again."""
UNKNOWN_YET = queued.OCCUPANTS_UNREAD()


@dataclass(frozen=True, slots=True)
class _RunInput:
    """Input of a run.

    Attributes:
        site: nothing is assigned by it once another one is active.
        inputs: by cloud; an unreachable one only blocks its own orders. Nodes in use by others are removed from them.
        denied: orders that can't start in this run, and why.
        used: project -> unit-seconds, weighted by age. Read once, without the lock: it takes longer with every pod of
            the last months, and changes little meanwhile.
    """

    site: SiteRecord
    inputs: dict[str, PlanningInput | WeftError]
    denied: dict[UUID, str]
    used: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _QueueState:
    """What was read in one transaction."""

    waiting: dict[UUID, Waiter]
    capacity: Capacity
    agenda: Agenda


class Dispatcher:
    """Keeps nothing between runs but a cache of waiting orders, deadlines for Nova's answers, and whether the queue was
    left to a newer weft just now."""

    def __init__(self, store: Store, world: Callable[[], World]) -> None:
        self._store, self._world = store, world
        self._list, self._left = Waitlist(), False
        self._answers: dict[UUID, datetime] = {}

    def run_due(self) -> float:
        """Process the queue if it is due; returns the seconds until it is due again.

        Orders that only a newer weft can read have their turn, too: the queue is left to its workers while it has
        any.
        """
        if self._left and self._store.newer_at_work():
            self._left = False
            return LEFT_SECONDS
        with self._store.database.transaction() as tx:
            now = tx.now()
            due = tx.row("take_queue", at=now, later=now + timedelta(seconds=EVERY)) is not None
        if due:
            self.run()
        with self._store.database.transaction() as tx:
            row, now = tx.row("queue_at"), tx.now()
        assert row is not None
        return max(0.0, (row["next_at"] - now).total_seconds())

    def run(self) -> list[str]:
        """Start all orders that can start now; record what the others wait for. Returns the names of started pods."""
        with self._store.database.transaction() as tx:
            waiting = self._list.read(tx)
        for pod_id, (version, error) in self._list.unreadable.items():
            self._store.park_waiting(pod_id, version, error)
        if self._list.unreadable and self._store.newer_at_work():
            self._left = True
            with self._store.database.statement() as tx:
                tx.run("touch_queue", at=tx.now())
            return []
        if not waiting:
            return []
        started: list[str] = []
        try:
            self._run(waiting, started)
        except SiteChangedError as changed:  # which has made the queue due again
            log.info("the queue is processed again: %s", changed)
        return started

    def _run(self, waiting: Mapping[UUID, Waiter], started: list[str]) -> None:
        self._answers = {pod_id: until for pod_id, until in self._answers.items() if pod_id in waiting}
        run = self._begin(waiting.values())
        for _ in range(MOST_STEPS):
            with self._store.database.transaction() as tx:
                look = self._look(tx, run, forecast=True)
            seen, chosen = look.agenda, look.agenda.start
            if chosen is None:
                expected = {pod: note.expected for pod, note in seen.notes.items()}
                if self._write_notes(run, expected):
                    return
                continue
            known = waiting.get(chosen.id)
            if known is None or known.order != chosen.order:
                return  # ordered or changed after the input was gathered: the queue is due again
            if self._guarded(run, chosen, look.capacity):
                started.append(chosen.name)

    def _begin(self, waiting: Collection[Waiter]) -> _RunInput:
        record = self._store.site()
        site, inputs = record.site, self._gather(record, waiting)
        reasons = {w.id: _in_the_way(w, site, inputs) for w in waiting}
        half_life = span(site.queue.half_life).total_seconds()
        with self._store.database.transaction() as tx:
            rows = tx.rows("use_of_projects", at=tx.now(), half_life=half_life)
            stuck = {p: why_not_started(tx, p, site) for p in sorted({w.project for w in waiting})}
        used = {r["project_id"]: float(r["seconds"] or 0) for r in rows}
        denied = {w.id: error.message if (error := reasons[w.id]) else stuck[w.project] for w in waiting}
        return _RunInput(record, inputs, {i: why for i, why in denied.items() if why}, used)

    def _guarded(self, run: _RunInput, chosen: Waiter, seen: Capacity) -> bool:
        """As `_try`; a defect of weft that one order triggers denies that order, and doesn't block the others."""
        try:
            return self._try(run, chosen, seen)
        except WeftError:
            raise
        except Exception as error:
            log.exception("order %s (%s): defect in the queue", chosen.name, chosen.id)
            run.denied[chosen.id] = f"defect in weft ({type(error).__name__}); please report it with the log"
            return False

    def _try(self, run: _RunInput, chosen: Waiter, seen: Capacity) -> bool:
        """Query quotas and occupants of the nodes, which takes time, then decide again under the lock.

        A refusal is added to `denied`.
        """
        given, denied = run.inputs[chosen.resolved(run.site.site).cloud], run.denied
        assert isinstance(given, PlanningInput), "without it the order is denied"
        first = self._plan(chosen, given, seen, self._store.database.now().timestamp())
        reason = first if isinstance(first, str) else _over_quota(given, chosen, first)
        if isinstance(first, str) or reason:
            denied[chosen.id] = reason
            return False
        if not self._is_free(run, chosen, given, first):
            return False
        with self._store.database.placing() as tx:
            look = self._look(tx, run)
            now = look.agenda.start
            if now is None or (now.id, now.order) != (chosen.id, chosen.order):
                return False  # the state, or the order, has changed: run again
            if stuck := why_not_started(tx, now.project, run.site.site):
                denied[chosen.id] = stuck
                return False
            plan = self._plan(now, given, look.capacity, tx.now().timestamp())
            if isinstance(plan, str):
                denied[chosen.id] = plan
                return False
            if not set(first.placement.held).issuperset(plan.placement.held):
                return False  # these haven't been checked yet
            self._start(tx, now, plan)
        log.info("pod %s (%s) leaves the queue", chosen.name, chosen.id)
        return True

    def _is_free(self, run: _RunInput, one: Waiter, given: PlanningInput, plan: Plan) -> bool:
        """Whether the plan's nodes are empty; removes those in use by others from the input."""
        try:
            check_epoch(self._store.database, given.world.clouds[plan.cloud], given.site.name, plan.cloud)
            without = given.without_occupied(plan, self._store.pods.servers_on, wait=False)
        except WeftError as error:
            run.denied[one.id] = error.message
            return False
        if without is None:
            return True
        if UNANSWERED in map(without.down.get, plan.placement.held) and self._awaits(one):
            run.denied[one.id] = UNKNOWN_YET
        else:
            run.inputs[plan.cloud] = without
        return False

    def _awaits(self, one: Waiter) -> bool:
        """Whether this order still waits, for a limited time, for Nova's answer to another one; others don't wait."""
        with self._store.database.transaction() as tx:
            now = tx.now()
            if now >= self._answers.setdefault(one.id, now + timedelta(seconds=sum(ANSWERED_WITHIN))):
                del self._answers[one.id]
                return False
            tx.run("touch_queue", at=now + timedelta(seconds=AGAIN))
        return True

    def _look(self, tx: Tx, run: _RunInput, forecast: bool = False) -> _QueueState:
        """Read the queue's state. Raises `SiteChangedError` if the active site isn't the run's."""
        now, waiting, site = tx.now(), self._list.read(tx), run.site.site
        capacity = read_capacity(tx)
        check_active(run.site.generation, capacity.site)
        state = health(site, (g for g in run.inputs.values() if isinstance(g, PlanningInput)), capacity)
        everyone = list(waiting.values())
        found = agenda(site, capacity, everyone, run.used, state, run.denied, now.timestamp(), forecast)
        return _QueueState(waiting, capacity, found)

    def _plan(self, one: Waiter, given: PlanningInput, capacity: Capacity, now: float) -> Plan | str:
        """The plan with which it starts now, or why it can't."""
        window = _window(one, capacity, now)
        try:
            made = given.plan(str(one.id), one.resolved(given.site), capacity, window)
        except InputError as error:
            return error.message
        return made if isinstance(made, Plan) else made.reason

    def _start(self, tx: Tx, one: Waiter, plan: Plan) -> None:
        now, plan = tx.now(), plan.model_copy(update={"generation": one.generation})
        lease_end = one.order.lease.ends(now)
        if tx.row("start_pod", id=one.id, plan=written(plan), at=now, lease_end=lease_end):
            tx.run("drop_booking", pod_id=one.id)
            claim_plan(tx, plan)

    def _write_notes(self, run: _RunInput, expected: Mapping[UUID, float | None]) -> bool:
        """Record reasons, queue positions and bookings; False if an order could start after all.

        For orders without a booking the estimate made without the lock is good enough, and it takes longest.
        """
        with self._store.database.placing() as tx:
            look = self._look(tx, run)
            if look.agenda.start is not None:
                return False
            before = {one.pod.id: one for one in look.capacity.bookings}
            for pod_id, reason in look.agenda.impossible.items():
                tx.run(
                    "fail_waiting",
                    id=pod_id,
                    reason=message_json(reason),
                    said=Jsonb(coded("message", reason)),
                    at=tx.now(),
                )
                tx.run("drop_booking", pod_id=pod_id)
                failed = pods.STATE(state="FAILED", why=reason)
                announce(tx, pod_id, "state", failed)
                announce(tx, pod_id, "alarm", failed)
            for pod_id, note in look.agenda.notes.items():
                booked = note.booking is not None and note.booking.came is None
                noted = note if booked else replace(note, expected=expected.get(pod_id))
                self._note(tx, look.waiting[pod_id], noted, before.get(pod_id))
            tx.run("touch_queue", at=moment(look.agenda.next_at))
        return True

    def _note(self, tx: Tx, one: Waiter, note: WaitingNote, booked: Booked | None) -> None:
        expected = time_of(note.expected) if note.expected is not None else None
        moved = (note.position, expected) != (one.position, one.expected_start)
        if moved or not same(note.reason, one.reason):
            tx.run(
                "note_waiting",
                id=one.id,
                reason=message_json(note.reason),
                position=note.position,
                expected_start=expected,
            )
        if note.reason != one.reason:
            announce(tx, one.id, "queue", note.reason)
        if note.booking is None:
            if booked is not None:
                tx.run("drop_booking", pod_id=one.id)
        elif booked is None or _differs(note.booking, booked):
            write_booking(tx, one.id, note.booking)

    def _gather(self, record: SiteRecord, waiting: Iterable[Waiter]) -> dict[str, PlanningInput | WeftError]:
        """Input for each cloud with waiting orders; the error if it can't be read."""
        site, world = record.site, self._world()
        by_cloud: dict[str, list[Resolved]] = {}
        for one in waiting:
            with suppress(InputError):  # it names what the site no longer has, which planning reports
                order = one.resolved(site)
                by_cloud.setdefault(order.cloud, []).append(order)
        found: dict[str, PlanningInput | WeftError] = {}
        for cloud, ones in by_cloud.items():
            try:
                found[cloud] = gather(record, world, cloud, Needs.of(ones))
            except WeftError as error:
                found[cloud] = error
        return found


def _window(one: Waiter, capacity: Capacity, now: float) -> Window:
    """The window in which it starts now.

    If its booking is due, it starts a little late: neither a booking right after it nor an open one may stop it.
    """
    window = one.window(now)
    mine = (b for b in capacity.bookings if b.pod.id == one.id and b.came is None)
    own = (b for b in mine if seconds_of(b.start) <= now)
    booked = next((seconds_of(b.end) for b in own), 0.0)
    return replace(window, end=min(window.end, booked), came=0.0) if now < booked else window


def _in_the_way(one: Waiter, site: Site, inputs: Mapping[str, PlanningInput | WeftError]) -> WeftError | None:
    """Why something that it needs could not be read from its cloud; None: all was read."""
    try:
        order = one.resolved(site)
        given = inputs[order.cloud]
        return given.boot_error(order) if isinstance(given, PlanningInput) else given
    except InputError:
        return None  # reported by planning


def _over_quota(given: PlanningInput, one: Waiter, plan: Plan) -> str:
    try:
        given.check_quotas(one.project, plan)
    except WeftError as error:
        return error.message
    return ""


def _differs(keep: Keep, booked: Booked) -> bool:
    start, opened = max(keep.start, EPOCH), keep.came is not None
    same = (tuple(keep.nodes), time_of(start), time_of(keep.end), keep.parts, opened)
    return same != (booked.nodes, booked.start, booked.end, booked.parts, booked.came is not None)
