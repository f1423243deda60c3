"""Orders that wait: written down, made longer, tried again. What becomes of them is `weft.engine.dispatcher`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from weft.engine.capacity import Capacity, seconds_of
from weft.engine.database import Tx
from weft.engine.documents import written
from weft.engine.gather import Window
from weft.engine.partholds import parts_document
from weft.engine.records import PodRecord
from weft.engine.store import Store
from weft.model.errors import ConflictError, InputError
from weft.model.ids import moment
from weft.model.order import Order
from weft.model.placement import Part
from weft.model.site import Site
from weft.planning.place.calendar import FOREVER
from weft.planning.queue.book import booked, when
from weft.planning.queue.extension import why_not_longer
from weft.planning.queue.keep import Keep
from weft.planning.shapes.limits import over_limit
from weft.planning.shapes.resolve import resolve, shape_of

EPOCH = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""The first time that a row can have: an open booking without any known end counts from there."""


def time_of(seconds: float) -> datetime | None:
    """A time of the book; never is None."""
    return None if seconds == FOREVER else moment(seconds)


def lengthen_waiting(tx: Tx, pod: PodRecord, until: datetime, capacity: Capacity, site: Site) -> bool:
    """A later end for an order that waits, in the caller's transaction (which holds `lock_capacity`).

    What is booked for it is kept for as long. False: it has begun meanwhile, or was taken back.

    Raises:
        ConflictError: it has no end, or its nodes are booked by others by then.
        InputError: that is not later.
    """
    book = capacity.book()
    booking = next((p for p in book.bookings if p.name == str(pod.id)), None)
    lease = pod.order.lease
    if lease.duration is not None and not (pod.fixed and booking):
        raise ConflictError(
            f"pod {pod.name} is waiting for a lease of {lease.duration} from its start and has no end to extend: "
            "release it and order it with a longer duration"
        )
    end = booking.end if booking else seconds_of(lease.end)
    check_later(pod.name, end, until)
    later = until.timestamp()
    if booking:
        resolved = resolve(pod.order, pod.project_id, site)
        over = over_limit(resolved, book, end, later, str(pod.id))
        why = over.reason if over else why_not_longer(site, resolved.where.name, book, booking, later)
        if why is not None:
            raise ConflictError(f"pod {pod.name} can't be extended to {when(later)}: {why}")
    longer = lease.model_copy(update={"duration": None, "end": until})
    order = pod.order.model_copy(update={"lease": longer})
    document = written(order)
    if tx.row("lengthen_waiting", id=pod.id, ordered=document, lease_end=until) is None:
        return False
    if booking:
        write_booking(tx, pod.id, replace(booking, end=later))
    return True


def write_booking(tx: Tx, pod_id: UUID | str, keep: Keep) -> None:
    """What an order that waits will have, in place of what was booked for it before."""
    tx.run(
        "booking",
        pod_id=pod_id,
        nodes=list(keep.nodes),
        start=time_of(max(keep.start, EPOCH)),
        end=time_of(keep.end),
        open=keep.came is not None,
        parts=parts_document(keep.parts),
    )


def check_later(name: str, end: float, until: datetime) -> None:
    """Raise `ConflictError` if there is no end of a lease, `InputError` unless this is later."""
    if end == FOREVER:
        raise ConflictError(f"pod {name} has no end to extend")
    if until.timestamp() <= end:
        raise InputError("until", until.isoformat(), f"later than the lease's end, which is {when(end)}")


def check_waiting(tx: Tx, project: str, site: Site) -> None:
    """Raise `ConflictError` if the project has as many orders waiting as it may, in the caller's transaction (which
    holds `lock_capacity`): each look at the queue costs for each of them."""
    row = tx.row("waiting_of_project", project_id=project)
    if row is not None and row["number"] >= site.queue.waiting:
        raise ConflictError(
            f"the project has {row['number']} of at most {site.queue.waiting} waiting orders: "
            "release one, or order again when one has started"
        )


def insert_waiting(
    store: Store,
    tx: Tx,
    pod_id: str,
    project: str,
    user: str,
    order: Order,
    window: Window,
    nodes: Sequence[str],
    parts: Sequence[tuple[str, Part]] = (),
) -> None:
    """An order that starts later, in the caller's transaction (which holds `lock_capacity`).

    Args:
        nodes: what is booked for it from the start of its window; none: it waits in the queue.
        parts: what of them, if it shares them.
    """
    now, later = tx.now(), window.start > window.now
    at = when(window.start)
    units = shape_of(order).units
    reason = "in the queue"
    if nodes:
        reason = f"starts at {at}, {booked([n for n, _ in parts] or nodes, units)}"
    store.insert_row(
        tx,
        order,
        id=pod_id,
        project_id=project,
        created_by=user,
        at=now,
        plan=None,
        state="PENDING",
        reason=reason,
        lease_end=time_of(window.end) if nodes else order.lease.end,
        not_before=time_of(window.start) if later else None,
        fixed=bool(nodes),
        expected_start=time_of(window.start) if nodes else None,
    )
    if nodes:
        kept = Keep(pod_id, project, tuple(nodes), window.start, window.end, parts=tuple(parts))
        write_booking(tx, pod_id, kept)
    tx.run("insert_event", owner_id=pod_id, at=now, type="state", message=f"PENDING: {reason}", key=None)
    tx.run("touch_queue", at=now)
    tx.run("notify", owner_id=pod_id)
