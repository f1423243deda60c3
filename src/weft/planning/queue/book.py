"""The book: who holds which nodes until when, bookings and reservations. Pure.

Times are seconds of the caller's clock, POSIX time in the service. Pods need unique names (the service uses their ids,
since two projects may have pods with the same name).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from weft.model.ids import LAST_MOMENT, moment
from weft.model.messages.values import MINUTE
from weft.model.placement import Occupancy, Part, PlacementRequest
from weft.model.site import Site
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Entry
from weft.planning.place.engine import Engine
from weft.planning.place.filters import terms_of
from weft.planning.place.sharing import NO_TERMS, Terms
from weft.planning.place.slots import is_slot
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import NO_LEASES, Leases
from weft.planning.queue.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Book:
    """Who has which nodes now and later.

    Attributes:
        leases: what pods hold now; without an end, forever.
        bookings: bookings of pods that haven't started.
        reservations: nodes reserved for a project.
        open: open bookings: nodes that are kept, whole, for orders whose start isn't known, from `start` on. They
            bind only orders that were submitted later.
    """

    leases: Leases = NO_LEASES
    bookings: tuple[Keep, ...] = ()
    reservations: tuple[Keep, ...] = ()
    open: tuple[Keep, ...] = ()

    @classmethod
    def of(cls, occupancy: Occupancy, ends: Mapping[str, float] | None = None) -> Book:
        """Only leases: from the busy nodes of an occupancy, and pod -> end."""
        held: dict[str, list[str]] = {}
        for node, pod in occupancy.busy.items():
            held.setdefault(pod, []).append(node)
        terms = {one.pod: terms_of(one) for one in occupancy.neighbours}
        return cls(
            Leases.of(
                Keep(
                    pod,
                    terms.get(pod, NO_TERMS).project,
                    tuple(nodes),
                    0.0,
                    (ends or {}).get(pod, FOREVER),
                    pod,
                    terms.get(pod, NO_TERMS),
                )
                for pod, nodes in held.items()
            )
        )

    def with_booking(self, pod: str, kept: Keep | None) -> Book:
        """The book with this booking of a waiting pod, open or not, instead of its present one; None: without any."""
        bookings = tuple(p for p in self.bookings if p.name != pod)
        others = tuple(k for k in self.open if k.name != pod)
        if kept is None:
            return replace(self, bookings=bookings, open=others)
        if kept.came is None:
            return replace(self, bookings=(*bookings, kept), open=others)
        return replace(self, bookings=bookings, open=(*others, kept))

    def binding(self, came: float, exclude_pod: str = "") -> tuple[Keep, ...]:
        """The open bookings that bind an order submitted at this time."""
        return tuple(k for k in self.open if k.came is not None and k.came < came and k.name != exclude_pod)

    def emptied(self, now: float) -> Book:
        """The book as if each node that is held without an end were free after everything that is known to end.

        Those with the fewest pods first, one a second: the times only rank the nodes.
        """
        endless = [k for k in self.leases if k.end == FOREVER]
        if not endless:
            return self
        pods = Counter(node for k in endless for node in k.nodes)
        known = (k.end for k in (*self.leases, *self.bookings, *self.reservations) if k.end != FOREVER)
        last = max((now, *known))
        ended = (
            replace(k, nodes=(n,), parts=tuple(p for p in k.parts if p[0] == n), end=last + pods[n])
            for k in endless
            for n in k.nodes
        )
        return replace(self, leases=Leases.of((*(k for k in self.leases if k.end != FOREVER), *ended)))

    def known_end(self, nodes: Iterable[str], now: float) -> float:
        """The last known end of leases on these nodes; 0: none is known."""
        wanted = set(nodes)
        ends = (k.gone(now) for k in self.leases if k.end != FOREVER and wanted & set(k.nodes))
        return max(ends, default=0.0)

    def kept(
        self, project: str, start: float, end: float, exclude_pod: str = "", came: float = FOREVER
    ) -> dict[str, str]:
        """Node -> for whom it is kept in this window: booked whole by a pod other than `exclude_pod`, or reserved."""
        found: dict[str, str] = {}
        for keep in self.binding(came, exclude_pod):
            if keep.overlaps(start, end):
                found.update(
                    dict.fromkeys(keep.nodes, f"kept for pod {keep.label}, which was ordered before")
                )
        for keep in self.bookings:
            if keep.name != exclude_pod and not keep.parts and keep.overlaps(start, end):
                found.update(
                    dict.fromkeys(keep.nodes, f"booked for pod {keep.label} from {when(keep.start)}")
                )
        for keep in self.reservations:
            if keep.project != project and keep.overlaps(start, end):
                found.update(dict.fromkeys(keep.nodes, f"reserved for project {keep.project}"))
        return found

    def occupancy(
        self,
        health: Occupancy,
        project: str,
        now: float,
        start: float,
        end: float,
        exclude_pod: str = "",
        came: float = FOREVER,
        terms: Terms | None = None,
    ) -> Occupancy:
        """What is unavailable in a window: held, booked or reserved, or out of order.

        A lease that should end before the window still counts if the window begins now.

        Args:
            came: when the order was submitted; open bookings of later ones don't count.
            terms: the order's, if it is for one: neighbours that can't affect it, nearly all, are left out.
        """
        leases = self.leases if start <= now else Leases.of(k for k in self.leases if k.end > start)
        beside = leases
        if terms is not None and not terms.closing:
            beside = (leases.asking[name] for name in sorted(leases.asking))
        booked = (*self.bookings, *self.binding(came, exclude_pod))
        later = [k for k in booked if k.name != exclude_pod and k.overlaps(start, end)]
        there = [k for k in self.reservations if k.overlaps(start, end)]
        reserved = [k for k in there if k.project != project]
        neighbours = tuple(k.neighbour(k.label, start, now) for k in (*beside, *later, *reserved))
        own = tuple(n for k in there if k.project == project for n in k.nodes)
        in_parts = (leases.in_parts[name] for name in sorted(leases.in_parts))
        parts: dict[str, tuple[Part, ...]] = {}
        for node, part in (p for k in (*in_parts, *later) for p in k.parts_in(start, now)):
            if not leases.has_whole(node):  # otherwise no one can join before that ends
                parts[node] = (*parts.get(node, ()), part)
        shared = {
            n: f"booked in part for pod {k.label} from {when(k.start)}" for k in later for n, _ in k.parts
        }
        return health.model_copy(
            update={
                "busy": leases.busy,
                "reserved": self.kept(project, start, end, exclude_pod, came),
                "shared": shared,
                "neighbours": neighbours,
                "own": own,
                "parts": parts,
            }
        )

    def conflict(
        self,
        nodes: Iterable[str],
        project: str,
        start: float,
        end: float,
        exclude_pod: str = "",
        parts: bool = False,
    ) -> float | None:
        """When the first of these nodes is booked or reserved for someone else in this window.

        Args:
            parts: only parts of the nodes are meant; bookings of other parts don't count.
        """
        wanted = set(nodes)
        theirs = (
            *(p for p in self.bookings if p.name != exclude_pod and not (parts and p.parts)),
            *(b for b in self.reservations if b.project != project),
        )
        found = [k.start for k in theirs if k.overlaps(start, end) and wanted & set(k.nodes)]
        return min(found, default=None)

    def starts(self, project: str, after: float) -> list[float]:
        """Starts of bookings and reservations that exclude the project, latest first."""
        theirs = (*self.bookings, *self.open, *(b for b in self.reservations if b.project != project))
        return sorted({k.start for k in theirs if k.start > after}, reverse=True)

    def timeline(self, site: Site, fabric: str, health: Occupancy, now: float) -> Timeline:
        """The book as a timeline of one fabric; other nodes are ignored.

        Args:
            health: what is out of order; busy nodes come from the book.
        """
        busy = {node: lease.name for lease in self.leases for node in lease.nodes}
        neighbours = tuple(lease.neighbour(lease.name) for lease in self.leases)
        line = Timeline(
            Engine.of(
                site,
                fabric,
                health.model_copy(update={"busy": busy, "neighbours": neighbours, "reserved": {}}),
            )
        )
        self.enter(line, now)
        return line

    def enter(self, line: Timeline, now: float) -> None:
        """Enter everything into a timeline; unknown nodes are ignored."""
        masks = line.engine.ledger.numbers.masks
        for lease in self.leases:
            if bits := masks(lease.nodes):
                begin, places = min(lease.start, now), tuple(sorted(bits.items()))
                line.leases.add(Entry(begin, lease.name, lease.gone(now), places, lease.asks))
        for booking in self.bookings:
            if bits := masks(booking.nodes):
                line.reservations.add(entry(booking, bits))
        for keep in self.open:
            if bits := masks(keep.nodes):
                line.reservations.add(entry(keep, bits))
        for keep in self.reservations:
            line.set_aside(keep.project, keep.nodes, keep.start, keep.end)


def entry(keep: Keep, bits: Mapping[int, int]) -> Entry:
    """An entry of the book as one of a fabric's calendar."""
    return Entry(keep.start, keep.name, keep.end, tuple(sorted(bits.items())), keep.asks)


def earliest_start(
    request: PlacementRequest, site: Site, health: Occupancy, book: Book, duration: float, now: float
) -> float | None:
    """When an order that doesn't fit now would fit, if no lease is extended; None: never, as far as known."""
    start = book.timeline(site, request.fabric, health, now).earliest(Ask.of(request), duration, now)
    return start.at if start else None


def minute(seconds: float) -> datetime:
    """A time of the book, in UTC, rounded up to the minute so that it is never too early."""
    return moment(ceil(min(seconds, LAST_MOMENT.timestamp()) / 60) * 60)


def when(seconds: float) -> str:
    """`minute` as text."""
    return minute(seconds).strftime(MINUTE)


def booked(nodes: Iterable[str]) -> int:
    """How many of these are nodes or machines, not slots."""
    return sum(not is_slot(n) for n in nodes)


def names(line: Timeline, places: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    """Names of the nodes at (leaf, bits) of a timeline."""
    return tuple(n for leaf, bits in places for n in line.engine.ledger.numbers.names(leaf, bits))
