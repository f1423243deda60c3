"""NVLink domains and rails in a site: mistakes are reported at their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.sitefolder import Folder
from weft.app.sitefile import load_site
from weft.planning.fabric.topology import Topology
from weft.planning.site.check import hints


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The small site (four nodes on each of four leaves); the nodes of the first two leaves are in domains of four."""
    folder = Folder(tmp_path)
    rows = (folder.path / "nodes.csv").read_text().splitlines()
    domain = {f"gpu{n:02}": f"nvl{1 + (n - 1) // 4}" for n in range(1, 9)}
    text = [f"{rows[0]},nvlink_domain", *(f"{r},{domain.get(r.split(',')[0], '')}" for r in rows[1:])]
    (folder.path / "nodes.csv").write_text("\n".join(text) + "\n")
    return folder


def test_nvlink_domains_are_inside_leaves(folder: Folder) -> None:
    """Two nodes of a domain are nearer than two nodes of a leaf without one."""
    assert folder.errors() == []
    topology = Topology.of(load_site(folder.site), "ib")
    assert topology.levels[:3] == ("node", "nvlink_domain", "leaf")
    assert topology.level_of(["gpu01", "gpu04"]) == "nvlink_domain"
    assert topology.level_of(["gpu09", "gpu10"]) == "leaf"
    assert topology.level_of(["gpu01", "gpu05"]) == "site" if "block" not in topology.levels else "block"


def test_domain_that_spans_leaves_is_refused(folder: Folder) -> None:
    """A tray on another leaf or a wrong name is reported once, at the node."""
    folder.replace("nodes.csv", "gpu05,rack2,compute,nvl2", "gpu05,rack2,compute,nvl1")
    (error,) = folder.errors()
    assert error == (
        "nodes.csv:6: nodes[4].nvlink_domain: 'nvl1' is not allowed: nodes on one leaf: gpu05 is on leaf02, gpu01 of "
        "the domain on leaf01"
    )


def test_node_has_at_most_one_domain(folder: Folder) -> None:
    """A second row for a node is a second node with its name."""
    folder.append("nodes.csv", "gpu01,rack1,compute,nvl2")
    assert any("node gpu01 already has it" in error for error in folder.errors())
    folder.replace("nodes.csv", "gpu02,rack1,compute,nvl1", 'gpu02,rack1,compute,"nvl1 nvl2"')
    assert any("nodes[1].nvlink_domain" in error for error in folder.errors())


def test_only_compute_nodes_may_be_in_a_domain(folder: Folder) -> None:
    """A subnet manager's host may not."""
    folder.replace("nodes.csv", "sm1,rack5,subnet-manager,", "sm1,rack5,subnet-manager,nvl1")
    assert folder.errors() == [
        "nodes.csv:18: nodes[16].nvlink_domain: 'nvl1' is not allowed: only for compute nodes; sm1 is a "
        "subnet-manager node"
    ]


def test_nodes_of_a_domain_must_be_alike(folder: Folder) -> None:
    """The same type and number of accelerators."""
    text = (folder.path / "accelerators.csv").read_text().splitlines()
    less = [
        row
        for i, row in enumerate(text)
        if not (row.startswith("gpu02,") and text[i - 1].startswith("gpu02,"))
    ]
    (folder.path / "accelerators.csv").write_text("\n".join(less) + "\n")
    (error,) = [e for e in folder.errors() if "nvlink" in e]
    assert "nodes with the same accelerators: gpu01 of domain nvl1 has 8 x h100" in error


def test_single_node_domain_gives_a_hint(folder: Folder) -> None:
    """Its name is probably misspelt."""
    folder.replace("nodes.csv", "gpu08,rack2,compute,nvl2", "gpu08,rack2,compute,nvl-2")
    assert "NVLink domain nvl-2 has a single node" in hints(load_site(folder.site))


def railed(folder: Folder) -> None:
    """The first two leaves are rails 1 and 2 of gpu01 to gpu04, with two adapters each."""
    rows = (folder.path / "switches.csv").read_text().splitlines()
    rail = {"leaf01": "1", "leaf02": "2"}
    text = [f"{rows[0]},rail", *(f"{r},{rail.get(r.split(',')[0], '')}" for r in rows[1:])]
    (folder.path / "switches.csv").write_text("\n".join(text) + "\n")


def test_swapped_rails_are_found(folder: Folder) -> None:
    """A node has two adapters on leaves of one rail, since its second cable ends on the first rail's leaf."""
    railed(folder)
    found = [e for e in folder.errors() if "rail" in e]
    assert any(
        "'gpu01/mlx5_1' is not allowed: a cable to a leaf of a rail above 1, which mlx5_0 is on; leaf01 is of rail 1"
        in e
        for e in found
    )
    assert not any("gpu09" in e for e in found)


def test_only_leaves_have_a_rail(folder: Folder) -> None:
    """Rails meet at the spines."""
    railed(folder)
    folder.replace("switches.csv", "rack5,\nspine02", "rack5,3\nspine02")
    assert any(
        "'3' is not allowed: only for leaf switches; spine01 is a spine" in e
        or "3 is not allowed: only for leaf switches; spine01 is a spine" in e
        for e in folder.errors()
    )
