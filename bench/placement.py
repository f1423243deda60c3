"""Placement: speed, quality and traces against the goals; times are CPU time of the deciding thread.

A decision doesn't wait for anything, so its CPU time is its latency on an idle machine.
"""

from __future__ import annotations

import random
import resource
import time
from typing import Any

from bench.placement_common import Churn, break_some, micro, topology
from bench.placement_parts import parts_rows
from bench.placement_peers import slurm_rows
from bench.placement_quality import quality_rows, trace_rows
from bench.placement_service import service_rows
from bench.row import row
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.queue.timeline import Timeline

SIZES = ((800, 20, 8, 50), (10_000, 20, 20, 75), (100_000, 32, 32, 100))
"""(nodes, nodes a leaf, leaves a pod, goal of p99 in µs)."""
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
    found += parts_rows()
    found += quality_rows()
    found += trace_rows()
    return found + service_rows() + slurm_rows()


def _speed(nodes: int, engine: Engine, goal: int) -> list[dict[str, Any]]:
    break_some(engine)
    engine.ledger.view(Ask("warm", 1))
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
        engine.ledger.commit(decision)
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
            nodes = [
                n for x, bits in engine.ledger.held[pod].items() for n in engine.ledger.numbers.names(x, bits)
            ]
            leaf = engine.ledger.numbers.leaf_of[nodes[0]]
            ask = Ask(pod, count)
            start = time.thread_time()
            decision = engine.replace(ask, nodes[0])
            times.append(time.thread_time() - start)
            shares = any(engine.ledger.numbers.leaf_of[n] == leaf for n in nodes[1:])
            if decision and engine.ledger.available[leaf] and shares:
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
        engine.ledger.release(ask.pod)
    rate = len(asks) / (time.thread_time() - start)
    return [row("placement: place + release, one process", rate, "1/s", "≥ 50,000", rate >= 50_000)]


def _memory() -> float:
    """Largest resident size so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
