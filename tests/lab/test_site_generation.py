"""The generated site, from which the cloud's hosts and the fabric are made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from weft.app.sitefile import load_site
from weft.model.site import Site
from weft.planning.site.check import canonical
from weftlab.config import compute_nodes, devices, nova_host, render
from weftlab.ipu import make_agents_tls
from weftlab.layout import LabError, Layout
from weftlab.site import make_site, settings, write_site

SIZES = [1, 2, 3, 16, 17, 64, 100, 800]


def site_of(**asked: int) -> Site:
    return make_site(settings(**asked), Layout(Path("/lab"), Path("/cache"), 21000))


@pytest.mark.parametrize("nodes", SIZES)
def test_generated_site_reads_back(nodes: int, tmp_path: Path) -> None:
    """Each size passes weft's checks of site files, and nothing is lost in YAML and CSV."""
    site = site_of(nodes=nodes)
    assert load_site(write_site(site, tmp_path)) == canonical(site)


@pytest.mark.parametrize("nodes", SIZES)
def test_every_port_has_one_cable_and_every_guid_one_owner(nodes: int) -> None:
    """No port is used twice or outside its switch's range; no GUID or MAC address is given twice."""
    site = site_of(nodes=nodes)
    ends = Counter([(x.a, x.a_port) for x in site.links] + [(x.b, x.b_port) for x in site.links])
    assert max(ends.values()) == 1
    ports = {s.name: s.ports for s in site.switches}
    assert all(port <= ports.get(name, 1) for name, port in ends)
    hcas = [h for n in site.nodes for h in n.hcas]
    guids = Counter([h.guid for h in hcas] + [h.port_guid for h in hcas] + [s.guid for s in site.switches])
    assert max(guids.values()) == 1
    assert max(Counter(h.mac for h in hcas).values()) == 1
    assert all(h.port_guid == h.guid + 1 for h in hcas)


def test_default_site_has_sixteen_nodes_on_four_leaves() -> None:
    """16 nodes with 8 GPUs and 2 HCAs each, both on the node's leaf; 4 leaves, 2 spines."""
    site = site_of()
    compute = [n for n in site.nodes if n.role == "compute"]
    assert [n.name for n in compute][::5] == ["gpu01", "gpu06", "gpu11", "gpu16"]
    assert {(len(n.accelerators), len(n.hcas)) for n in compute} == {(8, 2)}
    assert Counter(s.level for s in site.switches) == {"leaf": 4, "spine": 2}
    leaf_of = {link.b: link.a for link in site.links if "/" in link.b}
    assert {len({leaf_of[f"{n.name}/{h.name}"] for h in n.hcas}) for n in compute} == {1}
    assert Counter(leaf_of[f"{n.name}/mlx5_0"] for n in compute) == {f"leaf0{i}": 4 for i in range(1, 5)}
    assert site.fabrics["ib0"].segments.numbers() == range(0x101, 0x17F)


def test_site_of_800_nodes_is_the_reference_tree() -> None:
    """40 leaves with 20 nodes each and 20 spines, of 40-port switches; the cloud has 16 nodes and the IPU-POD's
    two hosts."""
    site = site_of(nodes=800)
    assert Counter(s.level for s in site.switches) == {"leaf": 40, "spine": 20}
    hosts = Counter(x.a for x in site.links if x.b.startswith("gpu"))
    assert set(hosts.values()) == {20}
    assert {s.ports for s in site.switches} == {40}
    assert Counter(n.role for n in compute_nodes(site)) == {"compute": 16, "poplar": 1, "controller": 1}


def test_subnet_managers_are_on_two_leaves() -> None:
    """sm1 and sm2 are on different leaves in every size, and can't be ordered."""
    for nodes in SIZES:
        site = site_of(nodes=nodes)
        leaves = {x.a for x in site.links if x.b.split("/")[0] in ("sm1", "sm2")}
        assert len(leaves) == 2
        assert {n.role for n in site.nodes if n.name in ("sm1", "sm2")} == {"subnet-manager"}


def test_nova_host_has_the_name_of_its_node() -> None:
    """The host has exactly the node's devices at the node's PCI addresses."""
    site = site_of()
    node = site.node_by_name["gpu03"]
    found = {d["address"]: d for d in devices(node)}
    assert set(found) == {a.pci for a in node.accelerators} | {h.pci for h in node.hcas}
    assert {found[h.pci]["mac"] for h in node.hcas} == {h.mac for h in node.hcas}
    assert {found[h.pci]["dev_type"] for h in node.hcas} == {"type-PF"}
    text = render(nova_host(Layout(Path("/lab"), Path("/cache"), 21000), site, node))
    assert "host = gpu03\n" in text
    assert all(f'"address": "{h.pci}", "physical_network": "ibnet"' in text for h in node.hcas)


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"nodes": 0}, "--nodes 0"),
        ({"leaves": 1}, "--leaves 1"),
        ({"leaves": 41, "nodes": 41}, "--leaves 41"),
        ({"nodes": 800, "hcas": 2}, "40 nodes|60 ports"),
        ({"computes": 17}, "--computes 17"),
        ({"hcas": 17}, "--hcas 17"),
    ],
)
def test_uncablable_tree_is_refused(asked: dict[str, int], word: str) -> None:
    """The sentence has the option, the value and what is allowed."""
    with pytest.raises(LabError, match=word):
        settings(**asked)


@pytest.mark.parametrize(("ipus", "topology"), [(4, "mesh"), (16, "mesh"), (64, "torus")])
def test_addresses_of_the_ipu_pod_are_on_the_labs_own_loopback(
    ipus: int, topology: str, tmp_path: Path
) -> None:
    """Machines in the order of their cables, gateways where this lab's agents listen; another lab has other
    addresses."""
    first = Layout(tmp_path, tmp_path, 21000)
    make_agents_tls(first)
    site = make_site(settings(ipus=ipus), first)
    assert len(site.ipu_machines) == ipus // 4 and site.ipu_pods["ipupod1"].topology == topology
    gateway = site.ipu_pods["ipupod1"].gateway
    assert gateway.agents_ca and not gateway.keys_in_clear
    other = make_site(settings(ipus=ipus), Layout(tmp_path, tmp_path, 21060))
    mine, theirs = ({m.gw_address for m in s.ipu_machines} for s in (site, other))
    assert all(a.is_loopback for a in mine) and not mine & theirs
    assert load_site(write_site(site, tmp_path)).ipu_machines == site.ipu_machines


def test_lab_may_lack_an_ipu_pod() -> None:
    """`--ipus 0` and fabric-only labs have none; sizes that IPU-PODs don't have are refused."""
    assert not site_of(ipus=0).ipu_pods and not site_of(fabric_only=True).ipu_machines
    with pytest.raises(LabError, match="--ipus 8 is not allowed: 0, 4, 16, 64"):
        settings(ipus=8)
