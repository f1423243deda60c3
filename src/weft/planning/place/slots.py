"""Slots: a shared host takes a number of servers, and an order gets a slot of it, not the host.

A slot is held and booked like a node, under a name that no node can have: `host/<node>/<number>`.
"""

from __future__ import annotations

HOST = "host/"
"""Prefix of a host's numbers: `host/<node>` is their space, `host/<node>/<number>` a slot."""


def slot(host: str, number: int) -> str:
    """Name of a slot."""
    return f"{HOST}{host}/{number}"


def is_slot(name: str) -> bool:
    """Whether this is a slot of a shared host, and not a whole node or machine."""
    return name.startswith(HOST)
