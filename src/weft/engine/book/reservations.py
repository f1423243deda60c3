"""Reservations: nodes that only one project may have in a window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from psycopg.errors import UniqueViolation

from weft.engine.base.database import Database
from weft.engine.book.capacity import Capacity, read_capacity, seconds_of
from weft.engine.book.holdrows import reservation_of
from weft.engine.rows.basis import check_revision
from weft.model.errors import ConflictError, InputError, NotFoundError
from weft.model.messages.orders import instead
from weft.model.reservation import Reservation, ReservationView
from weft.model.site import Site
from weft.planning.queue.book import when
from weft.planning.queue.extension import closed_to


def reserve(
    database: Database, site: Site, reservation: Reservation, nodes: Sequence[str], by: str
) -> ReservationView:
    """Reserve nodes. Args: nodes: all of them by name, including those of the reserved leaves.

    Raises:
        ConflictError: the name exists, or others hold or have booked a node at that time.
        InputError: the window is over already.
    """
    with database.placing() as tx:
        now = tx.now()
        start = max(reservation.start or now, now)
        if reservation.end is not None and reservation.end <= now:
            raise InputError("end", reservation.end.isoformat(), instead("a time in the future"))
        _check_free(site, read_capacity(tx), reservation, nodes, start)
        try:
            row = tx.row(
                "insert_reservation",
                name=reservation.name,
                project_id=reservation.project_id,
                nodes=list(nodes),
                start=start,
                end=reservation.end,
                reason=reservation.reason,
                created_by=by,
                at=now,
            )
        except UniqueViolation:
            raise ConflictError(
                f"name: reservation {reservation.name!r} already exists; delete it first"
            ) from None
        tx.run("touch_queue", at=now)
    assert row is not None
    return reservation_of(row)


def unreserve(database: Database, name: str, revision: int | None = None) -> ReservationView:
    """Delete a reservation. Raises `NotFoundError`. Args: revision: `PreconditionError` unless it has this one."""
    with database.transaction() as tx:
        known = tx.row("lock_reservation", name=name)
        if known is not None:
            check_revision(f"reservation {name}", known["revision"], revision)
        row = tx.row("delete_reservation", name=name)
        if row is None:
            raise NotFoundError(f"there is no reservation {name!r}")
        tx.run("touch_queue", at=tx.now())
        tx.run("notify", owner_id="")
    return reservation_of(row)


def reservations_of(capacity: Capacity) -> list[ReservationView]:
    """The reservations as people see them."""
    return list(capacity.reservations)


def _check_free(
    site: Site, capacity: Capacity, reservation: Reservation, nodes: Sequence[str], start: datetime
) -> None:
    """Reserved nodes must be available for their project: no other may hold or have booked them at that time."""
    book, wanted = capacity.book(), set(nodes)
    begin, end = start.timestamp(), seconds_of(reservation.end)
    for keep in (*book.leases, *book.bookings, *book.reservations):
        shared = sorted(wanted & set(keep.nodes))
        if shared and keep.project != reservation.project_id and keep.overlaps(begin, end):
            until = f"until {when(keep.end)}" if seconds_of(None) != keep.end else "without an end"
            raise ConflictError(
                f"nodes: {shared[0]} is taken by {keep.label} of project {keep.project} {until}: choose another node, "
                "or a later start"
            )
    there = [k for k in (*book.leases, *book.bookings) if k.overlaps(begin, end)]
    if why := closed_to(site, reservation.project_id, nodes, there):
        raise ConflictError(f"nodes: {why}: choose another node, or a later start")
