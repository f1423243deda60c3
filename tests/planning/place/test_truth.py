"""The engine against its invariants, and against CP-SAT's optimum."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.helpers.amounts import examples, seeded
from tests.planning.place.placeoptimum import least_cost_and_leftover
from tests.planning.place.placesites import STATES
from weft.model.localityorder import LEVELS, Level
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights, from_pool
from weft.planning.place.decision import Decision
from weft.planning.place.engine import Engine
from weft.planning.place.sharing import Terms
from weft.planning.place.solver import Pool


def topology(pods: list[list[int]]) -> Topology:
    locations = [
        NodeLocation(f"n{p}-{x}-{i}", f"l{p}-{x}", f"p{p}", None, (f"l{p}-{x}",))
        for p, leaves in enumerate(pods)
        for x, size in enumerate(leaves)
        for i in range(size)
    ]
    return Topology.from_locations("ib0", locations)


def pool_of(pods: list[list[int]], rng: random.Random) -> Pool:
    """Leaves with this much room, some of them broken."""
    free = [room for leaves in pods for room in leaves]
    starts = [0, *accumulate(len(leaves) for leaves in pods)]
    return Pool([room + rng.randint(0, 1) for room in free], free, starts)


def random_state(rng: random.Random) -> tuple[list[list[int]], int, float]:
    """(room by leaf and block, need, weight of a block): small enough for CP-SAT, hard for a heuristic."""
    most = rng.choice([3, 9, 20])
    pods = [[rng.randint(0, most) for _ in range(rng.randint(1, 7))] for _ in range(rng.randint(1, 5))]
    total = sum(map(sum, pods))
    return pods, rng.randint(1, max(1, total + 1)), rng.choice([0, 0.25, 0.5, 1, 1.5, 2, 5])


def test_decision_is_optimal() -> None:
    """Cost and leftover equal CP-SAT's at all levels, and an order fits exactly if it fits by CP-SAT."""
    rng = seeded(20261121)
    for _ in range(STATES):
        pods, need, weight = random_state(rng)
        required: Level = rng.choice(["site", "site", "block"])
        found = from_pool(pool_of(pods, rng), need, Weights(weight), required, "leaf")
        best = least_cost_and_leftover(pods, need, Weights(weight).beta, required == "block")
        assert (None if found is None else (found.cost, found.leftover)) == best, (
            pods,
            need,
            weight,
            required,
        )


