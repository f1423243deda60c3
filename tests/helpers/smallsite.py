"""The small example site, and orders for it."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.helpers.paths import SMALL
from weft.app.orderfile import load_order
from weft.app.sitefile import load_site
from weft.model.order import Order
from weft.model.site import Site

POD_ID = "1f0c9a3b-0000-4000-8000-000000000001"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"


@cache
def small_site() -> Site:
    """`examples/sites/small`: 16 nodes with 4 adapters each, 4 leaves, 2 spines."""
    return load_site(SMALL / "site.yaml")


def two_fabrics(rate: int = 200) -> Site:
    """The small site with half of each node's adapters on a second fabric; `rate` is in Gb/s."""
    document = small_site().model_dump(mode="json")
    document["fabrics"]["ib2"] = document["fabrics"]["ib"] | {
        "physical_network": "physnet-ib2",
        "manager": {"driver": "opensm"},
    }
    document["switches"].append(
        {"name": "leaf91", "fabric": "ib2", "level": "leaf", "ports": 40, "guid": "0x0000000000000091"}
    )
    port = 0
    for node in document["nodes"]:
        for hca in node["hcas"][2:]:
            hca |= {"fabric": "ib2", "rate_gbps": rate}
            port += 1
            (link,) = [k for k in document["links"] if k["a"] == f"{node['name']}/{hca['name']}"]
            link |= {"b": "leaf91", "b_port": port}
    return load_site(document)


def order(count: int = 2, **parts: Any) -> Order:
    """An order of `count` nodes with 8 accelerators each."""
    nodes = {"count": count, "flavor": "h100.8", "image": "ubuntu"} | parts.pop("nodes", {})
    return load_order({"name": "p", "nodes": {k: v for k, v in nodes.items() if v is not None}, **parts})
