"""The kinds of fabrics: what a segment of each is called, how its number is written and read, which numbers there are.

One row a kind. Whoever plans, shows or checks asks this table; only a driver knows more of its fabric.
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


class Mode(StrEnum):
    """How a port is in a segment."""

    FULL = "full"
    """InfiniBand: reaches every other member."""
    LIMITED = "limited"
    """InfiniBand: reaches full members alone."""
    ACCESS = "access"
    """Ethernet: the port's frames without a tag are the segment's."""
    TRUNK = "trunk"
    """Ethernet: the segment's frames carry its tag."""


@dataclass(frozen=True, slots=True)
class FabricType:
    """One row.

    Attributes:
        word: what a segment's number is called; `words`: several of them.
        text: the number as the field writes it; `number` reads it again and raises ValueError.
        first, last: numbers that weft may give out at all.
        modes: how a port may be a member.
    """

    word: str
    words: str
    text: Callable[[int], str]
    number: Callable[[str], int]
    first: int
    last: int
    modes: frozenset[Mode]

    def named(self, number: int) -> str:
        """Word and number, such as `P_Key 0x65`, `VLAN 101`."""
        return f"{self.word} {self.text(number)}"


FABRIC_TYPES: Mapping[FabricKind, FabricType] = {
    FabricKind.INFINIBAND: FabricType(
        "P_Key", "P_Keys", format_pkey, parse_pkey, 1, MAX_PKEY, frozenset({Mode.FULL, Mode.LIMITED})
    ),
    FabricKind.ETHERNET: FabricType("VLAN", "VLANs", str, int, 1, 4094, frozenset({Mode.ACCESS, Mode.TRUNK})),
}
