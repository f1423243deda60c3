"""The fat-tree planner: the reference designs, every port used once, the smallest design; its files and picture."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.generate.fattree import site_files
from weft.generate.fattreepicture import MOST, picture
from weft.model.errors import InputError
from weft.planning.fabric.topology import Topology
from weft.planning.site.fattree import FatTree, design


def test_design_matches_the_reference() -> None:
    """20 spines and 40 leaves for 800 servers on 40-port switches; one switch up to 40 servers."""
    tree = design(800, 40)
    assert (tree.levels, tree.spines, tree.leaves, tree.cores) == (2, 20, 40, 0)
    assert (tree.cables, tree.oversubscription, tree.capacity) == (1600, 1.0, 800)
    assert (design(40, 40).levels, design(40, 40).leaves) == (1, 1)
    assert design(41, 40).levels == 2


def test_largest_three_level_design_is_possible() -> None:
    """k³/4 servers: 40-port switches hold 16,000 in 40 blocks; one more is refused with the limit."""
    tree = design(16_000, 40)
    assert (tree.blocks, tree.leaves, tree.spines, tree.cores) == (40, 800, 800, 400)
    with pytest.raises(InputError, match="servers: 16001 is not allowed: at most 16000"):
        design(16_001, 40)


def test_design_uses_fewest_switches_except_for_larger_blocks() -> None:
    """Beyond two levels up to a tenth more switches are accepted for fewer blocks."""
    tree = design(1000, 40)
    assert (tree.blocks, tree.leaves, tree.spines, tree.cores) == (
        10,
        50,
        50,
        25,
    )  # 3 blocks would need 150, not 125
    tree = design(12_000, 128)
    assert (tree.blocks, tree.leaves, tree.spines, tree.cores) == (
        3,
        188,
        192,
        128,
    )  # 47 blocks would need 504, not 508
    assert design(1000, 40, 2).up == 13  # 26 down: 14 up would be more than 2:1 asks for
    assert design(300, 16, 2, rails=2).oversubscription == 2


def check_by_the_tables(files: dict[str, str], radix: int, ratio: float) -> None:
    """Check by the tables alone: ports used once and existing, one cable for each adapter, connected, no thinner
    above.
    """
    tables = {
        name: list(csv.DictReader(io.StringIO(text))) for name, text in files.items() if name[-3:] == "csv"
    }
    level = {row["name"]: ("leaf", "spine", "core").index(row["level"]) for row in tables["switches.csv"]}
    adapters = {f"{row['node']}/{row['name']}" for row in tables["hcas.csv"]}
    assert len(adapters) == len(tables["hcas.csv"])
    assert {row["node"] for row in tables["hcas.csv"]} == {row["name"] for row in tables["nodes.csv"]}
    ports: set[tuple[str, str]] = set()
    beside: dict[str, Counter[str]] = {name: Counter() for name in (*level, *adapters)}
    for row in tables["links.csv"]:
        for end in ("a", "b"):
            assert (row[end], row[f"{end}_port"]) not in ports
            ports.add((row[end], row[f"{end}_port"]))
            assert row[end] in adapters or 1 <= int(row[f"{end}_port"]) <= radix
        beside[row["a"]][row["b"]] += 1
        beside[row["b"]][row["a"]] += 1
    assert all(beside[end].total() == 1 for end in adapters)
    reached, todo = {"node1/mlx5_0"}, ["node1/mlx5_0"]
    while todo:
        more = set(beside[todo.pop()]) - reached
        reached |= more
        todo += more
    assert reached == beside.keys()
    for name, rank in level.items():
        above = {n: k for n, k in beside[name].items() if level.get(n, -1) > rank}
        below = beside[name].total() - sum(above.values())
        assert len(set(above.values())) <= 1, "evenly spread"
        if above:
            assert below <= sum(above.values()) * (ratio if rank == 0 else 1)


@pytest.mark.parametrize(
    "radix",
    [
        4,
        8,
        40,
        pytest.param(
            64,
            marks=pytest.mark.nightly(reason="2,049 servers; 40 ports take the same ways"),
        ),
    ],
)
@pytest.mark.parametrize("oversubscription", [1, 1.5, 3])
@pytest.mark.parametrize("rails", [1, 2, 8])
def test_every_design_can_be_wired(radix: int, oversubscription: float, rails: int) -> None:
    """All sizes from one server to three levels, checked by the tables that are written."""
    for servers in (1, radix, radix + 1, radix * 2, radix * radix // 2 + 1):
        try:
            tree = design(servers, radix, oversubscription, rails)
        except InputError as error:
            assert "at most" in str(error)
            continue
        files = site_files(tree, "planned", "ib0")
        check_by_the_tables(files, radix, oversubscription)
        assert tree.capacity >= servers
        assert tree.oversubscription <= oversubscription
        assert len(files["links.csv"].splitlines()) - 1 == tree.cables
        assert len(tree.switches) == tree.leaves + tree.spines + tree.cores


@pytest.mark.parametrize(
    ("servers", "radix", "rails"), [(10, 16, 1), (10, 16, 2), (64, 64, 8), (130, 16, 1), (3, 4, 2)]
)
def test_exported_design_is_a_valid_site(tmp_path: Path, servers: int, radix: int, rails: int) -> None:
    """It passes the checks of any site file; a group's rails are one leaf of the topology."""
    tree = design(servers, radix, rails=rails, fabric="ib0")
    for name, text in site_files(tree, "planned", "ib0").items():
        (tmp_path / name).write_text(text)
    site = load_site(tmp_path / "site.yaml")
    of_leaves = {s.rail for s in site.switches if s.level == "leaf"}
    assert of_leaves == (set(range(1, rails + 1)) if rails > 1 and tree.levels > 1 else {None})
    topology = Topology.of(site, "ib0")
    groups = tree.leaves // rails if tree.levels > 1 else 1
    assert (len(topology.locations), len(topology.leaves), len(topology.blocks)) == (
        servers,
        groups,
        tree.blocks,
    )
    assert {len(s.rails) for s in topology.locations.values()} == {rails}


