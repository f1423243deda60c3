"""What if: a trace of orders played on a simulated clock, with weft's rule or another's, in the same queue."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.place.queue import Queue, QueueSettings, Waiting, least_leaves
from weft.planning.timeline import Timeline
from weft.planning.topology import Topology


@dataclass(frozen=True, slots=True)
class TraceOrder:
    """One line of a trace; times in seconds from its beginning."""

    ask: Ask
    submitted: float
    duration: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trace under one rule.

    Attributes:
        utilisation: busy node-seconds over all node-seconds, from the end of the warm-up to the last arrival.
        wait_mean: seconds from arrival to start, of the orders that arrived after the warm-up; `wait_p95` likewise.
        leaves: leaves used over the least possible in an empty site.
        pods: pods (groups of leaves) an order.
        fragmentation: share of the free nodes that stand on leaves partly taken, averaged over time.
        refused: orders that the site couldn't hold even empty.
    """

    policy: str
    orders: int
    refused: int
    utilisation: float
    wait_mean: float
    wait_p95: float
    leaves: float
    pods: float
    fragmentation: float
    makespan: float
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
    pods: int = 0
    started: int = 0
    waits: list[float] = field(default_factory=list[float])

    def until(self, now: float, engine: Engine, used: int) -> None:
        start, stop = max(self.at, self.begin), min(now, self.end)
        if stop > start:
            self.busy += used * (stop - start)
            free = sum(b.bit_count() for b in engine.available)
            whole = sum(
                b.bit_count() for b, e in zip(engine.available, engine.numbers.every, strict=True) if b == e
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
) -> Outcome:
    """Play a trace to its end; the same trace gives the same outcome.

    Args:
        policy: one of POLICIES.
        warm_up: seconds at the beginning that don't count.
        engine: state to begin with; none: an empty site.
    """
    engine = engine or Engine(topology, weights=weights, policy=POLICIES[policy])
    queue = Queue(Timeline(engine), settings)
    arrivals = sorted(orders, key=lambda o: (o.submitted, o.ask.pod))
    sizes = sorted((e.bit_count() for e in engine.numbers.every), reverse=True)
    last = arrivals[-1].submitted if arrivals else 0.0
    meter = _Meter(warm_up, last, len(engine.numbers.nodes))
    ends: list[tuple[float, str]] = []
    next_arrival, used, refused, now = 0, 0, 0, 0.0
    counts: dict[str, int] = {}
    while next_arrival < len(arrivals) or ends or queue.waiting:
        now = _next_moment(arrivals, next_arrival, ends, queue, now)
        if now == float("inf"):
            refused += len(queue.waiting)
            break
        meter.until(now, engine, used)
        while ends and ends[0][0] <= now:
            pod = heapq.heappop(ends)[1]
            queue.finish(pod, now)
            used -= counts.pop(pod)
        while next_arrival < len(arrivals) and arrivals[next_arrival].submitted <= now:
            order = arrivals[next_arrival]
            next_arrival += 1
            if fits_empty(engine, order.ask):
                queue.submit(Waiting(order.ask, order.duration, order.submitted))
            else:
                refused += 1
        for started in queue.run(now):
            waiting = started.waiting
            heapq.heappush(ends, (now + waiting.duration, waiting.ask.pod))
            counts[waiting.ask.pod] = waiting.ask.held
            used += waiting.ask.held
            if waiting.submitted >= warm_up:
                meter.waits.append(now - waiting.submitted)
                meter.started += 1
                meter.leaves += len(started.decision.bits)
                meter.least += least_leaves(sizes, waiting.ask.held)
                meter.pods += started.decision.pods
    return _outcome(policy, len(arrivals), refused, meter, now)


def fits_empty(engine: Engine, ask: Ask) -> bool:
    """Whether the order could ever be served: its required level has a domain that is large enough."""
    numbers = engine.numbers
    sizes = [b.bit_count() for b in engine.view(ask).mask]
    if ask.required == "node":
        return ask.held == 1 and any(sizes)
    if ask.required == "leaf":
        return ask.held <= max(sizes)
    if ask.required == "pod":
        return ask.held <= max(sum(sizes[a:b]) for a, b in pairwise(numbers.pod_start))
    if ask.required in ("hall", "building"):
        depth = 2 if ask.required == "hall" else 1
        rooms: dict[tuple[int, ...], int] = {}
        for path, size in zip(engine.tree.paths, sizes, strict=True):
            rooms[path[:depth]] = rooms.get(path[:depth], 0) + size
        return ask.held <= max(rooms.values())
    return ask.held <= sum(sizes)


def _next_moment(
    arrivals: Sequence[TraceOrder], next_arrival: int, ends: list[tuple[float, str]], queue: Queue, now: float
) -> float:
    moments = [float("inf")]
    if next_arrival < len(arrivals):
        moments.append(arrivals[next_arrival].submitted)
    if ends:
        moments.append(ends[0][0])
    promise = queue.next_promise()
    if promise is not None and promise > now:
        moments.append(promise)
    if queue.settings.patience:
        tired = [w.submitted + queue.settings.patience for w in queue.waiting.values()]
        moments.append(min((t for t in tired if t > now), default=float("inf")))
    return min(moments)


def _outcome(policy: str, orders: int, refused: int, meter: _Meter, now: float) -> Outcome:
    waits = sorted(meter.waits)
    span = max(meter.end - meter.begin, 1e-9) * meter.nodes
    return Outcome(
        policy=policy,
        orders=orders,
        refused=refused,
        utilisation=meter.busy / span,
        wait_mean=sum(waits) / len(waits) if waits else 0.0,
        wait_p95=waits[min(len(waits) - 1, int(len(waits) * 0.95))] if waits else 0.0,
        leaves=meter.leaves / meter.least if meter.least else 0.0,
        pods=meter.pods / meter.started if meter.started else 0.0,
        fragmentation=meter.broken / meter.free if meter.free else 0.0,
        makespan=now,
        waits=tuple(meter.waits),
    )
