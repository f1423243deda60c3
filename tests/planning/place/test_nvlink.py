"""NVLink domains: orders inside one, groups inside one, whole domains, and domains kept whole by other orders."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.offers import offers
from tests.planning.place.placesites import build_request, build_site
from weft.model.errors import InputError
from weft.model.localityorder import LocalityOrder, Preference
from weft.model.placement import Neighbour, Occupancy, Placement, Refusal, Share
from weft.model.site import AcceleratorCount, Site
from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.queue.book import Book
from weft.planning.queue.capacity import capacity
from weft.planning.queue.timeline import Timeline

ONE = "nvlink_domain"
WHOLE = "whole_nvlink_domain"


def racks(pods: list[list[list[int]]], **fields: Any) -> Site:
    """A site by blocks, leaves and sizes of NVLink domains (negative: nodes in none), named d1, d2 … in tree order."""
    domain_of: dict[str, str | None] = {}
    for domain, size in enumerate((s for leaves in pods for sizes in leaves for s in sizes), 1):
        for _ in range(abs(size)):
            domain_of[f"gpu{len(domain_of) + 1}"] = f"d{domain}" if size > 0 else None
    leaves = [[sum(map(abs, sizes)) for sizes in block] for block in pods]
    return build_site(leaves, node=lambda name: {"nvlink_domain": domain_of[name], **fields}, accelerators=4)


def busy(*nodes: int, **fields: Any) -> Occupancy:
    return Occupancy(busy={f"gpu{n}": "other" for n in nodes}, **fields)


def placed(site: Site, occupancy: Occupancy, count: int, **fields: Any) -> list[str]:
    """Names of nodes and spares; the order must fit."""
    found = place(build_request(count, **fields), site, occupancy)
    assert isinstance(found, Placement), found
    return [n.node for n in (*found.nodes, *found.spares)]


def refused(site: Site, occupancy: Occupancy, count: int, **fields: Any) -> Refusal:
    found = place(build_request(count, **fields), site, occupancy)
    assert isinstance(found, Refusal), found
    return found


def domains(site: Site, nodes: list[str]) -> set[str | None]:
    return {site.node_by_name[n].nvlink_domain for n in nodes}


TWO = racks([[[4, 4], [4, 4]]])
"""Two leaves of two domains of four nodes: d1 gpu1-4, d2 gpu5-8, d3 gpu9-12, d4 gpu13-16."""


def test_order_inside_one_domain_gets_the_tightest() -> None:
    """d2 has three free nodes, which is enough; how full its leaf is doesn't matter."""
    found = place(build_request(3, required=ONE), TWO, busy(5, 9, 10, 13, 14))
    assert isinstance(found, Placement)
    assert [n.node for n in found.nodes] == ["gpu6", "gpu7", "gpu8"]
    assert {n.nvlink_domain for n in found.nodes} == {"d2"}
    assert found.level == ONE
    assert "the tightest NVLink domain that holds them all" in found.explanation.chosen
    assert "NVLink domains: d2 (3 of 4 nodes)" in found.explanation.chosen


def test_half_occupied_domain_offers_only_its_free_half() -> None:
    """Though all nodes are on one leaf, the order is refused, with offers."""
    found = refused(TWO, busy(1, 2, 5, 6, 9, 10, 13, 14), 3, required=ONE)
    assert (
        "at most 2 of the 3 within one nvlink_domain (d1), and locality.required is nvlink_domain"
        in found.reason
    )
    assert "nodes.count: 2 instead of 3" in offers(found)
    assert "locality.required: leaf instead of nvlink_domain" in offers(found)


def test_order_larger_than_a_domain_is_refused() -> None:
    """Five nodes of domains of four."""
    assert "at most 4 of the 5 within one nvlink_domain" in refused(TWO, busy(), 5, required=ONE).reason


def test_each_group_stays_inside_a_domain() -> None:
    """Two groups of three: no domain holds two, so two domains of one leaf hold one each."""
    nodes = placed(TWO, busy(9, 10), 6, slice=3, slice_within=ONE)
    assert nodes == ["gpu1", "gpu2", "gpu3", "gpu5", "gpu6", "gpu7"]


