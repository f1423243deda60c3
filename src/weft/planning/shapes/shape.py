"""Shapes of pods: whole GPU nodes on a fabric, IPUs with their Poplar servers, and future ones.

An order is resolved once; everything that differs between shapes is asked of its `Shape`. Shapes have packages of
their own and are independent of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from weft.model.change import Replacement
from weft.model.fabric import Capabilities
from weft.model.ipuorder import PodIpus
from weft.model.localityorder import Level
from weft.model.messages.message import Message
from weft.model.offer import Offer
from weft.model.order import Order
from weft.model.placement import Occupancy, PlacedNode, Placement, Refusal
from weft.model.plan import Allotment, Plan, UsedNumbers
from weft.model.resources import Graph
from weft.model.site import AcceleratorCount, Fabric, Site
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER
from weft.planning.queue.book import Book
from weft.planning.queue.capacityrow import CapacityRow
from weft.planning.queue.keep import Keep

NO_USE: Mapping[str, float] = {}
"""No project has used anything."""
AGAIN = "release the pod and order it again"
"""What to do where a field can't be changed."""


class Where(NamedTuple):
    """Where an order is placed; each has its own timeline and queue.

    Attributes:
        shape: name of the shape.
        name: a name that the shape chooses, such as a fabric or a cloud.
    """

    shape: str
    name: str


class Needs(NamedTuple):
    """What must be queried before something can be placed in a cloud.

    Attributes:
        fabrics: fabrics whose managers must be queried.
        managers: managers of accelerators outside of hosts, by name in the site.
        boots: orders whose images and flavors may have requirements on hosts.
    """

    fabrics: frozenset[str] = frozenset()
    managers: frozenset[str] = frozenset()
    boots: tuple[Resolved, ...] = ()

    @classmethod
    def of(cls, orders: Iterable[Resolved]) -> Needs:
        """The needs of these orders only: an unreachable fabric without orders must not delay others."""
        every = tuple(orders)
        return cls(
            frozenset(f for o in every for f in o.fabrics),
            frozenset(m for o in every for m in o.managers),
            tuple(o for o in every if o.boots),
        )


def all_of(needs: Iterable[Needs]) -> Needs:
    """The needs of all of these together."""
    every = list(needs)
    return Needs(
        frozenset(name for n in every for name in n.fabrics),
        frozenset(name for n in every for name in n.managers),
        tuple(order for n in every for order in n.boots),
    )


class Assignment(NamedTuple):
    """The nodes of a pod after a change of its order, and their numbers."""

    placement: Placement
    allotment: Allotment


class Elsewhere(NamedTuple):
    """Where a pod would continue without some of its nodes.

    Attributes:
        placement: of all its nodes, those that stay included.
        added: servers or machines that aren't where they were, by the name of their node; once for each server.
        slots: numbers on shared hosts that it would take besides.
        spares: its idle spares that would get a server.
        moves: nodes that it would leave although they aren't lost, so that the order's rules are kept.
    """

    placement: Placement
    added: tuple[PlacedNode, ...]
    slots: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """An order with all open choices resolved.

    Attributes:
        cloud, flavor: by their names in the site.
        accelerators: of each node, as the flavor has them.
        fabric: fabric whose nodes it gets, as placement names it; empty: none. If the site has it, its manager must
            answer before the order can be placed.
        wired: further fabrics on which it gets a segment.
        managers: managers of accelerators outside of hosts, by name in the site: what is out of order there must be
            known before it can be placed.
        boots: what is booted, as `PlacementRequest.boot` names it; empty: any host can boot it.
    """

    order: Order
    project: str
    site: Site
    shape: Shape
    cloud: str
    flavor: str
    accelerators: AcceleratorCount | None = None
    fabric: str = ""
    wired: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    boots: str = ""

    @property
    def fabrics(self) -> tuple[str, ...]:
        """Fabrics whose managers must answer before it can be placed."""
        return (*((self.fabric,) if self.fabric in self.site.fabrics else ()), *self.wired)

    def naming(self, order: Order) -> Resolved:
        """This with another order, which differs only in how it names projects, key pair and storage."""
        return replace(self, order=order)

    @property
    def where(self) -> Where:
        """Where the order is placed: its shape, and the name of the shape's place for it."""
        return Where(self.shape.name, self.shape.place_of(self))

    @property
    def ask(self) -> Ask:
        """The ask for the timeline. Raises `InputError` for an invalid order."""
        return self.shape.ask(self)


