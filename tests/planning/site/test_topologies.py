"""Topologies from several sources, the fat-tree planner, and capacity."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.paths import BENCH_DATA
from tests.planning.place.placesites import build_site
from weft.app.placefiles import read_orders, read_topology, seconds
from weft.app.sitefile import load_site
from weft.generate.fattree import site_files
from weft.generate.sitecsv import links_csv
from weft.model.errors import InputError
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.model.placement import Occupancy
from weft.model.site import AcceleratorCount
from weft.planning.fabric.topology import Topology
from weft.planning.place.sources import from_cables, from_observed, from_table, from_ufm
from weft.planning.place.state import NodeNeeds
from weft.planning.queue.book import Book
from weft.planning.queue.capacity import capacity
from weft.planning.site.check import canonical, check_site
from weft.planning.site.fattree import FatTree, design


def observed(tree: FatTree) -> ObservedFabric:
    """What discovery would return for a design."""
    names = [s.name for s in tree.switches]
    hosts = sorted({x.a for x in tree.links if "/" in x.a})
    guids = {name: i + 1 for i, name in enumerate([*names, *hosts])}
    nodes = [ObservedNode(guid=guids[n], kind="switch", name=n, ports=tree.radix) for n in names]
    nodes += [ObservedNode(guid=guids[h], kind="ca", name=h.replace("/", " "), ports=1) for h in hosts]
    links = tuple(
        (End(guid=guids[x.a], port=x.a_port), End(guid=guids[x.b], port=x.b_port)) for x in tree.links
    )
    return ObservedFabric(nodes=tuple(nodes), links=links)


@pytest.mark.parametrize(("servers", "rails"), [(10, 1), (100, 1), (300, 2)])
def test_discovery_gives_the_planned_topology(servers: int, rails: int, tmp_path: Path) -> None:
    """Leaves, blocks and rails from the cables alone are those of the design's own site file."""
    tree = design(servers, 16, rails=rails, fabric="ib0")
    for name, text in site_files(tree, "planned", "ib0").items():
        (tmp_path / name).write_text(text)
    planned = Topology.of(load_site(tmp_path / "site.yaml"), "ib0")
    seen = from_observed("ib0", observed(tree))
    assert seen.leaves == planned.leaves
    assert [set(x) for x in seen.blocks.values()] == [set(x) for x in planned.blocks.values()]
    assert {n: s.rails for n, s in seen.locations.items()} == {
        n: s.rails for n, s in planned.locations.items()
    }


def ufm_link(source: str, destination: str) -> dict[str, str]:
    return {"source_port_node_description": source, "destination_port_node_description": destination}


def test_ufm_links_give_the_topology() -> None:
    """Hosts are `name adapter`, switches `name:port`; either end may be the host."""
    rows = [
        ufm_link("gpu1 mlx5_0", "leaf1:1"),
        ufm_link("leaf1:1/3/1", "gpu2 mlx5_0"),
        ufm_link("leaf2:1", "gpu3 HCA-1"),
        ufm_link("leaf1:30", "spine1:1"),
        ufm_link("leaf2:30", "spine1:2"),
    ]
    for answer in (rows, {"data": rows}):
        topology = from_ufm("ib0", answer)
        assert topology.leaves == {"leaf1": ("gpu1", "gpu2"), "leaf2": ("gpu3",)}
        assert list(topology.blocks) == ["-"]


@pytest.mark.parametrize("answer", [None, "x", {"x": 1}, [{}], [{"source_port_node_description": 5}], [[]]])
def test_invalid_ufm_answer_is_an_input_error(answer: object) -> None:
    """For anything that JSON can contain."""
    with pytest.raises(InputError, match="links"):
        from_ufm("ib0", answer)


