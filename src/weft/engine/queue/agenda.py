"""Decides which waiting orders start now, which get a booking, and what the others wait for. Pure: rows in, decisions
out.

The rules are those of `weft.planning.queue.queue`, which `weft place` runs on a simulated clock; all state between
runs is in the database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from weft.engine.book.capacity import Capacity
from weft.engine.queue.waiter import Waiter
from weft.model.errors import InputError
from weft.model.messages import queue as queued
from weft.model.placement import Occupancy, Placement, Refusal
from weft.model.site import Site
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER
from weft.planning.place.slots import is_slot
from weft.planning.queue.book import Book, booked, entry, minute, names
from weft.planning.queue.forecast import expected_starts
from weft.planning.queue.keep import Keep
from weft.planning.queue.queue import Queue, QueueSettings
from weft.planning.queue.shares import PartsOrder, process_queue
from weft.planning.queue.turns import Candidate, Turns
from weft.planning.queue.waiting import Waiting
from weft.planning.shapes.resolve import resolve, shape_named
from weft.planning.shapes.shape import Resolved, Where

EVERY = 30.0
"""Seconds after which the queue is processed again even without a known change: hosts may come back unnoticed."""


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """What is known about an order that keeps waiting.

    Attributes:
        position: in the queue, from 1; None: it has a booking, or can't be judged now.
        expected: when it is expected to start; POSIX time.
        booking: nodes booked for it from then, or kept for it without a time.
    """

    reason: str
    position: int | None = None
    expected: float | None = None
    booking: Keep | None = None


@dataclass(slots=True)
class Agenda:
    """Result of processing the queue once.

    Attributes:
        start: the first order that starts now; process the queue again afterwards.
        notes: for all others, only if none starts.
        impossible: orders that name something that the site no longer has.
        next_at: when to process the queue again at the latest; POSIX time.
    """

    next_at: float
    start: Waiter | None = None
    notes: dict[UUID, WaitingNote] = field(default_factory=dict[UUID, WaitingNote])
    impossible: dict[UUID, str] = field(default_factory=dict[UUID, str])


def agenda(
    site: Site,
    capacity: Capacity,
    waiting: Sequence[Waiter],
    used: Mapping[str, float],
    health: Occupancy,
    denied: Mapping[UUID, str],
    now: float,
    forecast: bool = True,
) -> Agenda:
    """Process all waiting orders once.

    Args:
        used: project -> node-seconds, weighted by age.
        health: what is out of order.
        denied: orders that can't start now for reasons outside of placement (such as a cloud's quota), and why.
        forecast: whether to estimate the starts of orders without a booking, which takes longest.
    """
    found, before = Agenda(now + EVERY), capacity.book()
    reported = capacity.reported
    asked = _asked(site, waiting, found, reported)
    bookings = {p.name: p for p in before.bookings}
    able = {str(i) for i in asked if i not in denied}
    book = _without_others(before, able, able | {str(w.id) for w in waiting if w.fixed})
    found.notes |= _denied_notes(waiting, denied, bookings)
    turns = Turns(QueueSettings.of(site.queue), used)
    could: list[Candidate] = []
    groups = _by_queue(waiting, asked)
    queues = {w: [c.candidate for c in mine if str(c.id) in able] for w, mine in sorted(groups.items())}
    for where, wait in turns.order(queues, book):
        mine = groups[where]
        ready = [w for w in mine if w.id not in denied]
        places = shape_named(where.shape).places
        if places is not None:
            if (
                start := _shares(site, book, places, ready, health, used, now, found, wait, reported)
            ) is not None:
                could.append(start.candidate)
            book = _with_bookings(book, mine, found.notes)
            continue
        queue = _queue(site, book, where, health, used, now)
        _enter_all(queue, mine, asked, denied, bookings, now)
        started = queue.run(now, wait)
        if started:
            pod = started[0].waiting.ask.pod
            could.append(next(c for c in queues[where] if c.pod == pod))
            continue
        found.notes |= _notes(queue, book, where, ready, now, forecast)
        book = _with_bookings(book, mine, found.notes)
        found.next_at = min(found.next_at, _next(queue, now))
    if (chosen := turns.first(could, bookings)) is not None:
        found.start = next(w for w in waiting if str(w.id) == chosen.pod)
    return found


def _by_queue(
    waiting: Iterable[Waiter], asked: Mapping[UUID, tuple[Where, Ask]]
) -> dict[Where, list[Waiter]]:
    groups: dict[Where, list[Waiter]] = {}
    for one in waiting:
        if one.id in asked:
            groups.setdefault(asked[one.id][0], []).append(one)
    return groups


def _enter_all(
    queue: Queue,
    mine: Iterable[Waiter],
    asked: Mapping[UUID, tuple[Where, Ask]],
    denied: Mapping[UUID, str],
    bookings: Mapping[str, Keep],
    now: float,
) -> None:
    """Enter those that can start; the others keep nothing, except a booking with a time."""
    for one in mine:
        if one.id not in denied:
            _enter(queue, one, asked[one.id][1], bookings.get(str(one.id)), now)
        elif not one.fixed:
            queue.timeline.cancel(str(one.id))


def _denied_notes(
    waiting: Sequence[Waiter], denied: Mapping[UUID, str], bookings: Mapping[str, Keep]
) -> dict[UUID, WaitingNote]:
    return {
        one.id: WaitingNote(denied[one.id], None, None, bookings.get(str(one.id)) if one.fixed else None)
        for one in waiting
        if one.id in denied
    }


def _asked(
    site: Site, waiting: Sequence[Waiter], found: Agenda, reported: Mapping[str, Mapping[str, str]]
) -> dict[UUID, tuple[Where, Ask]]:
    """Order -> which queue it is in, and what it asks for; those that can't be resolved go to `found.impossible`.

    Args:
        reported: project -> nodes that it has reported.
    """
    asked: dict[UUID, tuple[Where, Ask]] = {}
    for one in waiting:
        try:
            order = resolve(one.order, one.project, site)
            ask = order.ask
            without = tuple(sorted(reported.get(one.project, ())))
            asked[one.id] = (
                order.where,
                replace(ask, exclude=(*ask.exclude, *without)) if without else ask,
            )
        except InputError as error:
            found.impossible[one.id] = error.message
    return asked


def _without_others(book: Book, able: Collection[str], stay: Collection[str]) -> Book:
    """Drop bookings of orders that can't start now: `stay` keep theirs, and `able` their open ones."""
    return replace(
        book,
        bookings=tuple(k for k in book.bookings if k.name in stay),
        open=tuple(k for k in book.open if k.name in able),
    )


