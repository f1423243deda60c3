"""What an outage of nodes would touch by weft's own records, and whether pods would have room elsewhere.

Nothing is written, no lock is taken, and neither cloud nor fabric is asked: whether hosts are up, and what others have
on them, isn't looked at.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from weft.engine.base.database import Database
from weft.engine.base.unreadable import UnreadableError
from weft.engine.book.capacity import Capacity, read_capacity, seconds_of
from weft.engine.nodes.drains import broken_promises, pods_on
from weft.engine.queue.gather import terms_of
from weft.engine.rows.records import PodRecord
from weft.model.errors import WeftError
from weft.model.placement import Refusal
from weft.model.pod import ENDED
from weft.model.site import Site
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.shapes.resolve import as_placed, shape_of
from weft.planning.shapes.shape import ChangedPod, Elsewhere

LONGEST_PLACING = 10.0
"""Seconds after which no further pod is placed."""


@dataclass(frozen=True, slots=True)
class TouchedPod:
    """A pod with nodes that would fail.

    Attributes:
        nodes: those of them that it has, whole, in parts, or as hosts of its servers; `spares` are among them.
        leaving: it is being released.
        on_drain: as ordered.
    """

    id: UUID
    name: str
    project_id: str
    state: str
    leaving: bool
    nodes: tuple[str, ...]
    spares: tuple[str, ...]
    on_drain: Literal["release"] | None


@dataclass(frozen=True, slots=True)
class Touched:
    """What is on some nodes by weft's records, at one moment.

    Attributes:
        pods: those with most of these nodes first, then by name and project.
        promises: reservations of these nodes, and bookings that would start later or on none without them.
    """

    at: datetime
    capacity: Capacity
    pods: tuple[TouchedPod, ...]
    promises: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodRoom:
    """Whether a pod would have room elsewhere.

    Attributes:
        fits: None: it isn't known, and `why` says why.
        found: the nodes where it would be.
    """

    fits: bool | None
    why: str
    found: Elsewhere | None = None


def read_touched(database: Database, site: Site, nodes: Collection[str]) -> Touched:
    """Pods and promises on these nodes."""
    with database.transaction() as tx:
        capacity, now = read_capacity(tx), tx.now()
        on = pods_on(capacity, frozenset(nodes))
        rows = {row["id"]: row for row in tx.rows("pods_touched", ids=list(on))} if on else {}
        promises = broken_promises(tx, site, capacity, nodes, now) if nodes else ()
    names = {
        hold.pod.id: (hold.pod.name, hold.pod.project_id)
        for hold in (*capacity.holds.values(), *capacity.shared, *capacity.places)
        if hold.pod.id in on
    }
    pods = [
        TouchedPod(
            pod,
            *names[pod],
            state=str(rows[pod]["state"]),
            leaving=rows[pod]["wanted"] == "absent" or rows[pod]["state"] in ENDED,
            nodes=tuple(mine),
            spares=tuple(n for n in mine if n in capacity.holds and _is_spare(capacity, n, pod)),
            on_drain="release" if rows[pod]["on_drain"] == "release" else None,
        )
        for pod, mine in on.items()
        if pod in rows  # otherwise it was released since
    ]
    pods.sort(key=lambda p: (-len(p.nodes), p.name, p.project_id, str(p.id)))
    return Touched(now, capacity, tuple(pods), promises)


def _is_spare(capacity: Capacity, node: str, pod: UUID) -> bool:
    hold = capacity.holds[node]
    return hold.spare and hold.pod.id == pod


def places_elsewhere(
    database: Database,
    site: Site,
    touched: Touched,
    pods: Sequence[TouchedPod],
    nodes: Collection[str],
    within: float = LONGEST_PLACING,
) -> Iterator[PodRoom]:
    """For each of these pods whether it would have room without these nodes, after the ones before it.

    What one gets isn't free for the next; what it leaves isn't free either.

    Args:
        within: seconds after which no further pod is placed.
    """
    records = _records(database, [p.id for p in pods if not p.leaving])
    book, ends = touched.capacity.book(), time.monotonic() + within
    for pod in pods:
        record = records.get(pod.id)
        if pod.leaving:
            yield PodRoom(None, "it is being released")
        elif time.monotonic() > ends:
            yield PodRoom(None, f"not computed: the pods before it took {within:.0f} s")
        elif not isinstance(record, PodRecord):
            yield PodRoom(None, record or "it was released meanwhile")
        else:
            room = _room(site, touched, book, record, frozenset(nodes))
            if room.found is not None:
                book = _with(book, record, room.found)
            yield room


def _records(database: Database, ids: Iterable[UUID]) -> Mapping[UUID, PodRecord | str]:
    """Pods by id; for one that can't be read, why."""
    found: dict[UUID, PodRecord | str] = {}
    rows = database.rows("pods_to_place", ids=list(ids))
    for row in rows:
        try:
            found[row["id"]] = PodRecord.of(row)
        except UnreadableError as error:
            found[row["id"]] = str(error)
    return found


def _room(site: Site, touched: Touched, book: Book, pod: PodRecord, nodes: frozenset[str]) -> PodRoom:
    plan, now, capacity = pod.plan, touched.at.timestamp(), touched.capacity
    order = as_placed(plan.order, plan)
    health = capacity.health(site, {})
    drained = {**health.drained, **dict.fromkeys(nodes, "would fail")}
    reported = capacity.reported.get(plan.project, {})
    health = health.model_copy(update={"drained": drained, "reported": reported})
    terms = terms_of(order, plan.project)
    end = seconds_of(pod.lease_end)
    occupancy = book.occupancy(health, plan.project, now, now, end, str(pod.id), terms=terms)
    try:
        found = shape_of(plan.order).elsewhere(ChangedPod(plan, order, site, occupancy), nodes)
    except WeftError as error:
        return PodRoom(None, str(error))
    if isinstance(found, Refusal):
        return PodRoom(False, str(found.reason))
    return PodRoom(True, str(found.placement.explanation.chosen), found)


def _with(book: Book, pod: PodRecord, found: Elsewhere) -> Book:
    """The book in which this pod also has what was found for it."""
    lease: Keep | None = book.leases.get(str(pod.id))
    if lease is None:
        return book
    nodes = dict.fromkeys((*lease.nodes, *(n.node for n in found.added), *found.slots))
    parts = (*lease.parts, *((n.node, n.part) for n in found.added if n.part is not None))
    changed = replace(lease, nodes=tuple(nodes), parts=parts)
    return replace(book, leases=book.leases.with_changes({lease.name: changed}))
