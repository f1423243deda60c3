"""The site as the API shows it: nodes, fabrics, health."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.fabric import FabricStatus
from weft.model.hostchecks import CheckState
from weft.model.ids import Instant, Revision
from weft.model.messages.documents import Coded, Sentence
from weft.model.nodetests import NodeTest
from weft.model.observedfabric import FabricDifference
from weft.model.pod import PodState
from weft.model.views.checks import FailedCheckView
from weft.model.views.pods import ResourceView


class HoldView(Coded):
    """What a node must be accepted for before it is assigned again."""

    sentence: ClassVar[str] = "why"

    node: str
    what: str = Field(description="What it is held for.")
    since: datetime
    held_by: str = Field(description="User who holds it, by name. With `why`, weft itself wants it, too.")
    why: Sentence = Field(
        default="", description="What it was replaced in, and by whom; empty: a user holds it."
    )
    tests: tuple[NodeTest, ...] = Field(
        default=(), description="Tests that the site names for this hold, which ends when all have passed."
    )
    revision: Revision


class Acceptance(Document):
    """Holds of a node that ended, and what is still missing before it is assigned."""

    node: str
    accepted: tuple[HoldView, ...]
    missing: tuple[HoldView, ...] = ()


class DrainRequest(Document):
    """Nodes that operators want to empty."""

    target: str = Field(
        min_length=1,
        max_length=255,
        description="A node, a rack or a leaf; `node:`, `rack:` or `leaf:` before a name of several.",
    )
    by: Instant | None = Field(
        default=None,
        description="When the nodes should be empty, with time zone. Then weft replaces them in pods "
        "whose order has `on_failure: replace`, and releases those with `on_drain: release`.",
    )
    wait: bool = Field(
        default=False, description="Leave pods there alone at the time: nothing is replaced or released."
    )
    reason: str = Field(default="", max_length=500, description="Reason, for operators.")
    public: str = Field(
        default="",
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]*$",
        description="What the projects with pods there read.",
    )
    break_promises: bool = Field(
        default=False, description="Drain although reservations or bookings can't be kept then."
    )
    plan: bool = Field(
        default=False,
        description="Only answer which nodes, pods and promises it concerns; nothing is drained.",
    )


class DrainView(Document):
    """A drained node."""

    node: str
    since: datetime
    drained_by: str = Field(description="User, by name.")
    by: datetime | None = Field(default=None, description="When it should be empty.")
    wait: bool = Field(default=False, description="Whether pods there are left alone at the time.")
    reason: str = ""
    public: str = Field(default="", description="What the projects with pods there read.")
    revision: Revision


class DrainedPod(Coded):
    """A pod with drained nodes."""

    sentence: ClassVar[str] = "then"

    pod: str
    project_id: str
    nodes: tuple[str, ...]
    then: Sentence = Field(
        default="",
        description="What happens to it at the time by which they should be empty; empty: there is none.",
    )


class DrainResult(Document):
    """Nodes that were drained, or are no longer."""

    target: str
    nodes: tuple[str, ...]
    pods: tuple[DrainedPod, ...] = Field(description="Pods that have some of the nodes.")
    broken: tuple[str, ...] = Field(default=(), description="Reservations and bookings that can't be kept.")


class ReportView(Document):
    """A node that a project has reported: none of its orders gets the node until an operator clears the report."""

    node: str
    project_id: str
    pod: str = Field(description="The pod that had the node, by name.")
    at: datetime
    reported_by: str = Field(description="User, by name.")
    reason: str


class NodeView(Document):
    """A node as operators see it."""

    name: str
    rack: str | None
    leaf: str
    state: Literal[
        "free", "busy", "quarantined", "held", "drained", "failed", "maintenance", "not-compute"
    ] = Field(description="failed: its own checks keep it from new orders.")
    pod: str | None = None
    project_id: str | None = None
    reason: str = ""
    since: datetime | None = None
    quarantine_revision: int | None = Field(
        default=None, description="Of its quarantine; `If-Match` of its end takes it. Null: it is in none."
    )
    holds: tuple[HoldView, ...] = Field(
        default=(),
        description="What it must be accepted for; of a node that a pod has, once the pod has ended.",
    )
    drain: DrainView | None = Field(default=None, description="Null: it isn't drained.")
    reports: tuple[ReportView, ...] = Field(
        default=(), description="By projects that had it; others get it as before."
    )
    checks: CheckState = Field(default="never", description="What its own checks say: see `NodeChecks`.")
    checked_at: datetime | None = Field(default=None, description="When they reported last; null: never.")
    failed_checks: tuple[FailedCheckView, ...] = Field(
        default=(), description="Which of them failed, since when."
    )


NodeSort = Literal["site", "name", "rack", "leaf", "state", "since", "pod"]
NodeState = Literal["free", "busy", "quarantined", "held", "drained", "failed", "maintenance", "not-compute"]


class NodeSearch(Document):
    """Which nodes of the site, in which order, and which part of them."""

    state: NodeState | None = None
    rack: str = ""
    leaf: str = ""
    name: str = Field(default="", description="Part of the name.")
    sort: NodeSort = Field(
        default="site", description="site: as its file has them. Those without a value come last."
    )
    skip: int = Field(default=0, ge=0)
    limit: int = Field(default=100, ge=1, le=1000)


class NodePage(Document):
    """A part of a list of nodes."""

    nodes: tuple[NodeView, ...]
    counts: dict[str, int] = Field(description="State -> number of nodes of the whole site.")
    total: int = Field(description="Nodes of the site.")
    found: int = Field(description="Nodes that are as asked.")


class SiteView(Document):
    """The active site."""

    name: str
    generation: int
    activated_at: datetime
    activated_by: str
    nodes: int
    switches: int
    links: int
    document: dict[str, object]
    fabrics: tuple[FabricStatus, ...] = Field(default=(), description="Live state of each fabric's managers.")


class FabricReading(Document):
    """What was read last of a fabric's managers."""

    fabric: str
    known: bool = Field(default=False, description="Whether a manager was in charge and answered.")
    problems: int = Field(default=0, description="Number of problems that were reported.")
    port_errors: int | None = Field(
        default=None, description="Number of ports with errors; null: not read, or not reported."
    )
    read_at: datetime | None = Field(default=None, description="Null: it wasn't read yet.")
    age: float | None = Field(default=None, description="Seconds since then; null: it wasn't read yet.")


