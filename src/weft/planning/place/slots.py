"""Slots: a shared host has room for so many servers, and an order takes a slot of it, not the host.

A slot is held and promised like a node, under a name that no node can have: `host/<node>/<number>`.
"""

from __future__ import annotations

HOST = "host/"
"""Prefix of a host's numbers: `host/<node>` is their space, `host/<node>/<number>` a slot."""


def slot(host: str, number: int) -> str:
    """Name of a slot."""
    return f"{HOST}{host}/{number}"


def is_slot(name: str) -> bool:
    """Whether this is a slot of a shared host, and not a node or a machine that a pod has alone."""
    return name.startswith(HOST)
