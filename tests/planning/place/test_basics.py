"""Which nodes an order gets and why, and how refusals are explained."""

from __future__ import annotations

import random

import pytest
from pydantic import ValidationError

from tests.helpers.offers import offers
from tests.planning.place.placesites import adapters, build_request, build_site, dedicate
from weft.model.errors import InputError
from weft.model.placement import (
    Explanation,
    FullPort,
    Neighbour,
    Occupancy,
    Placement,
    PlacementRequest,
    Refusal,
    Share,
)
from weft.model.site import AcceleratorCount, Site
from weft.planning.fabric.topology import NodeLocation, Topology, natural
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.place.state import site_traits
from weft.planning.queue.book import Book, earliest_start

FREE = Occupancy()


def taken(*names: str) -> Occupancy:
    return Occupancy(busy=dict.fromkeys(names, "other"))


def placed(
    request: PlacementRequest, site: Site, occupancy: Occupancy = FREE, beta: float = 0.5
) -> Placement:
    answer = place(request, site, occupancy, Weights(beta))
    assert isinstance(answer, Placement), answer
    return answer


def refused(request: PlacementRequest, site: Site, occupancy: Occupancy = FREE) -> Refusal:
    answer = place(request, site, occupancy)
    assert isinstance(answer, Refusal), answer
    return answer


def names(answer: Placement) -> list[str]:
    return [n.node for n in answer.nodes]


def test_order_that_fits_a_leaf_gets_the_tightest_leaf() -> None:
    """Three nodes go to the leaf with exactly three free nodes, not to an empty one."""
    answer = placed(build_request(3), build_site([[4, 4], [4, 4]]), taken("gpu6"))
    assert names(answer) == ["gpu5", "gpu7", "gpu8"]
    assert answer.level == "leaf"
    assert "nothing left over" in answer.explanation.chosen


def test_whole_leaf_is_broken_in_the_fullest_block() -> None:
    """If only whole leaves are free, one of the fullest block is used."""
    answer = placed(build_request(2), build_site([[4, 4], [4, 4]]), taken("gpu13", "gpu14", "gpu15", "gpu16"))
    assert {n.leaf for n in answer.nodes} == {"l1-0"}


def test_broken_leaf_is_preferred_to_a_whole_one() -> None:
    """A leaf of eight with two free nodes is used before a whole leaf of two."""
    answer = placed(build_request(2), build_site([[2, 8]]), taken(*(f"gpu{i}" for i in range(3, 9))))
    assert {n.leaf for n in answer.nodes} == {"l0-1"}


def test_nodes_are_ordered_by_leaf_then_natural_name() -> None:
    """gpu2 comes before gpu10, l0-2 before l0-10."""
    answer = placed(build_request(12), build_site([[12]]))
    assert names(answer) == [f"gpu{i}" for i in range(1, 13)]
    assert sorted(["l0-10", "l0-2"], key=natural) == ["l0-2", "l0-10"]


@pytest.mark.parametrize(("beta", "leaves", "blocks"), [(0.5, 2, 2), (2.0, 3, 1)])
def test_block_weight_trades_leaves_for_blocks(beta: float, leaves: int, blocks: int) -> None:
    """Two leaves in two blocks or three leaves in one, depending on the weight."""
    site = build_site([[8, 2], [8, 4, 4]])
    answer = placed(build_request(16), site, beta=beta)
    assert len({n.leaf for n in answer.nodes}) == leaves
    assert len({n.block for n in answer.nodes}) == blocks


def test_preferred_block_is_used_if_it_fits() -> None:
    """preferred: block uses one block with any number of leaves, and never refuses."""
    site = build_site([[8, 2], [8, 4, 4]])
    assert placed(build_request(16, preferred="block"), site).level == "block"
    assert placed(build_request(17, preferred="block"), site).level == "site"


def test_single_node_is_at_level_node() -> None:
    """One node meets even required: node; two never do."""
    site = build_site([[2]])
    assert placed(build_request(1, required="node", preferred="node"), site).level == "node"
    assert "one node" in refused(build_request(2, required="node", preferred="node"), site).reason


def test_replacement_is_on_the_failed_nodes_leaf_if_it_has_a_spare_node() -> None:
    site = build_site([[4, 4], [4]])
    near = ("gpu5", "gpu6", "gpu1")
    answer = placed(build_request(1, near=near, exclude=("gpu7",)), site, taken(*near, "gpu7"))
    assert names(answer) == ["gpu8"]


