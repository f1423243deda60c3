"""What the API returns; the CLI's `--json` prints the same documents.

Tenants see their own pods with node, rack and leaf names; GUIDs, hosts' addresses and agents are for operators.
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
    """One resource of a pod and its state."""

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
    phase: Phase = Field(description="Phase of the pod's life; it only moves forward.")
    state: PodState = Field(description="Phase and conditions summed up in one word.")
    reason: str = Field(default="", description="Why the pod is in this state, in one sentence.")
    since: datetime = Field(description="When the pod entered this state.")
    created_at: datetime
    nodes: int
    fabric: str | None = None
    segment: str | None = Field(default=None, description="P_Key or VLAN of the pod, as text.")
    lease_end: datetime | None = None
    position: int | None = Field(
        default=None, description="Position in the queue, from 1, while it waits there."
    )
    expected_start: datetime | None = Field(
        default=None,
        description="When a waiting order is expected to start, if no lease is extended.",
    )

    @property
    def marker(self) -> str:
        """Marker for the page that follows this entry."""
        return f"{self.name}:{self.id}"


class PodView(PodSummary):
    """A pod in full."""

    conditions: Conditions = Field(default=(), description="Health, one condition per aspect.")
    created_by: str
    generation: int = Field(default=1, description="Generation of the order; each change increases it.")
    changing_since: datetime | None = Field(
        default=None,
        description="When the change in progress began; null if there is none. The pod keeps running meanwhile.",
    )
    site: str
    cloud: str | None = None
    flavor: str | None = None
    vlan: int | None = Field(
        default=None, description="VLAN of the management network; null if Neutron allocated it."
    )
    order: Order
    placed: tuple[PlacedNode, ...] = ()
    spares: tuple[PlacedNode, ...] = Field(
        default=(), description="Nodes held idle for the pod, to replace nodes that fail."
    )
    servers: tuple[ServerView, ...] = ()
    resources: tuple[ResourceView, ...] = ()
    has_receipt: bool = False


class Applied(Document):
    """The result of applying an order."""

    outcome: Literal["created", "changed", "unchanged"]
    change: PodChange | None = Field(default=None, description="The difference; null for a new pod.")
    pod: PodView


class EventView(Document):
    """Something that happened to a pod; `sequence` only increases."""

    sequence: int
    at: datetime
    type: str = Field(description="state, step, error, verified, repair, receipt …")
    message: str
    key: str | None = Field(default=None, description="Resource that the event is about.")


class NodeView(Document):
    """A node as operators see it."""

    name: str
    rack: str | None
    leaf: str
    state: Literal["free", "busy", "quarantined", "maintenance", "not-compute"]
    pod: str | None = None
    project_id: str | None = None
    reason: str = ""
    since: datetime | None = None


class Finding(Document):
    """One finding of an audit."""

    category: Literal["orphan", "missing", "different", "foreign", "late", "unknown"] = Field(
        description="orphan: has weft's mark, but belongs to no live pod; missing, different: a pod's resource; "
        "foreign: not weft's, but within weft's ranges or on a pod's network; late: found by the sweep after the "
        "pod's receipt was signed; unknown: could not be read."
    )
    kind: str
    where: str
    subject: str
    id: str = Field(default="", description="External id of the subject, if it has one.")
    pod: str | None = Field(default=None, description="Name of the pod.")
    pod_id: str | None = Field(default=None, description="Id of the pod, which the database may not know.")
    owner: str | None = Field(
        default=None, description="Owner, if not a pod: the site, or a tenant's own network."
    )
    what: str = Field(description="One sentence: what was observed and what was desired.")
    repair: str = Field(default="", description="What `--repair` does about it, or why it does nothing.")
    repaired: bool | None = Field(
        default=None, description="With `--repair`: whether the repair was confirmed."
    )


class AuditReport(Document):
    """The result of an audit; clean only without any findings."""

    at: datetime
    site: str
    checked: dict[str, int] = Field(description="Number of objects examined, by kind.")
    findings: tuple[Finding, ...] = ()


class AuditLogEntry(Document):
    """Who did what, when, from where, with what result."""

    sequence: int
    at: datetime
    last_at: datetime = Field(description="When it last happened; the other fields describe that occurrence.")
    times: int = Field(
        default=1,
        description="Occurrences within the hour; refused requests of non-operators are counted together.",
    )
    user: str = Field(description="Name of the user; only the id identifies them.")
    user_id: str | None = Field(description="Null in entries of earlier versions.")
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
    """Filters and paging of a list of pods, which is sorted by name."""

    all_projects: bool = Field(default=False, description="Pods of all projects (operators).")
    project: Searched | None = Field(
        default=None, description="Only pods of this project, by id; with `all_projects`."
    )
    state: PodState | None = Field(default=None, description="Only pods in this state.")
    node: Searched | None = Field(default=None, description="Only pods that hold this node or a part of it.")
    name: Searched | None = Field(default=None, description="Only pods with this name.")
    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of entries.")
    marker: Searched | None = Field(
        default=None, description="Start after this entry: `next` of the previous page."
    )


FIRST_PAGE = PodSearch()


class AuditLogSearch(Document):
    """Filters and paging of the audit log, newest first."""

    after: int = Field(
        default=0, ge=0, le=2**63 - 1, description="Only entries with a higher sequence number."
    )
    before: int | None = Field(
        default=None,
        ge=0,
        le=2**63 - 1,
        description="Only entries with a lower sequence number: the next page.",
    )
    since: Instant | None = Field(default=None, description="Only entries since this time, with time zone.")
    user: Searched | None = Field(default=None, description="Only entries of this user, by id or name.")
    project: Searched | None = Field(default=None, description="Only entries of this project, by id.")
    action: Searched | None = Field(
        default=None, description="Only entries with this action, such as `pod create`."
    )
    limit: int = Field(default=1000, ge=1, le=1000, description="Maximum number of entries.")


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
    """The active site compared with the fabric as its manager discovers it."""

    fabric: str
    generation: int = Field(description="Generation of the site that was compared.")
    discovered_nodes: int
    discovered_cables: int
    differences: tuple[FabricDifference, ...] = ()


class Health(Document):
    """Response of /readyz."""

    ready: bool
    checks: dict[str, str] = Field(description="Component -> `ok`, or what is wrong.")


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


class CapacityRowView(Document):
    """One type of node in one cloud on one fabric."""

    fabric: str
    cloud: str
    accelerators: AcceleratorCount | None = Field(description="Accelerators of each node; null: any node.")
    nodes: int = Field(description="Number of such nodes, whether free or not.")
    free: int
    largest: tuple[LargestView, ...]
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