def test_groups_that_fit_a_leaf_but_no_domain_are_refused() -> None:
    """Leaf groups of four fit where each domain has two free."""
    occupancy = busy(1, 2, 5, 6, 9, 10, 13, 14)
    assert placed(TWO, occupancy, 4, slice=4) == ["gpu3", "gpu4", "gpu7", "gpu8"]
    found = refused(TWO, occupancy, 4, slice=4, slice_within=ONE)
    assert (
        "in groups of 4 per NVLink domain, but only 0 of the 8 available nodes form such groups"
        in found.reason
    )
    assert "locality.slice: 2 instead of 4" in offers(found)
    assert "locality.slice_within: leaf instead of nvlink_domain" in offers(found)


def test_whole_domain_is_exclusive() -> None:
    """A group of four gets the domain of four; it would share the domain of six."""
    site = racks([[[6, 4], [6]]])
    assert domains(site, placed(site, busy(), 4, slice=4, slice_within=WHOLE)) == {"d2"}
    found = refused(site, busy(7), 4, slice=4, slice_within=WHOLE)
    assert "in groups of 4 that are whole NVLink domains, but only 0 of the 15" in found.reason
    assert "locality.slice_within: nvlink_domain instead of whole_nvlink_domain" in offers(found)


@pytest.mark.parametrize("level", [{"required": ONE}, {"preferred": ONE}, {}])
@pytest.mark.parametrize("sizes", [{"count": 4}, {"count": 2, "spare": 2}])
def test_two_groups_are_not_one_whole_domain(level: dict[str, Any], sizes: dict[str, Any]) -> None:
    """A domain of four with two groups of two, or with a group and its spares, isn't whole for either."""
    found = refused(TWO, busy(), **sizes, slice=2, slice_within=WHOLE, **level)
    assert "in groups of 2 that are whole NVLink domains, but only 0 of the 16" in found.reason


def test_room_in_a_domain_is_counted_in_whole_groups() -> None:
    """The domain of four can't hold groups of two, and the refusal doesn't count its four nodes."""
    site = racks([[[4, 2, 2]]])
    assert domains(site, placed(site, busy(), 4, slice=2, slice_within=WHOLE, preferred=ONE)) == {"d2", "d3"}
    found = refused(site, busy(), 4, slice=2, slice_within=WHOLE, required=ONE)
    assert "at most 2 of the 4 within one nvlink_domain (d2)" in found.reason
    assert "nodes.count: 2 instead of 4" in offers(found)
    assert "locality.slice_within: nvlink_domain instead of whole_nvlink_domain" in offers(found)


@pytest.mark.parametrize("within", [ONE, WHOLE])
@pytest.mark.parametrize("excluded", [(), ("gpu1",)])
def test_offers_are_valid_orders(within: str, excluded: tuple[str, ...]) -> None:
    """A group in a domain has at least two nodes; on leaves single nodes are offered."""
    site, occupancy = racks([[[2, 2]]]), busy(2, 3)
    found = refused(site, occupancy, 2, slice=2, slice_within=within, exclude=excluded)
    assert not [f for f in offers(found) if "locality.slice: 1" in f]
    with pytest.raises(ValueError, match="needs slice"):
        LocalityOrder.model_validate({"slice": 1, "slice_within": within})
    leaves = build_site([[1, 1]])
    assert "locality.slice: 1 instead of 2" in offers(refused(leaves, busy(), 2, slice=2))


def test_groups_count_only_eligible_nodes() -> None:
    """A leaf with an excluded node is counted in groups too; the domain of two has no group then."""
    site = racks([[[2, 1, 1]]])
    assert placed(site, busy(), 1, slice=1, slice_within=WHOLE, exclude=("gpu3",)) == ["gpu4"]
    refused(site, busy(), 1, slice=1, slice_within=WHOLE, exclude=("gpu3", "gpu4"))


@pytest.mark.parametrize("why", ["maintenance", "quarantine", "reserved", "image"])
def test_domain_with_an_unusable_node_is_not_whole(why: str) -> None:
    """Its other nodes still serve smaller orders."""
    site, occupancy, boot = racks([[[4]]]), busy(), ""
    if why == "maintenance":
        nodes = (n.model_copy(update={"maintenance": "fan"}) if n.name == "gpu2" else n for n in site.nodes)
        site = site.model_copy(update={"nodes": tuple(nodes)})
    elif why == "quarantine":
        occupancy = Occupancy(quarantined={"gpu2": "not clean"})
    elif why == "reserved":
        occupancy = Occupancy(reserved={"gpu2": "another project"})
    else:
        occupancy, boot = Occupancy(unfit={"b": {"gpu2": "lacks the trait"}}), "b"
    refused(site, occupancy, 4, slice=4, slice_within=WHOLE, boot=boot)
    refused(site, occupancy, 4, required=ONE, boot=boot)
    assert placed(site, occupancy, 3, required=ONE, boot=boot) == ["gpu1", "gpu3", "gpu4"]