def test_replacement_goes_to_the_same_block_when_the_leaf_is_full() -> None:
    """Another leaf of the same block costs less than a tighter leaf elsewhere."""
    site = build_site([[2, 4], [4, 1]])
    answer = placed(build_request(1, near=("gpu1",), exclude=("gpu2",)), site, taken("gpu1", "gpu2"))
    assert {n.block for n in answer.nodes} == {"p0"}


def test_replacement_keeps_the_required_level_together_with_the_nodes_that_stay() -> None:
    """required: leaf is about the whole pod: another leaf is refused, and the refusal names the pod's leaf."""
    site = build_site([[2, 4]])
    answer = refused(build_request(1, near=("gpu1",), required="leaf"), site, taken("gpu1", "gpu2"))
    assert "l0-0, where the nodes that stay are" in answer.reason


def test_host_bond_is_not_assigned_whole() -> None:
    """The pod would have one function of the NIC, and the host's function would be in the pod's VLAN (VF-LAG). A
    bare- metal machine gets both functions, and virtual functions are behind the bond.
    """
    bond = {"bond_pci": "0000:c0:00.1", "bond_mode": "802.3ad", "eswitch": "switchdev", "vfs": 8}
    bonded = tuple(h.model_copy(update=bond) for h in adapters("gpu1", 1))
    site = build_site([[2]], node=lambda n: {"hcas": bonded} if n == "gpu1" else {}, accelerators=8)
    answer = placed(build_request(1), site)
    assert names(answer) == ["gpu2"]
    [example] = [e for f in answer.explanation.filters if f.filter == "fabric" for e in f.examples]
    assert example.startswith("gpu1: its mlx5_0 is a bond of both functions of the NIC")
    assert "2 nodes are requested, but 1 is available" in refused(build_request(2), site).reason
    assert names(placed(build_request(2, hcas_per_node=0), site)) == ["gpu1", "gpu2"], "without RDMA"
    part = build_request(1, share=Share(vfs=1), accelerators=AcceleratorCount(type="h100", count=1))
    assert names(placed(part, site)) == ["gpu1"], "the other has no functions"
    whole = site.model_copy(
        update={"nodes": tuple(n.model_copy(update={"machine": f"{n.name}-uuid"}) for n in site.nodes)}
    )
    assert names(placed(build_request(2, bare_metal=True), whole)) == ["gpu1", "gpu2"]
    hcas = [[site_traits(s, "ib0")[n].hcas for n in ("gpu1", "gpu2")] for s in (site, whole)]
    assert hcas == [[0, 1], [1, 1]], "the counts that the queue and the capacity use"


def test_filter_reports_have_examples() -> None:
    """A node counts for the first filter that removes it."""
    special = {
        "gpu1": {"role": "service"},
        "gpu2": {"cloud": None},
        "gpu3": {"hcas": ()},
        "gpu4": {"accelerators": ()},
        "gpu5": {"maintenance": "DIMM"},
    }
    site = build_site([[10]], node=lambda n: special.get(n, {}), accelerators=8)
    request = build_request(2, accelerators=AcceleratorCount(type="h100", count=8), exclude=("gpu7",))
    occupancy = Occupancy(busy={"gpu8": "run0"}, quarantined={"gpu6": "P_Key 0x65 still there"})
    answer = placed(request, site, occupancy)
    removed = {f.filter: (f.removed, f.examples) for f in answer.explanation.filters}
    assert names(answer) == ["gpu9", "gpu10"]
    assert removed["role"] == (1, ("gpu1: is a service node",))
    assert removed["cloud"] == (1, ("gpu2: belongs to no cloud",))
    assert removed["fabric"] == (1, ("gpu3: has 0 cabled HCAs on ib0, 1 are needed",))
    assert removed["accelerators"] == (1, ("gpu4: has 0 of 8 h100",))
    assert removed["maintenance"] == (1, ("gpu5: DIMM",))
    assert removed["quarantine"] == (1, ("gpu6: P_Key 0x65 still there",))
    assert removed["exclude"] == (1, ("gpu7: the order excludes it",))
    assert removed["busy"] == (1, ("gpu8: held by pod run0",))
    assert answer.explanation.filters[-1].left == 2