class LeafView(Document):
    """A leaf of a fabric: of a rail-optimized one, the switches of all rails together."""

    name: str
    fabric: str
    block: str = Field(description="`-`: the whole fabric is one block.")
    uplink_gbps: int | None = Field(
        default=None, description="Of all its cables to other switches; null: not known."
    )


class FabricComparison(Document):
    """The active site compared with the fabric as its manager discovers it."""

    fabric: str
    generation: int = Field(description="Generation of the site that was compared.")
    discovered_nodes: int
    discovered_cables: int
    differences: tuple[FabricDifference, ...] = ()
    partial: tuple[str, ...] = Field(
        default=(),
        description="Why the discovery may not show all nodes and cables; then nothing is missing for certain.",
    )


class Health(Document):
    """Response of /readyz."""

    ready: bool
    checks: dict[str, Sentence] = Field(description="Component -> `ok`, or what is wrong.")


class SiteResources(Document):
    """Resources that were applied for the site in its clouds, and their state."""

    id: str = Field(description="Id of its owner; another one after each `destroy`.")
    site: str
    generation: int = Field(description="Generation of the site that was applied.")
    applied_at: datetime
    applied_by: str
    state: PodState
    reason: str = Field(default="", description="Why it is in this state, in one sentence.")
    since: datetime
    done: bool = Field(description="Everything that was applied existed when it was last read.")
    needs_person: bool = Field(
        default=False,
        description="A person must remove the cause; weft retries all the same.",
    )
    resources: tuple[ResourceView, ...] = ()
    has_receipt: bool = False


class AgentCertificateView(Coded):
    """A certificate of an agent, or weft's own for agents, as it was seen last."""

    sentence: ClassVar[str] = "state"

    fabric: str = Field(description="Fabric of the site.")
    kind: Literal["agent", "own"] = Field(description="own: weft's, on the host that `name` begins with.")
    name: str = Field(description="The agent; of weft's own the host and the file.")
    serial: str | None = Field(default=None, description="Serial number, in hexadecimal; none: never seen.")
    expires_at: datetime | None = None
    seen_at: datetime | None = Field(default=None, description="When it was seen last.")
    issued_at: datetime | None = Field(default=None, description="When weft signed one for it last.")
    state: Sentence = Field(description="Whether it is renewed, or why not; empty: not looked at yet.")
