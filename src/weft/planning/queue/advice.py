"""For a refused order: when it would fit, and how short it would have to be.

The changes that would make it fit now are `weft.planning.place.would_fit`'s.
"""

from __future__ import annotations

from weft.model.ids import moment
from weft.model.placement import Refusal
from weft.planning.place.ask import Ask
from weft.planning.queue.book import Book, when
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
    advice: list[str] = []
    if (last := _latest_end(line, ask, book, start, end, now)) is not None:
        advice.append(f"lease.end: {when_at_most(last)} at the latest")
    if found is not None:
        advice.append(f"lease.start: fits from {when(found.at)}")
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
    """A time for people, rounded down."""
    return moment(seconds // 60 * 60).strftime("%Y-%m-%dT%H:%MZ")
