"""Preferences, halls and buildings, guaranteed uplinks: weighed exactly, by `place` and the engine alike."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples, seeded
from tests.helpers.offers import offers
from tests.planning.place.placeoptimum import least_weighed
from tests.planning.place.placesites import STATES, build_request, build_site
from weft.model.errors import InputError
from weft.model.localityorder import Level, Preference
from weft.model.placement import FullPort, Neighbour, Occupancy, Placement, Refusal
from weft.model.site import Accelerator, AcceleratorCount, Link, Site, Switch
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.place.weigh import LeafOption, weigh
from weft.planning.place.weighinput import Preferred
from weft.planning.queue.timeline import Timeline

LEVELS: tuple[Level, ...] = ("leaf", "block", "hall", "building", "site")


def random_parts(rng: random.Random) -> list[LeafOption]:
    """Leaves in up to two buildings of two halls of three blocks; some expensive, some cheap, some with few uplinks."""
    parts: list[LeafOption] = []
    for building in range(rng.randint(1, 2)):
        for hall in range(rng.randint(1, 2)):
            for pod in range(rng.randint(1, 3)):
                for _ in range(rng.randint(1, 3)):
                    free = rng.randint(1, 6)
                    costs = sorted(rng.choice([-700, 0, 0, 300, 1200]) for _ in range(free))
                    path = (building, 2 * building + hall, 6 * building + 3 * hall + pod)
                    limit = rng.choice([None, None, 0, 1, 2])
                    parts.append(
                        LeafOption(
                            len(parts), path, free, tuple(costs) if rng.random() < 0.5 else (), 0, limit
                        )
                    )
    return parts


def test_weighed_choice_is_optimal() -> None:
    """Cost and leftover equal CP-SAT's with preferences, uplinks, three levels of weights and nodes that stay."""
    rng = seeded(20261122)
    for _ in range(STATES // 5):
        parts = random_parts(rng)
        if rng.random() < 0.3:
            at = rng.randrange(len(parts))
            parts[at] = replace(parts[at], stays=rng.randint(1, 3))
        need = rng.randint(1, sum(p.free for p in parts))
        weights = rng.choice([(2000, 1000, 500), (0, 0, 2000), (500, 3000, 0), (100, 100, 100)])
        found = weigh(parts, need, weights, "site", "leaf")
        full = [replace(p, costs=p.costs or (0,) * p.free) for p in parts]
        best = least_weighed(full, need, weights)
        assert (found and (found.cost, found.leftover)) == best, (parts, need, weights)
        if found:
            taken = dict(found.takes)
            assert sum(taken.values()) == need
            assert found.preferences == sum(sum(p.costs[: taken.get(p.leaf, 0)]) for p in parts)


def test_weighed_choice_uses_the_best_domain_of_a_level() -> None:
    """required: hall, building … gives the optimum of the best single domain, and None only if no domain has it."""
    rng = seeded(5)
    for _ in range(STATES // 10):
        parts = random_parts(rng)
        need = rng.randint(1, 12)
        level = rng.choice(LEVELS)
        weights = (2000, 1000, 500)
        cut = {"leaf": 3, "block": 3, "hall": 2, "building": 1, "site": 0}[level]
        domains: dict[tuple[int, ...], list[LeafOption]] = {}
        for p in parts:
            key = (*p.path[:cut], p.leaf) if level == "leaf" else p.path[:cut]
            domains.setdefault(key, []).append(replace(p, costs=p.costs or (0,) * p.free))
        best = [x for d in domains.values() if (x := least_weighed(d, need, weights)) is not None]
        found = weigh(parts, need, weights, level, "leaf")
        assert (found and found.cost) == (min(best)[0] if best else None), (parts, need, level)


def deep_topology(sizes: list[list[list[list[int]]]]) -> Topology:
    """Buildings of halls of blocks of leaves with this many nodes."""
    locations: list[NodeLocation] = []
    for b, halls in enumerate(sizes):
        for h, pods in enumerate(halls):
            for p, leaves in enumerate(pods):
                for x, size in enumerate(leaves):
                    leaf = f"l{b}-{h}-{p}-{x}"
                    locations += [
                        NodeLocation(
                            f"n{len(locations) + i}",
                            leaf,
                            f"p{b}-{h}-{p}",
                            None,
                            (leaf,),
                            f"h{b}-{h}",
                            f"b{b}",
                        )
                        for i in range(size)
                    ]
    return Topology.from_locations("ib0", locations)


def test_levels_above_blocks_are_respected() -> None:
    """An order stays inside one hall or building if required, and a further hall costs its weight."""
    topology = deep_topology([[[[4], [4]], [[8], [2]]], [[[4, 4], [4]]]])
    assert topology.levels == ("node", "leaf", "block", "hall", "building", "site")
    engine = Engine(topology)
    in_hall = engine.decide(Ask("a", 10, required="hall"))
    assert in_hall is not None
    assert topology.level_of(in_hall.nodes) == "hall"
    assert engine.decide(Ask("a", 13, required="hall")) is None
    assert topology.level_of(engine.decide(Ask("a", 13, required="building")).nodes) == "building"  # type: ignore[union-attr]
    wide = engine.decide(Ask("a", 20))
    assert wide is not None
    assert "·(halls−1)" in wide.explanation().chosen
    # two leaves in two halls or three in one, depending on the weight of a hall
    uneven = deep_topology([[[[5, 5, 5]], [[1], [10]]]])
    near = Engine(uneven, weights=Weights(block=0, hall=2)).decide(Ask("a", 15))
    far = Engine(uneven, weights=Weights(block=0, hall=0.5)).decide(Ask("a", 15))
    assert near is not None and far is not None
    assert (len(near.leaves), near.halls[1]) == (3, 1)
    assert (len(far.leaves), far.halls[1]) == (2, 2)


def test_block_in_two_halls_is_refused_by_name() -> None:
    """In a table; the error names the block."""
    locations = [NodeLocation("a", "l1", "p1", hall="h1"), NodeLocation("b", "l2", "p1", hall="h2")]
    with pytest.raises(InputError, match="p1 is in two"):
        Topology.from_locations("ib0", locations)


def wired(sizes: list[list[int]], cables: int, **fields: Any) -> Site:
    """A site whose leaves have this many cables of 200 Gb/s to a spine of their block; every second block is in hall
    h1.
    """
    site = build_site(sizes, **fields)
    spines = tuple(
        Switch(name=f"s{p}", fabric="ib0", level="spine", ports=64, block=f"p{p}") for p in range(len(sizes))
    )
    links = tuple(
        Link(a=f"l{p}-{x}", a_port=50 + i, b=f"s{p}", b_port=1 + x * cables + i)
        for p, leaves in enumerate(sizes)
        for x in range(len(leaves))
        for i in range(cables)
    )
    switches = tuple(
        s.model_copy(update={"hall": f"h{int((s.block or 'p0')[1:]) % 2}"}) for s in site.switches
    )
    return site.model_copy(update={"switches": (*switches, *spines), "links": (*site.links, *links)})


def test_place_and_engine_agree_on_weighed_choices() -> None:
    """The same nodes for preferences, spares, halls and guaranteed uplinks."""
    rng = seeded(12)
    for _ in range(examples(80)):
        site = wired(
            [[rng.randint(1, 6) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))], 2
        )
        names = [n.name for n in site.nodes]
        busy = {n: "run0" for n in names if rng.random() < 0.25}
        gbps = rng.choice([0, 100, 200])
        neighbour = Neighbour(pod="run0", project="rival", nodes=tuple(busy), bisection_gbps=gbps)
        occupancy = Occupancy(
            busy=busy,
            neighbours=(neighbour,),
            full_ports=tuple(
                FullPort(fabric=rng.choice(["ib0", "ib1"]), node=n, why="full")
                for n in names
                if rng.random() < 0.1
            ),
        )
        preferences = tuple(
            Preference(kind=kind, name=name, cost=rng.choice([-800, 400, 1500]))
            for kind, name in (
                ("rack", "r0-0"),
                ("node", rng.choice(names)),
                ("leaf", "l0-0"),
                ("block", "p1"),
            )
            if rng.random() < 0.4
        )
        size = rng.choice([1, 1, 2])
        request = build_request(
            rng.randint(1, 5) * size, slice=size, required=rng.choice(LEVELS), preferences=preferences,
            spare=rng.choice([0, 0, size]), bisection_gbps=rng.choice([0, 0, 100, 200]),
        )  # fmt: skip
        answer = place(request, site, occupancy)
        decision = Engine.of(site, "ib0", occupancy).decide(Ask.of(request))
        if isinstance(answer, Refusal):
            assert decision is None
        else:
            assert decision is not None
            assert set(decision.working) == {n.node for n in answer.nodes}
            assert set(decision.spares) == {n.node for n in answer.spares}
            assert len(answer.nodes) == request.count
            assert len(answer.spares) == request.spare


def test_preference_is_weighed_against_leaves() -> None:
    """An avoided rack isn't used if it costs more than a further leaf, and used if it costs less."""
    site = build_site([[4, 2, 2]])
    preference = Preference(kind="rack", name="r0-0", cost=200)
    near = place(build_request(4, preferences=(preference,)), site, Occupancy())
    assert isinstance(near, Placement)
    assert {n.leaf for n in near.nodes} == {"l0-0"}
    assert "preferences cost 0.8 of 1.8" in near.explanation.chosen
    dear = preference.model_copy(update={"cost": 300})
    far = place(build_request(4, preferences=(dear,)), site, Occupancy())
    assert isinstance(far, Placement)
    assert {n.leaf for n in far.nodes} == {"l0-1", "l0-2"}


def test_inside_a_leaf_preferred_nodes_come_first() -> None:
    """Preferred by name, by label and by accelerator."""
    labels = {"gpu3": ("new",), "gpu4": ("new",)}
    site = build_site([[4]], node=lambda n: {"labels": labels.get(n, ())})
    for preference, expected in (
        (Preference(kind="label", name="new", cost=-10), ["gpu3", "gpu4"]),
        (Preference(kind="node", name="gpu1", cost=10), ["gpu2", "gpu3"]),
        (Preference(kind="accelerator", name="h100", cost=10), ["gpu1", "gpu2"]),
    ):
        answer = place(build_request(2, preferences=(preference,)), site, Occupancy())
        assert isinstance(answer, Placement)
        assert [n.node for n in answer.nodes] == expected


def test_uplink_bandwidth_is_not_promised_twice() -> None:
    """Two pods across the same leaves fit only while the cables carry both; a refusal offers the possible rate."""
    site = wired([[4, 4]], 2)
    engine = Engine.of(site, "ib0", Occupancy())
    assert engine.ledger.tree.uplinks == [400, 400]
    engine.ledger.hold("other", [*engine.ledger.numbers.nodes[1:4], *engine.ledger.numbers.nodes[6:]])
    ask = Ask.of(build_request(2, bisection_gbps=200))
    assert engine.place(replace(ask, pod="a", count=3)) is not None
    assert engine.ledger.carried == {0: 200, 1: 200}
    engine.ledger.release("other")
    assert engine.decide(replace(ask, pod="b", count=4, gbps=300)) is None
    crossing = engine.decide(replace(ask, pod="b", count=4, gbps=100))
    assert crossing is not None
    assert "the uplinks keep 100 Gb/s for each node" in crossing.explanation().chosen
    engine.ledger.release("a")
    assert set(engine.ledger.carried.values()) == {0}
    answer = place(build_request(6, bisection_gbps=300), site, Occupancy())
    assert isinstance(answer, Refusal)
    assert "no leaves whose uplinks have 300 Gb/s left" in answer.reason
    assert "fabric.bisection_gbps: 200 instead of 300" in offers(answer)
    other = Neighbour(pod="o", project="p2", nodes=("gpu1", "gpu5"), bisection_gbps=250)
    held = Occupancy(busy={"gpu1": "o", "gpu5": "o"}, neighbours=(other,))
    answer = place(build_request(4, bisection_gbps=100), site, held)
    assert isinstance(answer, Placement)
    answer = place(build_request(4, bisection_gbps=200), site, held)
    assert isinstance(answer, Refusal)
    assert "fabric.bisection_gbps: 150 instead of 200" in offers(answer)
    assert "when pod o (2 nodes) is released" in offers(answer)


def test_guarantee_needs_known_cables() -> None:
    """Without links between switches the field is refused with the reason."""
    topology = Topology.from_locations("ib0", [NodeLocation("a", "l1", "p"), NodeLocation("b", "l2", "p")])
    with pytest.raises(InputError, match="bisection_gbps: 100 is not allowed"):
        Engine(topology).decide(Ask("x", 2, gbps=100))


@st.composite
def orders(draw: st.DrawFn) -> list[tuple[int, int, int, bool]]:
    one = st.tuples(st.integers(1, 7), st.sampled_from([0, 100, 200]), st.integers(0, 2), st.booleans())
    return draw(st.lists(one, min_size=1, max_size=14))


@given(
    orders(),
    st.integers(1, 3),
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
def test_uplink_guarantees_never_exceed_cables(
    rows: list[tuple[int, int, int, bool]], cables: int, sizes: list[list[int]]
) -> None:
    """After any changes guaranteed traffic fits every leaf's cables, and spares are inside the level."""
    engine = Engine.of(wired(sizes, cables), "ib0", Occupancy())
    live: list[str] = []
    for number, (count, gbps, spare, end) in enumerate(rows):
        required: Level = LEVELS[number % len(LEVELS)]
        ask = Ask(
            f"o{number}", count, kind=Ask.of(build_request(1)).kind, required=required, spare=spare, gbps=gbps
        )
        found = engine.place(ask)
        if found:
            live.append(ask.pod)
            assert len(found.working) == count
            assert len(found.spares) == spare
            if required == "block":
                assert (
                    len({engine.ledger.topology.locations[n].block for n in (*found.working, *found.spares)})
                    == 1
                )
        if end and live:
            engine.ledger.release(live.pop(0))
        for leaf, gbps_used in engine.ledger.carried.items():
            assert engine.ledger.tree.uplinks is not None
            assert 0 <= gbps_used <= engine.ledger.tree.uplinks[leaf]
    for pod in live:
        engine.ledger.release(pod)
    assert not any(engine.ledger.carried.values())
    assert engine.ledger.available == engine.ledger.numbers.every


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["node", "rack", "leaf", "block"]), st.integers(0, 5), st.integers(-2000, 2000)
        ),
        max_size=4,
    ),
    st.integers(1, 10),
)
@settings(max_examples=examples(60))
def test_preference_never_costs_a_node(rows: list[tuple[str, int, int]], count: int) -> None:
    """The same orders fit as without preferences, at no higher cost than that of a choice that ignores them."""
    topology = Topology.from_locations(
        "ib0",
        [NodeLocation(f"n{i}", f"l{i // 3}", f"p{i // 6}", f"r{i // 2}", (f"l{i // 3}",)) for i in range(9)],
    )
    engine = Engine(topology)
    preferences = tuple(
        Preferred(kind, f"{'nrlp'[['node', 'rack', 'leaf', 'block'].index(kind)]}{i}", c)
        for kind, i, c in rows
    )
    plain, weighed = engine.decide(Ask("a", count)), engine.decide(Ask("a", count, preferences=preferences))
    assert (plain is None) == (weighed is None)
    if plain is None or weighed is None:
        return

    def worth(nodes: tuple[str, ...]) -> int:
        return sum(w.cost for n in nodes for w in preferences if w.meets(topology.locations[n], ()))

    assert len(weighed.nodes) == count
    assert weighed.preferences == worth(weighed.nodes)
    assert weighed.cost <= plain.cost + worth(plain.nodes)