def _shares(
    site: Site,
    book: Book,
    places: Callable[[Resolved, Occupancy], Placement | Refusal],
    mine: Sequence[Waiter],
    health: Occupancy,
    used: Mapping[str, float],
    now: float,
    found: Agenda,
    wait: frozenset[str],
    reported: Mapping[str, Mapping[str, str]],
) -> Waiter | None:
    """Which order starts now, of a shape without timeline; otherwise adds notes for all of them."""
    sharers = [
        _sharer(one, resolve(one.order, one.project, site), places, now, reported.get(one.project, {}))
        for one in mine
    ]
    seen = process_queue(book, sharers, health, QueueSettings.of(site.queue), used, now, wait)
    for one in mine:
        pod = str(one.id)
        if pod == seen.start:
            return one
        kept = seen.bookings.get(pod)
        expected = max(kept.start, now) if kept and kept.came is None else None
        found.notes[one.id] = WaitingNote(
            seen.why.get(pod, queued.NO_CAPACITY()), seen.place.get(pod), expected, kept
        )
    due = [p.start for p in seen.bookings.values() if p.start > now and p.came is None]
    due += [w.not_before for w in sharers if w.not_before > now]
    found.next_at = min(found.next_at, *due) if due else found.next_at
    return None


def _sharer(
    one: Waiter,
    order: Resolved,
    places: Callable[[Resolved, Occupancy], Placement | Refusal],
    now: float,
    reported: Mapping[str, str],
) -> PartsOrder:
    window = one.window(now)
    return PartsOrder(
        str(one.id),
        one.project,
        one.name,
        lambda occupancy: places(order, occupancy.model_copy(update={"reported": reported})),
        one.created_at.timestamp(),
        window.end - now if one.order.lease.duration else FOREVER,
        window.until,
        one.not_before.timestamp() if one.not_before else 0.0,
        one.fixed,
    )


