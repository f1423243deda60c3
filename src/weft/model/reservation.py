"""What an operator sets aside: nodes that only one project may have for some time."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import Field, model_validator

from weft.model.base import Document
from weft.model.ids import Instant, Name


class Reservation(Document):
    """Nodes for one project; whoever else has them then is in the way, and it is refused."""

    name: Name = Field(description="Name of the reservation.")
    project_id: str = Field(
        min_length=1, max_length=64, description="Id or name of the project that may have the nodes."
    )
    nodes: tuple[Name, ...] = Field(default=(), description="Nodes and IPU-Machines by name.")
    leaves: tuple[Name, ...] = Field(default=(), description="Leaves all of whose compute nodes are meant.")
    start: Instant | None = Field(default=None, description="From when, with time zone; none: now.")
    end: Instant | None = Field(
        default=None, description="Until when, with time zone; none: until it is deleted."
    )
    reason: str = Field(default="", max_length=500, description="Why.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.nodes and not self.leaves:
            raise ValueError("give nodes or leaves")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be later than start")
        return self


class ReservationView(Document):
    """A reservation that is in force, or will be."""

    name: str
    project_id: str
    nodes: tuple[str, ...]
    start: datetime
    end: datetime | None
    reason: str
    created_by: str
    created_at: datetime
