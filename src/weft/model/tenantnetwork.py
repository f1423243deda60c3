"""A network that a tenant created in Neutron on a fabric's physical network, as weft last read it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from weft.model.base import Document
from weft.model.fabric import Membership
from weft.model.messages.documents import Coded, Sentence


class PortState(StrEnum):
    """Whether a port's adapter is in its network's segment."""

    IN = "in"
    """It was read on the fabric as a member."""
    WAITING = "waiting"
    """It belongs in the segment, and isn't there yet."""
    OUT = "out"
    """It doesn't belong in the segment: `why` gives the reason."""


class ServedPort(Coded):
    """A port with an adapter, or a function of one; others of a network don't concern the fabric."""

    sentence: ClassVar[str] = "why"

    id: str = Field(description="Id in Neutron.")
    name: str = Field(default="", description="Name in Neutron.")
    vnic_type: str = Field(description="direct, direct-physical or baremetal.")
    host: str = Field(default="", description="Host that Neutron has bound it to.")
    server: str = Field(default="", description="Server that has it; empty: none.")
    member: Membership | None = Field(
        default=None, description="Port of the fabric that belongs in the segment; null: none does."
    )
    state: PortState = PortState.OUT
    why: Sentence = Field(default="", description="Why it isn't in.")
    since: datetime = Field(description="Since when it is in that state.")


class ServedNetwork(Document):
    """The desired and the observed state of a network's segment."""

    cloud: str = Field(description="Cloud that it was created in.")
    fabric: str = Field(description="Fabric that its segment is on.")
    network: str = Field(description="Id in Neutron.")
    name: str = Field(default="", description="Name in Neutron.")
    number: int = Field(description="Its segmentation id, which is the segment's number.")
    ports: tuple[ServedPort, ...] = Field(default=(), description="Sorted by id.")

    @property
    def members(self) -> tuple[Membership, ...]:
        """Members that the segment should have, each once, sorted."""
        found = {p.member.port: p.member for p in self.ports if p.member is not None}
        return tuple(found[port] for port in sorted(found))
