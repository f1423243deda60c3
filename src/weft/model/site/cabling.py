"""Racks, switches, and the cables between switches and hosts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Guid, Name


class Rack(Document):
    """A rack; `row` and `power` are informational."""

    name: Name = Field(description="Name of the rack.")
    row: str | None = Field(default=None, description="Row that the rack is in.")
    power: str | None = Field(default=None, description="Power feed.")


class Switch(Document):
    """A switch of a fabric."""

    name: Name = Field(description="Name of the switch; on InfiniBand its node description.")
    fabric: Name = Field(description="Fabric that the switch belongs to.")
    level: Literal["leaf", "spine", "core"] = Field(
        description="Level of the switch; hosts connect to leaf switches."
    )
    ports: int = Field(ge=1, le=254, description="Number of external ports.")
    guid: Guid | None = Field(default=None, description="Node GUID; InfiniBand only.")
    rack: Name | None = Field(default=None, description="Rack.")
    block: Name | None = Field(
        default=None,
        description="Block: a group of leaves with spines of their own. Default: the whole fabric is one block.",
    )
    hall: Name | None = Field(
        default=None, description="Hall that the block is in. Default: the whole site is one hall."
    )
    building: Name | None = Field(
        default=None, description="Building that the hall is in. Default: the whole site is one building."
    )
    rail: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Leaf switch of a rail-optimized fabric: its rail. A node's adapters, by name, must be connected "
        "to leaves of ascending rails, so that swapped cables are found. Default: not checked.",
    )
    project: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Leaf switch: id of the project that it is dedicated to. Existing pods of other projects stay.",
    )


class Link(Document):
    """A cable. Each end is the name of a switch, or `node/hca`."""

    a: str = Field(description="One end: switch or node/hca.")
    a_port: int = Field(ge=1, le=254, description="Port number at that end.")
    b: str = Field(description="The other end: switch or node/hca.")
    b_port: int = Field(ge=1, le=254, description="Port number at that end.")
    rate_gbps: int | None = Field(
        default=None, ge=1, description="Line rate in Gb/s. Default: that of the fabric's fastest adapter."
    )
