"""The queue: which orders start now, which get a booking, and what the others wait for. Pure: the caller passes the
time.

An order at the head that doesn't fit gets a booking of its earliest start, on named nodes. Orders behind it may only
start first if that leaves every booking untouched (backfill). Bookings only move earlier. An order that would fit, but
on more leaves than necessary, may wait for a better placement for at most `patience`.

An order whose start isn't known, since pods without an end are in its way, gets an open booking: nodes without a time,
which orders that came later may not have (`weft.planning.queue.opening`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from weft.model.errors import ConflictError
from weft.model.ids import span
from weft.model.messages import queue as queued
from weft.model.site import QueuePolicy
from weft.planning.place.calendar import Entry
from weft.planning.place.decision import Decision
from weft.planning.queue.opening import Openings
from weft.planning.queue.timeline import Start, Timeline
from weft.planning.queue.waiting import Waiting

KEPT_FOR = queued.NODES_KEPT()
UNKNOWN = queued.NO_TIME_KNOWN()
KEPT_OFF = queued.KEPT_FOR_ANOTHER()


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The operator's settings.

    Attributes:
        patience: seconds that an order may wait for the fewest leaves it could have; 0: it starts wherever it fits.
        bookings: how many waiting orders get a booking, open ones included.
        quotas: project -> maximum nodes; projects that aren't listed have no limit.
        shares: project -> its relative share, default 1; empty: first come, first served.
        half_life: half-life of a project's past usage, in seconds.
    """

    patience: float = 0.0
    bookings: int = 1
    quotas: Mapping[str, int] = field(default_factory=dict[str, int])
    shares: Mapping[str, float] = field(default_factory=dict[str, float])
    half_life: float = 7 * 86_400.0

    @classmethod
    def of(cls, policy: QueuePolicy) -> Self:
        """The settings of a site."""
        limits = policy.projects
        return cls(
            patience=span(policy.patience).total_seconds() if policy.patience else 0.0,
            bookings=policy.bookings,
            quotas={p: x.max_nodes for p, x in limits.items() if x.max_nodes is not None},
            shares={p: x.share for p, x in limits.items() if x.share is not None},
            half_life=span(policy.half_life).total_seconds(),
        )


@dataclass(frozen=True, slots=True)
class Started:
    """An order that starts now."""

    waiting: Waiting
    decision: Decision


@dataclass(slots=True)
class _Use:
    seconds: float = 0.0
    at: float = 0.0
    nodes: int = 0


