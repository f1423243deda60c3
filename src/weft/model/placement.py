"""Values of placement: requests, occupancy, and results with their explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.localityorder import Level, Preference, SliceWithin
from weft.model.messages.documents import Coded, Sentence
from weft.model.offer import Offer
from weft.model.site import AcceleratorCount, PciAffinity


class Share(Document):
    """What a server uses of a shared node, besides accelerators."""

    cores: int = Field(default=0, ge=0, description="Virtual cores.")
    memory_mib: int = Field(default=0, ge=0, description="MiB.")
    dedicated: bool = Field(default=False, description="Its cores are its own alone (PCPU).")
    numa: int | None = Field(
        default=None, ge=1, description="NUMA nodes that it is spread over evenly; none: it is bound to none."
    )
    affinity: PciAffinity = Field(default="legacy", description="As in `Flavor.pci_affinity`.")
    vfs: int = Field(
        default=0, ge=0, description="Virtual functions on the fabric, each of another adapter of the node."
    )


class Part(Document):
    """What one server has, or gets, of a shared node."""

    devices: tuple[str, ...] = Field(
        description="PCI addresses of accelerators as weft counts them; Nova decides which ones the server gets."
    )
    cores: int = 0
    memory_mib: int = 0
    of_cores: int | None = Field(default=None, description="Cores of the node in all; none: not counted.")
    of_memory_mib: int | None = Field(
        default=None, description="Memory of the node in all, in MiB; none: not counted."
    )
    dedicated: bool = Field(default=False, description="Its cores are its own alone (PCPU).")
    numa: tuple[int, ...] = Field(
        default=(), description="NUMA nodes that cores and memory come from, equally; none: any."
    )
    numa_of: int = Field(
        default=1, ge=1, description="NUMA nodes of the node, which share what it has evenly."
    )
    vfs: tuple[str, ...] = Field(
        default=(),
        description="Virtual functions as weft counts them, such as mlx5_0/3; Nova decides which ones the server "
        "gets.",
    )
    slots: Mapping[str, str] = Field(
        default_factory=dict,
        description="Virtual function -> PCI address of the function that Nova has bound.",
    )
    start: float = Field(
        default=0.0, description="Of an occupancy: from when, within the time that is asked for; seconds."
    )
    end: float | None = Field(
        default=None, description="Until when; none: as long as the time that is asked for lasts."
    )


class PlacementRequest(Document):
    """The part of an order that placement decides on, all names resolved."""

    pod: str = Field(description="Name of the pod, for the explanation.")
    project: str
    count: int = Field(ge=1)
    cloud: Name
    fabric: Name = Field(description="Fabric by name, or `none`: the nodes of every fabric, and of none.")
    hcas_per_node: int = Field(ge=0, description="Adapters on the fabric that each node must have.")
    accelerators: AcceleratorCount | None = None
    bare_metal: bool = Field(default=False, description="Machines in Ironic; else none of these.")
    share: Share | None = Field(
        default=None, description="None: whole nodes; else `count` servers on shared ones."
    )
    required: Level = "site"
    preferred: Level = "leaf"
    boot: str = Field(
        default="", description="What is booted: a key of `Occupancy.unfit`; nothing: any host will do."
    )
    near: tuple[Name, ...] = Field(default=(), description="Nodes of the same pod that stay (replacement).")
    exclude: tuple[Name, ...] = Field(default=(), description="Nodes that must not be chosen.")
    slice: int = Field(
        default=1, ge=1, description="Groups of this many nodes stay within one domain of `slice_within`."
    )
    slice_within: SliceWithin = Field(default="leaf", description="As in the order.")
    apart_from: tuple[str, ...] = Field(
        default=(), description="Projects whose leaves are not shared with (anti-affinity)."
    )
    spare: int = Field(
        default=0,
        ge=0,
        description="Number of further nodes held idle for the pod, in the same domain of the required level.",
    )
    exclusive: bool = Field(
        default=False, description="Its leaves are shared with no other project, as long as it is there."
    )
    preferences: tuple[Preference, ...] = Field(
        default=(), description="Nodes to prefer or avoid, each at a cost."
    )
    bisection_gbps: int = Field(
        default=0,
        ge=0,
        description="Gb/s of each node that the uplinks of its leaf must carry for it; 0: no guarantee.",
    )


class Neighbour(Document):
    """A holder of nodes in the requested time, with its constraints on leaves."""

    pod: str = Field(description="A pod, or what else the nodes are kept for.")
    project: str
    nodes: tuple[str, ...]
    apart_from: tuple[str, ...] = Field(default=(), description="Projects that it shares no leaf with.")
    exclusive: bool = Field(default=False, description="It shares its leaves with no other project.")
    bisection_gbps: int = Field(default=0, description="As in `PlacementRequest`.")
    start: float = Field(default=0.0, description="From when, within the time that is asked for; seconds.")
    end: float | None = Field(default=None, description="Until when; none: as long as that time lasts.")


class FullPort(Document):
    """A host port whose table has no entry left for another P_Key or VLAN."""

    fabric: Name
    node: Name
    why: str = Field(description="One sentence that names the port.")


class Occupancy(Document):
    """What is not available now. The rest is in the site."""

    busy: Mapping[Name, str] = Field(default_factory=dict, description="Node -> pod that holds it.")
    parts: Mapping[Name, tuple[Part, ...]] = Field(
        default_factory=dict,
        description="Node that is shared -> what is taken of it. For whole nodes it is busy, too.",
    )
    quarantined: Mapping[Name, str] = Field(default_factory=dict, description="Node -> reason.")
    on_hold: Mapping[Name, str] = Field(
        default_factory=dict, description="Node -> what it must be accepted for before it is assigned."
    )
    drained: Mapping[Name, str] = Field(
        default_factory=dict, description="Node that operators empty -> by when and why."
    )
    failing: Mapping[Name, str] = Field(
        default_factory=dict, description="Node -> which of its own checks keep it from new orders."
    )
    reported: Mapping[Name, str] = Field(
        default_factory=dict,
        description="Node that the order's project has reported -> in which pod, and why.",
    )
    down: Mapping[Name, str] = Field(
        default_factory=dict,
        description="Node -> why its cloud can't boot on it now (compute service down …).",
    )
    shared: Mapping[Name, str] = Field(
        default_factory=dict,
        description="Node -> for whom parts of it are booked in the time that is asked for: it can't be had whole.",
    )
    unfit: Mapping[str, Mapping[Name, str]] = Field(
        default_factory=dict,
        description="What is booted (`PlacementRequest.boot`) -> node -> why Nova would not boot that on its host.",
    )
    full_ports: tuple[FullPort, ...] = Field(
        default=(),
        description="Ports without an entry left; a node that has one on the order's fabric is not chosen.",
    )
    own: tuple[Name, ...] = Field(
        default=(),
        description="Nodes that are set aside for the order's project in the time that is asked for; they come before "
        "others that are as good. For `place` alone: an engine has a timeline for it.",
    )
    reserved: Mapping[Name, str] = Field(
        default_factory=dict,
        description="Node -> for whom it is kept in the time that is asked for (booked, or set aside); "
        "for `place` alone: an engine has a timeline for it.",
    )
    neighbours: tuple[Neighbour, ...] = Field(
        default=(),
        description="Who has which nodes in the time that is asked for, those with a booking included: what leaves "
        "are shared with, and what their uplinks carry.",
    )

    def out_of_service(self, node: str) -> str | None:
        """Why a node isn't assigned to an order, such as down, in quarantine, or reported; None: it may be."""
        ways = (self.down, self.quarantined, self.on_hold, self.drained, self.failing, self.reported)
        return next((way[node] for way in ways if node in way), None)


