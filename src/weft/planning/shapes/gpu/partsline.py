"""The line of servers on shared nodes: a window is an occupancy, and placement itself says what fits in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.model.ids import moment
from weft.model.messages import queue as queued
from weft.model.placement import Occupancy, Placement, Refusal
from weft.planning.place.calendar import FOREVER
from weft.planning.place.placement import place
from weft.planning.queue.advice import start_offer
from weft.planning.queue.queue import QueueSettings
from weft.planning.queue.shares import PartsOrder, Places, earliest, process_queue
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.shape import LineAsked, LineResult, Resolved, WaitingNote, WaitingOrder


class PartsLine:
    """See `weft.planning.shapes.shape.Line`, and the module's docstring."""

    def __init__(self, asked: LineAsked) -> None:
        self._book, self._health, self._now, self._used = asked.book, asked.health, asked.now, asked.used
        self._settings = QueueSettings.of(asked.site.queue)

    def process(
        self, waiting: Sequence[WaitingOrder], wait: frozenset[str], forecast: bool = True
    ) -> LineResult:
        now, orders = self._now, [_parts_order(one) for one in waiting]
        seen = process_queue(self._book, orders, self._health, self._settings, self._used, now, wait)
        if seen.start is not None:
            return LineResult(seen.start)
        notes: dict[str, WaitingNote] = {}
        for one in waiting:
            kept = seen.bookings.get(one.pod)
            expected = max(kept.start, now) if kept and kept.came is None else None
            why = seen.why.get(one.pod, queued.NO_CAPACITY())
            notes[one.pod] = WaitingNote(why, seen.place.get(one.pod), expected, kept)
        due = [p.start for p in seen.bookings.values() if p.start > now and p.came is None]
        due += [one.not_before for one in waiting if one.not_before > now]
        return LineResult(notes=notes, next_at=min(due, default=FOREVER))

    def advise(
        self, refusal: Refusal, order: Resolved, pod: str, start: float, end: float, until: float
    ) -> Refusal:
        project, name, now = order.project, order.order.name, self._now
        one = PartsOrder(pod or "new", project, name, _places(order), now, end - start, until)
        found = earliest(one, self._book, self._health, start, now)
        if found is None or found.start <= start:
            return refusal
        would = (*refusal.would_fit, start_offer(start, found.start))
        return refusal.model_copy(update={"would_fit": would, "earliest_start": moment(found.start)})


def _parts_order(one: WaitingOrder) -> PartsOrder:
    order = one.order
    return PartsOrder(
        one.pod,
        order.project,
        order.order.name,
        _places(order, one.reported),
        one.submitted,
        one.duration,
        one.until,
        one.not_before,
        one.fixed,
    )


def _places(order: Resolved, reported: Mapping[str, str] | None = None) -> Places:
    """Where the order would be placed in an occupancy. Args: reported: node -> why; None: as the occupancy says."""
    request = request_of(order)

    def places(occupancy: Occupancy) -> Placement | Refusal:
        seen = occupancy if reported is None else occupancy.model_copy(update={"reported": reported})
        return place(request, order.site, seen)

    return places