class Queue:
    """Orders that wait for a timeline."""

    def __init__(self, timeline: Timeline, settings: QueueSettings | None = None) -> None:
        self.timeline = timeline
        self.settings = settings or QueueSettings()
        self.waiting: dict[str, Waiting] = {}
        self.bookings: dict[str, float] = {}
        self.openings = Openings(timeline)
        self.why: dict[str, str] = {}
        self._uses: dict[str, _Use] = {}
        self._running: dict[str, Waiting] = {}
        self._wait: frozenset[str] = frozenset()
        self._due: frozenset[str] = frozenset()
        self._leaf_sizes = sorted((e.bit_count() for e in timeline.engine.ledger.numbers.every), reverse=True)

    def submit(self, waiting: Waiting) -> None:
        """Add to the queue. Raises ConflictError if an order with this name waits or runs."""
        name = waiting.ask.pod
        if name in self.waiting or name in self._running:
            raise ConflictError(f"pod {name} is already queued or running")
        self.waiting[name] = waiting

    def recall(self, waiting: Waiting, at: float, bits: tuple[tuple[int, int], ...]) -> None:
        """Add to the queue with an existing booking."""
        self.submit(waiting)
        self._hold(waiting, at, bits)

    def credit(self, project: str, now: float, seconds: float, nodes: int) -> None:
        """Set a project's past usage in node-seconds, weighted by age, and the nodes that it holds now."""
        self._uses[project] = _Use(seconds, now, nodes)

    def finish(self, pod: str, now: float) -> None:
        """A started order releases its nodes."""
        waiting = self._running.pop(pod)
        self._used(waiting.ask.project, now, -waiting.ask.counted)
        self.timeline.end(pod)

    def run(self, now: float, wait: frozenset[str] = frozenset()) -> list[Started]:
        """Start what can start now, in order of rank; renew the bookings.

        Args:
            wait: orders that get no new booking, because another queue's turn comes first.
        """
        started: list[Started] = []
        failed: dict[tuple[object, ...], list[tuple[int, float, float]]] = {}
        self._wait = wait
        self.why.clear()
        self._due = frozenset(pod for pod, at in self.bookings.items() if at <= now)
        self._improve_bookings(now)
        for waiting in self.ranked(now):
            ask = waiting.ask
            self.openings.face(waiting.submitted)
            if waiting.until <= now:
                self.why[ask.pod] = queued.LEASE_OVER()
                self.openings.drop(ask.pod)
                continue
            if self._over_quota(waiting):
                self.openings.drop(ask.pod)
                continue
            if ask.pod in self.bookings:
                if self.bookings[ask.pod] <= now and (begun := self._begin(waiting, now)) is not None:
                    started.append(begun)
                continue
            if waiting.not_before > now:
                self._book(waiting, now)
                continue
            before = failed.get(ask.alike, ())
            if any(
                ask.held >= n and waiting.duration >= d and waiting.submitted >= came for n, d, came in before
            ):
                self._book(waiting, now)
                continue
            decision = self.timeline.decide(ask, now, waiting.end(now))
            if decision is None:
                failed.setdefault(ask.alike, []).append((ask.held, waiting.duration, waiting.submitted))
                self._book(waiting, now)
            elif self._waits_for_locality(waiting, decision, now):
                self.why[ask.pod] = queued.TOO_MANY_LEAVES()
            else:
                started.append(self._start(waiting, decision, now))
        return started

    def next_booking(self) -> float | None:
        """When the queue should run again even if nothing ends."""
        return min(self.bookings.values(), default=None)

    def _start(self, waiting: Waiting, decision: Decision, now: float) -> Started:
        ask = waiting.ask
        self.openings.drop(ask.pod)
        self.timeline.engine.ledger.commit(decision)
        self.timeline.leases.add(Entry(now, ask.pod, waiting.end(now), decision.bits, ask.terms))
        del self.waiting[ask.pod]
        self._running[ask.pod] = waiting
        self._used(ask.project, now, ask.counted)
        return Started(waiting, decision)

    def _begin(self, waiting: Waiting, now: float) -> Started | None:
        """Start an order whose booking is due; it keeps its booking if the nodes aren't released yet.

        It starts a little late, and its lease ends as much later: neither a booking right after its own nor an open one
        must stop it, unless its booked start is later.
        """
        pod = waiting.ask.pod
        self.openings.face(0.0 if pod in self._due else waiting.submitted)
        entry = self.timeline.reservations.of(pod)[0]
        self.timeline.cancel(pod)
        decision = self.timeline.decide(waiting.ask, now, min(waiting.end(now), entry.end))
        if decision is None:
            self.timeline.reservations.add(entry)
            self.why[pod] = queued.NODES_NOT_RELEASED()
            return None
        del self.bookings[pod]
        return self._start(waiting, decision, now)

    def _book(self, waiting: Waiting, now: float) -> None:
        pod = waiting.ask.pod
        others = (w for p in (*self.bookings, *self.openings.pods) if p != pod and (w := self.waiting.get(p)))
        floating = sum(not w.fixed for w in others)
        booked = waiting.fixed or pod in self.openings.pods
        if not booked and (floating >= self.settings.bookings or pod in self._wait):
            self.why[pod] = KEPT_OFF if self._kept_off(waiting, now) else queued.NO_CAPACITY()
            return
        start = self._earliest(waiting, now)
        if start is not None:
            self.openings.drop(pod)
            self._hold(waiting, start.at, start.decision.bits)
        elif self.openings.renew(waiting, now):
            self.why[pod] = KEPT_OFF if self._kept_off(waiting, now) else KEPT_FOR
        else:
            self.why[pod] = KEPT_OFF if self._kept_off(waiting, now) else UNKNOWN

    def _kept_off(self, waiting: Waiting, now: float) -> bool:
        """Whether it waits only because nodes are kept for an earlier order."""
        if not self.openings.facing or waiting.not_before > now:
            return False
        self.openings.face(0.0)
        found = self.timeline.decide(waiting.ask, now, waiting.end(now))
        self.openings.face(waiting.submitted)
        return found is not None

    def _earliest(self, waiting: Waiting, now: float) -> Start | None:
        begin = max(now, waiting.not_before)
        return self.timeline.earliest(waiting.ask, waiting.duration, begin, waiting.until, now)

    def _hold(self, waiting: Waiting, at: float, bits: tuple[tuple[int, int], ...]) -> None:
        pod = waiting.ask.pod
        self.timeline.reservations.add(Entry(at, pod, waiting.end(at), bits, waiting.ask.terms))
        self.bookings[pod] = at

    def _improve_bookings(self, now: float) -> None:
        """An early end may move a booking earlier, never later; broken nodes are replaced."""
        blocked = self.timeline.engine.ledger.blocked_bits()
        for pod, at in sorted(self.bookings.items(), key=lambda p: (p[1], p[0])):
            waiting = self.waiting[pod]
            self.openings.face(waiting.submitted)
            entry = self.timeline.reservations.of(pod)[0]
            mask = self.timeline.engine.ledger.view(
                waiting.ask
            ).mask  # a leaf may have become another project's
            broken = sum(
                (bits & (blocked.get(leaf, 0) | ~mask[leaf])).bit_count() for leaf, bits in entry.bits
            )
            lapsed = entry.end <= now  # its nodes weren't released in all of that time
            whole = (
                not lapsed
                and not broken
                and sum(bits.bit_count() for _, bits in entry.bits) == waiting.ask.held
            )
            if whole and (at <= now or waiting.not_before > now):
                continue
            self.timeline.cancel(pod)
            if whole:
                decision = self.timeline.decide(waiting.ask, now, waiting.end(now))
                start = Start(now, decision) if decision else None
            else:
                start = self._earliest(waiting, now)
            if start is None and lapsed:
                del self.bookings[pod]
            elif start is None:
                self.timeline.reservations.add(entry)
            else:
                self._hold(waiting, start.at, start.decision.bits)

    def _waits_for_locality(self, waiting: Waiting, decision: Decision, now: float) -> bool:
        patience = self.settings.patience
        if not patience or now - waiting.submitted >= patience:
            return False
        return len(decision.bits) > least_leaves(self._leaf_sizes, waiting.ask.held)

    def ranked(self, now: float) -> list[Waiting]:
        """Orders with a booking first, in order of their starts; then by fair share, then by submission."""
        booked = sorted(self.bookings, key=lambda pod: (self.bookings[pod], pod))
        rest = [w for w in self.waiting.values() if w.ask.pod not in self.bookings]
        if self.settings.shares:
            scores = {p: self._score(p, now) for p in {w.ask.project for w in rest}}
            rest.sort(key=lambda w: scores[w.ask.project])
        return [*(self.waiting[pod] for pod in booked), *rest]

    def _score(self, project: str, now: float) -> float:
        """Node-seconds used, weighted by age, divided by the share."""
        use = self._uses.get(project)
        return self._decayed(use, now) / self.settings.shares.get(project, 1.0) if use else 0.0

    def _decayed(self, use: _Use, now: float) -> float:
        passed = now - use.at
        return use.seconds * 0.5 ** (passed / self.settings.half_life) + use.nodes * passed

    def _used(self, project: str, now: float, nodes: int) -> None:
        use = self._uses.setdefault(project, _Use(at=now))
        use.seconds, use.at = self._decayed(use, now), now
        use.nodes += nodes

    def _over_quota(self, waiting: Waiting) -> bool:
        ask = waiting.ask
        limit = self.settings.quotas.get(ask.project)
        has = self._uses[ask.project].nodes if ask.project in self._uses else 0
        if limit is None or has + ask.counted <= limit:
            return False
        self.why[ask.pod] = queued.NODES_OF_PROJECT(project=ask.project, used=has, limit=limit)
        return True


def least_leaves(leaf_sizes: list[int], count: int) -> int:
    """The fewest leaves that could hold this many nodes on an empty site; `leaf_sizes` largest first."""
    for leaves, size in enumerate(leaf_sizes, 1):
        count -= size
        if count <= 0:
            return leaves
    return len(leaf_sizes)