def test_slices_stay_inside_one_leaf() -> None:
    """Groups of three: a leaf of four holds one, and a count that isn't a multiple of three is refused."""
    site = build_site([[4, 4, 4]])
    answer = placed(build_request(6, slice=3), site)
    assert [n.leaf for n in answer.nodes] == ["l0-0"] * 3 + ["l0-1"] * 3
    assert offers(refused(build_request(12, slice=3), site))[0] == "nodes.count: 9 instead of 12"
    with pytest.raises(InputError, match=r"count: 7 is not allowed: a multiple of the slice \(3\)"):
        place(build_request(7, slice=3), site, FREE)


def test_anti_affinity_and_dedicated_leaves_are_respected() -> None:
    """No leaf with a node of the other project or dedicated to another project; its owner may use it."""
    site = dedicate(build_site([[4, 4, 4]]), "l0-1", "owner")
    occupancy = Occupancy(
        busy={"gpu1": "run0"},
        neighbours=(Neighbour(pod="run0", project="rival", nodes=("gpu1",)),),
        full_ports=(FullPort(fabric="ib0", node="gpu9", why="126 keys"),),
    )
    answer = placed(build_request(3, apart_from=("rival",)), site, occupancy)
    assert names(answer) == ["gpu10", "gpu11", "gpu12"]
    removed = {f.filter: f.removed for f in answer.explanation.filters}
    assert (removed["dedicated"], removed["segments"], removed["apart"]) == (4, 1, 3)
    assert len(placed(build_request(10, project="owner"), site, occupancy).nodes) == 10
    refused(build_request(4, apart_from=("rival",)), site, occupancy)


def test_site_engine_agrees_with_place() -> None:
    """The same nodes for the same site, occupancy and request."""
    rng = random.Random(11)
    for _ in range(60):
        sizes = [[rng.randint(1, 6) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 3))]
        site = dedicate(build_site(sizes), "l0-0", rng.choice(["p1", "p2"]))
        nodes = [n.name for n in site.nodes]
        busy = {n: "run0" for n in nodes if rng.random() < 0.3}
        occupancy = Occupancy(
            busy=busy,
            neighbours=(
                Neighbour(pod="run0", project="rival", nodes=tuple(busy), exclusive=rng.random() < 0.2),
            ),
            quarantined={n: "x" for n in nodes if rng.random() < 0.1},
            down={n: "y" for n in nodes if rng.random() < 0.1},
        )
        size = rng.choice([1, 1, 2])
        request = build_request(
            rng.randint(1, 8) * size,
            slice=size,
            required=rng.choice(["leaf", "block", "site"]),
            exclude=tuple(rng.sample(nodes, min(2, len(nodes)))),
            apart_from=rng.choice([(), ("rival",)]),
            exclusive=rng.random() < 0.3,
        )
        answer = place(request, site, occupancy)
        decision = Engine.of(site, "ib0", occupancy).decide(Ask.of(request))
        if isinstance(answer, Refusal):
            assert decision is None
        else:
            assert decision is not None
            assert set(decision.nodes) == set(names(answer))
            mine, theirs = decision.explanation(), answer.explanation
            assert mine.chosen == theirs.chosen
            assert mine.compared[0] == theirs.compared[0]
            if not any(f.removed for f in theirs.filters if f.filter == "apart"):
                assert mine.compared == theirs.compared


def test_explanation_names_the_runners_up() -> None:
    """The other leaf of a tie; other leaves of one block; as they were when it was decided, not later."""
    engine = Engine(Topology.from_locations("ib0", (
        NodeLocation(f"n{i}", f"l{i // 4}", f"p{i // 12}", None, ()) for i in range(24)
    )))  # fmt: skip
    one = engine.decide(Ask("a", 4))
    assert one is not None
    engine.ledger.hold("b", [f"n{i}" for i in range(4, 24)])
    assert [(c.leaves, c.leftover) for c in one.explanation().compared] == [(("l0",), 0), (("l1",), 0)]
    assert one.explanation().compared[1].why.startswith("next leaf: as good; ties go to")
    engine.ledger.release("b")
    engine.ledger.hold("b", ["n0", "n1", "n2", "n4", "n5", "n6", "n8", "n12"])
    several = engine.decide(Ask("a", 7))
    assert several is not None
    assert [(c.leaves, c.blocks) for c in several.explanation().compared] == [
        (("l3", "l4"), 1),
        (("l4", "l5"), 1),
    ]
    assert (
        several.explanation().compared[1].why
        == "fewest leaves: same cost, leaves 1 free node behind against 0"
    )


