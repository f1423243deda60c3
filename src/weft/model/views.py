"""What the doors show: one set of documents for the HTTP API, the CLI's `--json` and, later, the pages.

A tenant sees its own pods with node, rack and leaf names; GUIDs, hosts' addresses and agents are the operator's.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.change import PodChange
from weft.model.fabric import FabricDifference, FabricStatus
from weft.model.ids import Instant
from weft.model.order import Level, Order
from weft.model.placement import PlacedNode
from weft.model.pod import Conditions, Phase, PodState
from weft.model.resources import Difference
from weft.model.site import AcceleratorCount

Searched = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class ResourceView(Document):
    """One resource of a pod and how far it is."""

    key: str
    kind: str
    name: str
    where: str
    state: str = Field(description="wanted, creating, pending, settled, broken, deleting or absent.")
    id: str | None = None
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ServerView(Document):
    """How to reach one server."""

    name: str
    node: str
    management_address: str
    rdma_addresses: tuple[str, ...]
    floating_ip: str | None = None


class PodSummary(Document):
    """A row of a list."""

    id: str
    name: str
    project_id: str
    phase: Phase = Field(description="How far it is in its life; it only goes forward.")
    state: PodState = Field(description="Phase and conditions in one word.")
    reason: str = Field(default="", description="Why it is in this state, in one sentence.")
    since: datetime = Field(description="Since when it is in this state.")
    created_at: datetime
    nodes: int
    fabric: str | None = None
    segment: str | None = Field(default=None, description="P_Key or VLAN, as the fabric's type writes it.")
    lease_end: datetime | None = None
    position: int | None = Field(
        default=None, description="Its place in the queue, from 1, while it waits there."
    )
    expected_start: datetime | None = Field(
        default=None,
        description="When an order that waits is expected to start, if every lease ends when it says.",
    )

    @property
    def marker(self) -> str:
        """What a list goes on after, if this was the last one of a page."""
        return f"{self.name}:{self.id}"


class PodView(PodSummary):
    """Everything of one pod."""

    conditions: Conditions = Field(default=(), description="How it is, one aspect each.")
    created_by: str
    generation: int = Field(default=1, description="Of the order; each change is the next.")
    changing_since: datetime | None = Field(
        default=None,
        description="Since when a change is under way; the pod goes on meanwhile. None: there is none.",
    )
    site: str
    cloud: str | None = None
    flavor: str | None = None
    vlan: int | None = Field(
        default=None, description="VLAN of the management network; none: Neutron picked it."
    )
    order: Order
    placed: tuple[PlacedNode, ...] = ()
    spares: tuple[PlacedNode, ...] = Field(
        default=(), description="Held idle for the pod, to replace a node that fails."
    )
    servers: tuple[ServerView, ...] = ()
    resources: tuple[ResourceView, ...] = ()
    has_receipt: bool = False


class Applied(Document):
    """What applying an order has done."""

    outcome: Literal["created", "changed", "unchanged"]
    change: PodChange | None = Field(default=None, description="The difference; none of a pod that is new.")
    pod: PodView


class EventView(Document):
    """Something that happened to a pod; `sequence` only grows."""

    sequence: int
    at: datetime
    type: str = Field(description="state, step, error, verified, repair, receipt …")
    message: str
    key: str | None = Field(default=None, description="Resource that it is about.")


class NodeView(Document):
    """A node as the operator sees it."""

    name: str
    rack: str | None
    leaf: str
    state: Literal["free", "busy", "quarantined", "maintenance", "not-compute"]
    pod: str | None = None
    project_id: str | None = None
    reason: str = ""
    since: datetime | None = None


class Finding(Document):
    """One thing that isn't as it should be."""

    category: Literal["orphan", "missing", "different", "foreign", "late", "unknown"] = Field(
        description="orphan: bears weft's mark and no live pod owns it; missing or different: a pod's own; "
        "foreign: not weft's, inside weft's range or on a pod's network; late: found by the sweep after its pod's "
        "receipt was signed; unknown: could not be read."
    )
    kind: str
    where: str
    subject: str
    id: str = Field(default="", description="Id outside of what it is about, if that has one.")
    pod: str | None = Field(default=None, description="Name of the pod that it is about.")
    pod_id: str | None = Field(default=None, description="Its id; of a pod that the database may not know.")
    owner: str | None = Field(
        default=None, description="Whose it is, if that is no pod: the site, or a tenant's own network."
    )
    what: str = Field(description="One sentence: what was seen and what was wanted.")
    repair: str = Field(default="", description="What `--repair` does, or why it does nothing.")
    repaired: bool | None = Field(default=None, description="With `--repair`: whether it was seen mended.")


class AuditReport(Document):
    """What an audit saw; clean only if there are no findings at all."""

    at: datetime
    site: str
    checked: dict[str, int] = Field(description="How many of each kind were looked at.")
    findings: tuple[Finding, ...] = ()