def test_spares_are_placed_nearby_and_named() -> None:
    """An order of three with one spare gets a leaf of four; the answer has the spare apart and names it."""
    site = build_site([[3, 4]])
    answer = place(build_request(3, spare=1), site, Occupancy())
    assert isinstance(answer, Placement)
    assert [n.node for n in answer.nodes] == ["gpu4", "gpu5", "gpu6"]
    assert [n.node for n in answer.spares] == ["gpu7"]
    assert "and gpu7 spare" in answer.explanation.chosen
    refusal = place(build_request(7, spare=1), site, Occupancy())
    assert isinstance(refusal, Refusal)
    assert "8 nodes (1 of them spare) are requested" in refusal.reason
    assert "nodes.spare: 0 instead of 1" in offers(refusal)
    with pytest.raises(InputError, match="spare: 1 is not allowed"):
        place(build_request(4, slice=2, spare=1), site, Occupancy())


def test_part_of_a_node_prefers_one_numa_node() -> None:
    """An order for two of four accelerators gets the node with two on one NUMA node, and says so."""

    def numa(*nodes: int) -> dict[str, Any]:
        return {
            "accelerators": tuple(
                Accelerator(type="h100", pci=f"0000:{i:02x}:00.0", numa=n) for i, n in enumerate(nodes)
            )
        }

    site = build_site([[2]], node=lambda n: numa(0, 1, 2, 3) if n == "gpu1" else numa(0, 0, 1, 1))
    wanted = AcceleratorCount(type="h100", count=2)
    answer = place(build_request(1, accelerators=wanted), site, Occupancy())
    assert isinstance(answer, Placement)
    assert answer.nodes[0].node == "gpu2"
    assert "1 of 1 nodes have it all on one NUMA node" in answer.explanation.chosen
    decision = Engine.of(site, "ib0", Occupancy()).decide(Ask.of(build_request(2, accelerators=wanted)))
    assert decision is not None
    assert "1 of 2 nodes have it all on one NUMA node" in decision.explanation().chosen
    whole = place(build_request(1, accelerators=AcceleratorCount(type="h100", count=4)), site, Occupancy())
    assert isinstance(whole, Placement)
    assert "NUMA" not in whole.explanation.chosen


