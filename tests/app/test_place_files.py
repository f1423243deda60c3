"""Files for `weft place`: recognized by their contents, read, and simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.app.placefiles import read_orders, read_topology
from weft.cli.main import main
from weft.model.errors import InputError
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.place.state import NodeNeeds, Traits
from weft.planning.queue.simulate import TraceOrder, simulate
from weft.planning.queue.trace import nearest

TABLE = "ip,PSW,ASW\nh1,p1,s1\nh2,p1,s1\nh3,p1,s2\n"
DISCOVERED = """\
vendid=0x2c9
switchguid=0x10(10)
Switch\t8 "S-0000000000000010"\t\t# "s1" enhanced port 0 lid 3 lmc 0
[1]\t"H-0000000000000101"[1](101) \t\t# "h1 mlx5_0" lid 7 4xHDR
[2]\t"H-0000000000000102"[1](102) \t\t# "h2 mlx5_0" lid 7 4xHDR
[8]\t"S-0000000000000030"[1]\t\t# "top" lid 12 4xHDR

switchguid=0x20(20)
Switch\t8 "S-0000000000000020"\t\t# "s2" enhanced port 0 lid 3 lmc 0
[1]\t"H-0000000000000103"[1](103) \t\t# "h3 mlx5_0" lid 7 4xHDR
[8]\t"S-0000000000000030"[2]\t\t# "top" lid 12 4xHDR

switchguid=0x30(30)
Switch\t8 "S-0000000000000030"\t\t# "top" enhanced port 0 lid 3 lmc 0
[1]\t"S-0000000000000010"[8]\t\t# "s1" lid 12 4xHDR
[2]\t"S-0000000000000020"[8]\t\t# "s2" lid 12 4xHDR

caguid=0x101
Ca\t1 "H-0000000000000101"\t\t# "h1 mlx5_0"
[1](101) \t"S-0000000000000010"[1]\t\t# lid 7 lmc 0 "s1" lid 3 4xHDR

caguid=0x102
Ca\t1 "H-0000000000000102"\t\t# "h2 mlx5_0"
[1](102) \t"S-0000000000000010"[2]\t\t# lid 7 lmc 0 "s1" lid 3 4xHDR

caguid=0x103
Ca\t1 "H-0000000000000103"\t\t# "h3 mlx5_0"
[1](103) \t"S-0000000000000020"[1]\t\t# lid 7 lmc 0 "s2" lid 3 4xHDR
"""
LINKS = json.dumps([
    {"source_port_node_description": a, "destination_port_node_description": b}
    for a, b in (
        ("h1 mlx5_0", "s1:1"), ("s1:2", "h2 mlx5_0"), ("h3 mlx5_0", "s2:1"), ("s1:8", "top:1"), ("top:2", "s2:8")
    )
])  # fmt: skip
ORDERS = "pod,submitted,duration,count\na,0,1h,2\nb,10,1h,1\n"


@pytest.mark.parametrize("text", [TABLE, DISCOVERED, LINKS, "\ufeff" + TABLE, "\n" + LINKS])
def test_topology_format_is_recognized_by_contents(tmp_path: Path, text: str) -> None:
    """A table, ibnetdiscover's output and UFM's links give the same leaves and hosts, and a trace runs on each."""
    path = tmp_path / "fabric"
    path.write_text(text)
    found = read_topology(path)
    assert sorted(found.leaves.values()) == [("h1", "h2"), ("h3",)]
    (tmp_path / "orders.csv").write_text(ORDERS)
    assert main(["place", "--topology", str(path), "--orders", str(tmp_path / "orders.csv")]) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("what is this\n", "a table of hosts .* the output of ibnetdiscover, or what UFM answers"),
        ("name: x\nfabrics:\n  ib: {}\n", "no site file: that is given with --site"),
        ("[1,", "fabric:1: --topology: .* JSON that can be read"),
        ("[" * 100_000, "JSON that can be read"),
        ("{}", "a list of links"),
        ("[]", "at least one from a host to a switch"),
        (DISCOVERED + "?\n", "fabric:29: ibnetdiscover"),
        (DISCOVERED.split("caguid=0x103")[0], "a cable leads to 0000000000000103, which is not described"),
        ("ip,ASW,PSW\nh1,s1\n", "fabric:2: csv: .* 3 cells"),
        ("ip,ASW,PSW\nh1,,p1\n", "fabric:2: ASW: '' is not allowed: a name"),
        ("ip,ASW,PSW\n\nh1,a,b\nh1,a,b\n", "fabric:4: ip: 'h1' is not allowed: each host once"),
    ],
)
def test_invalid_topology_gives_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """Truncated, empty, or something else."""
    path = tmp_path / "fabric"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_topology(path)


@pytest.mark.parametrize(
    ("text", "columns", "sentence"),
    [
        (TABLE, "ip", "a host and at least one switch"),
        (TABLE, "ip,ASW,ip", "each once"),
        (TABLE, "ip,rack", "columns of .*: ip, PSW, ASW"),
        (LINKS, "ip,ASW", "only with a table"),
        (
            "h,a,b,c\nx,1,1,1\ny,1,1,2\n",
            "h,a,b,c",
            "fabric: hall: '2' is not allowed: one hall for each block",
        ),
    ],
)
def test_invalid_columns_give_one_sentence(tmp_path: Path, text: str, columns: str, sentence: str) -> None:
    """Columns must be the table's, each once, and are allowed for a table only."""
    path = tmp_path / "fabric"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_topology(path, columns)