def test_trusted_explanation_equals_a_validated_one() -> None:
    """Comparing, copying, writing and reading it give the same."""
    engine = Engine(
        Topology.from_locations(
            "ib0", (NodeLocation(f"n{i}", f"l{i // 4}", "p0", None, ()) for i in range(16))
        )
    )
    for count in (1, 3, 6, 11):
        decision = engine.place(Ask(f"o{count}", count)) or engine.decide(Ask(f"o{count}", 1))
        if decision is None:
            continue
        why = decision.explanation()
        again = Explanation.model_validate(why.model_dump())
        assert why == again
        assert hash(why) == hash(again)
        assert why.model_dump_json() == again.model_dump_json()
        assert why.model_fields_set == again.model_fields_set
        changed = why.model_copy(update={"chosen": "x"})
        assert (changed.chosen, changed.compared, why == again) == ("x", why.compared, True)
        with pytest.raises(ValidationError):
            why.considered = 0


def test_earliest_start_is_when_enough_leases_end() -> None:
    """None if not enough leases have an end."""
    site = build_site([[4]])
    occupancy = Occupancy(busy={"gpu1": "a", "gpu2": "b"})
    request = build_request(4)
    both, one = Book.of(occupancy, {"a": 50.0, "b": 90.0}), Book.of(occupancy, {"a": 50.0})
    assert earliest_start(request, site, Occupancy(), both, 60.0, 10.0) == 90.0
    assert earliest_start(request, site, Occupancy(), one, 60.0, 10.0) is None


def test_node_with_an_uncabled_adapter_is_excluded() -> None:
    """An adapter in no link of the site has no leaf."""
    site = build_site([[2]])
    site = site.model_copy(update={"links": site.links[1:]})
    answer = refused(build_request(2), site)
    fabric = next(f for f in answer.explanation.filters if f.filter == "fabric")
    assert fabric.examples == ("gpu1: the site has no link from gpu1/mlx5_0 to a leaf of ib0",)


def test_order_without_accelerators_leaves_nodes_that_have_some() -> None:
    site = build_site(
        [[4]], node=lambda n: {"accelerators": ()} if n in ("gpu3", "gpu4") else {}, accelerators=1
    )
    assert names(placed(build_request(2), site)) == ["gpu3", "gpu4"]


def test_refusal_has_counts_and_offers() -> None:
    """The reason has the counts, and the largest number that fits is offered."""
    answer = refused(build_request(9), build_site([[4, 4]]), taken("gpu1"))
    assert answer.reason == "9 nodes are requested, but 7 are available (removed by: busy 1)."
    assert "nodes.count: 7 instead of 9" in offers(answer)


def test_locality_refusal_offers_weaker_level_and_release() -> None:
    """The order fits with each offer."""
    site = build_site([[4, 4]])
    request = build_request(4, required="leaf")
    answer = refused(request, site, Occupancy(busy={"gpu1": "a", "gpu5": "b"}))
    assert offers(answer) == (
        "nodes.count: 3 instead of 4",
        "locality.required: block instead of leaf",
        "when pod a (1 node) is released",
    )
    placed(build_request(3, required="leaf"), site, taken("gpu1", "gpu5"))
    placed(request, site, taken("gpu5"))


def test_quarantine_refusal_offers_clearing() -> None:
    """Clearing the nodes' quarantine is offered."""
    answer = refused(build_request(1), build_site([[2]]), Occupancy(quarantined={"gpu1": "x", "gpu2": "y"}))
    assert offers(answer) == ("when gpu1 leaves quarantine (x)",)


def test_leaves_without_block_names_form_one_block() -> None:
    """Leaves whose switches name no pod belong together."""
    answer = placed(build_request(6, required="block"), build_site([[4], [4]], grouped=False))
    assert {n.block for n in answer.nodes} == {"-"}


def test_unknown_fabric_is_an_input_error() -> None:
    """The error names the site's fabrics."""
    with pytest.raises(InputError, match="fabric: 'ib9' is not allowed: fabrics of site: ib0"):
        place(build_request(1, fabric="ib9"), build_site([[1]]), FREE)


def test_unknown_names_are_ignored() -> None:
    """A node that left the site while it was busy changes nothing."""
    occupancy = Occupancy(busy={"gone": "run0"}, quarantined={"gone2": "x"})
    answer = placed(build_request(2, near=("gone",), exclude=("gone",)), build_site([[2]]), occupancy)
    assert names(answer) == ["gpu1", "gpu2"]
