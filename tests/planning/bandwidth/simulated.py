"""A simulated site of 16 nodes, 4 leaves and 8 rails, with planted faults, as in the table in docs/bandwidth.md."""

from __future__ import annotations

from collections.abc import Callable, Collection
from random import Random

from weft.planning.bandwidth.candidates import Candidates
from weft.planning.bandwidth.values import Measured, NotRun, Outcome, Pair

NODES = tuple(f"n{i:02}" for i in range(16))
RAILS = range(8)
NOMINAL = 400.0
FLOOR = 0.95 * NOMINAL
PAIRS = tuple(Pair(a, b, r) for r in RAILS for a in NODES for b in NODES if a != b)
Factor = Callable[[Pair], float]


def leaf_of(node: str, rail: int) -> str:
    """The leaf of this adapter; four nodes are on each leaf."""
    return f"leaf{int(node[1:]) // 4}"


def links_of(pair: Pair) -> tuple[str, ...]:
    """The links of a pair; the receiving adapter determines the spine, as forwarding tables do."""
    here, there = leaf_of(pair.sender, pair.rail), leaf_of(pair.receiver, pair.rail)
    if here == there:
        return ()
    spine = (int(pair.receiver[1:]) * 3 + pair.rail) % 4
    return f"{here}-spine{spine}", f"{there}-spine{spine}"


CANDIDATES = Candidates.of(PAIRS, leaf_of, links_of)


def measure(random: Random, factor: Factor, missing: Collection[Pair] = ()) -> dict[Pair, Outcome]:
    """Rates with 0.6 % noise and 0.2 % hiccups; a slow pair is measured twice more."""
    found: dict[Pair, Outcome] = {}
    for pair in PAIRS:
        rate, runs = _once(random, factor(pair)), 1
        if rate < FLOOR:
            rate, runs = max(rate, _once(random, factor(pair)), _once(random, factor(pair))), 3
        found[pair] = NotRun("TIMED_OUT") if pair in missing else Measured(rate, runs)
    return found


def _once(random: Random, factor: float) -> float:
    hiccup = random.uniform(0.6, 0.95) if random.random() < 0.002 else 1.0
    return NOMINAL * factor * hiccup * random.gauss(1.0, 0.006)
