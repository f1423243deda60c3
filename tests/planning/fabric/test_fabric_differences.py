"""The site against the real ibnetdiscover on a fabric that is cabled differently, and adopting the fabric's cables."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import SMALL
from tests.helpers.sitefolder import Folder
from tests.planning.fabric.simulatedfabric import discover
from weft.app.placefiles import read_topology
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.observedfabric import ObservedFabric
from weft.model.site import Link, Site
from weft.planning.fabric.diff import adopt_links, fabric_differences
from weft.planning.fabric.ibnetdiscover import parse_ibnetdiscover
from weft.planning.fabric.topology import Topology

pytestmark = pytest.mark.fabric

SITE = load_site(SMALL / "site.yaml")


def without(site: Site, *ends: str) -> Site:
    """The site without the cables at these ends."""
    links = tuple(k for k in site.links if k.a not in ends and k.b not in ends)
    return site.model_copy(update={"links": links})


def cabled(site: Site, *cables: str) -> Site:
    """The site with further cables, each a line of links.csv."""
    more = [dict(zip(("a", "a_port", "b", "b_port"), c.split(","), strict=True)) for c in cables]
    return site.model_copy(update={"links": (*site.links, *(Link.model_validate(m) for m in more))})


def changed(site: Site, node: str, **update: Any) -> Site:
    """The site with one node changed."""
    nodes = tuple(n.model_copy(update=update) if n.name == node else n for n in site.nodes)
    return site.model_copy(update={"nodes": nodes})


def seen(real: Site, folder: Path) -> ObservedFabric:
    return parse_ibnetdiscover(discover(real, folder)).fabric


def sentences(observed: ObservedFabric) -> list[str]:
    return [f"{d.kind}: {d.what}" for d in fabric_differences(SITE, "ib", observed)]


def differences(real: Site, folder: Path) -> list[str]:
    return sentences(seen(real, folder))


def test_matching_fabric_has_no_differences(tmp_path: Path) -> None:
    """All 24 nodes and 130 cables match, and adopting them changes nothing."""
    observed = seen(SITE, tmp_path)
    assert fabric_differences(SITE, "ib", observed) == ()
    assert adopt_links(SITE, "ib", observed) == SITE.links


def test_missing_cable_is_reported(tmp_path: Path) -> None:
    """One of eight uplinks was pulled out."""
    links = tuple(k for k in SITE.links if not (k.a == "leaf04" and k.a_port == 25))
    assert differences(SITE.model_copy(update={"links": links}), tmp_path) == [
        "missing cable: the cable from leaf04 port 25 to spine01 port 25 is missing"
    ]


def test_moved_cable_is_reported(tmp_path: Path) -> None:
    """A host's cable on another leaf is one moved cable, not a missing and an unknown one."""
    real = cabled(without(SITE, "gpu02/mlx5_0"), "gpu02/mlx5_0,1,leaf02,18")
    observed = seen(real, tmp_path)
    assert sentences(observed) == [
        "moved cable: the cable of gpu02/mlx5_0 port 1 goes to leaf02 port 18, expected leaf01 port 5"
    ]
    taken = adopt_links(SITE, "ib", observed)
    assert Link(a="gpu02/mlx5_0", a_port=1, b="leaf02", b_port=18) in taken
    assert fabric_differences(SITE.model_copy(update={"links": taken}), "ib", observed) == ()


def test_two_swapped_cables_are_two_moves(tmp_path: Path) -> None:
    """Each host's end is named with its actual and its expected port."""
    real = cabled(
        without(SITE, "gpu02/mlx5_0", "gpu05/mlx5_0"), "gpu02/mlx5_0,1,leaf02,1", "gpu05/mlx5_0,1,leaf01,5"
    )
    assert differences(real, tmp_path) == [
        "moved cable: the cable of gpu02/mlx5_0 port 1 goes to leaf02 port 1, expected leaf01 port 5",
        "moved cable: the cable of gpu05/mlx5_0 port 1 goes to leaf01 port 5, expected leaf02 port 1",
    ]


def test_unknown_cable_is_reported(tmp_path: Path) -> None:
    """An uplink that the site doesn't describe."""
    assert differences(cabled(SITE, "leaf01,24,spine02,40"), tmp_path) == [
        "unknown cable: a cable from leaf01 port 24 to spine02 port 40 is not in the site"
    ]


