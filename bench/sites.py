"""Regular sites of any size, for measurements."""

from __future__ import annotations

from typing import Any

from weft.model.site import Site


def regular_site(
    nodes: int, per_leaf: int = 20, per_block: int = 20, managed: bool = False, many: bool = False
) -> Site:
    """Leaves in blocks with two spines each, all under two core switches; one adapter and eight accelerators per node.

    `check_site` takes it up to 254 blocks: 101,600 nodes with 20 leaves of 20 nodes each.

    Args:
        per_leaf: nodes of a leaf; with `managed` at most 37.
        per_block: leaves of a block.
        many: whether there is room for more than 3,000 pods: most of the P_Keys, and networks of Neutron's own.
        managed: whether there are a subnet manager's node and agent, as `FakeFabric` needs them.
    """
    h100 = [{"type": "h100", "pci": f"0000:{16 + i:02x}:00.0"} for i in range(8)]
    leaves = [_leaf(n, n // per_block, per_leaf) for n in range(-(-nodes // per_leaf))]
    links = [_link(f"gpu{n}", n // per_leaf, n % per_leaf + 1) for n in range(nodes)]
    hosts: list[dict[str, Any]] = [
        {"name": f"gpu{n}", "cloud": "main", "hcas": [_hca(n)], "accelerators": h100} for n in range(nodes)
    ]
    manager: dict[str, Any] = {"driver": "opensm"}
    if managed:
        manager["agents"] = [{"name": "sm1", "url": "https://127.0.0.1:1", "node": "sm1"}]
        hosts.append({"name": "sm1", "role": "subnet-manager", "hcas": [_hca(nodes)]})
        links.append(_link("sm1", 0, 40))
    spines, cables = _upper_levels(len(leaves), per_block, per_leaf)
    vlans = {"physical_network": "mgmt", "segments": {"first": 1000, "last": 3999}}
    cloud = {
        "management": {"addresses": "10.0.0.0/8", **({"type": "self-service"} if many else vlans)},
        "rdma_addresses": "100.64.0.0/10",
        "flavors": {"gpu8": {"accelerators": {"type": "h100", "count": 8}}},
    }
    fabric = {
        "physical_network": "ib0",
        "segments": {"first": 2, "last": 30_000 if many else 3000},
        "manager": manager,
    }
    return Site.model_validate(
        {
            "name": "big",
            "clouds": {"main": cloud},
            "fabrics": {"ib0": fabric},
            "switches": leaves + spines,
            "links": links + cables,
            "nodes": hosts,
        }
    )


def _leaf(number: int, block: int, per_leaf: int) -> dict[str, Any]:
    return {
        "name": f"leaf{number}",
        "fabric": "ib0",
        "level": "leaf",
        "ports": max(40, per_leaf + 2),
        "guid": f"0x{0x100000 + number:016x}",
        "block": f"p{block}",
    }


def _upper_levels(
    leaves: int, per_block: int, per_leaf: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Spines of the blocks and the core switches, with their cables; leaves use ports 38 and 39 for them, or the two
    after their nodes'."""
    first = max(38, per_leaf + 1)
    switches = [_upper(f"core{side}", 254, "core", 0x110000 + side) for side in (0, 1)]
    links: list[dict[str, Any]] = []
    for block in range(-(-leaves // per_block)):
        for side in (0, 1):
            spine = f"spine{block}-{side}"
            guid = 0x120000 + 2 * block + side
            switches.append({**_upper(spine, per_block + 1, "spine", guid), "block": f"p{block}"})
            links.append({"a": spine, "a_port": per_block + 1, "b": f"core{side}", "b_port": block + 1})
            links += [
                {"a": f"leaf{leaf}", "a_port": first + side, "b": spine, "b_port": leaf % per_block + 1}
                for leaf in range(block * per_block, min(leaves, (block + 1) * per_block))
            ]
    return switches, links


def _upper(name: str, ports: int, level: str, guid: int) -> dict[str, Any]:
    return {"name": name, "fabric": "ib0", "level": level, "ports": ports, "guid": f"0x{guid:016x}"}


def _link(node: str, leaf: int, port: int) -> dict[str, Any]:
    return {"a": f"{node}/mlx0", "a_port": 1, "b": f"leaf{leaf}", "b_port": port}


def _hca(number: int) -> dict[str, Any]:
    return {
        "name": "mlx0",
        "fabric": "ib0",
        "guid": f"0x{0x200000 + number:016x}",
        "port_guid": f"0x{0x400000 + number:016x}",
        "pci": "0000:02:00.0",
        "rate_gbps": 400,
    }
