"""Partitions and their enumerations. The numbers are those of the wire (package ``virmgrpc``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Routing(IntEnum):
    """How IPU-Links are used within a segment (``IpuLinkRoutingType``)."""

    UNDEFINED = 0
    DNC = 1
    SWNC = 2
    BTNC = 3
    RINGSWNC = 4


class GatewayRouting(IntEnum):
    """How GW-Links join the segments (``GatewayRoutingType``)."""

    UNDEFINED = 0
    RING = 2
    SWRING = 3


class SyncType(IntEnum):
    """Grouping of the sync between GCDs (``SyncType``)."""

    UNDEFINED = 0
    GS2_DEFAULT = 1
    GS2_INDEPENDENT_RAILS = 2
    POD_NATIVE_DEFAULT = 3
    POD_NATIVE_REPLICATED_PIPELINE = 4


class ReadyState(IntEnum):
    """May the partition be used? (``PartitionReadyState``)."""

    UNDEFINED = 0
    PENDING = 1
    ACTIVE = 2
    REMOVED = 3
    ERROR = 4


class Operation(IntEnum):
    """What is being done to the partition (``PartitionOperationState``)."""

    UNDEFINED = 0
    IDLE = 1
    CREATING = 2
    REMOVING = 3
    RESETTING = 4
    FAILED = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """One IPU of an exact choice, as ``PartitionIpu`` has it."""

    ild: int
    segment: int
    topology_id: int
    routing_id: int


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements of a new partition. Zero, UNDEFINED and empty mean "choose for me"."""

    id: str
    size: int = 0
    cluster_id: str = ""
    routing: Routing = Routing.UNDEFINED
    segments: int = 0
    gw_routing: GatewayRouting = GatewayRouting.UNDEFINED
    sync_type: SyncType = SyncType.UNDEFINED
    gcds: int = 0
    reconfigurable: bool = False
    replicas: int = 0
    allocation_id: str = ""
    ipus: tuple[Selection, ...] = ()
    auto_reset: bool = True
    relocatable: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """Requirements with every choice made, but no place yet. Sizes count IPUs."""

    size: int
    segments: int
    gcds: int
    replicas: int
    reconfigurable: bool
    routing: Routing
    gw_routing: GatewayRouting
    sync_type: SyncType

    @property
    def segment_size(self) -> int:
        """IPUs of a segment."""
        return self.size // self.segments

    @property
    def gcd_size(self) -> int:
        """IPUs of a graph compile domain."""
        return self.size // self.gcds


@dataclass(frozen=True, slots=True)
class PlacedIpu:
    """One IPU of a partition: its machine, its place in the IPU-Link domain, its name for Poplar."""

    agent_id: str
    number: int
    ild: int
    segment: int
    topology_id: int
    routing_id: int


@dataclass(frozen=True, slots=True)
class RemovedPartition:
    """A removed partition, while clients may still ask for its status."""

    id: str
    allocation_id: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it is stored. ``generation`` grows with every new setting of the hardware."""

    id: str
    cluster_id: str
    allocation_id: str
    shape: Shape
    ipus: tuple[PlacedIpu, ...]
    generation: int
    auto_reset: bool
    relocatable: bool
    ready: ReadyState = ReadyState.PENDING
    operation: Operation = Operation.CREATING
    errors: tuple[str, ...] = ()
    retries: int = 0
    last_auto_reset: float = 0.0
    force_removal: bool = False

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Its machines, each once, in routing order."""
        return tuple(dict.fromkeys(ipu.agent_id for ipu in self.ipus))