def drawn(tree: FatTree) -> tuple[int, int, str]:
    """The boxes, the cabled pairs and all text of a picture."""
    root = ElementTree.fromstring(picture(tree))
    space = "{http://www.w3.org/2000/svg}"
    boxes = [x for x in root.iter(f"{space}rect") if x.find(f"{space}title") is not None]
    pairs = sum(x.attrib["d"].count("M") for x in root.iter(f"{space}path"))
    return len(boxes), pairs, " ".join(t for x in root.iter(f"{space}text") for t in x.itertext())


def test_picture_shows_every_switch_or_all_blocks_and_one_in_full() -> None:
    """One switch; 60 switches with 800 cables between them; 40 blocks and the first in full; of many blocks the
    first ones.
    """
    boxes, pairs, text = drawn(design(40, 40))
    assert (boxes, pairs) == (1, 0)
    assert "40 servers on 40-port switches: 1 switch" in text
    boxes, pairs, text = drawn(design(800, 40))
    assert (boxes, pairs) == (60, 800)
    assert all(name in text for name in ("spine20", "leaf40"))
    boxes, pairs, text = drawn(design(16_000, 40))
    assert (boxes, pairs) == (20 + 40 + 20 + 20, 20 * 40 + 20 * 20)
    assert "20 planes of 20 cores above 40 blocks: spine n of each has 20 cables to plane n" in text
    assert "the first block: 20 spines above 20 leaves, 1 cable for each line" in text
    many = design(10_000, 64)
    boxes, _, text = drawn(many)
    assert ("…" in text) == (many.blocks > MOST)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"servers": 0}, "servers: 0 is not allowed: 1 or more"),
        ({"servers": 10, "radix": 3}, r"radix: 3 is not allowed: an even number of ports, 4 to 254"),
        ({"servers": 10, "oversubscription": 0.5}, "oversubscription: 0.5 is not allowed"),
        ({"servers": 10, "oversubscription": float("nan")}, "oversubscription: nan is not allowed"),
        ({"servers": 10, "rails": 17}, "rails: 17 is not allowed: 1 to 16"),
        ({"servers": 10, "radix": 4, "rails": 3}, "rails: 3 is not allowed: at most 2"),
        ({"servers": 4_000_000, "radix": 254}, "at most 1000000 cables; these need 12"),
    ],
)
def test_impossible_design_is_an_input_error(fields: dict[str, int], sentence: str) -> None:
    """With field, value and what is allowed."""
    with pytest.raises(InputError, match=sentence):
        design(**fields)


@pytest.mark.parametrize("option", ["--name", "--fabric"])
@pytest.mark.parametrize("name", ["a b", "x: {", "", "../x", "a\nb", "x" * 64])
def test_invalid_site_names_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    """Before anything is written."""
    assert main(["site", "design", "--servers", "3", "--output", str(tmp_path / "x"), option, name]) == 2
    assert f"{option}: " in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_numeric_name_stays_text_in_yaml(tmp_path: Path) -> None:
    """Also a name that YAML would read as a boolean."""
    for name in ("123", "true", "null"):
        for file, text in site_files(design(3), name, "1e3").items():
            (tmp_path / file).write_text(text.replace(",ib0,", ",1e3,"))
        site = load_site(tmp_path / "site.yaml")
        assert (site.name, list(site.fabrics)) == (name, ["1e3"])