class AuditLogEntry(Document):
    """Who did what, when, from where, and with what outcome."""

    sequence: int
    at: datetime
    last_at: datetime = Field(description="When it was so for the last time; the rest tells of that time.")
    times: int = Field(
        default=1,
        description="How often in the hour; what was refused to others than operators is counted together.",
    )
    user: str = Field(description="Name of the user; the id says who it is.")
    user_id: str | None = Field(description="None in rows of an earlier weft.")
    user_domain_id: str | None
    project_id: str | None
    project_domain_id: str | None
    action: str
    subject: str
    address: str
    user_agent: str
    request_id: str
    outcome: str


class PodSearch(Document):
    """Which pods of a list, and which page of it; they come by name."""

    all_projects: bool = Field(default=False, description="Of all projects (operators).")
    project: Searched | None = Field(
        default=None, description="Only of this project, by id; with `all_projects`."
    )
    state: PodState | None = Field(default=None, description="Only in this state.")
    node: Searched | None = Field(
        default=None, description="Only those that hold this node, or a place on it."
    )
    name: Searched | None = Field(default=None, description="Only of this name.")
    limit: int = Field(default=100, ge=1, le=1000, description="At most so many.")
    marker: Searched | None = Field(
        default=None, description="Only those after it: `next` of the page before."
    )


FIRST_PAGE = PodSearch()


class AuditLogSearch(Document):
    """Which entries of the audit log; the newest come first."""

    after: int = Field(default=0, ge=0, le=2**63 - 1, description="Only entries with a higher sequence.")
    before: int | None = Field(
        default=None, ge=0, le=2**63 - 1, description="Only entries with a lower sequence: the next page."
    )
    since: Instant | None = Field(default=None, description="Only entries of this time, with zone, or later.")
    user: Searched | None = Field(default=None, description="Only of this user, by id or name.")
    project: Searched | None = Field(default=None, description="Only of this project, by id.")
    action: Searched | None = Field(default=None, description="Only this action, such as `pod create`.")
    limit: int = Field(default=1000, ge=1, le=1000, description="At most so many.")


class SiteView(Document):
    """The active site."""

    name: str
    generation: int
    applied_at: datetime
    applied_by: str
    nodes: int
    switches: int
    links: int
    document: dict[str, object]
    fabrics: tuple[FabricStatus, ...] = Field(default=(), description="Live state of each fabric's managers.")


class FabricComparison(Document):
    """The active site against the fabric as its manager discovered it."""

    fabric: str
    generation: int = Field(description="Of the site that was compared.")
    discovered_nodes: int
    discovered_cables: int
    differences: tuple[FabricDifference, ...] = ()


class Health(Document):
    """Answer of /readyz."""

    ready: bool
    checks: dict[str, str] = Field(description="Part -> `ok`, or what is wrong.")


class LargestView(Document):
    """The largest order that can be had now inside one domain of a level."""

    level: Level
    count: int = Field(description="Nodes; 0: none.")
    where: str = Field(default="", description="A domain that has them; operators only.")


class SoonView(Document):
    """From when an order of this size can be had, if every lease ends when it says."""

    level: Level
    count: int
    at: datetime


class CapacityRowView(Document):
    """One kind of node of one cloud on one fabric."""

    fabric: str
    cloud: str
    accelerators: AcceleratorCount | None = Field(description="Accelerators of each node; none: any node.")
    nodes: int = Field(description="Nodes that could serve if nothing were taken or out of order.")
    free: int
    largest: tuple[LargestView, ...]
    soon: tuple[SoonView, ...] = Field(
        default=(),
        description="Larger orders: powers of two, and the largest there could be; left out if not known.",
    )


class LargestIpusView(Document):
    """The largest order of IPUs that can be had now."""

    count: int = Field(description="IPUs; 0: none.")
    where: str = Field(default="", description="IPU-POD and positions that it would get; operators only.")


class SoonIpusView(Document):
    """From when an order of so many IPUs can be had, if every lease ends when it says."""

    count: int
    at: datetime


class IpuCapacityView(Document):
    """The IPUs of one IPU-POD. An order gets neighbours, with at least one Poplar server."""

    ipu_pod: str
    cloud: str
    machines: int = Field(description="IPU-Machines, four IPUs each, whoever has them.")
    free: int = Field(description="IPU-Machines that are free for that long.")
    poplar_servers: int = Field(description="Poplar servers for it that have room for another pod.")
    largest: LargestIpusView
    soon: tuple[SoonIpusView, ...] = Field(default=(), description="Larger orders; left out if not known.")


class CapacityView(Document):
    """What could be ordered, now and later."""

    at: datetime
    duration: str = Field(description="For how long an order must be able to run to count.")
    rows: tuple[CapacityRowView, ...]
    ipus: tuple[IpuCapacityView, ...] = Field(default=(), description="IPU-PODs, unless a level is given.")
    waiting: int = Field(default=0, description="Orders in the queue, of all projects.")