def test_decision_near_staying_nodes_is_optimal() -> None:
    """With the pod's leaves full, new leaves in its blocks cost no further block, as CP-SAT counts it."""
    rng = seeded(7)
    for _ in range(STATES // 5):
        pods, need, weight = random_state(rng)
        engine = Engine(topology([[room + 1 for room in leaves] for leaves in pods]), weights=Weights(weight))
        home = rng.choice([(p, leaf) for p, leaves in enumerate(pods) for leaf in range(len(leaves))])
        for node, location in engine.ledger.topology.locations.items():
            if node.endswith("-0") or location.leaf == f"l{home[0]}-{home[1]}":
                engine.ledger.disable(node, "down", "another's")
        left = [
            [room * ((p, leaf) != home) for leaf, room in enumerate(leaves)] for p, leaves in enumerate(pods)
        ]
        found = engine.decide(Ask("x", need, near=(f"n{home[0]}-{home[1]}-0",)))
        best = least_cost_and_leftover(left, need, Weights(weight).beta, home_pods=frozenset((home[0],)))
        assert (None if found is None else (found.cost, found.leftover)) == best, (left, need, weight, home)


def test_engine_is_optimal_in_any_state() -> None:
    """After random changes the engine's incremental state gives the optimum for the same room."""
    rng = seeded(3)
    for _ in range(STATES // 25):
        sizes = [[rng.randint(1, 8) for _ in range(rng.randint(1, 5))] for _ in range(rng.randint(1, 4))]
        weights = Weights(rng.choice([0.5, 1, 2]))
        engine = Engine(topology(sizes), weights=weights)
        live: list[str] = []
        for number in range(12):
            if live and rng.random() < 0.4:
                engine.ledger.release(live.pop(rng.randrange(len(live))))
            ask = Ask(f"o{number}", rng.randint(1, 12))
            free = iter(bits.bit_count() for bits in engine.ledger.available)
            pods = [[next(free) for _ in leaves] for leaves in sizes]
            best = least_cost_and_leftover(pods, ask.count, weights.beta)
            found = engine.place(ask)
            assert (None if found is None else (found.cost, found.leftover)) == best, (pods, ask, weights)
            if found:
                live.append(ask.pod)


@st.composite
def sites(draw: st.DrawFn) -> list[list[int]]:
    return draw(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=4))


class Churn(RuleBasedStateMachine):
    """Orders come and go, nodes break and are repaired; a plain dictionary has the expected state."""

    @initialize(sizes=sites(), weight=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    def build(self, sizes: list[list[int]], weight: float) -> None:
        self.topology = topology(sizes)
        self.engine = Engine(self.topology, weights=Weights(weight))
        self.owner: dict[str, str] = {}
        self.broken: dict[str, set[str]] = {}
        self.asks: dict[str, Ask] = {}
        self.number = 0

    @rule(
        count=st.integers(1, 12),
        size=st.integers(1, 3),
        required=st.sampled_from(["leaf", "block", "site"]),
        project=st.sampled_from(["a", "b"]),
        apart=st.booleans(),
        skip=st.integers(0, 5),
    )
    def order(self, count: int, size: int, required: Level, project: str, apart: bool, skip: int) -> None:
        """The right number, all free, whole slices in a leaf, inside the level, apart, none excluded; repeatable."""
        self.number += 1
        nodes = list(self.topology.locations)
        others = frozenset({"a", "b"} - {project}) if apart else frozenset[str]()
        ask = Ask(
            f"o{self.number}", count * size, project, required=required, slice=size, apart_from=others,
            exclude=tuple(nodes[:skip]),
        )  # fmt: skip
        before = list(self.engine.ledger.available)
        decision = self.engine.decide(ask)
        again = self.engine.decide(ask)
        assert self.engine.ledger.available == before
        assert decision == again
        if decision is None:
            assert not self._fits(ask)
            return
        self._check(ask, decision)
        self.engine.ledger.commit(decision)
        self.owner.update(dict.fromkeys(decision.nodes, ask.pod))
        self.asks[ask.pod] = ask

    @rule(which=st.integers(0, 30))
    def release(self, which: int) -> None:
        """The nodes are free again, unless they broke meanwhile."""
        if self.asks:
            pod = sorted(self.asks)[which % len(self.asks)]
            del self.asks[pod]
            self.engine.ledger.release(pod)
            self.owner = {n: p for n, p in self.owner.items() if p != pod}

    @rule(which=st.integers(0, 60), why=st.sampled_from(["maintenance", "quarantine", "segments"]))
    def break_(self, which: int, why: str) -> None:
        node = list(self.topology.locations)[which % len(self.topology.locations)]
        self.engine.ledger.disable(node, why, "test")
        self.broken.setdefault(node, set()).add(why)

    @rule(which=st.integers(0, 60), why=st.sampled_from(["maintenance", "quarantine", "segments"]))
    def repair(self, which: int, why: str) -> None:
        node = list(self.topology.locations)[which % len(self.topology.locations)]
        self.engine.ledger.enable(node, why)
        self.broken.get(node, set()).discard(why)

    @invariant()
    def free_nodes_are_those_neither_held_nor_broken(self) -> None:
        if not hasattr(self, "engine"):
            return
        numbers = self.engine.ledger.numbers
        free = {n for x, bits in enumerate(self.engine.ledger.available) for n in numbers.names(x, bits)}
        assert free == {n for n in self.topology.locations if n not in self.owner and not self.broken.get(n)}
        for view in self.engine.ledger.views:
            size = view.lens.slice
            assert view.pool.free == [
                (b & m).bit_count() // size
                for b, m in zip(self.engine.ledger.available, view.mask, strict=True)
            ]
            assert view.pool.total == sum(view.pool.free)
            if size > 1:
                usable = zip(self.engine.ledger.available, view.mask, strict=True)
                assert view.free == sum((b & m).bit_count() for b, m in usable)
            away = self.engine.ledger.neighbours.away
            assert {p: n for p, n in view.away.items() if n} == {
                p: n for p, leaves in away.items() if (n := sum(view.pool.free[x] for x in leaves))
            }
            assert view.pool.ranked == sorted(
                f * view.pool.blocks + p for p, f in enumerate(view.pool.block_free)
            )

    def _usable(self, ask: Ask) -> list[str]:
        shared = {
            self.topology.locations[n].leaf
            for n, pod in self.owner.items()
            if self.asks[pod].terms.at_odds(ask.terms)
        }
        return [
            n
            for n, s in self.topology.locations.items()
            if n not in self.owner
            and not self.broken.get(n)
            and n not in ask.exclude
            and s.leaf not in shared
        ]

    def _fits(self, ask: Ask) -> bool:
        by_leaf: dict[str, int] = {}
        for n in self._usable(ask):
            leaf = self.topology.locations[n].leaf
            by_leaf[leaf] = by_leaf.get(leaf, 0) + 1
        slices = {leaf: n // ask.slice for leaf, n in by_leaf.items()}
        need = ask.count // ask.slice
        if ask.required == "leaf":
            return any(n >= need for n in slices.values())
        if ask.required == "block":
            return any(
                sum(slices.get(x, 0) for x in leaves) >= need for leaves in self.topology.blocks.values()
            )
        return sum(slices.values()) >= need

    def _check(self, ask: Ask, decision: Decision) -> None:
        nodes = decision.nodes
        usable = set(self._usable(ask))
        assert len(nodes) == len(set(nodes)) == ask.count
        assert usable.issuperset(nodes)
        leaves: dict[str, int] = {}
        for n in nodes:
            leaves[self.topology.locations[n].leaf] = leaves.get(self.topology.locations[n].leaf, 0) + 1
        assert all(n % ask.slice == 0 for n in leaves.values())
        level = self.topology.level_of(nodes)
        assert LEVELS.index(level) <= LEVELS.index(ask.required)
        why = decision.explanation()
        assert why.compared[0].leaves == decision.leaves == tuple(leaves)
        assert why.compared[0].blocks == len({self.topology.locations[n].block for n in nodes})
        counts = {f.filter: f for f in why.filters}
        out = sum(1 for n, reasons in self.broken.items() if reasons)
        assert sum(counts[f].removed for f in ("maintenance", "quarantine", "segments")) == out


TestChurn = Churn.TestCase
TestChurn.settings = settings(
    max_examples=examples(60), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)


@given(sites(), st.integers(1, 40), st.sampled_from([0.5, 2.0]))
@settings(max_examples=examples(100))
def test_release_restores_the_state_exactly(sizes: list[list[int]], count: int, weight: float) -> None:
    """After a release the state equals the one before, and the same ask gets the same nodes again."""
    engine = Engine(topology(sizes), weights=Weights(weight))
    first = engine.place(Ask("a", count))
    held = dict(engine.ledger.held)
    assert (first is None) == (count > sum(map(sum, sizes)))
    engine.ledger.release("a")
    assert not engine.ledger.held
    assert engine.ledger.available == engine.ledger.numbers.every
    second = engine.place(Ask("a", count))
    assert (first and first.nodes) == (second and second.nodes)
    assert engine.ledger.held.keys() == held.keys()


@pytest.mark.parametrize("failed", [0, 3])
def test_replacement_comes_from_the_failed_nodes_leaf(failed: int) -> None:
    """Even if the pod has more nodes on another leaf."""
    engine = Engine(topology([[4, 5], [9]]))
    nodes = engine.ledger.numbers.nodes
    engine.ledger.hold("run1", nodes[:3] + nodes[4:8])
    engine.ledger.hold("other", [])
    lost = nodes[failed] if failed == 0 else nodes[4]
    near = tuple(n for n in (*nodes[:3], *nodes[4:8]) if n != lost)
    decision = engine.decide(Ask("run1", 1, near=near, failed=(lost,)))
    assert decision is not None
    locations = engine.ledger.numbers.leaf_of
    assert locations[decision.nodes[0]] == locations[lost]


def test_direct_replacement_equals_the_general_choice() -> None:
    """The short way of `replace` costs the same as `decide`, in any state."""
    rng = seeded(13)
    for _ in range(examples(150)):
        sizes = [[rng.randint(1, 6) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 3))]
        engine = Engine(topology(sizes), weights=Weights(rng.choice([0.5, 2.0])))
        asks: list[Ask] = []
        for number in range(6):
            ask = Ask(f"o{number}", rng.randint(1, 7), required=rng.choice(["leaf", "block", "site"]))
            if engine.place(ask):
                asks.append(ask)
        for ask in asks:
            numbers = engine.ledger.numbers
            nodes = [n for x, bits in engine.ledger.held[ask.pod].items() for n in numbers.names(x, bits)]
            failed = rng.choice(nodes)
            near = tuple(n for n in nodes if n != failed)
            short = engine.replace(ask, failed)
            long = engine.decide(replace(ask, count=1, near=near, failed=(failed,)))
            assert (short is None) == (long is None)
            if short and long:
                assert len(short.nodes) == 1
                assert failed not in short.nodes
                assert (short.cost, short.leftover) == (long.cost, long.leftover), (sizes, ask, failed)


def test_neighbour_index_agrees_with_checking_every_pod() -> None:
    """The leaves closed to an order are those of conflicting pods, after any changes."""
    rng = seeded(17)
    engine = Engine(topology([[6, 6, 6], [6, 6]]))
    pods: dict[str, Terms] = {}
    for number in range(examples(400)):
        if pods and rng.random() < 0.45:
            pod = rng.choice(list(pods))
            nodes = [
                n for x, bits in engine.ledger.held[pod].items() for n in engine.ledger.numbers.names(x, bits)
            ]
            engine.ledger.release(pod, rng.sample(nodes, rng.randint(1, len(nodes))))
        else:
            project, others = rng.choice("abc"), frozenset(rng.sample("abcd", rng.choice([0, 0, 1, 2])))
            pod = f"o{rng.choice([number, rng.randint(0, number)])}"  # sometimes an existing pod
            free = [
                n
                for x, bits in enumerate(engine.ledger.available)
                for n in engine.ledger.numbers.names(x, bits)
            ]
            pods[pod] = Terms(project, others, rng.random() < 0.2)
            engine.ledger.hold(pod, rng.sample(free, min(len(free), rng.randint(1, 4))), pods[pod])
        pods = {p: t for p, t in pods.items() if engine.ledger.held.get(p)}
        for terms in (Terms("a"), Terms("b", frozenset("ac")), Terms("c", exclusive=True), Terms("d")):
            closed = {leaf for p, t in pods.items() if terms.at_odds(t) for leaf in engine.ledger.held[p]}
            assert engine.ledger.closed_to(terms) == closed
