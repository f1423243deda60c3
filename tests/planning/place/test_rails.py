"""Fabrics wired by rails, uneven and deep fabrics: which nodes are near each other, and what uplinks carry."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.place.placesites import build_request, build_site
from weft.model.errors import InputError
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.model.placement import Occupancy, Placement
from weft.model.site import Hca, Link, Site, Switch
from weft.planning.fabric.rails import Domains
from weft.planning.fabric.topology import Topology
from weft.planning.place.placement import place
from weft.planning.place.sources import from_cables, from_observed, from_ufm

RAILS = 8


def railed(groups: int, nodes: int, cables: int, missing: frozenset[str] = frozenset()) -> Site:
    """Groups of nodes with eight rails; each leaf has this many cables of 200 Gb/s to each of two spines.

    Args:
        missing: adapters (`node/adapter`) that the site doesn't have, as if broken or removed.
    """

    def adapters(name: str) -> dict[str, Any]:
        number = int(name.removeprefix("gpu"))
        guids = ((r, 1000 * number + 2 * r) for r in range(RAILS))
        return {
            "hcas": tuple(
                Hca(name=f"mlx5_{r}", fabric="ib0", guid=g, port_guid=g + 1, pci=f"0000:{r:02x}:00.0")
                for r, g in guids
                if f"{name}/mlx5_{r}" not in missing
            )
        }

    site = build_site([[nodes] * groups], node=adapters)
    switches = [
        Switch(name=f"l{g}-r{r}", fabric="ib0", level="leaf", ports=64, block="p0")
        for g in range(groups)
        for r in range(RAILS)
    ]
    switches += [Switch(name=f"s{s}", fabric="ib0", level="spine", ports=64, block="p0") for s in (0, 1)]
    links = [
        Link(a=f"{n.name}/{h.name}", a_port=1, b=f"l{i // nodes}-r{h.name[5:]}", b_port=i % nodes + 1)
        for i, n in enumerate(site.nodes)
        for h in n.hcas
    ]
    ports = {s: itertools.count(1) for s in (0, 1)}
    links += [
        Link(a=leaf.name, a_port=40 + s * cables + k, b=f"s{s}", b_port=next(ports[s]))
        for leaf in switches[:-2]
        for s in (0, 1)
        for k in range(cables)
    ]
    return site.model_copy(update={"switches": tuple(switches), "links": tuple(links)})


def test_leaves_of_a_rail_group_are_placed_as_one_leaf() -> None:
    """Sixteen leaves of two groups count as two, named after the first of each, and each leaf has its rail."""
    topology = Topology.of(railed(2, 4, 1), "ib0")
    assert topology.leaves == {
        "l0-r0": ("gpu1", "gpu2", "gpu3", "gpu4"),
        "l1-r0": ("gpu5", "gpu6", "gpu7", "gpu8"),
    }
    assert {topology.rails[f"l1-r{r}"] for r in range(RAILS)} == {"l1-r0"}
    answer = place(build_request(4, hcas_per_node=RAILS, required="leaf"), railed(2, 4, 1), Occupancy())
    assert isinstance(answer, Placement)
    assert {n.leaf for n in answer.nodes} == {"l0-r0"}


@pytest.mark.parametrize("gone", ["gpu2/mlx5_0", "gpu2/mlx5_7"])
def test_node_with_missing_rail_is_located_with_its_group(gone: str) -> None:
    """It shares all its other leaves, even if the first rail is missing."""
    topology = Topology.of(railed(2, 4, 1, frozenset([gone])), "ib0")
    assert topology.leaves["l0-r0"] == ("gpu1", "gpu2", "gpu3", "gpu4")
    assert len(topology.leaves) == 2
    assert len(topology.locations["gpu2"].rails) == RAILS - 1


def test_group_without_first_rail_is_named_by_the_second() -> None:
    """No node is on the first rail's leaf then."""
    topology = Topology.of(railed(1, 2, 1, frozenset(["gpu1/mlx5_0", "gpu2/mlx5_0"])), "ib0")
    assert topology.leaves == {"l0-r1": ("gpu1", "gpu2")}


def test_miswired_cable_neither_moves_node_nor_joins_groups() -> None:
    """The other seven of eight rails decide."""
    site = railed(2, 4, 1)
    moved = tuple(
        link.model_copy(update={"b": "l1-r0", "b_port": 30}) if link.a == "gpu3/mlx5_0" else link
        for link in site.links
    )
    topology = Topology.of(site.model_copy(update={"links": moved}), "ib0")
    assert [len(nodes) for nodes in topology.leaves.values()] == [4, 4]
    assert topology.locations["gpu3"].leaf == "l0-r0"


