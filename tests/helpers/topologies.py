"""Sites and pods for tests of topologies: rails, blocks, NVLink domains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.helpers.smallsite import small_site
from weft.model.site import Site
from weft.planning.fabric.podtopology import PodServer, PodTopology, levels_of, locate
from weft.planning.fabric.topology import Topology

FABRIC = "ib"


def servers(nodes: Iterable[str], pattern: str = "train-{}") -> list[PodServer]:
    """Servers in force on these nodes, numbered in this order."""
    return [PodServer(pattern.format(i), i, node, f"id-{i}") for i, node in enumerate(nodes)]


def pod_topology(site: Site, given: Iterable[PodServer], fabric: str = FABRIC, **more: Any) -> PodTopology:
    """Topology of a pod with these servers."""
    found, left_out = locate(site, fabric, given)
    values: dict[str, Any] = {
        "pod": "train",
        "id": "1f0c9a3b-0000-4000-8000-000000000001",
        "state": "READY",
        "generation": 1,
        "site": site.name,
        "site_generation": 1,
        "fabric": fabric,
        "type": "infiniband",
        "segment": 0x65,
        "bare_metal": False,
        "accelerators": 8,
        "cores": 96,
        "dscp": None,
        "levels": levels_of(Topology.of(site, fabric)) if fabric in site.fabrics else (),
        "servers": found,
        "left_out": left_out,
    }
    return PodTopology(**(values | more))


def in_blocks(site: Site, blocks: dict[str, str]) -> Site:
    """The site with its leaves in blocks: leaf -> block."""
    switches = tuple(
        s.model_copy(update={"block": blocks.get(s.name)}) if s.level == "leaf" else s for s in site.switches
    )
    return site.model_copy(update={"switches": switches})


def with_nvlink(site: Site, domains: dict[str, str]) -> Site:
    """The site with nodes in NVLink domains: node -> domain."""
    nodes = tuple(n.model_copy(update={"nvlink_domain": domains.get(n.name)}) for n in site.nodes)
    return site.model_copy(update={"nodes": nodes})


def nodes_by_leaf(site: Site | None = None) -> dict[str, tuple[str, ...]]:
    """Leaf -> compute nodes of the small site."""
    site = site or small_site()
    compute = {n.name for n in site.nodes if n.role == "compute"}
    return {
        leaf: tuple(n for n in nodes if n in compute)
        for leaf, nodes in Topology.of(site, FABRIC).leaves.items()
    }
