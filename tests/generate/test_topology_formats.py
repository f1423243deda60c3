"""Topology files of pods for Kubernetes, topograph, NCCL and UCX, and rules for all formats."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.helpers.smallsite import small_site
from tests.helpers.topologies import in_blocks, nodes_by_leaf, pod_topology, servers, with_nvlink
from weft.generate.topology.formats import FORMATS, omitted, written
from weft.model.errors import ConflictError
from weft.planning.fabric.podtopology import PodServer, PodTopology, short, switch_names
from weftcheck.expected import Expected, Key, parse

NODES = [node for nodes in nodes_by_leaf().values() for node in nodes]
TIER = "fabric.topograph.run/tier-"
DOMAIN = "accelerator.topograph.run/domain"


@pytest.fixture
def deep() -> PodTopology:
    """Four servers in two blocks, the first two in an NVLink domain."""
    site = with_nvlink(small_site(), {NODES[0]: "rack0", NODES[1]: "rack0"})
    site = in_blocks(site, {"leaf01": "a", "leaf02": "a", "leaf03": "b", "leaf04": "b"})
    return pod_topology(site, servers([NODES[0], NODES[1], NODES[4], NODES[8]]))


def test_labels_count_tiers_from_the_leaf(deep: PodTopology) -> None:
    """topograph's tier 0 is the nearest to the node; NodeFeatures have the labels of the kubectl commands."""
    lines = [line for line in written(deep, "kubernetes").splitlines() if not line.startswith("#")]
    assert lines[0] == (
        f"kubectl label --overwrite node train-0 {TIER}0=leaf01 {TIER}1=a {TIER}2=ib {DOMAIN}=rack0"
    )
    assert lines[3] == f"kubectl label --overwrite node train-3 {TIER}0=leaf03 {TIER}1=b {TIER}2=ib"
    features = [f for f in yaml.safe_load_all(written(deep, "nodefeature")) if f]
    for line, feature in zip(lines, features, strict=True):
        name, *pairs = line.split()[4:]
        assert feature["kind"] == "NodeFeature"
        assert feature["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": name}
        assert feature["spec"]["labels"] == dict(pair.split("=") for pair in pairs)


def test_kueue_lists_levels_that_all_nodes_have(deep: PodTopology) -> None:
    """Coarsest first; NVLink domains only if every node is in one."""
    levels = [one["nodeLabel"] for one in yaml.safe_load(written(deep, "kueue"))["spec"]["levels"]]
    assert levels == [f"{TIER}2", f"{TIER}1", f"{TIER}0", "kubernetes.io/hostname"]
    site = with_nvlink(small_site(), {node: f"rack{i // 4}" for i, node in enumerate(NODES)})
    all_in_one = yaml.safe_load(written(pod_topology(site, servers(NODES)), "kueue"))
    assert [one["nodeLabel"] for one in all_in_one["spec"]["levels"]][-2:] == [
        DOMAIN,
        "kubernetes.io/hostname",
    ]


def test_graph_goes_from_the_leaf_to_the_root(deep: PodTopology) -> None:
    """As topograph's engine `graph` writes it; ids are Nova's."""
    found = json.loads(written(deep, "topograph"))
    assert found["instances"][0] == {
        "id": "id-0",
        "name": "train-0",
        "network_layers": ["leaf01", "a", "ib"],
        "labels": {DOMAIN: "rack0"},
    }
    assert found["left_out"] == {}


def _variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(
    ("more", "nccl", "ucx"),
    [
        ({}, {}, {"UCX_IB_PKEY": "0x65"}),
        (
            {"type": "ethernet", "segment": 101, "dscp": 26},
            {"NCCL_IB_TC": "104"},
            {"UCX_IB_TRAFFIC_CLASS": "104"},
        ),
        ({"type": "ethernet", "segment": 101}, {}, {}),
        ({"bare_metal": True, "segment": None}, {}, {}),
    ],
)
def test_environment_has_only_what_is_known(
    more: Mapping[str, Any], nccl: dict[str, str], ucx: dict[str, str]
) -> None:
    """Neither indexes of P_Keys or GIDs nor devices: weft hasn't read them, and a wrong index makes jobs hang."""
    pod = pod_topology(small_site(), servers(NODES[:2]), **more)
    assert _variables(written(pod, "nccl-env")) == nccl
    assert _variables(written(pod, "ucx")) == ucx
    index = "NCCL_IB_PKEY" if more.get("type") != "ethernet" and pod.segment is not None else "NCCL_IB_HCA"
    assert f"# left out: {index}: " in written(pod, "nccl-env")


def test_pkey_without_index_has_a_null_index() -> None:
    """The key is text with the bit of full membership, as sysfs shows it."""
    pod = pod_topology(small_site(), servers(NODES[:1]))
    assert "P_Key 0x8065" in written(pod, "nccl-env")
    found = json.loads(written(pod, "json"))
    assert found["pkey"] == "0x8065" and found["pkey_index"] is None and found["vlan"] is None


