"""Adapters for storage on leaves that all nodes share don't locate a node, if the site says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.smallsite import small_site
from weft.model.site import Site
from weft.planning.fabric.topology import Topology


def with_storage(leaves: int, locates: bool) -> Site:
    """The small site; each node has further adapters for storage, on leaves that all of them share."""
    site = small_site()
    document: dict[str, Any] = site.model_dump(mode="json")
    for n in range(leaves):
        leaf = f"storage{n}"
        document["switches"].append(
            {"name": leaf, "fabric": "ib", "level": "leaf", "ports": 64, "guid": 0x900 + n}
        )
        for i, node in enumerate(d for d in document["nodes"] if d["hcas"]):
            guid = 0xA000 + 0x100 * n + 2 * i
            pci = f"0000:d{n}:00.0"
            one = {"name": f"st{n}", "fabric": "ib", "guid": guid, "port_guid": guid + 1, "pci": pci}
            node["hcas"].append({**one, "locates": locates})
            document["links"].append({"a": f"{node['name']}/st{n}", "a_port": 1, "b": leaf, "b_port": i + 1})
    return Site.model_validate(document)


@pytest.mark.parametrize("leaves", [1, 2, 3])
def test_storage_adapters_do_not_affect_leaves(leaves: int) -> None:
    plain, found = (Topology.of(site, "ib") for site in (small_site(), with_storage(leaves, locates=False)))
    assert found.leaves == plain.leaves and found.blocks == plain.blocks and found.uplinks == plain.uplinks
    node = next(iter(plain.locations))
    assert len(found.locations[node].rails) == len(plain.locations[node].rails) + leaves, (
        "pods still get them"
    )


def test_node_without_locating_adapter_is_located_by_all() -> None:
    document = small_site().model_dump(mode="json")
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca["locates"] = False
    assert Topology.of(Site.model_validate(document), "ib").leaves == Topology.of(small_site(), "ib").leaves
