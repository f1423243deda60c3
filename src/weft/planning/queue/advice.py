"""When a refused order would fit, and how short it would have to be.

The changes that would make it fit now are `weft.planning.place.would_fit`'s.
"""

from __future__ import annotations

from datetime import datetime

from weft.model.ids import LAST_MOMENT, moment
from weft.model.offer import LeaseOffer, Offer, OfferedTime
from weft.model.placement import Refusal
from weft.planning.place.ask import Ask
from weft.planning.queue.book import Book, minute
from weft.planning.queue.timeline import Timeline

MOST_ENDS_TRIED = 8


def advise(
    refusal: Refusal, line: Timeline, ask: Ask, book: Book, start: float, end: float, until: float, now: float
) -> Refusal:
    """The refusal with the earliest start and the longest lease that would fit; times as the book's.

    Args:
        line: the book as a timeline; `ask`: the order in its terms.
        start, end: the requested window.
        until: when it ends at the latest, however late it starts.
    """
    found = line.earliest(ask, end - start, start, until, now)
    if found is not None and found.at <= start:
        return refusal  # waiting doesn't help
    advice: list[Offer] = []
    if (last := _latest_end(line, ask, book, start, end, now)) is not None:
        was = moment(end) if end < LAST_MOMENT.timestamp() else None
        most = OfferedTime(field="lease.end", was=was, becomes=_at_most(last))
        advice.append(LeaseOffer(changes=(most,)))
    if found is not None:
        advice.append(start_offer(start, found.at))
    earliest = moment(found.at) if found else None
    return refusal.model_copy(update={"would_fit": (*refusal.would_fit, *advice), "earliest_start": earliest})


def _latest_end(line: Timeline, ask: Ask, book: Book, start: float, end: float, now: float) -> float | None:
    """The latest end with which the order fits at its start, if only bookings are in the way."""
    decide = line.decide if start <= now else line.at
    for last in [m for m in book.starts(ask.project, start) if m < end][:MOST_ENDS_TRIED]:
        if decide(ask, start, last) is not None:
            return last
    return None


def when_at_most(seconds: float) -> str:
    """A time for people, rounded down to the minute."""
    return _at_most(seconds).strftime("%Y-%m-%dT%H:%MZ")


def _at_most(seconds: float) -> datetime:
    return moment(seconds // 60 * 60)


def start_offer(was: float, becomes: float) -> LeaseOffer:
    """A later start, to the minute; times as the book's."""
    change = OfferedTime(field="lease.start", was=moment(was), becomes=minute(becomes))
    return LeaseOffer(changes=(change,))