def test_node_with_full_port_is_excluded() -> None:
    """Full tables of P_Keys or VLANs are a filter with its own reason, for `place` and the engine; another fabric's
    don't count.
    """
    site = build_site([[2]])
    full = (
        FullPort(fabric="ib0", node="gpu1", why="port mlx5_0 has no entry left"),
        FullPort(fabric="ib1", node="gpu2", why="not asked for"),
    )
    occupancy = Occupancy(full_ports=full)
    answer = place(build_request(1), site, occupancy)
    assert isinstance(answer, Placement)
    assert [n.node for n in answer.nodes] == ["gpu2"]
    report = next(f for f in answer.explanation.filters if f.filter == "segments")
    assert report.examples == ("gpu1: port mlx5_0 has no entry left",)
    engine = Engine.of(site, "ib0", occupancy)
    assert engine.decide(Ask.of(build_request(2))) is None
    decision = engine.decide(Ask.of(build_request(1)))
    assert decision is not None and decision.nodes == ("gpu2",)
    assert report in decision.explanation().filters


def test_future_window_is_weighed_like_the_present() -> None:
    """On an empty calendar an order for later gets the nodes that it would get now: preferences, halls, uplinks,
    spares.
    """
    rng = seeded(31)
    for _ in range(examples(40)):
        site = wired(
            [[rng.randint(1, 5) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 4))], 1
        )
        timeline = Timeline(Engine.of(site, "ib0", Occupancy()))
        preference = Preferred("rack", "r0-0", rng.choice([-900, 600]))
        ask = replace(
            Ask.of(build_request(rng.randint(1, 9))), spare=rng.choice([0, 1]), gbps=rng.choice([0, 100]),
            preferences=rng.choice([(), (preference,)]), required=rng.choice(["block", "hall", "site"]),
        )  # fmt: skip
        now, later = timeline.decide(ask, 0, 100), timeline.at(ask, 10, 100)
        assert (now and (now.cost, now.leftover)) == (later and (later.cost, later.leftover)), ask
        if now and later:
            assert len(later.working) == ask.count
            assert len(later.spares) == ask.spare


def test_table_labels_are_split_into_words() -> None:
    """A cell has them separated by spaces."""
    site = build_site([[1]], node=lambda _: {"labels": "new liquid-cooled"})
    assert site.nodes[0].labels == ("new", "liquid-cooled")
