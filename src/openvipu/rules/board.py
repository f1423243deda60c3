"""Geometry: IPU numbers, board positions, link names.

IPUs of an IPU-Link domain form a ladder of two rails. Machine ``m`` holds the topology ids ``4m`` to
``4m+3``; position ``p`` on the board is ``topology id % 4``, its column ``p // 2``, its rail ``p % 2``::

    rail 1    1 --- 3 === up2, up3        (to down2, down3 of the next machine)
              |     |
    rail 0    0 --- 2 === up0, up1        (to down0, down1 of the next machine)

An IPU-M2000 has 8 IPU-Link ports and 2 GW-Link ports (data sheet): four up, four down, ``gw0``, ``gw1``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from openvipu.model.site import IPUS_PER_MACHINE

UP = ("up0", "up1", "up2", "up3")
DOWN = ("down0", "down1", "down2", "down3")
GATEWAY = ("gw0", "gw1")
SYNC = tuple(f"sync-{port}" for port in UP + DOWN)
INNER = {"l01": (0, 1), "l23": (2, 3), "l02": (0, 2), "l13": (1, 3)}
"""Links on the board, by the two positions that they join."""


def number_of(topology_id: int) -> int:
    """The IPU's number on its board: ids 0, 1, 2, 3 are IPU 3, 2, 1, 0 [seen]."""
    return IPUS_PER_MACHINE - 1 - topology_id % IPUS_PER_MACHINE


def position_of(number: int) -> int:
    """The board position of IPU ``number``, the other way round."""
    return IPUS_PER_MACHINE - 1 - number


def opposite(port: str) -> str:
    """The port that a straight cable from ``port`` ends in."""
    swap = {"up": "down", "down": "up", "sync-up": "sync-down", "sync-down": "sync-up"}
    if port in GATEWAY:
        return "gw1" if port == "gw0" else "gw0"
    return swap[port[:-1]] + port[-1]


def port_position(port: str) -> int:
    """The board position whose IPU owns the IPU-Link ``port`` (two cables each)."""
    rail = int(port[-1]) // 2
    return 2 + rail if port.startswith("up") else rail


def inner_links(positions: Collection[int]) -> tuple[str, ...]:
    """The links on the board between two of ``positions``."""
    return tuple(name for name, ends in INNER.items() if all(end in positions for end in ends))


def is_power_of_two(value: int) -> bool:
    """Whether it is 1, 2, 4 …"""
    return value > 0 and value & (value - 1) == 0


def machines_of(topology_ids: Iterable[int]) -> tuple[int, ...]:
    """The machines, by their place in the IPU-Link domain, that hold these topology ids."""
    return tuple(sorted({topology_id // IPUS_PER_MACHINE for topology_id in topology_ids}))