def test_spares_are_in_the_domain_too() -> None:
    """Three nodes and a spare fit a domain of four; with two spares no domain holds them."""
    assert domains(TWO, placed(TWO, busy(1), 3, spare=1, required=ONE)) == {"d2"}
    refused(TWO, busy(), 3, spare=2, required=ONE)


def test_preferred_domain_never_causes_refusal() -> None:
    """The order is in one domain if one holds it, else placed as without the preference."""
    assert domains(TWO, placed(TWO, busy(5), 4, preferred=ONE)) == {"d1"}
    every = busy(1, 5, 9, 13)
    assert placed(TWO, every, 4, preferred=ONE) == placed(TWO, every, 4)


def test_orders_without_domains_keep_domains_whole() -> None:
    """Single nodes go to a broken domain of the leaf, and pairs to the pair that is left."""
    site = racks([[[4, 4]]])
    assert placed(site, busy(5), 1) == ["gpu6"]
    assert placed(site, busy(5, 6), 2) == ["gpu7", "gpu8"]
    assert domains(site, placed(site, busy(5), 4)) == {"d1"}
    assert placed(site, busy(5), 5) == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu6"]


def test_nodes_outside_domains_are_used_first() -> None:
    """No domain is broken while other nodes of the leaf are free."""
    site = racks([[[-2, 4]]])
    assert placed(site, busy(), 2) == ["gpu1", "gpu2"]
    assert placed(site, busy(), 2, required=ONE) == ["gpu3", "gpu4"]
    refused(site, busy(3, 4, 5, 6), 1, required=ONE)


def test_pod_grows_inside_its_domain() -> None:
    """The added node is in the pod's domain even if another domain is tighter; otherwise it is refused."""
    near = ("gpu1", "gpu2")
    assert placed(TWO, busy(1, 2, 5, 6, 7), 1, near=near, required=ONE) == ["gpu3"]
    assert placed(TWO, busy(1, 2, 5, 6, 7), 1, near=near, preferred=ONE) == ["gpu3"]
    full = refused(TWO, busy(1, 2, 3, 4), 1, near=near, required=ONE)
    assert "at most 0 of the 1 within one nvlink_domain (d1, where the nodes that stay are)" in full.reason
    refused(TWO, busy(1, 5), 1, near=("gpu1", "gpu5"), required=ONE)


def test_failed_node_is_replaced_inside_its_domain() -> None:
    """Two groups of two in two domains: the replacement is in the failed node's, though the other has more room."""
    engine = Engine.of(TWO, "ib0", busy(3))
    ask = Ask("p", 4, kind=replace(Ask.of(build_request(1)).kind), slice=2, within=ONE)
    engine.ledger.hold("p", ["gpu1", "gpu2", "gpu5", "gpu6"])
    found = engine.replace(ask, "gpu2")
    assert found is not None
    assert found.nodes == ("gpu4",)
    engine.ledger.hold("q", ["gpu4"])
    assert engine.replace(ask, "gpu2") is None


def test_closed_leaves_are_skipped() -> None:
    """The tightest domain is on a leaf of a project that the order must be apart from."""
    secret = Neighbour(pod="s", project="p2", nodes=("gpu1",))
    occupancy = busy(1, neighbours=(secret,))
    assert domains(TWO, placed(TWO, occupancy, 3, required=ONE)) == {"d1"}
    assert domains(TWO, placed(TWO, occupancy, 3, required=ONE, apart_from=("p2",))) == {"d3"}