def _queue(
    site: Site, book: Book, where: Where, health: Occupancy, used: Mapping[str, float], now: float
) -> Queue:
    shape = shape_named(where.shape)
    line = shape.timeline(replace(book, open=()), site, where.name, health, now)
    queue = Queue(line, shape.queue(QueueSettings.of(site.queue)))
    for keep in book.open:
        if keep.came is not None and (bits := line.engine.ledger.numbers.masks(keep.nodes)):
            queue.openings.add(entry(keep, bits), keep.came)
    holds: dict[str, set[str]] = {}
    for lease in book.leases:  # a node that several of its pods share counts once, as in `over_limit`
        holds.setdefault(lease.project, set()).update(n for n in lease.nodes if not is_slot(n))
    for project in {*holds, *used}:
        queue.credit(project, now, used.get(project, 0.0), len(holds.get(project, ())))
    return queue


def _enter(queue: Queue, one: Waiter, ask: Ask, booking: Keep | None, now: float) -> None:
    ask = replace(ask, pod=str(one.id))
    window = one.window(now)
    waiting = Waiting(
        ask,
        window.end - now if one.order.lease.duration else FOREVER,
        one.created_at.timestamp(),
        window.until,
        one.not_before.timestamp() if one.not_before else 0.0,
        one.fixed,
    )
    line = queue.timeline
    line.cancel(ask.pod)
    bits = tuple(sorted(line.engine.ledger.numbers.masks(booking.nodes).items())) if booking else ()
    if booking and bits and not set(booking.nodes).intersection(line.places_of(ask.exclude)):
        queue.recall(waiting, booking.start, bits)
    else:
        queue.submit(waiting)


def _notes(
    queue: Queue, book: Book, where: Where, mine: Sequence[Waiter], now: float, forecast: bool
) -> dict[UUID, WaitingNote]:
    units = shape_named(where.shape).units
    expected = expected_starts(queue, now) if forecast else {}
    rank = {w.ask.pod: n for n, w in enumerate((w for w in queue.ranked(now) if not w.fixed), start=1)}
    notes: dict[UUID, WaitingNote] = {}
    for one in mine:
        pod = str(one.id)
        position = rank.get(pod)
        why = queue.why.get(pod, queued.NO_CAPACITY())
        if opening := queue.openings.of(pod):
            came, kept = opening
            nodes = names(queue.timeline, kept.bits)
            booking = Keep(pod, one.project, nodes, kept.start, kept.end, one.name, kept.terms, came=came)
            notes[one.id] = WaitingNote(why, position, None, booking)
            continue
        entries = queue.timeline.reservations.of(pod)
        if pod not in queue.bookings or not entries:
            notes[one.id] = WaitingNote(why, position, expected.get(pod))
            continue
        booking = entries[0]
        kept = Keep(
            pod,
            one.project,
            names(queue.timeline, booking.bits),
            booking.start,
            booking.end,
            one.name,
            booking.terms,
        )
        if booking.start > now:
            code = queued.STARTS_AT if one.fixed else queued.STARTS_BY
            why = code(start=minute(booking.start), units=units, n=booked(kept.nodes))
        notes[one.id] = WaitingNote(why, position, max(booking.start, now), kept)
    return notes


def _with_bookings(book: Book, mine: Sequence[Waiter], notes: Mapping[UUID, WaitingNote]) -> Book:
    """The book with these bookings: a node may be on several fabrics, and must not be booked on two of them."""
    names = {str(w.id) for w in mine}
    kept = [note.booking for w in mine if (note := notes.get(w.id)) and note.booking]
    return replace(
        book,
        bookings=(*(p for p in book.bookings if p.name not in names), *(k for k in kept if k.came is None)),
        open=(*(p for p in book.open if p.name not in names), *(k for k in kept if k.came is not None)),
    )


def _next(queue: Queue, now: float) -> float:
    """When something is due: a start, or the end of an order's patience."""
    moments = [at for at in queue.bookings.values() if at > now]
    for waiting in queue.waiting.values():
        moments += [t for t in (waiting.submitted + queue.settings.patience, waiting.not_before) if t > now]
    return min(moments, default=FOREVER)
