"""What a test of several nodes says of one of them, and of its change since the last test. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from weft.planning.bandwidth.judge import OWN_SHARE
from weft.planning.bandwidth.values import (
    Measured,
    NotRun,
    Outcome,
    Pair,
    Result,
    SlowCauseKind,
    Subject,
    TestVerdict,
)

SANK = 0.98
"""Share of an adapter's earlier median below which it has become slower: three times the noise of perftest."""
_OWN = frozenset({SlowCauseKind.SENDER, SlowCauseKind.RECEIVER, SlowCauseKind.ADAPTER, SlowCauseKind.NODE})


class Sank(NamedTuple):
    """An adapter whose median in Gb/s fell."""

    node: str
    rail: int
    before: float
    now: float


def node_results(verdict: TestVerdict, outcomes: Mapping[Pair, Outcome]) -> dict[str, Result]:
    """Node -> its result.

    Failed: it is a cause or may be one, or a slow pair of it has no cause. Passed: on each rail and in each direction
    one pair at least is at its floor, which proves both of its ends, and so are nine tenths of them all, without those
    that another node's fault or silence explains. What is slow because of a leaf, a link or a rail proves nothing of
    the node: incomplete.
    """
    named = [s for cause in verdict.causes for s in (cause.subject, *cause.others)]
    bad = {s.name for s in named if s.kind in _OWN} | {s.name for s in verdict.unsure if s.kind in _OWN}
    bad |= {end for pair in verdict.unexplained for end in pair[:2]}
    slow, silent = set(verdict.slow), _silent(outcomes)
    good: dict[tuple[str, int, bool], int] = {}
    total: dict[tuple[str, int, bool], int] = {}
    for pair, outcome in outcomes.items():
        for node, other, sends in ((pair.sender, pair.receiver, True), (pair.receiver, pair.sender, False)):
            key = (node, pair.rail, sends)
            total.setdefault(key, 0)
            fine = isinstance(outcome, Measured) and pair not in slow
            if fine or (other not in bad and other not in silent):
                total[key] += 1
                good[key] = good.get(key, 0) + fine
    found: dict[str, Result] = {}
    for (node, rail, sends), number in total.items():
        enough = number > 0 and good.get((node, rail, sends), 0) >= OWN_SHARE * number
        before = found.get(node, Result.PASSED)
        found[node] = before if enough else Result.INCOMPLETE
    return {node: Result.FAILED if node in bad else result for node, result in found.items()}


def _silent(outcomes: Mapping[Pair, Outcome]) -> set[str]:
    """Nodes without any figure."""
    heard: set[str] = set()
    there: set[str] = set()
    for pair, outcome in outcomes.items():
        there.update(pair[:2])
        if not isinstance(outcome, NotRun):
            heard.update(pair[:2])
    return there - heard


def became_slower(before: Mapping[Pair, Outcome], now: Mapping[Pair, Outcome]) -> tuple[Sank, ...]:
    """Adapters whose median fell, by node and rail; only pairs that were measured both times count."""
    both = [p for p, one in now.items() if isinstance(one, Measured) and isinstance(before.get(p), Measured)]
    then, later = _medians(both, before), _medians(both, now)
    return tuple(Sank(*key, then[key], later[key]) for key in sorted(then) if later[key] < SANK * then[key])


def _medians(pairs: Iterable[Pair], outcomes: Mapping[Pair, Outcome]) -> dict[tuple[str, int], float]:
    rates: dict[tuple[str, int], list[float]] = {}
    for pair in pairs:
        outcome = outcomes[pair]
        for node in pair[:2]:
            if isinstance(outcome, Measured):
                rates.setdefault((node, pair.rail), []).append(outcome.gbps)
    return {key: median(found) for key, found in rates.items()}


def text(subject: Subject) -> str:
    """The subject in words."""
    rail = f"rail {subject.rail}"
    return {
        SlowCauseKind.SENDER: f"{subject.name}, {rail}, sending",
        SlowCauseKind.RECEIVER: f"{subject.name}, {rail}, receiving",
        SlowCauseKind.ADAPTER: f"{subject.name}, {rail}: adapter or its cable",
        SlowCauseKind.LINK: f"link {subject.name}",
        SlowCauseKind.NODE: f"node {subject.name}",
        SlowCauseKind.RAIL: f"{rail}, everywhere",
        SlowCauseKind.LEAF: f"uplinks of {subject.name}",
        SlowCauseKind.ALL: "everything: the floor, or the fabric",
    }[subject.kind]
