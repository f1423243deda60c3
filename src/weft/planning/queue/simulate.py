"""What-if simulation: a trace of orders on a simulated clock, with weft's rule or another, in the same queue."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.place.state import NodeNeeds
from weft.planning.queue.queue import Queue, QueueSettings, Started, least_leaves
from weft.planning.queue.timeline import Timeline
from weft.planning.queue.waiting import Waiting


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """One line of a trace; times in seconds from its beginning."""

    ask: Ask
    submitted: float
    duration: float


@dataclass(frozen=True, slots=True)
class TraceResult:
    """Result of a trace under one rule.

    Attributes:
        utilisation: busy node-seconds over all node-seconds, from the end of the warm-up to the last arrival, or to
            the end of all if they arrive at once.
        wait_mean: seconds from arrival to start, of the orders that arrived after the warm-up; `wait_p95` likewise.
        leaves: leaves used relative to the minimum on an empty site.
        blocks: blocks (groups of leaves) per order.
        fragmentation: share of the free nodes on partly used leaves, averaged over time.
        refused: orders that don't fit even on the empty site; `turned_away`: their names.
    """

    policy: str
    orders: int
    refused: int
    utilisation: float
    wait_mean: float
    wait_p95: float
    leaves: float
    blocks: float
    fragmentation: float
    makespan: float
    turned_away: tuple[str, ...] = ()
    waits: tuple[float, ...] = field(default=(), repr=False)


@dataclass(slots=True)
class _Meter:
    """Sums over simulated time."""

    begin: float
    end: float
    nodes: int
    at: float = 0.0
    busy: float = 0.0
    broken: float = 0.0
    free: float = 0.0
    leaves: int = 0
    least: int = 0
    blocks: int = 0
    started: int = 0
    waits: list[float] = field(default_factory=list[float])

    def start(self, started: Started, now: float, least: int) -> None:
        """Count a start. Args: least: leaves that the order would have on an empty site."""
        self.waits.append(now - started.waiting.submitted)
        self.started += 1
        self.leaves += len(started.decision.bits)
        self.least += least
        self.blocks += started.decision.blocks

    def until(self, now: float, engine: Engine, used: int) -> None:
        start, stop = max(self.at, self.begin), min(now, self.end)
        if stop > start:
            self.busy += used * (stop - start)
            free = sum(b.bit_count() for b in engine.ledger.available)
            whole = sum(
                b.bit_count()
                for b, e in zip(engine.ledger.available, engine.ledger.numbers.every, strict=True)
                if b == e
            )
            self.free += free * (stop - start)
            self.broken += (free - whole) * (stop - start)
        self.at = now


def simulate(
    topology: Topology,
    orders: Sequence[TraceOrder],
    policy: str = "weft",
    settings: QueueSettings | None = None,
    weights: Weights | None = None,
    warm_up: float = 0.0,
    engine: Engine | None = None,
) -> TraceResult:
    """Play a trace to its end; the same trace gives the same outcome.

    Args:
        policy: one of POLICIES.
        warm_up: seconds at the beginning that don't count.
        engine: initial state; None: an empty site.
    """
    engine = engine or Engine(topology, weights=weights, policy=POLICIES[policy])
    empty = Engine(
        engine.ledger.topology, engine.ledger.traits, engine.ledger.weights, engine.ledger.dedicated
    )
    queue = Queue(Timeline(engine), settings)
    arrivals = sorted(orders, key=lambda o: (o.submitted, o.ask.pod))
    sizes: dict[tuple[NodeNeeds, int], list[int]] = {}
    last = arrivals[-1].submitted if arrivals else 0.0
    meter = _Meter(warm_up, last or float("inf"), len(engine.ledger.numbers.nodes))
    ends: list[tuple[float, str]] = []
    next_arrival, used, now = 0, 0, 0.0
    refused: list[str] = []
    counts: dict[str, int] = {}
    while next_arrival < len(arrivals) or ends or queue.waiting:
        moment = _next_moment(arrivals, next_arrival, ends, queue, now)
        if moment == float("inf"):
            refused += queue.waiting
            break
        now = moment
        meter.until(now, engine, used)
        while ends and ends[0][0] <= now:
            pod = heapq.heappop(ends)[1]
            queue.finish(pod, now)
            used -= counts.pop(pod)
        due = bisect_right(arrivals, now, lo=next_arrival, key=lambda o: o.submitted)
        refused += _arrive(queue, empty, arrivals[next_arrival:due])
        next_arrival = due
        for started in queue.run(now):
            waiting = started.waiting
            heapq.heappush(ends, (now + waiting.duration, waiting.ask.pod))
            counts[waiting.ask.pod] = waiting.ask.held
            used += waiting.ask.held
            if waiting.submitted >= warm_up:
                meter.start(started, now, _least(empty, waiting.ask, sizes))
    return _outcome(policy, len(arrivals), refused, meter, now)


def _arrive(queue: Queue, empty: Engine, orders: Sequence[TraceOrder]) -> list[str]:
    """Puts the orders into the queue; returns the pods of those that don't fit even on the empty site."""
    refused: list[str] = []
    for order in orders:
        if fits_empty(empty, order.ask):
            queue.submit(Waiting(order.ask, order.duration, order.submitted))
        else:
            refused.append(order.ask.pod)
    return refused


def fits_empty(engine: Engine, ask: Ask) -> bool:
    """Whether an empty engine could serve the order; if not, it can never be served."""
    return engine.decide(ask) is not None


def _least(empty: Engine, ask: Ask, sizes: dict[tuple[NodeNeeds, int], list[int]]) -> int:
    """The fewest leaves that could hold the order on an empty site; `sizes` are cached for similar orders."""
    key = ask.kind, ask.slice
    if key not in sizes:
        sizes[key] = sorted((room for room in empty.ledger.view(ask).pool.full if room), reverse=True)
    return least_leaves(sizes[key], ask.held // ask.slice)


def _next_moment(
    arrivals: Sequence[TraceOrder], next_arrival: int, ends: list[tuple[float, str]], queue: Queue, now: float
) -> float:
    moments = [float("inf")]
    if next_arrival < len(arrivals):
        moments.append(arrivals[next_arrival].submitted)
    if ends:
        moments.append(ends[0][0])
    booking = queue.next_booking()
    if booking is not None and booking > now:
        moments.append(booking)
    if queue.settings.patience:
        tired = [w.submitted + queue.settings.patience for w in queue.waiting.values()]
        moments.append(min((t for t in tired if t > now), default=float("inf")))
    return min(moments)


def _outcome(policy: str, orders: int, refused: list[str], meter: _Meter, now: float) -> TraceResult:
    waits = sorted(meter.waits)
    span = max(min(meter.end, now) - meter.begin, 1e-9) * meter.nodes
    return TraceResult(
        policy=policy,
        orders=orders,
        refused=len(refused),
        utilisation=meter.busy / span,
        wait_mean=sum(waits) / len(waits) if waits else 0.0,
        wait_p95=waits[min(len(waits) - 1, int(len(waits) * 0.95))] if waits else 0.0,
        leaves=meter.leaves / meter.least if meter.least else 0.0,
        blocks=meter.blocks / meter.started if meter.started else 0.0,
        fragmentation=meter.broken / meter.free if meter.free else 0.0,
        makespan=now,
        turned_away=tuple(refused),
        waits=tuple(meter.waits),
    )