class PlacedNode(Document):
    """A chosen node and its location."""

    node: Name
    rack: str | None
    leaf: str
    block: str = Field(description="Group of leaves; `-` where the site has no groups.")
    nvlink_domain: Name | None = Field(default=None, description="NVLink domain that the node is in, if any.")
    part: Part | None = Field(
        default=None, description="What a server has of it; none: it is the pod's alone."
    )
    server: int | None = Field(
        default=None,
        ge=0,
        description="Number of a server among the pod's on a shared node, part of the names of its resources; none: "
        "its place among them.",
    )


def by_server(nodes: Iterable[PlacedNode]) -> dict[str, PlacedNode]:
    """Name of each server in its pod -> its node: the node's name, on shared nodes with a number, `gpu3/0`."""
    before: Counter[str] = Counter()
    found: dict[str, PlacedNode] = {}
    for one in nodes:
        if one.part is None:
            found[one.node] = one
            continue
        number = before[one.node] if one.server is None else one.server
        found[f"{one.node}/{number}"] = one
        before[one.node] += 1
    return found


class FilterReport(Document):
    """What one filter removed."""

    filter: str = Field(description="Name of the filter, such as `maintenance`.")
    removed: int
    left: int
    examples: tuple[str, ...] = Field(default=(), description="Up to three nodes, each with its reason.")


class Candidate(Document):
    """A set of leaves that was compared."""

    leaves: tuple[str, ...]
    blocks: int
    leftover: int = Field(description="Free nodes that stay behind on the leaves used.")
    why: str = Field(description="Why it was taken, or not.")


class Explanation(Document):
    """Why these nodes were chosen, or why none."""

    considered: int
    filters: tuple[FilterReport, ...] = ()
    compared: tuple[Candidate, ...] = ()
    chosen: Sentence = Field(default="", description="One sentence: why the winner won, or why nothing fits.")


class Placement(Document):
    """Nodes in the order in which servers are numbered: by leaf, then by name; a shared one once for each server."""

    nodes: tuple[PlacedNode, ...]
    spares: tuple[PlacedNode, ...] = Field(default=(), description="Kept idle for the pod.")
    level: Level = Field(description="The nearest level that holds all of them.")
    rails: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="Rail-optimized fabrics: leaf -> the switches that count as this leaf, by rail.",
    )
    explanation: Explanation

    @property
    def held(self) -> tuple[str, ...]:
        """Names of everything that the pod holds, once each: working nodes, then spares."""
        return tuple(dict.fromkeys(n.node for n in (*self.nodes, *self.spares)))


class QuotaExcess(Document):
    """A quota of the project that an order would exceed."""

    resource: str = Field(description="As the cloud calls it, such as `cores`.")
    limit: int
    used: int
    wanted: int = Field(description="What the order takes of it.")


class Refusal(Coded):
    """No placement."""

    sentence: ClassVar[str] = "reason"

    reason: Sentence
    explanation: Explanation
    would_fit: tuple[Offer, ...] = Field(default=(), description="Smallest changes that would make it fit.")
    earliest_start: datetime | None = Field(
        default=None, description="When it would fit unchanged, if no lease is extended."
    )
    quotas: tuple[QuotaExcess, ...] = Field(
        default=(), description="Quotas of the project in the cloud that it would exceed."
    )