def test_host_on_two_leaves_joins_them_only_if_most_hosts_do() -> None:
    """A gateway with a port on each of two leaves counts for the first; if all hosts have both, the two are one."""
    single = {f"a{i}": ("l1",) for i in range(3)} | {f"b{i}": ("l2",) for i in range(3)}
    apart = Domains.of([*single.values(), ("l1", "l2")])
    assert (apart.of_rails["l1",], apart.of_rails["l2",], apart.of_rails["l1", "l2"]) == ("l1", "l2", "l1")
    both = Domains.of([("l1", "l2")] * 3)
    assert both.of_leaf == {"l1": "l1", "l2": "l1"}
    most_lack_one = Domains.of([("l2", "l3", "l4")] * 2 + [("l1", "l2", "l3", "l4")])
    assert set(most_lack_one.of_rails.values()) == {"l2"}
    chain = Domains.of([("l1", "l2")] * 3 + [("l2", "l3")] * 2)
    assert chain.of_rails == {("l1", "l2"): "l1", ("l2", "l3"): "l3"}


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=12),
    st.randoms(),
)
def test_domains_are_order_independent_and_named_by_own_leaf(rows: list[list[str]], rng: Any) -> None:
    """Every node has a domain, every leaf is in one, and each is named after one of its leaves."""
    rails = [tuple(r) for r in rows]
    found = Domains.of(rails)
    rng.shuffle(rails)
    assert Domains.of(rails) == found
    assert set(found.of_rails) == set(rails)
    assert set(found.of_leaf) == {leaf for r in rails for leaf in r}
    assert set(found.of_rails.values()) <= set(found.founders)
    assert all(found.of_leaf[name] == name for name in found.founders)


def test_uplinks_of_all_rails_count() -> None:
    """Eight leaves with two cables of 200 Gb/s carry 3,200: eight times what the rail with the least carries."""
    site = railed(2, 4, 1)
    assert Topology.of(site, "ib0").uplinks == {"l0-r0": 3200, "l1-r0": 3200}
    cut = next(link for link in site.links if link.a == "l0-r5")
    less = site.model_copy(update={"links": tuple(x for x in site.links if x is not cut)})
    assert Topology.of(less, "ib0").uplinks == {"l0-r0": 1600, "l1-r0": 3200}
    wide = build_request(8, hcas_per_node=RAILS, bisection_gbps=800)
    assert isinstance(place(wide, site, Occupancy()), Placement)
    assert not isinstance(place(wide, less, Occupancy()), Placement)


def test_adapters_and_domains_on_one_leaf_share_its_uplinks() -> None:
    """No bandwidth is promised twice."""
    same = Domains.of([("l1", "l1"), ("l1", "l1")])
    assert same.uplinks({"l1": 400}) == {"l1": 400}
    shared = Domains.of([("l1", "l2")] * 3 + [("l2", "l3")] * 2)
    assert shared.uplinks({"l1": 400, "l2": 400, "l3": 400}) == {"l1": 400, "l3": 400}
    assert Domains.of([("l1",)]).uplinks({"l1": 0, "spare": 400}) == {"l1": 0}


def observed(names: dict[int, str], hosts: set[int], cables: list[tuple[int, int]]) -> ObservedFabric:
    """What discovery would return; ports are numbered in order, but a host uses port 1 only."""
    port = {guid: itertools.count(1) for guid in names}
    return ObservedFabric(
        nodes=tuple(
            ObservedNode(guid=g, kind="ca" if g in hosts else "switch", name=n, ports=64)
            for g, n in names.items()
        ),
        links=tuple((End(guid=a, port=next(port[a])), End(guid=b, port=next(port[b]))) for a, b in cables),
    )


def test_discovery_includes_both_ports_of_an_adapter() -> None:
    """Each port is a rail of its own."""
    found = from_observed(
        "ib0", observed({1: "l1", 2: "l2", 3: "gpu1 mlx4_0", 4: "gpu2 mlx4_0"}, {3, 4},
                        [(3, 1), (3, 2), (4, 1), (4, 2)])
    )  # fmt: skip
    assert found.locations["gpu1"].rails == ("l1", "l2")
    assert found.leaves == {"l1": ("gpu1", "gpu2")}


def test_aggregation_node_of_a_switch_is_not_a_host() -> None:
    """SHARP's aggregation nodes look like adapters; every real switch has one."""
    names = {1: "l1", 2: "gpu1 mlx5_0", 3: "Mellanox Technologies Aggregation Node"}
    names[4] = names[3]
    found = from_observed("ib0", observed(names, {2, 3, 4}, [(2, 1), (3, 1), (4, 1)]))
    assert list(found.locations) == ["gpu1"]


def test_indistinguishable_hosts_are_refused() -> None:
    """Two adapters with the same description would become one host: the error names both and a way out."""
    names = {1: "l1", 2: "localhost mlx5_0", 3: "localhost mlx5_0"}
    with pytest.raises(
        InputError, match=r"'localhost mlx5_0' is not allowed: each node description once: 0+2 and 0+3"
    ):
        from_observed("ib0", observed(names, {2, 3}, [(2, 1), (3, 1)]))