def test_lingjun_topology_is_read() -> None:
    """847 hosts in three blocks; leaves are numbered within their block."""
    topology = read_topology(BENCH_DATA / "lingjun" / "topo.csv", "ip,ASW,PSW")
    assert len(topology.locations) == 847
    assert sorted(topology.blocks) == ["P10", "P12", "P8"]
    assert max(map(len, topology.leaves.values())) == 8


def test_duplicate_host_in_table_is_refused_with_its_line() -> None:
    rows = [{"ip": "a", "leaf": "1"}, {"ip": "a", "leaf": "2"}]
    with pytest.raises(InputError, match=r"csv:3: ip: 'a' is not allowed: each host once"):
        from_table("x", rows, "ip", ("leaf",), ["csv:2", "csv:3"])


def test_itp_traces_are_read() -> None:
    """Times count from the first order."""
    orders = read_orders(BENCH_DATA / "itp" / "cluster01.csv", NodeNeeds())
    assert len(orders) == 1595
    assert min(o.submitted for o in orders) == 0
    assert {o.ask.count for o in orders} == {1, 2, 4, 8, 16, 32, 64}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "its first line must name the columns"),
        ("pod,submitted,duration,count\n", "a header line and at least one order"),
        ("a,b\n1,2\n", "a column pod or job_id or name"),
        ("pod,submitted,duration,count\nx,0,1h,0\n", "orders.csv:2: count: '0' is not allowed"),
        ("pod,submitted,duration,count\nx,0,soon,1\n", "orders.csv:2: duration: 'soon' is not allowed"),
        (
            "pod,submitted,duration,count\nx,0,0,1\n",
            "orders.csv:2: duration: '0' is not allowed: more than 0",
        ),
        ("pod,submitted,duration,count\nx,0,1,1\nx,0,1,1\n", "orders.csv:3: pod: 'x' is not allowed"),
        (
            "pod,submitted,duration,count,required\nx,0,1,1,rack\n",
            "required: 'rack' is not allowed: one of node",
        ),
        (
            "pod,submitted,duration,count,required,preferred\nx,0,1,1,leaf,block\n",
            r"preferred: 'block' is not allowed: not wider than required \(leaf\)",
        ),
        (
            "pod,submitted,duration,count,slice\nx,0,1,3,2\n",
            r"count: 3 is not allowed: a multiple of the slice \(2\)",
        ),
    ],
)
def test_invalid_trace_orders_are_refused_with_their_line(tmp_path: Path, text: str, sentence: str) -> None:
    """Sizes of 0, unknown or contradicting levels, repeated names."""
    path = tmp_path / "orders.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_orders(path, NodeNeeds())


def test_durations_are_parsed_with_units() -> None:
    """Seconds without a unit."""
    assert [seconds(t) for t in ("90", "90s", "15m", "6h", "2d", "1.5h")] == [
        90,
        90,
        900,
        21_600,
        172_800,
        5400,
    ]


def test_capacity_has_largest_orders_and_later_ones() -> None:
    """Placement refuses one more than the largest; after the lease ends more fit."""
    site = build_site([[4, 4], [4]], accelerators=8)
    busy = dict.fromkeys(("gpu1", "gpu2", "gpu5"), "run0")
    found = capacity(site, Occupancy(), Book.of(Occupancy(busy=busy), {"run0": 100.0}), "ib0", now=10.0)
    assert [r.accelerators for r in found.rows] == [None, AcceleratorCount(type="h100", count=8)]
    row = found.rows[0]
    assert (row.nodes, row.free) == (12, 9)
    assert [(x.level, x.count, x.where) for x in row.largest] == [
        ("leaf", 4, "l1-0"), ("block", 5, "p0"), ("site", 9, "site")
    ]  # fmt: skip
    assert [(s.level, s.count, s.at) for s in row.soon] == [("block", 8, 100.0), ("site", 12, 100.0)]


def test_full_site_without_ends_has_no_capacity() -> None:
    """Without a division by zero or a booking."""
    site = build_site([[1]])
    row = capacity(site, Occupancy(), Book.of(Occupancy(busy={"gpu1": "run0"})), "ib0").rows[0]
    assert [x.count for x in row.largest] == [0, 0, 0]
    assert row.soon == ()


