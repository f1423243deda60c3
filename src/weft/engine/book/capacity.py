"""What is held, booked, reserved and out of order, updated from the database in one statement."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from weft.engine.base.database import Tx
from weft.engine.base.postgres import time_in_json, timed
from weft.engine.book.checkstate import verdict
from weft.engine.book.counted import Counted, Holding, lease_of, seconds_of
from weft.engine.book.holdrows import Booked, NodeHold, PartHold, Quarantined, reservation_of
from weft.engine.book.stops import NO_STOPS, LastReport, OpenCheck, Stops
from weft.engine.rows.stoprows import Drain, Hold, Report, of_row
from weft.model.placement import Occupancy
from weft.model.plan import UsedNumbers
from weft.model.reservation import ReservationView
from weft.model.site import Site
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import Leases

GONE_FOR = timedelta(minutes=15)
"""For how long servers that were seen to go are remembered: longer than a listing of hosts is cached."""
COMMITTED = timedelta(seconds=5)
"""Rows with their time are committed within this time. If a server's row took longer, its node is assigned again
only after the next listing."""
FORGOTTEN_AT_ONCE = 1000


class Gone:
    """Servers that weft saw disappear within the last `GONE_FOR`, by id. Every reading adds to it, in any thread."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._lock = threading.Lock()

    def __contains__(self, server: object) -> bool:
        return server in self._at

    def add(self, found: Iterable[tuple[str, float]], now: float) -> None:
        """Add servers with the times at which they were seen gone, in POSIX time like `now`; forgets old ones."""
        before = now - GONE_FOR.total_seconds()
        with self._lock:
            self._at.update(found)
            for server in [s for s, at in islice(self._at.items(), FORGOTTEN_AT_ONCE) if at < before]:
                del self._at[server]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is held by whom, at one moment.

    Attributes:
        holds: of whole nodes, by node.
        shared: of nodes of which pods have parts.
        parts: all these parts.
        quarantines: by node.
        used: numbers and subnets of live pods.
        bookings: of waiting orders, by their start.
        reservations: that aren't over, by their start.
        places: slots on shared hosts.
        gone: servers that weft saw disappear within the last `GONE_FOR`.
        ending: networks and flavors of the site that are being removed: name or id -> kind.
        site: generation of the site that is active; None: there is none.
        leases: the same holds, in the book's form; None: computed on first use.
        stops: node -> why operators keep it from new orders, and what it reported of itself.
        at: the moment of this state.
    """

    holds: Mapping[str, NodeHold]
    quarantines: Mapping[str, Quarantined]
    used: UsedNumbers
    bookings: Sequence[Booked] = ()
    reservations: Sequence[ReservationView] = ()
    places: Sequence[NodeHold] = ()
    shared: Sequence[NodeHold] = ()
    parts: Sequence[PartHold] = ()
    gone: Container[str] = frozenset()
    ending: Mapping[str, str] = field(default_factory=dict[str, str])
    site: int | None = None
    leases: Leases | None = None
    stops: Mapping[str, Stops] = field(default_factory=dict[str, Stops])
    at: datetime | None = None

    @classmethod
    def of(cls, counted: Counted, at: datetime, gone: Container[str], frame: Mapping[str, Any]) -> Capacity:
        """From the count. Args: at: reservations that ended before are left out. frame: the query's single row."""
        some = counted.in_parts.values()
        reservations = [r for r in counted.reservations.values() if r.end is None or r.end > at]
        return cls(
            holds=counted.holds,
            quarantines=counted.quarantines,
            used=counted.used(),
            bookings=sorted(counted.bookings.values(), key=lambda b: (b.start, b.pod.id)),
            reservations=sorted(reservations, key=lambda r: (r.start, r.name)),
            stops=counted.stops,
            places=[slot for one in some for slot in one.places],
            shared=[hold for one in some for hold in one.holds if not hold.whole],
            parts=[part for one in some for part in one.parts],
            gone=gone,
            ending=frame["ending"],
            site=frame["site"],
            leases=counted.leases,
            at=at,
        )

    @property
    def held(self) -> Set[str]:
        """Nodes that pods hold, whole or in part."""
        shared = {hold.node for hold in self.shared}
        return shared.union(self.holds) if shared else self.holds.keys()

    def health(self, site: Site, down: Mapping[str, str]) -> Occupancy:
        """What is out of order. A machine bound to the pod that holds it is fine."""
        return Occupancy(
            quarantined={node: one.reason for node, one in self.quarantines.items()},
            on_hold={node: stops.why_held for node, stops in self.stops.items() if stops.holds},
            drained={node: stops.why_drained for node, stops in self.stops.items() if stops.drain},
            failing=verdict(self.stops, site, self.at).excluded,
            down={
                node: why for node, why in down.items() if not (site.is_bound(node) and node in self.holds)
            },
        )

    @property
    def reported(self) -> Mapping[str, Mapping[str, str]]:
        """Project -> node that it has reported -> in which pod, and why: its orders don't get it."""
        found: dict[str, dict[str, str]] = {}
        for node, stops in self.stops.items():
            for one in stops.reports:
                found.setdefault(one.project_id, {})[node] = f"reported in pod {one.pod}: {one.reason}"
        return found

    def book(self) -> Book:
        """What is known about the future, in POSIX time, pods by id. A requested release is due now."""
        leases = _leases(self) if self.leases is None else self.leases
        bookings = [_booking(one) for one in self.bookings]
        opened = tuple(k for k in bookings if k.came is not None)
        blocks = [
            Keep(r.name, r.project_id, r.nodes, r.start.timestamp(), seconds_of(r.end), r.name)
            for r in self.reservations
        ]
        return Book(leases, tuple(k for k in bookings if k.came is None), tuple(blocks), opened)


