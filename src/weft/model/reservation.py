"""Reservations: nodes that an operator sets aside for one project for some time."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import Field, model_validator

from weft.model.base import Document
from weft.model.ids import Instant, Name, Revision


class Reservation(Document):
    """Nodes set aside for one project; refused if another project has one of them at that time."""

    name: Name = Field(description="Name of the reservation.")
    project_id: str = Field(
        min_length=1, max_length=64, description="Id or name of the project that the nodes are for."
    )
    nodes: tuple[Name, ...] = Field(default=(), description="Nodes and IPU-Machines by name.")
    leaves: tuple[Name, ...] = Field(default=(), description="Leaves by name: all of their compute nodes.")
    start: Instant | None = Field(default=None, description="Start, with time zone. Default: now.")
    end: Instant | None = Field(
        default=None, description="End, with time zone. Default: until it is deleted."
    )
    reason: str = Field(default="", max_length=500, description="Reason.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.nodes and not self.leaves:
            raise ValueError("nodes or leaves are required")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be later than start")
        return self


class ReservationView(Document):
    """A current or future reservation."""

    name: str
    project_id: str
    nodes: tuple[str, ...]
    start: datetime
    end: datetime | None
    reason: str
    created_by: str
    created_at: datetime
    revision: Revision
