"""Causes of slow pairs: the table of planted faults, and what holds for any measurement."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.bandwidth.simulated import (
    CANDIDATES,
    FLOOR,
    NODES,
    PAIRS,
    RAILS,
    Factor,
    leaf_of,
    links_of,
    measure,
)
from weft.planning.bandwidth.judge import judge
from weft.planning.bandwidth.together import compare_stages
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

CASES = 40


def _touches(pair: Pair, subject: Subject) -> bool:
    """Whether a subject is on a pair's path, worked out independently of `weft`."""
    name, rail = subject.name, subject.rail
    if subject.kind is SlowCauseKind.LEAF:
        ends = [leaf_of(node, pair.rail) for node in pair[:2]]
        return ends[0] != ends[1] and name in ends
    if subject.kind is SlowCauseKind.LINK:
        return name in links_of(pair)
    ends = {SlowCauseKind.SENDER: pair[:1], SlowCauseKind.RECEIVER: pair[1:2]}.get(subject.kind, pair[:2])
    return name in ends and rail in (None, pair.rail)


def _slowed(planted: Mapping[Subject, float]) -> Factor:
    return lambda pair: min((f for s, f in planted.items() if _touches(pair, s)), default=1.0)


def _adapter(random: Random, kind: SlowCauseKind = SlowCauseKind.ADAPTER) -> Subject:
    return Subject(kind, random.choice(NODES), random.choice(RAILS))


def _two_adapters(random: Random) -> dict[Subject, float]:
    a, b = random.sample(NODES, 2)
    return {
        Subject(SlowCauseKind.ADAPTER, a, random.choice(RAILS)): 0.5,
        Subject(SlowCauseKind.ADAPTER, b, random.choice(RAILS)): 0.7,
    }


def _link(random: Random) -> Subject:
    return Subject(SlowCauseKind.LINK, f"leaf{random.randrange(4)}-spine{random.randrange(4)}")


PLANTED = {
    "nothing": lambda r: {},
    "adapter at 50 %": lambda r: {_adapter(r): 0.5},
    "adapter at 93 %": lambda r: {_adapter(r): 0.93},
    "sender at 80 %": lambda r: {_adapter(r, SlowCauseKind.SENDER): 0.8},
    "receiver at 80 %": lambda r: {_adapter(r, SlowCauseKind.RECEIVER): 0.8},
    "node at 70 %": lambda r: {Subject(SlowCauseKind.NODE, r.choice(NODES)): 0.7},
    "uplinks of a leaf at 60 %": lambda r: {Subject(SlowCauseKind.LEAF, f"leaf{r.randrange(4)}"): 0.6},
    "one uplink of four at 50 %": lambda r: {_link(r): 0.5},
    "two adapters": _two_adapters,
    "node and uplink": lambda r: {Subject(SlowCauseKind.NODE, r.choice(NODES)): 0.7, _link(r): 0.5},
}


def _judge(outcomes: Mapping[Pair, Outcome]) -> TestVerdict:
    same = list(outcomes) == list(PAIRS) and all(isinstance(one, Measured) for one in outcomes.values())
    return judge(outcomes, lambda _: FLOOR, leaf_of, links_of, CANDIDATES if same else None)


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_faults_are_named_in_40_of_40_cases_and_nothing_else(planted: str) -> None:
    for seed in range(CASES):
        random = Random(f"{planted} {seed}")
        faults = PLANTED[planted](random)
        found = _judge(measure(random, _slowed(faults)))
        assert {c.subject for c in found.causes} == set(faults), seed
        assert not any(c.others for c in found.causes)
        assert found.result is (Result.FAILED if faults else Result.PASSED)
        assert found.unexplained == ()


def test_adapter_just_below_the_floor_is_near_the_floor_and_no_cause() -> None:
    for seed in range(CASES):
        random = Random(f"edge {seed}")
        subject = _adapter(random)
        found = _judge(measure(random, _slowed({subject: 0.949})))
        assert found.causes == ()
        assert found.result is Result.FAILED and found.unexplained == found.slow != ()
        assert [near.subject for near in found.near_floor] == [subject]


def test_slow_adapter_is_named_though_another_node_is_dead() -> None:
    dead, subject = NODES[3], Subject(SlowCauseKind.ADAPTER, NODES[9], 2)
    outcomes = measure(Random(1), _slowed({subject: 0.5}), [p for p in PAIRS if dead in p[:2]])
    found = _judge(outcomes)
    assert [c.subject for c in found.causes] == [subject]
    assert found.not_run == {"TIMED_OUT": 2 * 15 * 8}


def test_pairs_that_did_not_run_are_neither_slow_nor_passed() -> None:
    outcomes = measure(Random(2), lambda _: 1.0, [PAIRS[0]])
    found = _judge(outcomes)
    assert (found.result, found.slow, found.measured) == (Result.INCOMPLETE, (), len(outcomes) - 1)


def test_bandwidth_test_without_a_rate_is_incomplete() -> None:
    assert _judge({}).result is Result.INCOMPLETE
    assert _judge({Pair("a", "b", 0): NotRun("NO_DEVICE")}).result is Result.INCOMPLETE


