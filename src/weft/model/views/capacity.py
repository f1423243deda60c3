"""What can be ordered, now and later."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from weft.model.base import Document
from weft.model.localityorder import Level
from weft.model.site import AcceleratorCount


class LargestView(Document):
    """The largest order that fits now within one domain of a level."""

    level: Level
    count: int = Field(description="Number of nodes.")
    where: str = Field(default="", description="A domain where it fits; operators only.")


class SoonView(Document):
    """When an order of this size will fit, if no lease is extended."""

    level: Level
    count: int
    at: datetime


class NvlinkView(Document):
    """NVLink domains of one size."""

    nodes: int = Field(description="Nodes of each domain.")
    domains: int = Field(description="Number of such domains, whether free or not.")
    free: int = Field(description="Those of which all nodes are free for the whole duration.")


class CapacityRowView(Document):
    """One type of node in one cloud on one fabric."""

    fabric: str
    cloud: str
    accelerators: AcceleratorCount | None = Field(description="Accelerators of each node; null: any node.")
    nodes: int = Field(description="Number of such nodes, whether free or not.")
    free: int
    largest: tuple[LargestView, ...]
    nvlink: tuple[NvlinkView, ...] = Field(
        default=(), description="NVLink domains of such nodes, by size; omitted if there are none."
    )
    rails: int = Field(
        default=1, description="Rails of the fabric: leaf switches that count as one leaf, at most."
    )
    soon: tuple[SoonView, ...] = Field(
        default=(),
        description="When larger orders will fit: powers of two, and the largest possible; omitted if not known.",
    )


class LargestPartsView(Document):
    """The largest order of servers on shared nodes that fits now."""

    flavor: str
    accelerators: int = Field(description="Accelerators of each server.")
    count: int = Field(description="Servers; 0: none.")


class PartsRowView(Document):
    """One type of accelerator on nodes that can be shared."""

    fabric: str = Field(description="Fabric with virtual functions, or `none`: pods without a fabric.")
    cloud: str
    accelerator: str = Field(description="Type of the accelerators.")
    total: int = Field(description="Accelerators of that type.")
    free: int = Field(description="Those that can be ordered for that long.")
    nodes: int = Field(description="Nodes that have them.")
    shared: int = Field(description="Nodes that are partly in use.")
    functions: int | None = Field(
        default=None, description="Free virtual functions on these nodes; none without a fabric."
    )
    largest: tuple[LargestPartsView, ...]


class LargestIpusView(Document):
    """The largest order of IPUs that fits now."""

    count: int = Field(description="Number of IPUs.")
    where: str = Field(default="", description="IPU-POD and positions where it fits; operators only.")


class SoonIpusView(Document):
    """When an order of this many IPUs will fit, if no lease is extended."""

    count: int
    at: datetime


class IpuCapacityView(Document):
    """The IPUs of one IPU-POD. An order gets adjacent machines and at least one Poplar server."""

    ipu_pod: str
    cloud: str
    machines: int = Field(description="Number of IPU-Machines, four IPUs each.")
    free: int = Field(description="IPU-Machines that are free for the whole duration.")
    poplar_servers: int = Field(description="Poplar servers with capacity for another pod.")
    largest: LargestIpusView
    soon: tuple[SoonIpusView, ...] = Field(
        default=(), description="When larger orders will fit; omitted if not known."
    )


class CapacityView(Document):
    """What can be ordered, now and later."""

    at: datetime
    duration: str = Field(description="How long an order must be able to run.")
    rows: tuple[CapacityRowView, ...]
    parts: tuple[PartsRowView, ...] = Field(
        default=(), description="Parts of nodes (`nodes.sharing: shared`), unless a level is given."
    )
    ipus: tuple[IpuCapacityView, ...] = Field(
        default=(), description="IPU-PODs; omitted if a level is given."
    )
    waiting: int = Field(default=0, description="Number of orders in the queue, of all projects.")
