"""The line of a shape whose units have a timeline: whole nodes of a fabric, machines of IPU-PODs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.model.messages import queue as queued
from weft.model.placement import Refusal
from weft.planning.place.calendar import FOREVER
from weft.planning.place.slots import is_slot
from weft.planning.queue.advice import advise
from weft.planning.queue.book import Book, booked, entry, minute, names
from weft.planning.queue.forecast import expected_starts
from weft.planning.queue.keep import Keep
from weft.planning.queue.queue import Queue, QueueSettings
from weft.planning.queue.timeline import Timeline
from weft.planning.queue.waiting import Waiting
from weft.planning.shapes.shape import LineAsked, LineResult, Resolved, WaitingNote, WaitingOrder


class TimelineLine:
    """See `weft.planning.shapes.shape.Line`.

    Args:
        timeline: a book as a timeline.
        units: what is counted, for people.
    """

    def __init__(
        self, timeline: Callable[[Book], Timeline], asked: LineAsked, settings: QueueSettings, units: str
    ) -> None:
        self._timeline, self._book, self._now = timeline, asked.book, asked.now
        self._settings, self._units, self._used = settings, units, asked.used

    def process(
        self, waiting: Sequence[WaitingOrder], wait: frozenset[str], forecast: bool = True
    ) -> LineResult:
        queue, now = self._queue(), self._now
        bookings = {p.name: p for p in self._book.bookings}
        for one in waiting:
            _enter(queue, one, bookings.get(one.pod))
        if started := queue.run(now, wait):
            return LineResult(started[0].waiting.ask.pod)
        expected = expected_starts(queue, now) if forecast else {}
        rank = {w.ask.pod: n for n, w in enumerate((w for w in queue.ranked(now) if not w.fixed), start=1)}
        notes = {one.pod: self._note(queue, one, rank.get(one.pod), expected.get(one.pod)) for one in waiting}
        return LineResult(notes=notes, next_at=_next(queue, now))

    def advise(
        self, refusal: Refusal, order: Resolved, pod: str, start: float, end: float, until: float
    ) -> Refusal:
        line = self._timeline(self._book)
        line.cancel(pod)
        return advise(refusal, line, order.ask, self._book, start, end, until, self._now)

    def _queue(self) -> Queue:
        book, now = self._book, self._now
        line = self._timeline(replace(book, open=()))
        queue = Queue(line, self._settings)
        for keep in book.open:
            if keep.came is not None and (bits := line.engine.ledger.numbers.masks(keep.nodes)):
                queue.openings.add(entry(keep, bits), keep.came)
        holds: dict[str, set[str]] = {}
        for lease in book.leases:  # a node that several of its pods share counts once, as in `over_limit`
            holds.setdefault(lease.project, set()).update(n for n in lease.nodes if not is_slot(n))
        for project in {*holds, *self._used}:
            queue.credit(project, now, self._used.get(project, 0.0), len(holds.get(project, ())))
        return queue

    def _note(
        self, queue: Queue, one: WaitingOrder, position: int | None, expected: float | None
    ) -> WaitingNote:
        """What is known of an order that this queue didn't start."""
        pod, line, now = one.pod, queue.timeline, self._now
        why = queue.why.get(pod, queued.NO_CAPACITY())

        def keep(nodes: tuple[str, ...], start: float, end: float) -> Keep:
            return Keep(pod, one.order.project, nodes, start, end, one.order.order.name)

        if opening := queue.openings.of(pod):
            came, kept = opening
            mine = keep(names(line, kept.bits), kept.start, kept.end)
            return WaitingNote(why, position, None, replace(mine, terms=kept.terms, came=came))
        entries = line.reservations.of(pod)
        if pod not in queue.bookings or not entries:
            return WaitingNote(why, position, expected)
        booking = entries[0]
        mine = replace(keep(names(line, booking.bits), booking.start, booking.end), terms=booking.terms)
        if booking.start > now:
            code = queued.STARTS_AT if one.fixed else queued.STARTS_BY
            why = code(start=minute(booking.start), units=self._units, n=booked(mine.nodes))
        return WaitingNote(why, position, max(booking.start, now), mine)


def _enter(queue: Queue, one: WaitingOrder, booking: Keep | None) -> None:
    waiting = Waiting(one.ask, one.duration, one.submitted, one.until, one.not_before, one.fixed)
    line = queue.timeline
    line.cancel(one.pod)
    bits = tuple(sorted(line.engine.ledger.numbers.masks(booking.nodes).items())) if booking else ()
    if booking and bits and not set(booking.nodes).intersection(line.places_of(one.ask.exclude)):
        queue.recall(waiting, booking.start, bits)
    else:
        queue.submit(waiting)


def _next(queue: Queue, now: float) -> float:
    """When something is due: a start, or the end of an order's patience."""
    moments = [at for at in queue.bookings.values() if at > now]
    for waiting in queue.waiting.values():
        moments += [t for t in (waiting.submitted + queue.settings.patience, waiting.not_before) if t > now]
    return min(moments, default=FOREVER)