@pytest.mark.parametrize(
    "name", ["MT4129 ConnectX7   Mellanox Technologies", "Infinity HDR adapter", "localhost"]
)
def test_adapters_without_a_hosts_name_are_left_out(name: str) -> None:
    """Adapters of hosts that are off have only their product's name; the topology lists them."""
    names = {1: "l1", 2: "gpu1 mlx5_0", 3: name, 4: name}
    found = from_observed("ib0", observed(names, {2, 3, 4}, [(2, 1), (3, 1), (4, 1)]))
    assert list(found.locations) == ["gpu1"]
    [said] = found.left_out
    assert said == f"2 adapters without a host's name are left out: {3:016x} ({name}), {4:016x} ({name})"


def test_adapter_with_product_name_is_not_a_host() -> None:
    """In UFM's list of links too."""
    product = "MT4129 ConnectX7 Mellanox Technologies"
    names = {1: "l1", 2: "gpu1 mlx5_0", 3: product}
    found = from_observed("ib0", observed(names, {2, 3}, [(2, 1), (3, 1)]))
    rows = [ufm(("0a", "gpu1 mlx5_0"), ("01", "l1:1")), ufm(("0b", product), ("01", "l1:2"))]
    for topology in (found, from_ufm("ib0", rows)):
        assert list(topology.locations) == ["gpu1"] and product in topology.left_out[0]


def test_partial_discovery_warns_of_missing_hosts() -> None:
    """The warning has the discovery's message."""
    seen = observed({1: "l1", 2: "gpu1 mlx5_0"}, {2}, [(2, 1)]).model_copy(update={"partial": ("timed out",)})
    assert "hosts may be missing: timed out" in from_observed("ib0", seen).left_out[0]


def test_fabric_without_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="at least one from a host to a switch"):
        from_observed("ib0", observed({1: "l1", 2: "l2"}, set(), [(1, 2)]))


def ufm(source: tuple[str, str], destination: tuple[str, str]) -> dict[str, str]:
    return {
        "source_guid": source[0],
        "source_port_node_description": source[1],
        "destination_guid": destination[0],
        "destination_port_node_description": destination[1],
        "source_port": "1",
        "destination_port": "1",
    }


def test_leaves_inside_a_director_are_distinguished_by_guid() -> None:
    """UFM gives all of them the director's name."""
    rows = [
        ufm(("0a", "gpu1 mlx5_0"), ("01", "director:L01/U1/1")),
        ufm(("0b", "gpu2 mlx5_0"), ("02", "director:L02/U1/1")),
        ufm(("01", "director:L01/U1/30"), ("03", "director:S01/U1/1")),
        ufm(("02", "director:L02/U1/30"), ("03", "director:S01/U1/2")),
        ufm(("0c", "Mellanox Technologies Aggregation Node"), ("01", "director:L01/U1/41")),
    ]
    found = from_ufm("ib0", rows)
    assert found.leaves == {"director-01": ("gpu1",), "director-02": ("gpu2",)}
    with pytest.raises(InputError, match="0a and 0d share it"):
        from_ufm("ib0", [*rows, ufm(("0d", "gpu1 mlx5_0"), ("02", "director:L02/U1/2"))])


def test_rails_that_never_meet_are_one_fabric() -> None:
    """Each rail has spines of its own, and a node has no first adapter: still one block."""
    up = [((f"h{i}", f"mlx5_{r}"), f"l{i // 2}-r{r}") for i in range(8) for r in range(2) if (i, r) != (3, 0)]
    between = [(f"l{g}-r{r}", f"s-r{r}") for g in range(4) for r in range(2)]
    found = from_cables("ib0", up, between)
    assert list(found.blocks) == ["-"]
    assert [len(nodes) for nodes in found.leaves.values()] == [2, 2, 2, 2]


def clos(ranks: list[int], joining: set[int]) -> Topology:
    """Leaves under this many ranks of switches; a rank in `joining` joins two domains below it, others join none."""
    leaves = 2 ** len(joining) * 2
    up = [((f"h{i}", "a"), f"l{i}") for i in range(leaves)]
    between: list[tuple[str, str]] = []
    below, width = [f"l{i}" for i in range(leaves)], leaves
    for rank in ranks:
        width = width // 2 if rank in joining else width
        above = [f"r{rank}-{i}" for i in range(width)]
        between += [(name, above[i * width // len(below)]) for i, name in enumerate(below)]
        below = above
    between += [(name, "top") for name in below]
    return from_cables("ib0", up, between)


def test_rank_that_joins_nothing_is_not_a_level() -> None:
    """Each pair of blocks with cores of its own, joined above them: the level after the block is the hall."""
    found = clos([1, 2, 3], joining={1, 3})
    assert found.levels == ("node", "leaf", "block", "hall", "site")
    assert found.level_of(["h0", "h3"]) == "hall"
    assert found.level_of(["h0", "h7"]) == "site"


def test_deeper_fabric_has_the_lowest_levels() -> None:
    """Of five joining ranks the lowest three are block, hall and building, and the rest is the site."""
    found = clos([1, 2, 3, 4, 5], joining={1, 2, 3, 4, 5})
    assert found.levels == ("node", "leaf", "block", "hall", "building", "site")
    levels = [found.level_of(["h0", f"h{i}"]) for i in (1, 2, 4, 8, 32)]
    assert levels == ["block", "hall", "building", "site", "site"]
