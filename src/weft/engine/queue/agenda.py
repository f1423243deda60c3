"""Decides which waiting orders start now, which get a booking, and what the others wait for. Pure: rows in, decisions
out.

The rules are those of `weft.planning.queue.queue`, which `weft place` runs on a simulated clock; all state between
runs is in the database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from weft.engine.book.capacity import Capacity
from weft.engine.queue.waiter import Waiter
from weft.model.errors import InputError
from weft.model.placement import Occupancy
from weft.model.site import Site
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.queue import QueueSettings
from weft.planning.queue.turns import QueuedOrder, Turns
from weft.planning.shapes.resolve import shape_named
from weft.planning.shapes.shape import LineAsked, WaitingNote, WaitingOrder, Where

EVERY = 30.0
"""Seconds after which the queue is processed again even without a known change: hosts may come back unnoticed."""


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
    asked = _asked(site, waiting, now, found, capacity.reported)
    bookings = {p.name: p for p in before.bookings}
    able = {str(i) for i in asked if i not in denied}
    book = _without_others(before, able, able | {str(w.id) for w in waiting if w.fixed})
    found.notes |= _denied_notes(waiting, denied, bookings)
    turns = Turns(QueueSettings.of(site.queue), used)
    could: list[QueuedOrder] = []
    groups = _by_line(waiting, asked)
    queues = {w: [c.candidate for c in mine if str(c.id) in able] for w, mine in sorted(groups.items())}
    for where, wait in turns.order(queues, book):
        mine = groups[where]
        ready = {str(w.id): w for w in mine if w.id not in denied}
        line = shape_named(where.shape).line(LineAsked(book, site, where.name, health, now, used))
        seen = line.process([asked[w.id] for w in ready.values()], wait, forecast)
        if seen.start is not None:
            could.append(ready[seen.start].candidate)
            continue
        found.notes |= {ready[pod].id: note for pod, note in seen.notes.items()}
        book = _with_bookings(book, mine, found.notes)
        found.next_at = min(found.next_at, seen.next_at)
    if (chosen := turns.first(could, bookings)) is not None:
        found.start = next(w for w in waiting if str(w.id) == chosen.pod)
    return found


def _by_line(waiting: Iterable[Waiter], asked: Mapping[UUID, WaitingOrder]) -> dict[Where, list[Waiter]]:
    groups: dict[Where, list[Waiter]] = {}
    for one in waiting:
        if one.id in asked:
            groups.setdefault(asked[one.id].order.where, []).append(one)
    return groups


def _denied_notes(
    waiting: Sequence[Waiter], denied: Mapping[UUID, str], bookings: Mapping[str, Keep]
) -> dict[UUID, WaitingNote]:
    return {
        one.id: WaitingNote(denied[one.id], None, None, bookings.get(str(one.id)) if one.fixed else None)
        for one in waiting
        if one.id in denied
    }


def _asked(
    site: Site,
    waiting: Sequence[Waiter],
    now: float,
    found: Agenda,
    reported: Mapping[str, Mapping[str, str]],
) -> dict[UUID, WaitingOrder]:
    """The waiting orders as the queue sees them; those that can't be resolved go to `found.impossible`.

    Args:
        reported: project -> node that it has reported -> why.
    """
    asked: dict[UUID, WaitingOrder] = {}
    for one in waiting:
        try:
            asked[one.id] = one.asks(site, now, reported.get(one.project, {}))
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


def _with_bookings(book: Book, mine: Sequence[Waiter], notes: Mapping[UUID, WaitingNote]) -> Book:
    """The book with these bookings: a node may be on several fabrics, and must not be booked on two of them."""
    names = {str(w.id) for w in mine}
    kept = [note.booking for w in mine if (note := notes.get(w.id)) and note.booking]
    return replace(
        book,
        bookings=(*(p for p in book.bookings if p.name not in names), *(k for k in kept if k.came is None)),
        open=(*(p for p in book.open if p.name not in names), *(k for k in kept if k.came is not None)),
    )
