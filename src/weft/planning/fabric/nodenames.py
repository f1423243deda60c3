"""Names in the node descriptions of a fabric. Pure.

Sources: rdma-core's `rdma-ndd` (`HOSTNAME DEVICE`), the drivers' defaults (`HOSTNAME HCA-1`, or the product until the
host has set its name), and NVIDIA's managed switches (`MF0;NAME:MODEL/UNIT`; each chip of a modular one has its board
too, `/L03/U1`).
"""

from __future__ import annotations

import re

_MANAGED = re.compile(r"[A-Z]{2}\d*;(?P<name>[^:;]+):[^/]*(?P<units>(?:/\w+)*)")
_NO_HOST = re.compile(r"\bAggregation Node\b")
_PRODUCT = re.compile(r"MT\d{4,5}\b|.*\bMellanox Technologies$")
_HOST = re.compile(r"(?P<node>\S+)\s+(?P<hca>\S.*)")


def switch_name(description: str) -> str:
    """The switch's own name: `leaf01` of `MF0;leaf01:MQM8700/U1`; any other description as it is."""
    found = _MANAGED.fullmatch(description.strip())
    if found is None:
        return description.strip()
    boards = [unit for unit in found["units"].split("/") if unit]
    return found["name"] if len(boards) < 2 else "-".join([found["name"], *boards])


def host_and_device(description: str) -> tuple[str, str]:
    """`gpu01`, `mlx5_0` of `gpu01 mlx5_0`; without a device the whole description and nothing."""
    match = _HOST.match(description)
    return (match["node"], match["hca"]) if match else (description, "")


def is_in_a_switch(description: str) -> bool:
    """Whether an adapter is part of a switch (SHARP), and of no host."""
    return _NO_HOST.search(description) is not None


def is_a_product(description: str) -> bool:
    """Whether an adapter's description is still that of its product: its host is off, or not yet set up."""
    return _PRODUCT.match(description) is not None
