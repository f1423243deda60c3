"""Placement: speed, quality and traces against the goals; times are CPU time of the deciding thread.

A decision neither waits nor shares, so its CPU time is its latency on a machine that is not fought over.
"""

from __future__ import annotations

import random
import resource
import time
from dataclasses import dataclass, field
from typing import Any

from bench.placement_peers import slurm_rows
from bench.placement_quality import quality_rows, trace_rows
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.timeline import Timeline
from weft.planning.topology import Stand, Topology

SIZES = ((800, 20, 8, 50), (10_000, 20, 20, 75), (100_000, 32, 32, 100))
"""(nodes, nodes a leaf, leaves a pod, goal of p99 in µs)."""
MIX = dict(
    zip(
        (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 250),
        (200, 120, 80, 100, 80, 100, 60, 80, 50, 50, 30, 25, 10, 8, 4),
        strict=True,
    )
)
"""Nodes of an order -> weight. On 800 nodes Kueue's rule then takes about 1.12 times the least leaves and 1.05 pods an
order, near the figures that the goals were set beside (1.14 to 1.17 and 1.04 to 1.05).
"""
FULL = 0.92
DECISIONS = 2500


def rows() -> list[dict[str, Any]]:
    """Every measurement as a row."""
    found: list[dict[str, Any]] = []
    for nodes, per_leaf, per_pod, goal in SIZES:
        before = _memory()
        engine = Engine(topology(nodes, per_leaf, per_pod))
        found += _speed(nodes, engine, goal)
        if nodes == 100_000:
            found += [row("placement: memory of the engine, 100,000 nodes", _memory() - before, "MiB")]
            found += _in_time(engine)
    found += _replacement()
    found += _rate()
    found += quality_rows()
    found += trace_rows()
    return found + slurm_rows()


def row(
    name: str, value: float, unit: str, goal: str = "", met: bool | None = None, compared_with: str = ""
) -> dict[str, Any]:
    """A row of the bench's table."""
    shown = float(f"{value:.4g}")
    return {
        "name": name,
        "value": shown,
        "unit": unit,
        "goal": goal,
        "met": met,
        "compared_with": compared_with,
    }


def topology(nodes: int, per_leaf: int, per_pod: int) -> Topology:
    """A regular site by numbers."""
    return Topology.from_stands(
        "ib0",
        (
            Stand(f"n{i}", f"l{i // per_leaf}", f"p{i // per_leaf // per_pod}", None, ("leaf",))
            for i in range(nodes)
        ),
    )


@dataclass(slots=True)
class Churn:
    """Orders of the mix come while there is room; when there is none, running ones end by chance."""

    engine: Engine
    seed: int
    constraints: bool = True
    used: int = 0
    number: int = 0
    live: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.nodes = len(self.engine.numbers.nodes)

    nodes: int = 0

    def next(self) -> Ask:
        """The next order, after making room for it."""
        count = self.rng.choices(list(MIX), list(MIX.values()))[0]
        while self.used + count > FULL * self.nodes:
            self.end(self.rng.randrange(len(self.live)))
        self.number += 1
        project = self.number % 40
        apart = (
            frozenset((f"p{project + 40}",))
            if self.constraints and self.number % 4 == 0
            else frozenset[str]()
        )
        return Ask(f"o{self.number}", count, f"p{project}", apart_from=apart)

    def end(self, which: int) -> None:
        pod, count = self.live.pop(which)
        self.engine.release(pod)
        self.used -= count

    def began(self, ask: Ask) -> None:
        self.live.append((ask.pod, ask.count))
        self.used += ask.count


def break_some(engine: Engine, share: float = 0.01) -> None:
    """Nodes out of order, for each of the reasons there are."""
    rng = random.Random(5)
    for node in rng.sample(engine.numbers.nodes, int(len(engine.numbers.nodes) * share)):
        engine.block(node, rng.choice(["maintenance", "quarantine", "segments"]), "bench")