def test_preferences_decide_between_domains_and_inside_one() -> None:
    """A label's cost counts for each node; a domain can be preferred by its name."""
    avoid = (
        Preference(kind="nvlink_domain", name="d1", cost=100),
        Preference(kind="node", name="gpu6", cost=5),
    )
    assert placed(TWO, busy(), 3, required=ONE, preferences=avoid) == ["gpu5", "gpu7", "gpu8"]
    nodes = placed(TWO, busy(), 2, slice=2, slice_within=ONE, preferences=avoid)
    assert len(domains(TWO, nodes)) == 1
    assert domains(TWO, nodes) != {"d1"}
    assert "gpu6" not in nodes


def test_parts_of_nodes_stay_inside_one_domain() -> None:
    """Servers of two accelerators: eight fit a domain of four nodes, nine don't."""
    parts: dict[str, Any] = {
        "share": Share(),
        "accelerators": AcceleratorCount(type="h100", count=2),
        "required": ONE,
        "hcas_per_node": 0,
        "fabric": "none",
    }
    assert domains(TWO, placed(TWO, busy(1), 8, **parts)) == {"d2"}
    found = refused(TWO, busy(), 9, **parts)
    assert "at most 8 within one nvlink_domain" in found.reason


def test_timeline_respects_domains() -> None:
    """A booking keeps its domain from overlapping orders; the earliest start is when one domain is free."""
    site = racks([[[2, 2]]])
    line = Timeline(Engine.of(site, "ib0", busy()))
    kind = Ask.of(build_request(1)).kind
    inside = Ask("a", 2, kind=kind, required=ONE, preferred=ONE)
    single = line.start(Ask("x", 1, kind=kind), 0, 100)
    other = line.start(Ask("y", 1, kind=kind, exclude=("gpu1", "gpu2")), 0, 50)
    assert single is not None
    assert other is not None
    assert single.nodes == ("gpu1",)
    assert other.nodes == ("gpu3",)
    assert line.decide(inside, 0, 10) is None
    start = line.earliest(inside, 10, 0)
    assert start is not None
    assert (start.at, start.decision.nodes) == (50, ("gpu3", "gpu4"))
    groups = replace(inside, count=4, slice=2, within=WHOLE, required="site", preferred="leaf")
    start = line.earliest(groups, 10, 0)
    assert start is not None
    assert start.at == 100


def test_capacity_reports_largest_order_in_a_domain_and_whole_domains() -> None:
    """How many domains of each size are free as a whole; a booked node isn't free."""
    site = racks([[[4, 4], [2]]])
    health = Occupancy(down={"gpu1": "compute service down"})
    row = next(r for r in capacity(site, health, Book(), "ib0").rows if r.accelerators is None)
    assert [(x.level, x.count) for x in row.largest] == [
        ("nvlink_domain", 4),
        ("leaf", 7),
        ("block", 9),
        ("site", 9),
    ]
    assert [(x.each, x.total, x.free) for x in row.nvlink] == [(2, 1, 1), (4, 2, 1)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"slice_within": ONE}, "slice_within nvlink_domain needs slice"),
        (
            {"required": ONE, "preferred": "leaf"},
            "preferred (leaf) must not be wider than required (nvlink_domain)",
        ),
    ],
)
def test_inconsistent_domain_order_is_refused(given: dict[str, Any], says: str) -> None:
    """Groups without a size; a preference wider than the requirement."""
    with pytest.raises(ValueError, match=re.escape(says)):
        LocalityOrder.model_validate(given)


def test_required_level_is_also_preferred() -> None:
    assert LocalityOrder.model_validate({"required": ONE}).preferred == ONE
    assert LocalityOrder.model_validate({"required": "node"}).preferred == "node"
    assert LocalityOrder.model_validate({"required": "block"}).preferred == "leaf"


def test_count_must_be_a_multiple_of_the_group() -> None:
    """Same as for groups on leaves."""
    with pytest.raises(InputError, match="multiple of the slice"):
        place(build_request(5, slice=2, slice_within=ONE), TWO, busy())


def test_order_inside_a_domain_is_refused_on_a_site_without_domains() -> None:
    """The level doesn't exist there; to prefer it changes nothing."""
    site = build_site([[4, 4]])
    assert ONE not in Topology.of(site, "ib0").levels
    refused(site, busy(), 2, required=ONE)
    refused(site, busy(), 2, slice=2, slice_within=ONE)
    assert placed(site, busy(), 2, preferred=ONE) == placed(site, busy(), 2)


