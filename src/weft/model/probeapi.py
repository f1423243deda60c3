"""The protocol between weft and `weft probe-agent`: JSON over HTTPS, with the headers of `weft.model.agentapi`.

    GET  /v1/status -> ProbeStatus
    POST /v1/round  RoundQuery -> RoundResult; it takes as long as the round

In a round every end repeatedly sends a broadcast, with the round's number and its own mark, and records which marks of
the round it receives. Agents need not begin at the same moment, as long as they overlap: one that can't begin at once
refuses. Addresses without an agent are asked for by ARP: an answer proves both directions.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from weft.model.base import Document

Octets = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
"""Eight octets."""
Tag = Annotated[int, Field(ge=0, le=4094)]
Address = Annotated[str, StringConstraints(pattern=r"^\d{1,3}(\.\d{1,3}){3}$")]

HardwareAddress = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]

MOST_ENDS, MOST_TAGS, MOST_ASKED = 256, 8, 32


class Sought(Document):
    """An address without an agent."""

    address: Address
    mac: HardwareAddress = Field(description="Whose answer counts: others may answer for it.")


class RoundEnd(Document):
    """One adapter in a round."""

    adapter: str = Field(max_length=200, description="Node and adapter, such as gpu01/mlx5_0.")
    pci: str | None = Field(default=None, max_length=32, description="Its PCI address on the node's host.")
    mac: HardwareAddress | None = Field(
        default=None,
        description="MAC address of its interface; one with another, at that PCI address, isn't touched.",
    )
    mark: Octets = Field(description="Its own mark, in every frame that it sends.")
    tags: tuple[tuple[Tag, ...], ...] = Field(
        max_length=MOST_TAGS,
        description="VLAN tags of what it sends, the outermost first; one broadcast each, () without any.",
    )
    asked: tuple[Address, ...] = Field(
        default=(), max_length=MOST_ASKED, description="IPv4 addresses that it pings."
    )
    sought: tuple[Sought, ...] = Field(
        default=(),
        max_length=MOST_ASKED,
        description="Addresses that it asks for by ARP, with each of its tags.",
    )


class RoundQuery(Document):
    """Asks an agent to take part in a round."""

    number: Octets = Field(description="The round's.")
    seconds: float = Field(ge=0.1, le=10.0)
    size: int = Field(default=84, ge=84, le=65_520, description="Size of a ping's IP packet in bytes.")
    ends: tuple[RoundEnd, ...] = Field(min_length=1, max_length=MOST_ENDS)


class EndResult(Document):
    """What one adapter sent and heard."""

    adapter: str
    mac: str = Field(default="", max_length=60, description="Of the interface that was used.")
    sent: bool = Field(
        default=False, description="Whether its own broadcasts, with each of its tags, were seen to leave."
    )
    heard: tuple[Octets, ...] = Field(default=(), description="Marks of the round that came in.")
    asked: tuple[Address, ...] = Field(
        default=(), description="Addresses that it pinged; none without an address of its own."
    )
    echoed: tuple[Address, ...] = Field(default=(), description="Addresses that answered a ping.")
    found: tuple[Address, ...] = Field(default=(), description="Addresses of those sought that answered.")
    unknown: str = Field(
        default="",
        description="Why its silence, and others' not hearing it, prove nothing; what it heard is valid.",
    )


class RoundResult(Document):
    """What an agent's adapters sent and heard in a round."""

    name: str = Field(description="Name of the agent.")
    ends: tuple[EndResult, ...]


class ProbeStatus(Document):
    """An agent that answers."""

    name: str = Field(description="Name of the agent.")