def _speed(nodes: int, engine: Engine, goal: int) -> list[dict[str, Any]]:
    engine.view(Ask("warm", 1))
    if nodes < 100_000:
        break_some(engine)
    else:
        break_some(engine, 0.002)
    churn = Churn(engine, 1)
    decided: list[float] = []
    explained: list[float] = []
    while len(decided) < DECISIONS:
        ask = churn.next()
        warm = churn.used > 0.85 * nodes
        start = time.thread_time()
        decision = engine.decide(ask)
        middle = time.thread_time()
        if decision is None:
            churn.end(0)
            continue
        decision.explanation()
        end = time.thread_time()
        engine.commit(decision)
        churn.began(ask)
        if warm:
            decided.append(middle - start)
            explained.append(end - start)
    size = f"{nodes:,} nodes"
    return [
        row(f"placement: decision p50, {size}", micro(decided, 0.5), "µs", "≤ 10", micro(decided, 0.5) <= 10),
        row(f"placement: decision p99, {size}", micro(decided, 0.99), "µs", f"≤ {goal}", micro(decided, 0.99) <= goal),
        row(f"placement: with its explanation written out p50, {size}", micro(explained, 0.5), "µs", "≤ 10",
            micro(explained, 0.5) <= 10),
        row(f"placement: with its explanation written out p99, {size}", micro(explained, 0.99), "µs", f"≤ {goal}",
            micro(explained, 0.99) <= goal),
    ]  # fmt: skip


def _in_time(engine: Engine) -> list[dict[str, Any]]:
    timeline = Timeline(engine)
    rng = random.Random(2)
    made = 0
    for number in range(1000):
        start = rng.uniform(100, 5000)
        ask = Ask(f"r{number}", rng.choice([4, 8, 16, 32]))
        made += timeline.reserve(ask, start, start + rng.uniform(1000, 9000)) is not None
    times: list[float] = []
    for number in range(300):
        ask = Ask(f"t{number}", rng.choice([1, 2, 4, 8, 16]))
        start = time.thread_time()
        timeline.decide(ask, 0, rng.uniform(2000, 9000))
        times.append(time.thread_time() - start)
    name = f"placement: decision p50 with {made} overlapping reservations, 100,000 nodes"
    return [row(name, micro(times, 0.5), "µs", "≤ 250", micro(times, 0.5) <= 250)]


def _replacement() -> list[dict[str, Any]]:
    engine = Engine(topology(10_000, 20, 20))
    churn = Churn(engine, 3, constraints=False)
    while churn.used < 0.9 * churn.nodes:
        ask = churn.next()
        engine.place(ask)
        churn.began(ask)
    times: list[float] = []
    same, could = 0, 0
    for pod, count in churn.live:
        if count > 1:
            nodes = [n for x, bits in engine.held[pod].items() for n in engine.numbers.names(x, bits)]
            leaf = engine.numbers.leaf_of[nodes[0]]
            ask = Ask(pod, count)
            start = time.thread_time()
            decision = engine.replace(ask, nodes[0])
            times.append(time.thread_time() - start)
            shares = any(engine.numbers.leaf_of[n] == leaf for n in nodes[1:])
            if decision and engine.available[leaf] and shares:
                could += 1
                same += decision.bits[0][0] == leaf
    return [
        row("placement: replacement of a failed node p50", micro(times, 0.5), "µs", "≤ 5", micro(times, 0.5) <= 5),
        row("placement: replacements in the same leaf where it has a spare", 100 * same / max(could, 1), "%", "100",
            same == could),
    ]  # fmt: skip


def _rate() -> list[dict[str, Any]]:
    engine = Engine(topology(10_000, 20, 20))
    asks = [Ask(f"o{i}", 4) for i in range(20_000)]
    start = time.thread_time()
    for ask in asks:
        engine.place(ask)
        engine.release(ask.pod)
    rate = len(asks) / (time.thread_time() - start)
    return [row("placement: place + release, one process", rate, "1/s", "≥ 50,000", rate >= 50_000)]


def micro(times: list[float], quantile: float) -> float:
    """A quantile in microseconds."""
    return sorted(times)[min(len(times) - 1, int(len(times) * quantile))] * 1e6


def _memory() -> float:
    """Largest resident size so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