@given(
    st.randoms(use_true_random=False),
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_engine_matches_brute_force_in_any_state(chance: random.Random, sizes: list[list[int]]) -> None:
    """The order fits exactly if counting domain by domain says so; its nodes are free and inside domains."""
    site = racks([sizes])
    names = [n.name for n in site.nodes]
    gone = {n: "other" for n in names if chance.random() < 0.4}
    free: dict[str, int] = {}
    total: dict[str, int] = {}
    for node in site.nodes:
        domain = node.nvlink_domain or ""
        total[domain] = total.get(domain, 0) + 1
        free[domain] = free.get(domain, 0) + (node.name not in gone)
    size = chance.randint(2, 4)
    groups = chance.randint(1, 3)
    for count, fields, fits in (
        (size, {"required": ONE}, any(n >= size for n in free.values())),
        (
            size * groups,
            {"slice": size, "slice_within": ONE},
            sum(n // size for n in free.values()) >= groups,
        ),
        (
            size * groups,
            {"slice": size, "slice_within": WHOLE},
            sum(free[d] == total[d] == size for d in free) >= groups,
        ),
        (
            size * groups,
            {"slice": size, "slice_within": WHOLE, "preferred": ONE},
            sum(free[d] == total[d] == size for d in free) >= groups,
        ),
        (
            size * groups,
            {"slice": size, "slice_within": WHOLE, "required": ONE},
            groups == 1 and any(free[d] == total[d] == size for d in free),
        ),
    ):
        found = place(build_request(count, **fields), site, Occupancy(busy=gone))
        assert isinstance(found, Placement) == fits, (sizes, gone, count, fields)
        if isinstance(found, Placement):
            nodes = [n.node for n in found.nodes]
            assert len(set(nodes)) == count
            assert not set(nodes) & gone.keys()
            used: dict[str, int] = {}
            for node in nodes:
                domain = site.node_by_name[node].nvlink_domain or ""
                used[domain] = used.get(domain, 0) + 1
            if "required" in fields:
                assert len(used) == 1
            if fields == {"required": ONE}:
                assert free[next(iter(used))] == min(n for n in free.values() if n >= size)
            else:
                assert all(n % size == 0 for n in used.values())
                assert fields["slice_within"] == ONE or all(total[d] == n for d, n in used.items())


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_window_decides_like_the_present(chance: random.Random, reservations: int) -> None:
    """With many reservations (counted with numpy) or few, the timeline fits exactly what an engine of the free nodes
    does.
    """
    site = racks([[[3, 4], [4, 2]], [[5]]])
    names = [n.name for n in site.nodes]
    line = Timeline(Engine.of(site, "ib0", Occupancy()))
    kind = Ask.of(build_request(1)).kind
    taken: set[str] = set()
    for i in range(reservations):
        start = chance.choice((0.0, 100.0))
        found = line.reserve(Ask(f"r{i}", 1, kind=kind), start, start + 50)
        if found is not None and start < 50:
            taken |= set(found.nodes)
    size = chance.randint(2, 4)
    whole: dict[str, Any] = {"slice": size, "within": WHOLE}
    cases: tuple[dict[str, Any], ...] = (
        {"required": ONE, "preferred": ONE},
        {"slice": size, "within": ONE},
        whole,
        {**whole, "required": ONE, "preferred": ONE},
        {**whole, "preferred": ONE},
        {**whole, "count": 2 * size},
        {**whole, "count": 2 * size, "preferred": ONE},
        {**whole, "count": 2 * size, "required": ONE, "preferred": ONE},
        {**whole, "spare": size, "preferred": ONE},
        {**whole, "preferred": ONE, "exclude": tuple(chance.sample(names, 2))},
    )
    for fields in cases:
        ask = replace(Ask("a", size, kind=kind), **fields)
        left = Engine.among(site, "ib0", [n for n in names if n not in taken], Occupancy())
        expected, found = left.decide(ask), line.decide(ask, 0, 50)
        assert (found is None) == (expected is None), (fields, sorted(taken))
        if found is not None:
            assert expected is not None
            assert not set(found.nodes) & {*taken, *ask.exclude}
            used = Counter(site.node_by_name[n].nvlink_domain for n in found.nodes)
            assert len(used) == ask.held // size
            if ask.within == WHOLE:
                every = Counter(n.nvlink_domain for n in site.nodes)
                assert all(every[d] == n == size for d, n in used.items())
