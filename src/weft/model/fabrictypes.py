"""The types of fabrics: what their segments are called, how numbers are written and parsed, and the valid range.

One row per type. Planning, views and checks use this table; only a driver knows more about its fabric.
Sources: InfiniBand Architecture Specification 1.4 §10.9.1 (P_Key); IEEE 802.1Q-2022 §9.6 (VLAN id 1 to 4094).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from weft.model.ids import MAX_PKEY, format_pkey, parse_pkey


class FabricKind(StrEnum):
    """What kind of network a fabric is."""

    INFINIBAND = "infiniband"
    ETHERNET = "ethernet"
    OMNIPATH = "omni-path"


class Mode(StrEnum):
    """Membership of a port in a segment."""

    FULL = "full"
    """InfiniBand: reaches every other member."""
    LIMITED = "limited"
    """InfiniBand: reaches full members only."""
    ACCESS = "access"
    """Ethernet: untagged frames of the port belong to the segment."""
    TRUNK = "trunk"
    """Ethernet: frames of the segment are tagged."""


@dataclass(frozen=True, slots=True)
class FabricType:
    """One row.

    Attributes:
        word: what a segment's number is called; `words`: the plural.
        text: formats a number in the usual notation; `number` parses it and raises ValueError.
        first, last: valid range.
        modes: possible modes of members.
        segments: whether weft can keep pods apart on it.
    """

    word: str
    words: str
    text: Callable[[int], str]
    number: Callable[[str], int]
    first: int
    last: int
    modes: frozenset[Mode]
    segments: bool = True

    def named(self, number: int) -> str:
        """Word and number, such as `P_Key 0x65`, `VLAN 101`."""
        return f"{self.word} {self.text(number)}"


FABRIC_TYPES: Mapping[FabricKind, FabricType] = {
    FabricKind.INFINIBAND: FabricType(
        "P_Key", "P_Keys", format_pkey, parse_pkey, 1, MAX_PKEY, frozenset({Mode.FULL, Mode.LIMITED})
    ),
    # Its fabric manager has P_Keys too (virtual fabrics), which weft doesn't set.
    FabricKind.OMNIPATH: FabricType(
        "P_Key", "P_Keys", format_pkey, parse_pkey, 1, MAX_PKEY, frozenset({Mode.FULL}), segments=False
    ),
    FabricKind.ETHERNET: FabricType("VLAN", "VLANs", str, int, 1, 4094, frozenset({Mode.ACCESS, Mode.TRUNK})),
}
