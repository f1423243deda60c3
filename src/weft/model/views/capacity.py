"""What can be ordered, now and later."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Instant
from weft.model.localityorder import Level
from weft.model.site import AcceleratorCount


class LargestView(Document):
    """The largest order that fits now."""

    count: int = Field(description="Its size, in what `orders` of its row names; 0: none fits.")
    level: Level | None = Field(
        default=None, description="All of it within one domain of this level; null: the shape has no levels."
    )
    flavor: str | None = Field(default=None, description="Flavor of each server; null: any.")
    accelerators: int | None = Field(default=None, description="Accelerators of each server of that flavor.")
    where: str = Field(default="", description="A domain where it fits; operators only.")


class SoonView(Document):
    """When a larger order will fit, if no lease is extended."""

    count: int
    at: datetime
    level: Level | None = Field(default=None, description="As in `largest`.")


class CountView(Document):
    """Another number that limits orders from a row's capacity."""

    name: str = Field(description="What is counted, such as `NVLink domains`.")
    total: int | None = Field(default=None, description="All of them; null: not counted.")
    free: int | None = Field(default=None, description="Free for the whole duration; null: doesn't apply.")
    each: int | None = Field(default=None, description="Nodes of each of them, where they have nodes.")


class CapacityRowView(Document):
    """One kind of capacity in one place: what a shape of pods is made of."""

    shape: str = Field(
        description="nodes: whole nodes. parts: servers on shared nodes (`nodes.sharing: shared`). ipus: IPUs."
    )
    cloud: str
    place_kind: str = Field(description="What `place` is, such as `fabric` or `IPU-POD`.")
    place: str = Field(description="Its name; fabric `none`: pods without a fabric.")
    accelerators: AcceleratorCount | None = Field(
        description="Accelerators of each of what is counted; null: any node."
    )
    unit: str = Field(description="What `total` and `free` count: nodes, accelerators, IPU-Machines.")
    total: int = Field(description="Whether free or not.")
    free: int = Field(description="Free for the whole duration.")
    orders: str = Field(description="What sizes of orders count: nodes, servers, IPUs.")
    largest: tuple[LargestView, ...] = Field(description="By level or flavor, where the shape has these.")
    soon: tuple[SoonView, ...] = Field(
        default=(),
        description="When larger orders will fit: powers of two, and the largest possible; omitted if not known.",
    )
    counts: tuple[CountView, ...] = Field(
        default=(), description="Further numbers: NVLink domains, virtual functions, Poplar servers …"
    )


class CapacityView(Document):
    """What can be ordered, now and later."""

    at: datetime
    duration: str = Field(description="How long an order must be able to run.")
    rows: tuple[CapacityRowView, ...] = Field(
        description="Rows of all shapes; if a level is given, of those that have levels."
    )
    waiting: int = Field(default=0, description="Number of orders in the queue, of all projects.")


class CapacitySearch(Document):
    """The period that a history of capacity is asked for."""

    since: Instant | None = Field(
        default=None, description="Begin of the period. Default: a week before its end."
    )
    until: Instant | None = Field(default=None, description="Its end. Default: now.")
    points: int = Field(default=100, ge=1, le=500, description="At most so many, at equal steps.")


class TypeStates(Document):
    """Nodes of one type by state."""

    type: str = Field(description="Type of the nodes' accelerators; none: they have none; ipu: IPU-Machines.")
    total: int
    states: dict[str, int] = Field(
        description="Number of nodes by state, as in `GET /v1/nodes`; a node that pods share is busy. Servers that "
        "weft didn't create, of which only the cloud knows, don't count."
    )


class CapacityPoint(Document):
    """What was free at one moment."""

    at: datetime
    waiting: int = Field(description="The most orders that waited in the queue since the point before.")
    nodes: tuple[TypeStates, ...]


class CapacityHistory(Document):
    """What was free over time, and how many orders waited."""

    since: datetime
    until: datetime
    kept: str = Field(description="For how long the site keeps it.")
    points: tuple[CapacityPoint, ...] = Field(description="The oldest first; none where no worker ran.")
