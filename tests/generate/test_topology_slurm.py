"""Slurm's topology files of pods; the tree is read by Debian's slurmctld."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import slurm
from tests.helpers.smallsite import small_site
from tests.helpers.topologies import in_blocks, nodes_by_leaf, pod_topology, servers, with_nvlink
from weft.generate.topology.formats import written
from weft.generate.topology.text import hostlist
from weft.model.errors import ConflictError
from weft.model.site import Link, Site
from weft.planning.fabric.podtopology import PodServer

NODES = [node for nodes in nodes_by_leaf().values() for node in nodes]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Installs Debian's slurmctld."""
    slurm.install()


def _rail_wired() -> Site:
    """Adapter i of each node of a group is on leaf i of the group; two groups with two leaves each."""
    site = small_site()
    groups = {node: ("leaf01", "leaf02") if i < 8 else ("leaf03", "leaf04") for i, node in enumerate(NODES)}
    links: list[Link] = []
    for link in site.links:
        host, _, hca = link.b.partition("/") if "/" in link.b else link.a.partition("/")
        if host not in groups:
            links.append(link)
            continue
        leaf = groups[host][int(hca[-1]) % 2]
        end = {"a": leaf} if "/" in link.b else {"b": leaf}
        links.append(link.model_copy(update=end))
    return site.model_copy(update={"links": tuple(links)})


def test_tree_is_read_by_slurm_as_meant(tmp_path: Path) -> None:
    """One root, each server under its leaf, also on drained nodes; one that isn't built is left out and named."""
    site = small_site()
    nodes = tuple(
        n.model_copy(update={"maintenance": "broken fan"}) if n.name == NODES[1] else n for n in site.nodes
    )
    site = in_blocks(site.model_copy(update={"nodes": nodes}), {"leaf01": "a", "leaf02": "a"})
    given = servers([*NODES[:6], *NODES[12:14]])
    given[7] = PodServer("train-7", 7, given[7].node, "", "its server is not built yet")
    text = written(pod_topology(site, given), "slurm-conf")
    tree = slurm.read_by_slurm(tmp_path, text, "train-[0-6]")
    assert tree.nodes == {
        "leaf01": {"train-0", "train-1", "train-2", "train-3"},
        "leaf02": {"train-4", "train-5"},
        "leaf04": {"train-6"},
    }
    assert tree.switches == {"a": {"leaf01", "leaf02"}, "no-block": {"leaf04"}, "ib": {"a", "no-block"}}
    assert "# left out: train-7: its server is not built yet\n" in text
    assert "no switch can reach all nodes" not in tree.log


def test_server_on_several_rails_is_under_one_leaf(tmp_path: Path) -> None:
    """Under its group's first leaf: slurmctld has each node once, and the root reaches all."""
    text = written(pod_topology(_rail_wired(), servers(NODES, "node{:03}")), "slurm-conf")
    tree = slurm.read_by_slurm(tmp_path, text, "node[000-015]")
    assert tree.nodes == {
        "leaf01": {f"node{i:03}" for i in range(8)},
        "leaf03": {f"node{i:03}" for i in range(8, 16)},
    }
    assert tree.switches == {"ib": {"leaf01", "leaf03"}}


def _topologies(text: str) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(text)
    assert all(next(iter(one)) == "topology" for one in found)
    return {one["topology"]: one for one in found}


def test_yaml_has_the_same_tree_and_blocks_of_nvlink_domains() -> None:
    """The tree is the default topology; blocks keep servers on nodes that are away."""
    site = with_nvlink(small_site(), {n: f"rack{i // 4}" for i, n in enumerate(NODES[:8])})
    pod = pod_topology(site, servers(NODES[:9]))
    found = _topologies(written(pod, "slurm-yaml"))
    assert found["fabric"]["cluster_default"] is True and found["nvlink"]["cluster_default"] is False
    switches = {s["switch"]: s for s in found["fabric"]["tree"]["switches"]}
    assert switches["leaf01"] == {"switch": "leaf01", "nodes": "train-[0-3]"}
    assert switches["ib"] == {"switch": "ib", "children": "leaf01,leaf02,leaf03"}
    assert found["nvlink"]["block"] == {
        "block_sizes": [4, 8],
        "blocks": [{"block": "rack0", "nodes": "train-[0-3]"}, {"block": "rack1", "nodes": "train-[4-7]"}],
    }
    text = written(pod, "slurm-block-conf")
    assert text.endswith(
        "BlockName=rack0 Nodes=train-[0-3]\nBlockName=rack1 Nodes=train-[4-7]\nBlockSizes=4,8\n"
    )
    assert "# in no NVLink domain, so in no block: train-8\n" in text


def test_block_sizes_are_powers_of_two_of_the_smallest_block() -> None:
    """Slurm 24.11 refuses other sizes, and blocks smaller than the first size."""
    domains = {n: f"rack{min(i // 3, 2)}" for i, n in enumerate(NODES[:8])}
    text = written(pod_topology(with_nvlink(small_site(), domains), servers(NODES[:8])), "slurm-block-conf")
    assert text.endswith("BlockSizes=2,4\n")


def test_pod_without_nvlink_domain_has_no_blocks() -> None:
    """topology.yaml has only the tree; a topology.conf with blocks is refused with its code."""
    pod = pod_topology(small_site(), servers(NODES[:2]))
    assert list(_topologies(written(pod, "slurm-yaml"))) == ["fabric"]
    with pytest.raises(ConflictError) as refused:
        written(pod, "slurm-block-conf")
    assert refused.value.message.code == "TOPOLOGY_NO_NVLINK"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a-0", "a-1", "a-2", "a-10"], "a-[0-2,10]"),
        (["n008", "n009", "n010", "n100"], "n[008-010],n100"),
        (["n00", "n01"], "n[00-01]"),
        (["n0", "n00"], "n0,n00"),
        (["0-train", "1-train"], "0-train,1-train"),
        (["x7"], "x7"),
        ([], ""),
    ],
)
def test_host_list_expands_to_the_same_names(names: list[str], expected: str) -> None:
    """Leading zeros keep their width."""
    assert hostlist(names) == expected
    assert slurm.expanded(expected) == set(names)