def test_missing_node_is_reported_once(tmp_path: Path) -> None:
    """Each adapter of a host that is off is reported once, and its cable isn't; adopting keeps its links."""
    ends = tuple(f"gpu16/mlx5_{i}" for i in range(4))
    real = without(SITE, *ends)
    observed = seen(real, tmp_path)
    assert sentences(observed) == [
        f"missing node: gpu16/mlx5_{i} (0xb8599f03000010{i}0) was not discovered, with 1 described cables"
        for i in range(4)
    ]
    assert adopt_links(SITE, "ib", observed) == SITE.links


def test_port_of_missing_node_may_have_another_cable(tmp_path: Path) -> None:
    """If another host is on the switch port of a host that is off, its cable replaces the missing host's in adopted
    links.
    """
    real = cabled(without(SITE, "gpu16/mlx5_0", "gpu15/mlx5_0"), "gpu15/mlx5_0,1,leaf04,13")
    taken = adopt_links(SITE, "ib", seen(real, tmp_path))
    on_port = [k.a for k in taken if (k.b, k.b_port) == ("leaf04", 13)]
    assert on_port == ["gpu15/mlx5_0"]


def test_unknown_node_is_reported_and_not_adopted(tmp_path: Path) -> None:
    """An undescribed host is reported with its switch port, and isn't adopted."""
    gpu01 = SITE.node_by_name["gpu01"]
    hca = gpu01.hcas[0].model_copy(update={"guid": 0xABC0, "port_guid": 0xABC1})
    rogue = gpu01.model_copy(update={"name": "rogue", "hcas": (hca,)})
    real = cabled(SITE.model_copy(update={"nodes": (*SITE.nodes, rogue)}), "rogue/mlx5_0,1,leaf03,20")
    observed = seen(real, tmp_path)
    assert sentences(observed) == [
        "unknown node: ca 0x000000000000abc0 ('rogue mlx5_0') is not in the site; it is cabled to leaf03 port 20"
    ]
    assert adopt_links(SITE, "ib", observed) == SITE.links


def test_replaced_adapter_is_recognised(tmp_path: Path) -> None:
    """Another GUID at the same port is reported as missing and unknown, and may be a replacement."""
    node = SITE.node_by_name["gpu03"]
    new = node.hcas[0].model_copy(update={"guid": 0xDEF0, "port_guid": 0xDEF1})
    found = differences(changed(SITE, "gpu03", hcas=(new, *node.hcas[1:])), tmp_path)
    assert found == [
        "missing node: gpu03/mlx5_0 (0xb8599f0300000300) was not discovered, with 1 described cables",
        "unknown node: ca 0x000000000000def0 ('gpu03 mlx5_0') is not in the site; it is cabled to leaf01 port 9, "
        "where gpu03/mlx5_0 should be: was it replaced?",
    ]


def test_wrong_node_descriptions_are_reported(tmp_path: Path) -> None:
    """A host and a switch with other descriptions are matched by GUID."""
    real = changed(SITE, "gpu03", name="gpu033")
    links = []
    for k in real.links:
        link = k.model_dump()
        for side in ("a", "b"):
            link[side] = link[side].replace("gpu03/", "gpu033/")
            link[side] = "leaf-four" if link[side] == "leaf04" else link[side]
        links.append(Link.model_validate(link))
    switches = tuple(
        s.model_copy(update={"name": "leaf-four"}) if s.name == "leaf04" else s for s in real.switches
    )
    found = differences(real.model_copy(update={"links": tuple(links), "switches": switches}), tmp_path)
    assert found == [
        f"wrong name: gpu03/mlx5_{i} (0xb8599f03000003{i}0) has the description 'gpu033 mlx5_{i}', "
        f"expected 'gpu03 mlx5_{i}'"
        for i in range(4)
    ] + ["wrong name: leaf04 (0xb8599f0300100004) has the description 'leaf-four', expected 'leaf04'"]


def test_switches_without_guids_are_matched_by_name(tmp_path: Path) -> None:
    """By their node descriptions."""
    switches = tuple(s.model_copy(update={"guid": None}) for s in SITE.switches)
    nameless = SITE.model_copy(update={"switches": switches})
    observed = seen(SITE, tmp_path)
    assert fabric_differences(nameless, "ib", observed) == ()
    assert adopt_links(nameless.model_copy(update={"links": ()}), "ib", observed) == SITE.links


