"""The small example site and orders for it, as values."""

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
    """`examples/sites/small`: 16 nodes, 4 leaves, 2 spines; 4 adapters a node."""
    return load_site(SMALL / "site.yaml")


def order(count: int = 2, **parts: Any) -> Order:
    """An order of `count` nodes with 8 accelerators each."""
    nodes = {"count": count, "flavor": "h100.8", "image": "ubuntu"} | parts.pop("nodes", {})
    return load_order({"name": "p", "nodes": {k: v for k, v in nodes.items() if v is not None}, **parts})
