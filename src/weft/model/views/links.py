"""Who is on which link of a fabric, and what the link carries now."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.base import Document

MOST_LINKS = 1000
"""Links that an answer has at most; of the others only the number."""
MOST_LINK_PODS = 100
"""Pods that an answer has at most for a link."""

Waiting = Field(
    default=None,
    description="Share of the time with data to send in which it waited, in the last interval; null: not known.",
)

PortName = Field(default="", description="The vendor's name of the port; empty: its number is its name.")


class LinkReading(Document):
    """The reading that an answer was computed from, and what isn't known in it."""

    fabric: str
    pattern: Literal["rail", "all", "ring"] = Field(
        description="Which adapters of a pod are taken to send to each other: on the same rail, all, or neighbors in a "
        "ring on each rail."
    )
    routes_age: float = Field(description="Seconds since the reading of the forwarding tables began.")
    routes: str = Field(description="Digest of the forwarding tables, ports and cables.")
    rates_age: float | None = Field(
        default=None, description="Seconds since the newest reading of counters began; null: not read."
    )
    rates_seconds: tuple[float, ...] = Field(
        default=(), description="Lengths of the last two intervals of counters, newest first."
    )
    rates_unread: str = Field(default="", description="Why what links carry isn't known.")
    engine: str = Field(default="", description="Routing engine in force; empty: not known.")
    exact: bool = Field(
        description="Whether each packet of a pair takes the shown path. Otherwise the paths are possible: there are "
        "several LIDs a port, switches choose adaptively, that isn't known, or the reading is partial."
    )
    notes: tuple[str, ...] = Field(default=(), description="What isn't known, a sentence each.")


class LinkPod(Document):
    """A pod, or a tenant's own network, on a link."""

    kind: Literal["pod", "network"]
    name: str
    id: str
    project_id: str
    paths: int = Field(description="How many of its paths use the link.")
    sent_gbps: float | None = Field(
        default=None,
        description="Gb/s that it sends on the link, by what its adapters send, split evenly over their paths; null: "
        "not known.",
    )


class LinkView(Document):
    """One direction of a cable."""

    sender: str = Field(description="Switch, or node/adapter, that sends.")
    sender_port: int
    receiver: str
    receiver_port: int
    sender_port_name: str = PortName
    receiver_port_name: str = PortName
    gbps: int | None = Field(default=None, description="Gb/s of the link; null: not known.")
    sent_gbps: float | None = Field(
        default=None, description="Gb/s that the link carries now; null: not known."
    )
    waiting: float | None = Waiting
    waiting_before: float | None = Field(default=None, description="`waiting` in the interval before.")
    at_least: bool = Field(
        default=False, description="The values are at least that: a counter was reset, or reached its end."
    )
    congested: bool | None = Field(
        default=None, description="Waiting above 0.3 in both intervals; null: not known."
    )
    pauses: float | None = Field(
        default=None,
        description="Ethernet: pauses of priority flow control per second that keep it from sending; null: not known.",
    )
    marked: float | None = Field(
        default=None,
        description="Ethernet: frames per second that it marked as having met congestion (ECN); null: not known.",
    )
    cause: str = Field(
        default="",
        description="Id of what sends at least 80 % of the bytes that pods explain on a congested link, and of those "
        "that it carries; empty: none, or not known.",
    )
    pods: tuple[LinkPod, ...] = Field(default=(), description="Most bytes, then most paths first.")
    more_pods: int = Field(default=0, description="Further ones.")


class LinkAnswer(Document):
    """A cable in both directions."""

    target: str
    reading: LinkReading
    links: tuple[LinkView, ...]


class PodLink(Document):
    """A link that a pod's paths use."""

    sender: str
    sender_port: int
    receiver: str
    receiver_port: int
    sender_port_name: str = PortName
    receiver_port_name: str = PortName
    sender_level: Literal["adapter", "leaf", "other"]
    receiver_level: Literal["adapter", "leaf", "other"]
    paths: int = Field(description="How many of the pod's paths use it.")
    shared_with: int = Field(description="How many other pods and networks have paths on it.")
    gbps: int | None = Field(default=None, description="Gb/s of the link; null: not known.")
    sent_gbps: float | None = Field(default=None, description="Gb/s that it carries now; null: not known.")
    waiting: float | None = Waiting
    congested: bool | None = Field(
        default=None, description="Waiting above 0.3 in both intervals; null: not known."
    )


class PodLinks(Document):
    """The links that a pod's paths use, those shared with most others first."""

    pod: str
    id: str
    fabric: str
    pattern: Literal["rail", "all", "ring"]
    routes_age: float = Field(description="Seconds since the reading of the forwarding tables began.")
    exact: bool = Field(description="Whether each packet of a pair takes the shown path; otherwise it may.")
    equal_paths: bool = Field(
        default=False,
        description="These are all links of all shortest paths by the site's cabling, since the switches choose among "
        "them: there are no forwarding tables.",
    )
    adapters: int = Field(description="The pod's adapters on the fabric.")
    unseen: int = Field(default=0, description="Of these, adapters that no switch has a cable to.")
    lost: int = Field(default=0, description="Paths that don't arrive, or are unknown: they use no link.")
    shared_with: int = Field(
        description="How many other pods and networks share a link between switches with it."
    )
    links: tuple[PodLink, ...]
    more_links: int = Field(default=0, description="Further links.")
    reading: LinkReading | None = None


class Disturber(Document):
    """What shares links between switches with a pod."""

    kind: Literal["pod", "network"]
    name: str
    id: str
    project_id: str
    shared_links: int
    congested_links: int = Field(description="How many of them are congested.")
    cause_of: int = Field(description="Of how many congested ones it is the cause.")
    sent_gbps: float | None = Field(
        default=None,
        description="Most Gb/s that it sends on one of the congested links; null: none, or not known.",
    )


class NodeLoad(Document):
    """How much of its links a node uses now."""

    node: str
    load: float | None = Field(
        description="Share of its link's speed that the busiest of its adapters sends or receives; null: not known."
    )


class NodeLoads(Document):
    """Loads of all nodes with adapters on fabrics whose links can be followed."""

    nodes: tuple[NodeLoad, ...]
    unread: dict[str, str] = Field(description="Fabrics that couldn't be read, and why.")


class Disturbers(Document):
    """What may disturb a pod: others on its links between switches, the likeliest first."""

    pod: str
    id: str
    project_id: str
    reading: LinkReading
    links: int = Field(description="Links between switches that the pod's paths use.")
    unknown_links: int = Field(
        description="Of these, links of which it isn't known whether they are congested."
    )
    congested: tuple[LinkView, ...] = Field(description="Of these, congested links.")
    more_congested: int = Field(default=0, description="Further congested links.")
    others: tuple[Disturber, ...]
    more_others: int = Field(default=0, description="Further ones.")
