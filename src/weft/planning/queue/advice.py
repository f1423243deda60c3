"""For an order that is refused: from when it would fit, how short it would have to be, and what its project may have.

The changes that would make it fit now are `weft.planning.place.would_fit`'s.
"""

from __future__ import annotations

from weft.model.ids import moment
from weft.model.ipusite import IPUS_PER_MACHINE
from weft.model.order import Order
from weft.model.placement import Explanation, Refusal
from weft.model.site import ProjectLimits
from weft.planning.place.ask import Ask
from weft.planning.queue.book import Book, when
from weft.planning.queue.timeline import Timeline
from weft.planning.shapes.ipu.room import is_place

MOST_ENDS_TRIED = 8


def advise(
    refusal: Refusal, line: Timeline, ask: Ask, book: Book, start: float, end: float, until: float, now: float
) -> Refusal:
    """The refusal with the earliest start and the longest lease that would fit; times as the book's.

    Args:
        line: the book as a timeline; `ask`: the order as it sees it.
        start, end: the window that was asked for.
        until: when it ends at the latest, however late it starts.
    """
    found = line.earliest(ask, end - start, start, until, now)
    if found is not None and found.at <= start:
        return refusal  # it isn't a matter of time
    advice: list[str] = []
    if (last := _latest_end(line, ask, book, start, end, now)) is not None:
        advice.append(f"lease.end: {when_at_most(last)} at the latest")
    if found is not None:
        advice.append(f"lease.start: fits from {when(found.at)}")
    earliest = moment(found.at) if found else None
    return refusal.model_copy(update={"would_fit": (*refusal.would_fit, *advice), "earliest_start": earliest})


def _latest_end(line: Timeline, ask: Ask, book: Book, start: float, end: float, now: float) -> float | None:
    """The last end with which the order fits at its start, where all that is in its way is something promised."""
    decide = line.decide if start <= now else line.at
    for last in [m for m in book.starts(ask.project, start) if m < end][:MOST_ENDS_TRIED]:
        if decide(ask, start, last) is not None:
            return last
    return None


def when_at_most(seconds: float) -> str:
    """A time for people, rounded down."""
    return moment(seconds // 60 * 60).strftime("%Y-%m-%dT%H:%MZ")


def over_limit(
    limits: ProjectLimits | None,
    book: Book,
    project: str,
    order: Order,
    start: float,
    end: float,
    but: str = "",
) -> Refusal | None:
    """Why the project may not have so many nodes at once, counting what it holds and was promised in the window."""
    if limits is None or limits.max_nodes is None:
        return None
    has = len(
        {
            node
            for keep in (*book.leases, *book.promises)
            if keep.project == project and keep.name != but and keep.overlaps(start, end)
            for node in keep.nodes
            if not is_place(node)
        }
    )
    count, spare = order.ipus.machines if order.ipus else order.nodes.count, order.nodes.spare
    most = limits.max_nodes
    if has + count + spare <= most:
        return None
    wanted = f"{count + spare} more are wanted" + (f", {spare} of them spare" if spare else "")
    reason = f"the project has {has} of the {most} nodes that it may have at once; {wanted}"
    left = most - has - spare
    change = (_fewer(order, left),) if left > 0 else ()
    return Refusal(reason=reason, explanation=Explanation(considered=0, chosen=reason), would_fit=change)


def _fewer(order: Order, most: int) -> str:
    """The largest order with so many nodes or IPU-Machines."""
    if order.ipus is None:
        return f"count: {most} instead of {order.nodes.count}"
    fits = 1 << most.bit_length() - 1
    return f"ipus.count: {fits * IPUS_PER_MACHINE} instead of {order.ipus.count}"
