"""What an outage of a part of the site would touch."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document

MOST_IMPACT_NODES = 1000
"""Nodes, uplinks, interfaces and promises that an answer has at most, of each; of the others only the number."""
MOST_IMPACT_PODS = 1000
SOME_IMPACT_PODS = 100

Loss = Literal["everything", "fabric", "adapters", "network", "redundancy"]
"""The worst that a node loses."""


class FabricLoss(Document):
    """What a node loses of one fabric."""

    fabric: str
    whole: bool = Field(description="No adapter is left that works and reaches the rest of the fabric.")
    lost: tuple[str, ...] = Field(default=(), description="Adapters without a cable that works.")
    cut: tuple[str, ...] = Field(
        default=(), description="Adapters that reach only a smaller part of the fabric."
    )
    adapters: int = Field(description="All that the node has on this fabric.")


class NodeImpact(Document):
    """A node or IPU-Machine that loses something."""

    node: str
    loss: Loss = Field(
        description="The worst. everything: it fails itself. fabric: all of a fabric. adapters: some of a fabric's. "
        "network: an interface on the site's own networks. redundancy: one of several cables of a bond."
    )
    fabrics: tuple[FabricLoss, ...] = ()
    networks: tuple[str, ...] = Field(
        default=(), description="Interfaces on the site's own networks, each with its network."
    )
    thinner: tuple[str, ...] = Field(
        default=(), description="Adapters and interfaces that continue with fewer cables."
    )


class UplinkImpact(Document):
    """A switch that continues with less bandwidth to other switches."""

    fabric: str
    switch: str
    level: str
    gbps: int = Field(description="Gb/s to other switches now, by the site.")
    gbps_left: int = Field(description="Gb/s that would be left.")


class ElsewhereView(Document):
    """Whether a pod would have room without its touched nodes, after the pods before it in the list."""

    fits: bool | None = Field(description="Null: unknown; `why` says why.")
    nodes: tuple[str, ...] = Field(
        default=(),
        description="Nodes that it would get besides; a shared one once for each server.",
    )
    spares: tuple[str, ...] = Field(default=(), description="Its own spares that would get a server.")
    moves: tuple[str, ...] = Field(
        default=(), description="Further nodes that it would leave: of its slices, or of its IPU-Machines."
    )
    why: str = Field(description="Why these, or why there is no room.")


class PodImpact(Document):
    """A pod with nodes that lose more than redundancy."""

    pod: str
    id: str
    project_id: str
    state: str
    loss: Loss = Field(description="The worst of its nodes.")
    nodes: tuple[str, ...] = Field(description="Its touched nodes, spares included.")
    spares: tuple[str, ...] = Field(default=(), description="Those of them that are idle spares.")
    on_drain: Literal["release"] | None = Field(
        default=None,
        description="Set if the order says that a drain of these nodes releases the pod at its time.",
    )
    elsewhere: ElsewhereView | None = Field(default=None, description="Null: it wasn't asked for.")


class ImpactView(Document):
    """What an outage would touch, by the active site and weft's own records; no cloud or fabric manager was asked."""

    target: str
    kind: Literal["node", "rack", "switch", "link"]
    generation: int = Field(description="Of the site.")
    at: datetime = Field(description="When weft's records were read.")
    nodes: tuple[NodeImpact, ...]
    more_nodes: int = Field(default=0, description="Further nodes that aren't listed.")
    uplinks: tuple[UplinkImpact, ...] = ()
    more_uplinks: int = Field(default=0, description="Further ones.")
    others: tuple[str, ...] = Field(
        default=(),
        description="Interfaces of other hardware that lose their network: `device/interface on network`.",
    )
    more_others: int = Field(default=0, description="Further ones.")
    pods: tuple[PodImpact, ...] = Field(
        description="Those with most touched nodes first, then by name; in this order they are placed elsewhere."
    )
    more_pods: int = Field(default=0, description="Further pods that aren't listed, and aren't placed.")
    promises: tuple[str, ...] = Field(
        default=(),
        description="Reservations of these nodes, and bookings that couldn't be kept without them.",
    )
    more_promises: int = Field(default=0, description="Further ones.")
    notes: tuple[str, ...] = Field(
        default=(), description="What else is lost, and what the site doesn't describe; a sentence each."
    )