@dataclass(frozen=True, slots=True)
class CapacityAsked:
    """A question for what could be ordered: the arguments of `weft.planning.queue.capacity.capacity`, and limits.

    Attributes:
        accelerator: type; None: any.
        level: orders within one domain of this level; None: any.
    """

    site: Site
    health: Occupancy
    book: Book
    now: float
    duration: float
    project: str = ""
    accelerator: str | None = None
    level: Level | None = None


@dataclass(frozen=True, slots=True)
class WaitingOrder:
    """An order that waits in a line.

    Attributes:
        ask: with the pod's id, and without the nodes that its project has reported.
        duration: seconds, the longest it may run.
        until: when it ends at the latest, however late it starts.
        not_before: when it may start at the earliest; POSIX time.
        fixed: its start was booked with the order.
        reported: these nodes -> why.
    """

    order: Resolved
    ask: Ask
    submitted: float
    duration: float
    until: float = FOREVER
    not_before: float = 0.0
    fixed: bool = False
    reported: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def pod(self) -> str:
        """The pod's name in the line, which is its id."""
        return self.ask.pod


@dataclass(frozen=True, slots=True)
class WaitingNote:
    """What is known about an order that keeps waiting.

    Attributes:
        position: in the queue, from 1; None: it has a booking, or can't be judged now.
        expected: when it is expected to start; POSIX time.
        booking: nodes booked for it from then, or kept for it without a time.
    """

    reason: str
    position: int | None = None
    expected: float | None = None
    booking: Keep | None = None


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of processing a line once.

    Attributes:
        start: pod that starts now; the rest is empty then.
        notes: pod -> what is known of it.
        next_at: when something is due; POSIX time.
    """

    start: str | None = None
    notes: Mapping[str, WaitingNote] = field(default_factory=dict[str, WaitingNote])
    next_at: float = FOREVER


class Line(Protocol):
    """Placement in time at one `Where`: what is held and booked there, at one moment."""

    def process(
        self, waiting: Sequence[WaitingOrder], wait: frozenset[str], forecast: bool = True
    ) -> LineResult:
        """Which of all that wait here starts now, and what is known of the others.

        Args:
            wait: orders that get no new booking, because another line's turn comes first.
            forecast: whether to estimate the starts of orders without a booking.
        """
        ...

    def advise(
        self, refusal: Refusal, order: Resolved, pod: str, start: float, end: float, until: float
    ) -> Refusal:
        """A refusal for lack of capacity in this window, with the lease with which the order would fit.

        Args:
            pod: its own booking doesn't count.
            until: when it ends at the latest, however late it starts.
        """
        ...


@dataclass(frozen=True, slots=True)
class LineAsked:
    """What a line is made from.

    Attributes:
        name: `Where.name`; all else in the book is ignored.
        health: what is out of order.
        now: POSIX time.
        used: project -> unit-seconds, weighted by age.
    """

    book: Book
    site: Site
    name: str
    health: Occupancy
    now: float
    used: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class ChangedPod:
    """A placed pod whose order changes, or that loses nodes, and what it is placed against.

    Attributes:
        plan: in force.
        order: as it shall be.
        occupancy: what is unavailable for that order's lease.
        leaving: nodes, or servers, of earlier generations that aren't released yet: their numbers are in use.
    """

    plan: Plan
    order: Order
    site: Site
    occupancy: Occupancy
    leaving: Collection[str] = ()


class Shape(Protocol):
    """One shape of pods. Pure and stateless."""

    @property
    def name(self) -> str:
        """One word, such as `nodes`."""
        ...

    @property
    def units(self) -> str:
        """What a pod's capacity is counted in, for people: `nodes`."""
        ...

    def count(self, order: Order) -> int:
        """How many units an order takes, spares included; a project's use is counted in these."""
        ...

    @property
    def shares_nodes(self) -> bool:
        """Whether its servers have parts of nodes, of which others may have parts, too."""
        ...

    @property
    def changeable(self) -> frozenset[str]:
        """Fields of an order that can be changed on a running pod."""
        ...

    @property
    def fixed(self) -> Mapping[str, str]:
        """Field, or prefix of fields -> why it can't be changed, where the reason is specific to this shape."""
        ...

    def is_of(self, order: Order) -> bool:
        """Whether the order is of this shape; if several match, the first in `SHAPES` counts."""
        ...

    def resolved(self, order: Order, project: str, site: Site, cloud: str, flavor: str) -> Resolved:
        """The order, resolved. Raises `InputError` for an invalid order, or for names that the site doesn't know."""
        ...

    def as_placed(self, order: Order, plan: Plan) -> Order:
        """The order of an existing pod, with what the shape chose where it names nothing."""
        ...

    # -- in time

    def place_of(self, order: Resolved) -> str:
        """`Where.name`."""
        ...

    def ask(self, order: Resolved) -> Ask:
        """What placement is asked for an order."""
        ...

    def line(self, asked: LineAsked) -> Line:
        """The line of one `Where.name`."""
        ...

    def adds(self, order: Resolved, nodes: Iterable[str], has: Collection[str]) -> int:
        """How many nodes a project would have more by an order that gets these; `has`: those it has."""
        ...

    # -- the plan

    def plan(
        self,
        pod_id: str,
        order: Resolved,
        occupancy: Occupancy,
        used: UsedNumbers,
        capabilities: Mapping[str, Capabilities],
    ) -> Plan | Refusal:
        """See `weft.planning.shapes.plan.make_plan`."""
        ...

    def is_full(self, refusal: Refusal) -> bool:
        """Whether the order was refused for lack of capacity, so that another time may work."""
        ...

    def fewer(self, order: Order, most: int) -> Offer | None:
        """The largest order with this many nodes or machines; None: its size doesn't say how many it takes."""
        ...

    def cut(self, plan: Plan) -> dict[str, str]:
        """Network -> subnet that was allocated from the site's range, not given by order or site."""
        ...

    # -- a change of the order

    def reassign(self, pod: ChangedPod, remove: Collection[str]) -> Assignment | Refusal:
        """See `weft.planning.shapes.gpu.reassign.reassign`."""
        ...

    def why_kept(self, order: Order) -> Message | None:
        """Why none of a pod's nodes can be replaced by another one, whatever is free; None: they can."""
        ...

    def replace(self, pod: ChangedPod, asked: Replacement) -> Assignment | Refusal:
        """See `weft.planning.shapes.gpu.replacing.replace_node`. Not asked where `why_kept`."""
        ...

    def elsewhere(self, pod: ChangedPod, lost: Collection[str]) -> Elsewhere | Refusal:
        """Where the pod would be without its nodes of these names, by its order's rules; nothing is numbered.

        Raises `InputError` and `ConflictError` as `reassign`.
        """
        ...

    def graph(self, plan: Plan, site: Site) -> Graph:
        """The desired state for a plan's order, placement and numbers."""
        ...

    # -- for people

    def headline(self, plan: Plan) -> str:
        """What the plan takes, in one sentence."""
        ...

    def limits(self, plan: Plan) -> Iterator[str]:
        """Lines on the limits of what was ordered."""
        ...

    def fabric(self, plan: Plan, site: Site) -> Fabric | None:
        """The fabric that its servers' adapters are on; None: none, or the site doesn't have it any more."""
        ...

    def accelerators_each(self, plan: Plan, site: Site) -> int:
        """Accelerators of each server's own; 0: none, not known, or they differ."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """Headers of the table of nodes: this shape's words for number, name, rack, leaf and block."""
        ...

    def numbers(self, plan: Plan) -> Iterator[list[str]]:
        """Name and text of the numbers that aren't the management network's."""
        ...

    def ipus(self, plan: Plan, specs: Mapping[str, Mapping[str, Any]]) -> PodIpus | None:
        """The pod's IPUs; None: it has none.

        Args:
            specs: key of a resource -> what is wanted of it.
        """
        ...

    # -- capacity

    def accelerators(self, site: Site) -> frozenset[str]:
        """Types of accelerators that can be ordered."""
        ...

    def needs(self, site: Site, cloud: str) -> Needs:
        """What must be known to say what could be ordered in a cloud."""
        ...

    def shows(self, site: Site, accelerator: str | None, level: Level | None) -> bool:
        """Whether it could have rows for a type of accelerator and inside a level; None: any."""
        ...

    def capacity(self, asked: CapacityAsked) -> Iterable[CapacityRow]:
        """What could be ordered of this shape. Raises `InputError` for a level that the site doesn't have."""
        ...
