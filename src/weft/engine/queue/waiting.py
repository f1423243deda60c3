"""Orders that wait: stored, changed, extended. `weft.engine.queue.dispatcher` starts them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from weft.engine.base.database import Tx
from weft.engine.base.documents import message_json, written
from weft.engine.book.capacity import Capacity, read_capacity, seconds_of
from weft.engine.book.claimrows import insert_order
from weft.engine.book.partholds import parts_document
from weft.engine.queue.changes import fields_said, overtaken, remember
from weft.engine.queue.gather import PlanningInput, Window, refused
from weft.engine.queue.overdue import check_overdue
from weft.engine.rows.events import announce
from weft.engine.rows.records import PodRecord
from weft.engine.store.store import Store
from weft.model.change import PodChange
from weft.model.errors import ConflictError, InputError
from weft.model.ids import moment
from weft.model.messages import Message, orders, pods
from weft.model.messages import queue as queued
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.site import Site
from weft.planning.place.calendar import FOREVER
from weft.planning.place.slots import is_slot
from weft.planning.queue.book import booked, minute, when
from weft.planning.queue.extension import why_not_longer
from weft.planning.queue.keep import Keep
from weft.planning.shapes.limits import over_limit
from weft.planning.shapes.orderdiff import asks_no_more, waiting_change
from weft.planning.shapes.plan import parts_of, takes
from weft.planning.shapes.resolve import resolve, shape_of
from weft.planning.shapes.shape import Resolved

EPOCH = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""The earliest time that a row can have: an open booking without a known end starts there."""


def time_of(seconds: float) -> datetime | None:
    """A time of the book, in POSIX time, as a datetime; None for never."""
    return None if seconds == FOREVER else moment(seconds)


def lengthen_waiting(
    tx: Tx, pod: PodRecord, until: datetime, capacity: Capacity, site: Site, by: str
) -> bool:
    """Give a waiting order a later end, in the caller's transaction (which holds `lock_capacity`).

    Its booking is extended as well. False: it has begun meanwhile, or was withdrawn.

    Raises:
        ConflictError: it has no end, or others have booked its nodes by then.
        InputError: that is not later.
    """
    book = capacity.book()
    booking = next((p for p in book.bookings if p.name == str(pod.id)), None)
    lease = pod.order.lease
    if lease.duration is not None and not (pod.fixed and booking):
        raise ConflictError(orders.LEASE_FROM_START(pod=pod.name, span=str(lease.duration)))
    end = booking.end if booking else seconds_of(lease.end)
    check_later(pod.name, end, until)
    later = until.timestamp()
    if booking:
        resolved = resolve(pod.order, pod.project_id, site)
        nodes = [n for n in booking.nodes if not is_slot(n)]
        over = over_limit(resolved, nodes, book, end, later, str(pod.id))
        why = over.reason if over else why_not_longer(site, resolved.where.name, book, booking, later)
        if why is not None:
            raise ConflictError(orders.NOT_LONGER(pod=pod.name, end=minute(later), why=why))
    longer = lease.model_copy(update={"duration": None, "end": until})
    order = pod.order.model_copy(update={"lease": longer})
    tx.run("first_generation", id=pod.id)
    values = {"ordered": written(order), "lease_end": until}
    if tx.row("lengthen_waiting", id=pod.id, base=pod.generation, **values) is None:
        return False
    remember(tx, pod.id, pod.generation + 1, order, by, fields_said(waiting_change(pod.order, order)))
    if booking:
        write_booking(tx, pod.id, replace(booking, end=later))
    return True


def write_booking(tx: Tx, pod_id: UUID | str, keep: Keep) -> None:
    """Book what a waiting order will have, in place of what was booked for it before."""
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
    """Raise `ConflictError` if the lease has no end, `InputError` unless this is later."""
    if end == FOREVER:
        raise ConflictError(orders.NO_LEASE_END(pod=name))
    if until.timestamp() <= end:
        raise InputError(
            "until", until.isoformat(), instead("later than the lease's end, which is {end}", end=when(end))
        )