def test_cause_with_few_measured_pairs_is_unsure() -> None:
    subject = Subject(SlowCauseKind.SENDER, NODES[0], 0)
    mine = [p for p in PAIRS if _touches(p, subject)]
    outcomes = measure(Random(3), _slowed({subject: 0.5}), mine[:8])
    found = _judge(outcomes)
    assert found.causes == () and found.unsure == (subject,) and len(found.unexplained) == 7


def test_test_of_two_nodes_names_both_adapters_and_the_rail() -> None:
    pairs: dict[Pair, Outcome] = {Pair(a, b, r): Measured(400.0) for a, b in ("xy", "yx") for r in (0, 1)}
    slow: dict[Pair, Outcome] = {p: Measured(100.0) for p in pairs if p.rail == 1}
    found = judge({**pairs, **slow}, lambda _: 380.0)
    (cause,) = found.causes
    adapters = {Subject(SlowCauseKind.ADAPTER, n, 1) for n in "xy"}
    assert {cause.subject, *cause.others} == {*adapters, Subject(SlowCauseKind.RAIL, "", 1)}


def test_node_alone_on_its_leaf_is_named_together_with_the_leaf() -> None:
    """The same pairs are slow in both cases."""
    leaves = {"a": "leaf1", "b": "leaf2", "c": "leaf2", "d": "leaf2"}
    pairs = [Pair(a, b, r) for a in leaves for b in leaves for r in (0, 1) if a != b]
    outcomes: dict[Pair, Outcome] = {p: Measured(200.0 if "a" in p[:2] else 400.0) for p in pairs}
    (cause,) = judge(outcomes, lambda _: 380.0, lambda node, rail: leaves[node]).causes
    assert {cause.subject, *cause.others} >= {
        Subject(SlowCauseKind.NODE, "a"),
        Subject(SlowCauseKind.LEAF, "leaf1"),
    }


@pytest.mark.parametrize(("rails", "kind"), [((5,), SlowCauseKind.RAIL), (tuple(RAILS), SlowCauseKind.ALL)])
def test_slow_rail_or_site_is_named_as_a_single_cause(rails: tuple[int, ...], kind: SlowCauseKind) -> None:
    found = _judge(measure(Random(4), lambda pair: 0.5 if pair.rail in rails else 1.0))
    assert [c.subject.kind for c in found.causes] == [kind]


def test_rate_that_is_not_a_number_counts_as_slow() -> None:
    found = judge({Pair("a", "b", 0): Measured(float("nan"))}, lambda _: 380.0)
    assert found.result is Result.FAILED


_NAMES = st.sampled_from("abcdef")
_PAIRS = st.builds(Pair, _NAMES, _NAMES, st.integers(0, 2)).filter(lambda p: p.sender != p.receiver)
_OUTCOMES = st.dictionaries(
    _PAIRS, st.sampled_from([100.0, 390.0, 400.0]).map(Measured) | st.just(NotRun("TIMED_OUT")), max_size=60
)


@given(_OUTCOMES)
def test_slow_pair_has_a_cause_or_is_reported_as_unexplained(outcomes: dict[Pair, Outcome]) -> None:
    found = judge(outcomes, lambda _: 380.0)
    slow = {p for p, o in outcomes.items() if isinstance(o, Measured) and o.gbps < 380}
    assert set(found.slow) == slow
    assert sum(c.explains for c in found.causes) + len(found.unexplained) == len(slow)
    assert found.measured + sum(found.not_run.values()) == len(outcomes)
    assert (found.result is Result.PASSED) == (not slow and not found.not_run and bool(outcomes))
    for cause in found.causes:
        assert cause.slow >= 0.9 * cause.measured and cause.explains >= 2


@given(_OUTCOMES, st.randoms(use_true_random=False))
def test_verdict_does_not_depend_on_the_order_of_pairs(outcomes: dict[Pair, Outcome], random: Random) -> None:
    mixed = list(outcomes.items())
    random.shuffle(mixed)
    one, other = (judge(dict(o), lambda _: 380.0) for o in (outcomes.items(), mixed))
    assert (one.causes, set(one.unexplained), one.unsure) == (
        other.causes,
        set(other.unexplained),
        other.unsure,
    )


def test_leaf_that_is_slow_only_when_all_nodes_send_is_found() -> None:
    alone = {p: Measured(400.0) for p in PAIRS}
    across: dict[Pair, Outcome] = {
        Pair(a, NODES[(i + 4) % 16], 0): Measured(200.0 if leaf_of(a, 0) == "leaf2" else 396.0)
        for i, a in enumerate(NODES)
    }
    across[Pair(NODES[0], NODES[4], 0)] = NotRun("TIMED_OUT")
    found = compare_stages(alone, across, leaf_of)
    assert [(one.leaf, one.slow, one.unmeasured) for one in found] == [
        *(("leaf0", False, 1), ("leaf1", False, 0), ("leaf2", True, 0), ("leaf3", False, 0))
    ]
