"""Topology files for newer versions of Slurm, read by the slurmctld of newer Debian suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import slurm
from tests.helpers.smallsite import small_site
from tests.helpers.topologies import in_blocks, nodes_by_leaf, pod_topology, servers, with_nvlink
from weft.generate.topology.formats import written

pytestmark = pytest.mark.nightly(
    reason="a minute each for Debian's packages of other suites; by day the tree is read by Debian 12's slurmctld"
)
NODES = [node for nodes in nodes_by_leaf().values() for node in nodes]


def _names(first: int, last: int) -> set[str]:
    return {f"train-{i}" for i in range(first, last + 1)}


def test_topology_yaml_is_read_as_meant(tmp_path: Path) -> None:
    """Unknown keys and nodes would be ignored without an error, so the tree and the blocks are compared."""
    site = in_blocks(small_site(), {"leaf01": "a", "leaf02": "a", "leaf03": "b", "leaf04": "b"})
    site = with_nvlink(site, {node: f"rack{i // 4}" for i, node in enumerate(NODES[:8])})
    text = written(pod_topology(site, servers(NODES[:11])), "slurm-yaml")
    one = written(pod_topology(small_site(), servers(NODES[:2])), "slurm-yaml")
    with slurm.newer_root(tmp_path, slurm.READS_YAML) as root:
        tree, blocks = slurm.read_yaml(root, text, "train-[0-10]")
        assert slurm.read_yaml(root, one, "train-[0-1]")[0].nodes == {"leaf01": _names(0, 1)}
    assert tree.nodes == {"leaf01": _names(0, 3), "leaf02": _names(4, 7), "leaf03": _names(8, 10)}
    assert tree.switches == {"a": {"leaf01", "leaf02"}, "b": {"leaf03"}, "ib": {"a", "b"}}
    assert blocks == {"rack0": _names(0, 3), "rack1": _names(4, 7)}


def test_blocks_of_different_sizes_are_read_as_meant(tmp_path: Path) -> None:
    """Slurm 24.11 fails for a block below the base size, and for sizes that aren't powers of two of it."""
    domains = {node: f"rack{min(i // 3, 3)}" for i, node in enumerate(NODES[:11])}
    text = written(pod_topology(with_nvlink(small_site(), domains), servers(NODES[:11])), "slurm-block-conf")
    assert text.endswith("BlockSizes=2,4,8\n")
    with slurm.newer_root(tmp_path, slurm.READS_BLOCKS) as root:
        blocks = slurm.read_blocks(root, text, "train-[0-10]")
    assert {b: n for b, n in blocks.items() if b in domains.values()} == {
        "rack0": _names(0, 2),
        "rack1": _names(3, 5),
        "rack2": _names(6, 8),
        "rack3": _names(9, 10),
    }
