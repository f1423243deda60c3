"""A pod from its order to the ports of leaf switches, wanted beside what was read, and when; and its topology."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document


class MapPort(Document):
    """A port of a fabric that is in the pod's segment, or belongs in."""

    node: str = Field(description="Node or IPU-Machine of the port; empty: the site doesn't know the port.")
    held: bool = Field(default=False, description="Whether the pod has the node, or a part of it.")
    held_since: datetime | None = Field(default=None, description="Since when the pod has the whole node.")
    server: str = Field(default="", description="Server on the node, by name; several of a shared node.")
    server_id: str = Field(default="", description="Id of the server in its cloud; empty: of several.")
    server_state: str = Field(
        default="", description="State of the server in weft's records; empty: of several."
    )
    server_since: datetime | None = Field(default=None, description="When it came into that state.")
    adapter: str = Field(
        default="",
        description="Adapter on the node; of a virtual function each that it may be on, joined by or.",
    )
    port: str = Field(description="Id of the port on the fabric: port GUID, or switch/port.")
    wanted: bool = Field(description="Whether it belongs in the segment.")
    seen: Literal["in", "not in", "unknown"] = Field(description="Whether it was read to be in the segment.")
    places: str = Field(default="", description="Where that was read; of unknown: why.")
    leaf_wanted: str = Field(
        default="", description="Switch and its port by the site; empty: it has no cable."
    )
    leaf_seen: str | None = Field(
        default="",
        description="Switch and its port as discovered; empty: not discovered; null: cables of this fabric's adapters "
        "aren't discovered by their GUIDs.",
    )

    @property
    def differs(self) -> bool:
        """Whether it isn't as wanted, or that isn't known."""
        moved = self.leaf_seen is not None and self.leaf_seen != self.leaf_wanted
        return self.seen != ("in" if self.wanted else "not in") or moved


class PodMap(Document):
    """What a pod has, in the order in which it came to be."""

    pod: str
    id: str
    project_id: str
    state: str
    generation: int
    ordered_at: datetime
    ordered_by: str
    fabric: str | None = None
    segment: str | None = None
    members_age: float | None = Field(
        default=None, description="Seconds since the reading of the segment's members began; null: not read."
    )
    members_unread: str = Field(default="", description="Why the members weren't read.")
    cables_age: float | None = Field(
        default=None, description="Seconds since the discovery of cables began; null: not discovered."
    )
    cables_unread: str = Field(default="", description="Why cables weren't discovered, or not all.")
    ports: tuple[MapPort, ...] = Field(default=(), description="Those that differ first; at most 500.")
    further: int = Field(default=0, description="How many ports aren't listed.")


class TopologyFile(Document):
    """A pod's topology in one format."""

    format: str
    media_type: str
    text: str
    tag: str = Field(description="Changes whenever the text does; begins with the pod's generation.")
    left_out: Mapping[str, str] = Field(description="Name of each server that isn't in it -> why.")