def cables(*ends: tuple[str, str]) -> str:
    """Links as UFM's API lists them."""
    names = ("source_port_node_description", "destination_port_node_description")
    return json.dumps([dict(zip(names, pair, strict=True)) for pair in ends])


STORED = cables(
    *((f"h{n} mlx5_0", f"c{1 + n // 3}:{n}") for n in range(6)),
    *((f"h{n} mlx5_1", f"s1:{n}") for n in range(6)),
    *((f"h{n} mlx5_2", f"s2:{n}") for n in range(6)),
    *((f"{leaf}:60", f"core:{n}") for n, leaf in enumerate(("c1", "c2", "s1", "s2"))),
)
"""Three hosts on each of two leaves, all with adapters on two storage leaves too."""


@pytest.mark.parametrize(
    "names", ["mlx5_1,mlx5_2", "mlx5_[12]", ",".join(f"h{n}/mlx5_[12]" for n in range(6))]
)
def test_adapters_that_are_not_locating_join_no_leaves(
    tmp_path: Path, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option the storage leaves join both compute leaves into one, and an order for a leaf of four
    starts."""
    path, orders = tmp_path / "fabric", tmp_path / "orders.csv"
    path.write_text(STORED)
    orders.write_text("pod,submitted,duration,count,required\na,0,1h,2,leaf\nb,0,1h,4,leaf\n")
    assert len(read_topology(path).leaves) == 1
    found = read_topology(path, not_locating=names.split(","))
    assert sorted(found.leaves.values()) == [("h0", "h1", "h2"), ("h3", "h4", "h5")]
    words = ["place", "--topology", str(path), "--orders", str(orders)]
    refused = "refused because they could never start: b"
    assert main(words) == 0 and refused not in capsys.readouterr().out
    assert main([*words, "--not-locating", names]) == 0 and refused in capsys.readouterr().out


def test_hosts_with_only_non_locating_adapters_keep_their_leaves(tmp_path: Path) -> None:
    """As in a site: if no adapter is left, all count."""
    path = tmp_path / "fabric"
    path.write_text(STORED)
    assert len(read_topology(path, not_locating=["mlx5_*"]).leaves) == 1


@pytest.mark.parametrize(
    ("text", "names", "sentence"),
    [
        (
            STORED,
            "mlx5_9",
            "--not-locating: 'mlx5_9' is not allowed: names of adapters.*mlx5_0, mlx5_1, mlx5_2",
        ),
        (STORED, "mlx5_1,", "--not-locating: '' is not allowed"),
        (STORED, "h9/mlx5_1", "--not-locating: 'h9/mlx5_1'"),
        (TABLE, "mlx5_1", "only with cables"),
    ],
)
def test_invalid_adapters_give_one_sentence(tmp_path: Path, text: str, names: str, sentence: str) -> None:
    """A typing error would leave the adapters as they are."""
    path = tmp_path / "fabric"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_topology(path, not_locating=names.split(","))


HEAD = "pod,submitted,duration,count"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"{HEAD}\na,0,1h,²\n", "orders.csv:2: count: '²' is not allowed"),
        (f"{HEAD}\na,0,1h,{'9' * 5000}\n", "count: .* a whole number"),
        (f"{HEAD}\na,0,{'9' * 400},1\n", "duration: .* is not allowed"),
        (f"{HEAD}\na,-1,1h,1\n", "submitted: '-1' is not allowed: a number, 0 or more"),
        (f"{HEAD}\na,NaN,1h,1\n", "submitted: 'NaN' is not allowed"),
        (f"{HEAD}\n{'a' * 200_000},0,1h,1\n", "orders.csv:2: csv: .* field larger"),
        (f"{HEAD}\n\na,0,1h\n", "orders.csv:3: csv: 'a,0,1h' is not allowed: 4 cells"),
        (
            f"{HEAD},count\na,0,1h,1,1\n",
            "orders.csv:1: csv: 'count' is not allowed: the column appears twice",
        ),
        (
            f"{HEAD},required\na,0,1h,1,hall\n",
            "orders.csv:2: required: 'hall' is not allowed: one of node, leaf",
        ),
        (f"{HEAD},spare\na,0,1h,1,-1\n", "spare: '-1' is not allowed: a whole number, 0 or more"),
        (f"{HEAD},slice,spare\na,0,1h,2,2,1\n", r"spare: 1 is not allowed: a multiple of the slice \(2\)"),
        (f"{HEAD},bisection_gbps\na,0,1h,1,fast\n", "bisection_gbps: 'fast' is not allowed: a whole number"),
        (f"{HEAD},accelerators\na,0,1h,1,b200:8\n", "accelerators: 'b200:8' is not allowed: .* h100"),
        (f"{HEAD},accelerators\na,0,1h,1,h100\n", "accelerators: 'h100' is not allowed"),
        (f"{HEAD},accelerators\na,0,1h,1,h100:x\n", "accelerators: 'x' is not allowed"),
    ],
)
def test_invalid_orders_give_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """Mistakes of a spreadsheet, a script, or a person."""
    path = tmp_path / "orders.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_orders(path, NodeNeeds(), levels=("node", "leaf", "block", "site"), types=["h100"])


def test_order_columns_are_all_read(tmp_path: Path) -> None:
    """An empty field counts as missing; an unknown column is reported."""
    path = tmp_path / "orders.csv"
    path.write_text(
        f"{HEAD},slice,spare,accelerators,required,user,\na,5,1m,4,2,2,h100:8,block,x,\nb,6,1m,4,,,,,,\n"
    )
    unused: list[str] = []
    one, two = read_orders(path, NodeNeeds("c1"), types=["h100"], unused=unused)
    assert one.ask == Ask("a", 4, kind=NodeNeeds("c1", 1, "h100", 8), required="block", slice=2, spare=2)
    assert two == TraceOrder(Ask("b", 4, kind=NodeNeeds("c1")), 1, 60)
    assert unused == ["user"]


def test_uplink_rates_are_read_from_a_discovery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One cable of 4xHDR for each leaf; where a cable's rate is unknown, no bandwidth is guaranteed."""
    path, orders = tmp_path / "fabric", tmp_path / "orders.csv"
    path.write_text(DISCOVERED)
    assert read_topology(path).uplinks == {"s1": 200, "s2": 200}
    orders.write_text(f"{HEAD},bisection_gbps\nfits,0,1m,3,200\nnever,0,1m,3,201\n")
    words = ["place", "--topology", str(path), "--orders", str(orders), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)[0]["turned_away"] == ["never"]
    assert main([*words, "--compare", "first-fit,weft"]) == 2
    assert "other rules guarantee nothing" in capsys.readouterr().err
    path.write_text(
        DISCOVERED.replace('"top" lid 12 4xHDR', '"top" lid 12').replace('"s1" lid 12 4xHDR', '"s1"')
    )
    assert read_topology(path).uplinks == {}
    path.write_text(TABLE)
    assert main(words) == 2
    assert "bisection_gbps: 201 is not allowed: 0 or omitted" in capsys.readouterr().err


def site_of(sizes: list[list[list[int]]]) -> Topology:
    """A topology from the number of nodes of each leaf, by block and hall."""
    return Topology.from_locations(
        "ib0",
        (
            NodeLocation(f"n{h}-{p}-{x}-{i}", f"l{h}-{p}-{x}", f"p{h}-{p}", None, ("leaf",), f"h{h}")
            for h, pods in enumerate(sizes)
            for p, leaves in enumerate(pods)
            for x, size in enumerate(leaves)
            for i in range(size)
        ),
    )


def test_nearest_level_is_what_the_empty_site_allows() -> None:
    """Halls, slices and needs of nodes are taken into account."""
    engine = Engine(site_of([[[4, 4], [4]], [[4]]]))
    found = [nearest(engine, Ask("a", n)) for n in (4, 8, 12, 16, 99)]
    assert found == ["leaf", "block", "hall", "site", "site"]
    assert nearest(engine, Ask("a", 6, slice=3)) == "block"
    traits = {
        n: Traits(accelerators=(("h100", 8),) if n.endswith("-0") else ())
        for n in engine.ledger.topology.locations
    }
    kinds = Engine(engine.ledger.topology, traits)
    assert nearest(kinds, Ask("a", 2, kind=NodeNeeds(accelerator="h100", accelerators=8))) == "block"


def test_level_named_by_an_order_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--required nearest` applies to orders that name none."""
    (tmp_path / "T").write_text(TABLE)
    (tmp_path / "O").write_text(f"{HEAD},required\na,0,1h,3,leaf\nb,1,1h,3,\n")
    words = [
        "place",
        "--topology",
        str(tmp_path / "T"),
        "--orders",
        str(tmp_path / "O"),
        "--required",
        "nearest",
    ]
    assert main([*words, "--json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert (outcome["refused"], outcome["turned_away"]) == (1, ["a"])
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "weft: refused because they could never start: a"


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_keeps_an_order_inside_its_hall(policy: str) -> None:
    """Policies that know only leaves and blocks are asked for one hall after the other."""
    engine = Engine(site_of([[[4, 4], [4]], [[4], [2]]]), policy=POLICIES[policy])
    engine.ledger.hold("x", ["n0-0-0-0", "n0-0-0-1"])
    for count, hall in ((10, "h0"), (5, None), (6, None)):
        found = engine.decide(Ask("a", count, required="hall"))
        assert found is not None
        halls = {engine.ledger.topology.locations[n].hall for n in found.nodes}
        assert len(halls) == 1
        assert hall is None or halls == {hall}
    assert engine.decide(Ask("a", 11, required="hall")) is None


def test_slices_larger_than_any_leaf_are_refused_without_blocking() -> None:
    """With slices of three, three leaves of four have room for nine nodes, not twelve."""
    orders = [TraceOrder(Ask("big", 12, slice=3), 0, 10), TraceOrder(Ask("small", 9, slice=3), 1, 10)]
    outcome = simulate(site_of([[[4, 4, 4]]]), orders)
    assert outcome.turned_away == ("big",)
    assert len(outcome.waits) == 1
    assert outcome.leaves == 1


def test_simultaneous_orders_are_measured_to_their_end() -> None:
    """Four nodes for 10 s, then two for 10 s: 60 of 80 node-seconds."""
    orders = [TraceOrder(Ask("a", 4), 0, 10), TraceOrder(Ask("b", 2), 0, 10)]
    outcome = simulate(site_of([[[4]]]), orders)
    assert (outcome.utilisation, outcome.makespan, outcome.wait_mean) == (0.75, 20, 5)
    assert simulate(site_of([[[4]]]), []).utilisation == 0
