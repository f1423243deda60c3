"""Orders for parts of nodes in time: which start now, which get a booking, on which parts. Pure.

The rules are those of `weft.planning.queue.queue`: booked ones first, then fair share, then by submission; a head that
doesn't fit gets a booking of its earliest start, and others go first only if that leaves every booking untouched.
There is no engine with bit masks: a window is an occupancy, and placement itself says what fits in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.model.messages import queue as queued
from weft.model.placement import Occupancy, Placement, Refusal
from weft.planning.place.calendar import FOREVER
from weft.planning.place.sharing import Terms
from weft.planning.queue.book import Book, minute
from weft.planning.queue.keep import Keep
from weft.planning.queue.queue import KEPT_FOR, KEPT_OFF, UNKNOWN, QueueSettings

MOST_MOMENTS = 16
"""Ends of leases and bookings that are tried for a start after the first one at which the leases alone leave room."""

Places = Callable[[Occupancy], Placement | Refusal]
"""Where an order would be placed in an occupancy."""


@dataclass(frozen=True, slots=True)
class PartsOrder:
    """A waiting order for parts.

    Attributes:
        pod: its id; `name` for people.
        duration: seconds; `until`: when it ends at the latest, however late it starts.
        fixed: whether its start was booked when it was ordered.
    """

    pod: str
    project: str
    name: str
    places: Places
    submitted: float
    duration: float
    until: float = FOREVER
    not_before: float = 0.0
    fixed: bool = False

    def end(self, start: float) -> float:
        return min(start + self.duration, self.until)


@dataclass(slots=True)
class QueueResult:
    """The result of processing the queue once.

    Attributes:
        start: the order that starts now; the rest is then meaningless.
        why: pod -> why it keeps waiting; `place`: its position in the queue, from 1, unless its start was booked with
            the order.
        bookings: pod -> its booking.
    """

    start: str | None = None
    why: dict[str, str] = field(default_factory=dict[str, str])
    place: dict[str, int] = field(default_factory=dict[str, int])
    bookings: dict[str, Keep] = field(default_factory=dict[str, Keep])


def process_queue(
    book: Book,
    sharers: Sequence[PartsOrder],
    health: Occupancy,
    settings: QueueSettings,
    used: Mapping[str, float],
    now: float,
    wait: Collection[str] = (),
) -> QueueResult:
    """Process all orders that wait for parts, once.

    Args:
        book: with all bookings; `health`: what is out of service.
        used: project -> node-seconds, weighted by age.
        wait: orders that get no new booking, because another queue's turn comes first.
    """
    found = QueueResult()
    bookings = {p.name: p for p in book.bookings}
    ranked = _ranked(sharers, bookings, settings, used)
    found.place = {s.pod: n for n, s in enumerate((s for s in ranked if not s.fixed), start=1)}
    floating = len({s.pod for s in sharers if not s.fixed} & {k.name for k in (*book.bookings, *book.open)})
    for one in ranked:
        if one.until <= now:
            found.why[one.pod] = queued.LEASE_OVER()
            continue
        kept = bookings.get(one.pod)
        due = one.not_before <= now and (not one.fixed or kept is None or kept.start <= now)
        if kept is not None and kept.end <= now:  # its nodes weren't released in all of that time
            kept, book = None, book.with_booking(one.pod, None)
        begun = kept if kept is not None and kept.start <= now else None
        if due and _fits(one, book, health, now, now, booked=begun) is not None:
            found.start = one.pod
            return found
        has = kept is not None or any(k.name == one.pod for k in book.open)
        if not has and not one.fixed and (floating >= settings.bookings or one.pod in wait):
            kept_off = due and _kept_off(one, book, health, now)
            found.why[one.pod] = KEPT_OFF if kept_off else queued.NO_CAPACITY()
            continue
        if kept is None or _broken(kept, health):
            again = earliest(one, book, health, max(now, one.not_before), now) or kept
            kept = again or opening(one, book, health, now)
            floating += (kept is not None) - has if not one.fixed else 0
            book = book.with_booking(one.pod, kept)
            if kept is None:
                found.why[one.pod] = KEPT_OFF if due and _kept_off(one, book, health, now) else UNKNOWN
                continue
        found.bookings[one.pod] = kept
        kept_off = kept.came is not None and due and _kept_off(one, book, health, now)
        found.why[one.pod] = KEPT_OFF if kept_off else _why(one, kept, now)
    return found


def earliest(one: PartsOrder, book: Book, health: Occupancy, begin: float, now: float) -> Keep | None:
    """The first start from `begin` that leaves every booking untouched, with the parts; None: none is known.

    Only ends can make it fit. Those after which the leases alone are still in the way are skipped by bisection.
    """
    ends = {k.gone(now) for k in book.leases} | {k.end for k in (*book.bookings, *book.reservations)}
    moments = sorted(m for m in {begin, *ends} if begin <= m < one.until and m != FOREVER)
    alone = replace(book, bookings=(), reservations=())

    def has_room(at: float) -> bool:
        return _fits(one, alone, health, at, now, at_end=True) is not None

    first = bisect_left(moments, True, key=has_room)
    for at in moments[first : first + MOST_MOMENTS]:
        if (placed := _fits(one, book, health, at, now, at_end=at > now)) is not None:
            return _keep(one, at, placed)
    return None


def opening(one: PartsOrder, book: Book, health: Occupancy, now: float) -> Keep | None:
    """Nodes to keep for an order whose start isn't known, by the rule of `weft.planning.queue.opening`.

    They are kept whole: another part of such a node, given to another order, could also be in the way.
    """
    old = next((k for k in book.open if k.name == one.pod), None)
    book = replace(book, open=())  # two orders may have the same nodes: open bookings have no time
    begin, emptied, endless = max(now, one.not_before), book.emptied(now), replace(one, until=FOREVER)
    found = earliest(endless, emptied, health, begin, now)
    if old and not _broken(old, health):
        after = max((k.end for k in emptied.leases if set(k.nodes) & set(old.nodes)), default=begin)
        kept = book.kept(one.project, after, endless.end(after), one.pod, one.submitted)
        if not kept.keys() & set(old.nodes) and (found is None or found.start >= after):
            found = old
    if found is None:
        return None
    # Until then others can't delay it: a lease that is known to last that long is in its way.
    known = max(book.known_end(found.nodes, now), one.not_before)
    if known >= one.until:
        return None
    return replace(found, start=known, end=FOREVER, parts=(), came=one.submitted)


def _fits(
    one: PartsOrder,
    book: Book,
    health: Occupancy,
    at: float,
    now: float,
    at_end: bool = False,
    booked: Keep | None = None,
) -> Placement | None:
    """The order's parts if it started at `at`; None: it doesn't fit.

    Args:
        at_end: leases that end at that moment are over.
        booked: a booking that is due. It starts a little late, and a booking right after it must not stop it, nor an
            open one.
    """
    end, came = one.end(at), one.submitted
    if booked is not None:
        end, came = min(end, booked.end), 0.0
    present = -1.0 if at_end else now  # what is late counts only for a start now
    occupancy = book.occupancy(health, one.project, present, at, end, one.pod, came)
    placed = one.places(occupancy)
    return placed if isinstance(placed, Placement) else None


def _kept_off(one: PartsOrder, book: Book, health: Occupancy, now: float) -> bool:
    """Whether it waits only because nodes are kept for an earlier order."""
    return bool(book.open) and _fits(one, replace(book, open=()), health, now, now) is not None


def _keep(one: PartsOrder, at: float, placed: Placement) -> Keep:
    parts = tuple((n.node, n.part) for n in placed.nodes if n.part is not None)
    return Keep(one.pod, one.project, placed.held, at, one.end(at), one.name, Terms(one.project), parts=parts)


def _broken(kept: Keep, health: Occupancy) -> bool:
    """Whether a booked node is out of service."""
    return any(health.out_of_service(n) is not None for n in kept.nodes)


def _ranked(
    sharers: Iterable[PartsOrder],
    bookings: Mapping[str, Keep],
    settings: QueueSettings,
    used: Mapping[str, float],
) -> list[PartsOrder]:
    def rank(one: PartsOrder) -> tuple[int, float, float, str]:
        if one.pod in bookings:
            return 0, bookings[one.pod].start, one.submitted, one.pod
        score = used.get(one.project, 0.0) / settings.shares.get(one.project, 1.0) if settings.shares else 0.0
        return 1, score, one.submitted, one.pod

    return sorted(sharers, key=rank)


def _why(one: PartsOrder, kept: Keep, now: float) -> str:
    if kept.came is not None:
        return KEPT_FOR
    if kept.start <= now:
        return queued.NODES_NOT_RELEASED()
    code = queued.STARTS_AT if one.fixed else queued.STARTS_BY
    return code(start=minute(kept.start), units="servers", n=len(kept.parts))