def test_links_of_other_fabrics_are_kept(tmp_path: Path) -> None:
    """Adopting one fabric's cables doesn't change those of another."""
    hca = SITE.node_by_name["gpu01"].hcas[0].model_copy(update={"name": "mlx5_9", "fabric": "ib2", "guid": 7})
    leaf = SITE.switches[0].model_copy(update={"name": "other01", "fabric": "ib2", "guid": 8})
    both = changed(SITE, "gpu01", hcas=(*SITE.node_by_name["gpu01"].hcas, hca))
    both = both.model_copy(update={"switches": (*SITE.switches, leaf)})
    link = Link(a="gpu01/mlx5_9", a_port=1, b="other01", b_port=1)
    both = both.model_copy(update={"links": (link,)})
    taken = adopt_links(both, "ib", seen(SITE, tmp_path))
    assert set(taken) == {*SITE.links, link}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_command_compares_and_adopts(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """`site check --fabric` exits with 1 and names the move; with the links that it wrote it exits with 0."""
    real = cabled(without(SITE, "gpu02/mlx5_0"), "gpu02/mlx5_0,1,leaf02,18")
    text = folder.path / "ibnetdiscover.txt"
    text.write_text(discover(real, folder.path / "sim"))
    check = ["site", "check", str(folder.site), "--fabric", str(text)]
    assert main(check) == 1
    out = capsys.readouterr().out
    assert (
        "fabric: 1 difference\n  moved cable: the cable of gpu02/mlx5_0 port 1 goes to leaf02 port 18" in out
    )
    assert main([*check, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [d["kind"] for d in document["differences"]] == ["moved cable"]
    assert main([*check, "--write-links", str(folder.path / "links.csv")]) == 1
    assert "130 links written" in capsys.readouterr().out
    assert main(check) == 0
    assert "fabric: no differences" in capsys.readouterr().out


def test_output_is_read_from_a_pipe(
    folder: Folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ibnetdiscover | weft site check … --fabric -`; errors in it name `<stdin>`."""
    check = ["site", "check", str(folder.site), "--fabric", "-"]
    discovered = discover(SITE, folder.path / "sim").encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(discovered)))
    assert main(check) == 0
    assert "fabric: no differences" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"what?\n")))
    assert main(check) == 2
    assert "<stdin>:1: ibnetdiscover: 'what?' is not allowed" in capsys.readouterr().err


def test_undescribed_links_are_adopted_from_the_fabric(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site without links, with `--write-links`: afterwards the site describes the cabling."""
    text = folder.path / "ibnetdiscover.txt"
    text.write_text(discover(SITE, folder.path / "sim"))
    links = folder.path / "links.csv"
    links.write_text("a,a_port,b,b_port\n")
    assert main(["site", "check", str(folder.site), "--fabric", str(text)]) == 2
    assert main(["site", "check", str(folder.site), "--fabric", str(text), "--write-links", str(links)]) == 1
    capsys.readouterr()
    assert load_site(folder.site) == SITE


def test_input_other_than_ibnetdiscover_output_is_refused(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong file, no file, a wrong fabric, options without --fabric: one sentence and exit code 2."""
    text = folder.path / "racks.csv"
    for arguments, sentence in (
        (["--fabric", str(text)], f"{text}:1: ibnetdiscover: 'name,row,power' is not allowed"),
        (["--fabric", f"{text}x"], "an existing file"),
        (
            ["--fabric", str(text), "--fabric-name", "roce"],
            "--fabric-name: 'roce' is not allowed: fabrics of site small: ib",
        ),
        (["--fabric-name", "ib"], "--fabric: missing: the output of ibnetdiscover to compare with"),
    ):
        assert main(["site", "check", str(folder.site), *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_simulation_agrees_on_discovered_fabric_and_site(tmp_path: Path) -> None:
    """`weft place --topology` reads the real output: the same nodes are near each other, on the same rails."""
    path = tmp_path / "ibnetdiscover.txt"
    path.write_text(discover(SITE, tmp_path / "sim"))
    found, described = read_topology(path), Topology.of(SITE, "ib")
    assert found.leaves == described.leaves
    assert {n: s.rails for n, s in found.locations.items()} == {
        n: s.rails for n, s in described.locations.items()
    }