def _leases(capacity: Capacity) -> Leases:
    holds: dict[UUID, list[NodeHold]] = {}
    parts: dict[UUID, list[PartHold]] = {}
    for hold in (*capacity.holds.values(), *capacity.places, *capacity.shared):
        holds.setdefault(hold.pod.id, []).append(hold)
    for part in capacity.parts:
        parts.setdefault(part.pod_id, []).append(part)
    return Leases.of(lease_of(mine, parts.get(pod, ())) for pod, mine in holds.items())


def _booking(one: Booked) -> Keep:
    pod, came = one.pod, one.came.timestamp() if one.came else None
    start, end, parts = one.start.timestamp(), seconds_of(one.end), tuple(one.parts)
    return Keep(str(pod.id), pod.project_id, one.nodes, start, end, pod.name, pod.terms, parts, came)


@dataclass(frozen=True, slots=True)
class _CountedState:
    """What this process has counted, as of the snapshot of one statement.

    Attributes:
            since: the snapshot.
            server: start time of the server that gave it.
            at: when it was taken.
        gone: servers that were seen to be gone until then.
    """

    counted: Counted
    since: str | None = None
    server: str | None = None
    at: datetime | None = None
    gone: Gone = field(default_factory=Gone)


def _stops(document: Mapping[str, Any]) -> Stops | None:
    holds, drain, reports = document["holds"] or (), document["drain"], document["reports"] or ()
    found = Stops(
        tuple(of_row(Hold, timed(row)) for row in holds),
        of_row(Drain, timed(drain)) if drain else None,
        tuple(of_row(Report, timed(row)) for row in reports),
        _checked(document["checks"]),
    )
    return None if found == NO_STOPS else found


def _checked(row: Mapping[str, Any] | None) -> LastReport | None:
    if row is None:
        return None
    problems = tuple(
        OpenCheck(code, subject, status, datetime.fromisoformat(since), judged)
        for code, subject, status, since, judged in row["problems"] or ()
    )
    return LastReport(time_in_json(row["at"]), row["status"], row["expected"], problems)


def read_capacity(tx: Tx, lock: bool = False) -> Capacity:
    """Holds, bookings and what is out of order, as the caller's transaction sees them now. Reads no documents.

    What the process has counted before is brought up to date: any number of threads and processes may do so at the
    same time, with the lock or without.

    Args:
        lock: take the lock of `lock_capacity` before, in the same round trip, for a claim that is confirmed later.
    """
    known = tx.kept.get(_CountedState) or _CountedState(Counted())
    values: dict[str, object] = {"at": tx.given, "gone": GONE_FOR}
    since = {"since": known.since, "server": known.server, "gone_since": known.at and known.at - COMMITTED}
    rows = (
        tx.rows_after("lock_claim", "capacity_changes", **values, **since)
        if lock
        else tx.rows("capacity_changes", **values, **since)
    )
    if any(row["document"]["whole"] for row in rows if row["what"] == "frame"):
        known, rows = _CountedState(Counted()), tx.rows("capacity_whole", **values, gone_since=None)
    changed: dict[str, dict[str, Any]] = {
        name: {} for name in ("owner", "quarantine", "reservation", "stop", "frame")
    }
    for row in rows:
        changed[row["what"]][row["name"]] = row["document"]
    frame = changed["frame"][""]
    counted = known.counted.replacing(
        {UUID(owner): Holding.of(UUID(owner), document) for owner, document in changed["owner"].items()},
        {node: Quarantined.of(row) if row else None for node, row in changed["quarantine"].items()},
        {name: reservation_of(timed(row)) if row else None for name, row in changed["reservation"].items()},
        {node: _stops(document) for node, document in changed["stop"].items()},
    )
    at = tx.learn(time_in_json(frame["at"]))
    known.gone.add(frame["gone"], at.timestamp())
    if not frame["own"]:  # otherwise it may include what is never committed
        tx.kept[_CountedState] = _CountedState(counted, frame["since"], frame["server"], at, known.gone)
    return Capacity.of(counted, at, known.gone, frame)