def test_table_may_have_halls_and_buildings() -> None:
    """Columns above the block are its hall and building; a fifth level is refused."""
    rows = [
        {"host": f"h{i}", "leaf": f"l{i % 2}", "block": f"p{i // 2}", "hall": f"g{i // 4}", "building": "b0"}
        for i in range(8)
    ]
    lines = [f"csv:{i + 2}" for i in range(8)]
    found = from_table("ib0", rows, "host", ("leaf", "block", "hall", "building"), lines)
    assert found.levels == ("node", "leaf", "block", "hall", "site")
    assert found.level_of(["h0", "h2"]) == "hall"
    assert found.level_of(["h0", "h4"]) == "site"
    with pytest.raises(InputError, match="at most host, leaf, block, hall and building"):
        from_table("ib0", rows, "host", ("leaf", "block", "hall", "building", "campus"), lines)


def test_halls_and_buildings_are_derived_from_cables() -> None:
    """Blocks joined by cores are a hall, and halls joined above them a building."""
    up = [((f"h{i}", "a"), f"l{i}") for i in range(8)]
    between = [(f"l{i}", f"s{i // 2}") for i in range(8)]
    between += [(f"s{i}", f"c{i // 2}") for i in range(4)]
    halls = from_cables("ib0", up, between)
    assert halls.levels == ("node", "leaf", "block", "hall", "site")
    joined = from_cables("ib0", up, [*between, ("c0", "top"), ("c1", "top")])
    assert joined.levels == ("node", "leaf", "block", "hall", "site")
    assert joined.level_of(["h0", "h3"]) == "hall"
    one = from_cables("ib0", up, [*between, ("s1", "c1")])
    assert one.levels == ("node", "leaf", "block", "site")


def test_capacity_has_the_largest_order_within_a_hall() -> None:
    """A site with halls reports the largest order inside one."""
    site = build_site([[4], [4], [2]])
    halls = {"l0-0": "h0", "l1-0": "h0", "l2-0": "h1"}
    switches = tuple(s.model_copy(update={"hall": halls[s.name]}) for s in site.switches)
    site = site.model_copy(update={"switches": switches})
    row = capacity(site, Occupancy(), Book.of(Occupancy()), "ib0").rows[0]
    assert [(x.level, x.count, x.where) for x in row.largest] == [
        ("leaf", 4, "l0-0"),
        ("block", 4, "p0"),
        ("hall", 8, "h0"),
        ("site", 10, "site"),
    ]


def test_block_in_two_halls_is_refused() -> None:
    """The error names the leaf's field and the others' hall; `weft site check` shows it."""
    site = build_site([[1, 1], [1]])
    halls = {"l0-0": "h0", "l0-1": "h1", "l1-0": "h0"}
    switches = tuple(
        s.model_copy(update={"hall": halls[s.name], "building": "b1" if s.name == "l1-0" else "b0"})
        for s in site.switches
    )
    found = check_site(site.model_copy(update={"switches": switches}))
    assert [p for p in found if p[0][-1] in ("hall", "building")] == [
        (("switches", 1, "hall"), "h1", "h0, like other leaves of block p0"),
        (("switches", 2, "building"), "b1", "b0, like other leaves of hall h0"),
    ]


def test_rates_of_cables_survive_a_table() -> None:
    """A cable's own rate is kept in the canonical site and in the CSV; without such rates there is no column."""
    site = build_site([[1]])
    link = site.links[0].model_copy(update={"rate_gbps": 400})
    assert canonical(site.model_copy(update={"links": (link,)})).links[0].rate_gbps == 400
    assert links_csv([link]).splitlines()[1].endswith(",400")
    assert links_csv(site.links).splitlines()[0] == "a,a_port,b,b_port"
