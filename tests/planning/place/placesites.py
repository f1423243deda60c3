"""Sites by numbers: blocks of leaves of nodes, each node with one adapter and, if asked, accelerators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.helpers.amounts import examples
from weft.model.placement import PlacementRequest
from weft.model.ranges import Range
from weft.model.site import (
    Accelerator,
    Cloud,
    Fabric,
    FabricManager,
    Hca,
    Link,
    ManagementNetwork,
    Node,
    Site,
    Switch,
)

STATES = examples(500)
"""Random states that are compared with CP-SAT."""


def _cloud() -> Cloud:
    management = ManagementNetwork(
        physical_network="mgmt", segments=Range(first=100, last=200), addresses="10.0.0.0/16"
    )
    return Cloud(management=management, rdma_addresses="10.1.0.0/16")


def _fabric(name: str) -> Fabric:
    return Fabric(
        physical_network=name, segments=Range(first=2, last=126), manager=FabricManager(driver="opensm")
    )


def build_site(
    pods: Sequence[Sequence[int]],
    node: Callable[[str], dict[str, Any]] | None = None,
    accelerators: int = 0,
    grouped: bool = True,
) -> Site:
    """A site with these leaf sizes by pod: nodes gpu1 … in tree order, leaf `l<pod>-<leaf>`, pod `p<pod>`."""
    switches: list[Switch] = []
    links: list[Link] = []
    nodes: list[Node] = []
    for p, leaves in enumerate(pods):
        for number, size in enumerate(leaves):
            leaf = f"l{p}-{number}"
            switches.append(
                Switch(name=leaf, fabric="ib0", level="leaf", ports=64, block=f"p{p}" if grouped else None)
            )
            for port in range(1, size + 1):
                name = f"gpu{len(nodes) + 1}"
                guid = 2 * len(nodes) + 2
                fields: dict[str, Any] = {
                    "name": name,
                    "rack": f"r{p}-{number}",
                    "cloud": "c1",
                    "hcas": (
                        Hca(name="mlx5_0", fabric="ib0", guid=guid, port_guid=guid + 1, pci="0000:c5:00.0"),
                    ),
                    "accelerators": tuple(
                        Accelerator(type="h100", pci=f"0000:{i:02x}:00.0") for i in range(accelerators)
                    ),
                }
                nodes.append(Node(**{**fields, **(node(name) if node else {})}))
                links.append(Link(a=f"{name}/mlx5_0", a_port=1, b=leaf, b_port=port))
    return Site(
        name="site",
        clouds={"c1": _cloud()},
        fabrics={"ib0": _fabric("ib0")},
        switches=tuple(switches),
        links=tuple(links),
        nodes=tuple(nodes),
    )


def adapters(name: str, count: int) -> tuple[Hca, ...]:
    """`count` adapters of a node gpu<number>."""
    guids = ((r, 100 * int(name.removeprefix("gpu")) + 2 * r) for r in range(count))
    return tuple(
        Hca(name=f"mlx5_{r}", fabric="ib0", guid=g, port_guid=g + 1, pci=f"0000:c{r}:00.0") for r, g in guids
    )


def cabled(site: Site) -> Site:
    """The same site with every adapter on its node's leaf, and without cables that have no adapter."""
    links = tuple(
        link.model_copy(update={"a": f"{n.name}/{h.name}", "b_port": link.b_port + 20 * i})
        for n, link in zip(site.nodes, site.links, strict=True)
        for i, h in enumerate(n.hcas)
    )
    return site.model_copy(update={"links": links})


def dedicate(site: Site, leaf: str, project: str) -> Site:
    """The same site with one leaf dedicated to this project."""
    switches = (s.model_copy(update={"project": project}) if s.name == leaf else s for s in site.switches)
    return site.model_copy(update={"switches": tuple(switches)})


def build_request(count: int, **fields: Any) -> PlacementRequest:
    """A request for `count` nodes of cloud c1 on fabric ib0."""
    defaults: dict[str, Any] = {
        "pod": "run1",
        "project": "p1",
        "cloud": "c1",
        "fabric": "ib0",
        "hcas_per_node": 1,
    }
    return PlacementRequest(**{**defaults, "count": count, **fields})
