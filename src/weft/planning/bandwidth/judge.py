"""Names the smallest causes of slow pairs. Pure.

Greedy: a subject is a cause if 90 % of its own pairs are slow and it explains two or more that nothing explained
before; the one that explains most is named first, at a tie the smallest kind. The floors, and how well this names
planted faults, are in `docs/bandwidth.md`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.planning.bandwidth.candidates import Candidates, LeafOf, LinksOf, partners
from weft.planning.bandwidth.values import (
    Measured,
    NearFloor,
    NotRun,
    Outcome,
    Pair,
    Result,
    SlowCause,
    SlowCauseKind,
    Subject,
    TestVerdict,
)

OWN_SHARE = 0.9
"""Least share of a cause's own measured pairs that are slow, and of its n - 1 partners that it was measured with."""
LEAST = 2
"""Fewest slow pairs that a cause explains."""
NEAR = 1.01
"""A median below this multiple of the floor is near it."""
FloorOf = Callable[[Pair], float]
"""Gb/s below which a pair is slow."""
Bools = NDArray[np.bool_]


def judge(
    outcomes: Mapping[Pair, Outcome],
    floor_of: FloorOf,
    leaf_of: LeafOf | None = None,
    links_of: LinksOf | None = None,
    candidates: Candidates | None = None,
) -> TestVerdict:
    """The verdict on a test.

    Args:
        outcomes: of every pair that should have been measured.
        candidates: those of the measured pairs in the order of `outcomes`, if the caller has them already.
    """
    measured = {pair: one for pair, one in outcomes.items() if isinstance(one, Measured)}
    not_run = Counter(one.reason for one in outcomes.values() if isinstance(one, NotRun))
    pairs = list(measured)
    found = candidates or Candidates.of(pairs, leaf_of, links_of)
    rates = np.array([one.gbps for one in measured.values()], dtype=float)
    floors = np.array([floor_of(pair) for pair in pairs], dtype=float)
    slow = ~(rates >= floors)  # a figure that isn't a number is slow
    enough = found.count(np.ones(len(pairs), dtype=bool)) >= _needed(found.subjects, partners(pairs))
    causes, left, unsure = _causes(found, slow, enough, rates)
    return TestVerdict(
        result=_result(bool(slow.any()), len(pairs), len(not_run)),
        causes=causes,
        slow=tuple(pairs[i] for i in np.flatnonzero(slow)),
        unexplained=tuple(pairs[i] for i in np.flatnonzero(left)),
        unsure=unsure,
        near_floor=_near_floor(found, rates, floors, causes),
        measured=len(pairs),
        not_run=dict(not_run),
    )


def _result(slow: bool, measured: int, not_run: int) -> Result:
    if slow:
        return Result.FAILED
    return Result.INCOMPLETE if not_run or not measured else Result.PASSED


def _needed(subjects: Sequence[Subject], nodes: Mapping[int, int]) -> NDArray[np.int64]:
    """How many pairs of each subject must be measured: nine tenths of a node's partners on the rail."""
    most = max(nodes.values(), default=0)
    counts = [most if s.rail is None else nodes[s.rail] for s in subjects]
    return np.array([max(LEAST, math.ceil(OWN_SHARE * (n - 1))) for n in counts], dtype=np.int64)


def _causes(
    found: Candidates, slow: Bools, enough: Bools, rates: NDArray[np.float64]
) -> tuple[tuple[SlowCause, ...], Bools, tuple[Subject, ...]]:
    """Causes, the slow pairs that they leave, and subjects of which too few pairs were measured to call them causes."""
    own, total, left = found.count(slow), found.count(np.ones(len(slow), dtype=bool)), slow.copy()
    eligible = own >= OWN_SHARE * total
    causes: list[SlowCause] = []
    while True:
        explains = np.where(eligible & enough, found.count(left), 0)
        best = int(explains.max(initial=0))
        if best < LEAST:
            break
        ties = [int(i) for i in np.flatnonzero(explains == best)]
        first, *others = ties  # the smallest kind first: candidates are in that order
        mine = _still(found, first, left)
        same = [i for i in others if np.array_equal(_still(found, i, left), mine)]
        causes.append(
            SlowCause(
                found.subjects[first],
                tuple(found.subjects[i] for i in same),
                best,
                int(own[first]),
                int(total[first]),
                _median(rates[mine]),
            )
        )
        left[mine] = False
    remaining = found.count(left)
    unsure = np.flatnonzero(eligible & ~enough & (remaining >= LEAST))
    return tuple(causes), left, tuple(found.subjects[i] for i in unsure)


def _still(found: Candidates, index: int, left: Bools) -> NDArray[np.int64]:
    """A subject's pairs that are not explained yet."""
    mine = found.pairs_of(index)
    return mine[left[mine]]


def _near_floor(
    found: Candidates, rates: NDArray[np.float64], floors: NDArray[np.float64], causes: Sequence[SlowCause]
) -> tuple[NearFloor, ...]:
    """Adapters whose median is near the floor, on rails whose median isn't, without those that are causes already."""
    named = {subject for cause in causes for subject in (cause.subject, *cause.others)}
    shares = rates / floors
    by_rail: dict[int, list[tuple[Subject, float, float]]] = {}
    for index, subject in enumerate(found.subjects):
        if subject.kind is SlowCauseKind.ADAPTER and subject.rail is not None:
            mine = found.pairs_of(index)
            middle = (subject, _median(shares[mine]), _median(floors[mine]))
            by_rail.setdefault(subject.rail, []).append(middle)
    near: list[NearFloor] = []
    for ones in by_rail.values():
        if _median(np.array([share for _, share, _ in ones])) < NEAR:
            continue
        near += [
            NearFloor(s, share * floor, floor) for s, share, floor in ones if share < NEAR and s not in named
        ]
    nodes = {subject.name for subject in named if subject.kind is SlowCauseKind.NODE}
    return tuple(one for one in near if one.subject.name not in nodes)


def _median(values: NDArray[np.float64]) -> float:
    """Median of at least one value; `numpy.median` costs more than all else here."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)