def test_expected_values_for_weft_check_have_the_pods_p_key() -> None:
    """As weft-check reads them: full membership and no index, which weft hasn't read; for RoCE none."""
    pod = pod_topology(small_site(), servers(NODES[:1]))
    assert parse(written(pod, "weft-check").encode()).pkeys == (Key(0x65, full=True, place=None),)
    other = pod_topology(small_site(), servers(NODES[:1]), type="ethernet", segment=101)
    assert parse(written(other, "weft-check").encode()) == Expected()


def test_nccl_xml_is_refused_without_pci_addresses() -> None:
    """A file without a bridge makes transfers slower than no file."""
    with pytest.raises(ConflictError) as refused:
        written(pod_topology(small_site(), servers(NODES[:1])), "nccl-xml")
    assert refused.value.message.code == "TOPOLOGY_UNREAD"


def test_pod_without_fabric_has_formats_without_places_only() -> None:
    """Formats with places are refused, and the refusal names those without."""
    pod = pod_topology(small_site(), servers(NODES[:2]), "none", type="", segment=None)
    for name, row in FORMATS.items():
        if row.fabric:
            with pytest.raises(ConflictError) as refused:
                written(pod, name)
            assert refused.value.message.code == "TOPOLOGY_NO_FABRIC"
            assert "hostfile" in str(refused.value.message)
        else:
            assert "train-0" in written(pod, name)


def test_server_without_cable_is_named_and_left_out_of_places() -> None:
    """If no server has one, formats with places are refused; host files are written in both cases."""
    gone = PodServer("train-1", 1, "gone", "id-1")
    pod = pod_topology(small_site(), [*servers(NODES[:1]), gone])
    why = "its node gone is no longer in the site"
    assert omitted(pod, "slurm-conf") == {"train-1": why} and omitted(pod, "hostfile") == {}
    text = written(pod, "slurm-conf")
    assert f"# left out: train-1: {why}\n" in text and "Nodes=train-0\n" in text
    assert "train-1 slots=8\n" in written(pod, "hostfile")
    nowhere = pod_topology(small_site(), [gone])
    with pytest.raises(ConflictError) as refused:
        written(nowhere, "slurm-conf")
    assert refused.value.message.code == "TOPOLOGY_NO_PLACE"


def test_order_of_rows_does_not_change_a_file(deep: PodTopology) -> None:
    """Every format has the same text for the same pod."""
    rows = servers(NODES)
    mixed = rows.copy()
    random.Random(3).shuffle(mixed)
    for name in FORMATS.keys() - {"nccl-xml", "slurm-block-conf"}:
        one, other = (pod_topology(small_site(), given, cores=96) for given in (rows, mixed))
        assert written(one, name) == written(other, name)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"nccl-xml"}))
def test_hostile_text_adds_no_line_to_a_topology_file(name: str) -> None:
    """Names that aren't host names are left out by number; other texts stay on their comment's line."""
    bad = "x\nSwitchName=evil Nodes=evil\u2028rank 0=evil"
    site = with_nvlink(small_site(), dict.fromkeys(NODES, "rack0"))
    given = [*servers(NODES[:2]), PodServer(bad, 2, NODES[2], "id-2"), PodServer("t-3", 3, NODES[3], "", bad)]
    pod = replace(pod_topology(site, given), site=bad)
    text = written(pod, name)
    for line in text.splitlines():
        assert line.startswith(("#", '    "', '  "')) or "evil" not in line
    assert omitted(pod, name)["number 2"] == "its name is no host name"


@pytest.mark.parametrize(
    "name", ["12e5", "1e3", "0o17", "1_0", "inf", "NaN", "y", "n", "f", "no", "0x1f", "12"]
)
def test_name_like_a_number_stays_text_in_yaml(name: str) -> None:
    """YAML 1.2 and the parsers of Go and Slurm read 12e5 as a number and y as true, unless quoted."""
    site = with_nvlink(small_site(), dict.fromkeys(NODES, name))
    pod = pod_topology(site, servers(NODES[:1], "12e{}"), pod=name)
    kueue, slurm = written(pod, "kueue"), written(pod, "slurm-yaml")
    assert f"name: '{name}'\n" in kueue and yaml.safe_load(kueue)["metadata"] == {"name": name}
    assert f"block: '{name}'\n" in slurm and "nodes: '12e0'\n" in slurm
    assert "block_sizes:\n" in slurm and "- 1\n" in slurm and "cluster_default: true\n" in slurm


def test_names_of_switches_are_unique_over_fabrics() -> None:
    """A leaf, a block and a fabric with the same name get different ones; long names become topograph's hash."""
    site = in_blocks(small_site(), {"leaf01": "leaf01", "leaf02": "ib"})
    names = switch_names(site)
    assert names["ib", "leaf", "leaf01"] == "leaf01" and names["ib", "block", "leaf01"] == "ib.leaf01"
    assert names["ib", "fabric", "ib"] == "ib" and names["ib", "block", "ib"] == "ib.ib"
    assert len(set(names.values())) == len(names)
    assert short("a" * 63) == "a" * 63
    assert short("") == "" and short("a" * 64) == f"x{_fnv('a' * 64):x}"


def _fnv(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