def check_waiting(tx: Tx, project: str, site: Site) -> None:
    """Raise `ConflictError` if the project has reached its limit of waiting orders, in the caller's transaction (which
    holds `lock_capacity`): each look at the queue costs time for each of them."""
    row = tx.row("waiting_of_project", project_id=project)
    if row is not None and row["number"] >= site.queue.waiting:
        raise ConflictError(orders.TOO_MANY_WAITING(waiting=row["number"], most=site.queue.waiting))


def order_waiting(
    store: Store, given: PlanningInput, pod_id: str, user: str, asked: Resolved, window: Window
) -> None:
    """Store an order that starts later: nodes are booked for its start, or it waits in the queue.

    Raises `RefusedError` if it has no place at its start and must not queue, `ConflictError` if too many wait already.
    """
    order, project = asked.order, asked.project
    with store.database.placing() as tx:
        check_waiting(tx, project, given.site)
        check_overdue(tx, project, given.site)
        keep = _booking(tx, given, pod_id, asked, window)
        now, reason = tx.now(), _why_waiting(order, window, keep)
        row = _waiting_row(order, window, keep)
        insert_order(
            tx,
            order,
            id=pod_id,
            project_id=project,
            created_by=user,
            at=now,
            plan=None,
            state="PENDING",
            **row,
        )
        if keep is not None:
            write_booking(tx, pod_id, keep)
        announce(tx, pod_id, "state", pods.STATE(state="PENDING", why=reason))
        tx.run("touch_queue", at=now)


def change_waiting(
    store: Store,
    given: PlanningInput,
    pod: PodRecord,
    asked: Resolved,
    window: Window,
    change: PodChange,
    by: str,
) -> None:
    """Store another order for a pod that still waits: its booking is redone, and it keeps its place in the queue if it
    asks for no more than before.

    Raises `RefusedError` if it has no place at its start and must not queue, `ConflictError` if it has begun or was
    changed since the record was read.
    """
    order = asked.order
    keeps = asks_no_more(pod.order, order)
    with store.database.placing() as tx:
        keep = _booking(tx, given, str(pod.id), asked, window)
        tx.run("first_generation", id=pod.id)
        row = tx.row(
            "change_waiting",
            id=pod.id,
            base=pod.generation,
            ordered=written(order),
            units=shape_of(order).count(order),
            keeps_place=keeps,
            at=tx.now(),
            **_waiting_row(order, window, keep),
        )
        if row is None:
            raise ConflictError(overtaken(tx, pod))
        if not keeps:
            tx.run("leave_place", id=pod.id)
        tx.run("drop_booking", pod_id=pod.id)
        if keep is not None:
            write_booking(tx, pod.id, keep)
        remember(tx, pod.id, change.generation, order, by, fields_said(change.fields))


def _booking(tx: Tx, given: PlanningInput, pod_id: str, order: Resolved, window: Window) -> Keep | None:
    """The booking of an order from the start of its window; None if it waits in the queue without one.

    Raises `SiteChangedError` if another site was activated since the input was read.
    """
    if window.start <= window.now:
        return None
    capacity = read_capacity(tx)
    given.check_site(capacity)
    plan = given.plan(pod_id, order, capacity, window)
    if isinstance(plan, Plan):
        return Keep(pod_id, order.project, tuple(takes(plan)), window.start, window.end, parts=parts_of(plan))
    if not order.order.queue:
        raise refused(plan)
    return None


def _why_waiting(order: Order, window: Window, keep: Keep | None) -> Message:
    if keep is None:
        return queued.IN_QUEUE()
    nodes = [n for n, _ in keep.parts] or keep.nodes
    units = shape_of(order).units
    return queued.STARTS_AT(start=minute(window.start), units=units, n=booked(nodes))


def _waiting_row(order: Order, window: Window, keep: Keep | None) -> dict[str, Any]:
    """Columns of an order that waits."""
    start = time_of(window.start)
    return {
        "reason": message_json(_why_waiting(order, window, keep)),
        "lease_end": order.lease.end if keep is None else time_of(window.end),
        "not_before": start if window.start > window.now else None,
        "fixed": keep is not None,
        "expected_start": None if keep is None else start,
    }
