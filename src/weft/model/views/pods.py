"""Pods as the API shows them, and searches for them."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.change import PodChange
from weft.model.ipuorder import PodIpus
from weft.model.messages.documents import Coded, Sentence
from weft.model.order import Order
from weft.model.placement import PlacedNode
from weft.model.pod import Conditions, Phase, PodState
from weft.model.resources import Difference
from weft.model.views.searched import Searched


class ResourceView(Coded):
    """One resource of a pod and its state."""

    sentence: ClassVar[str] = "reason"

    key: str
    kind: str
    name: str
    where: str
    state: str = Field(description="wanted, creating, pending, settled, broken, deleting or absent.")
    id: str | None = None
    reason: Sentence = ""
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


class ActionView(Document):
    """An action that was requested for a server."""

    server: str
    node: str
    action: str = Field(description="reboot, reset, rescue or unrescue.")
    password: str | None = Field(
        default=None,
        description="Password of the rescue system, shown only once; null: it has none, or uses the pod's keys.",
    )


class ConsoleView(Document):
    """A console of a server. The URL alone gives access, until Nova's token in it expires."""

    type: str = Field(description="serial or novnc.")
    url: str


class PodSummary(Coded):
    """A row of a list."""

    sentence: ClassVar[str] = "reason"

    id: str
    name: str
    project_id: str
    phase: Phase = Field(description="Phase of the pod's life; it only moves forward.")
    state: PodState = Field(description="Phase and conditions summed up in one word.")
    reason: Sentence = Field(default="", description="Why the pod is in this state, in one sentence.")
    since: datetime = Field(description="When the pod entered this state.")
    created_at: datetime
    nodes: int
    nodes_failing: int = Field(
        default=0,
        description="How many of its nodes fail now: the condition `NodesFail` says which, and why.",
    )
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
    ipus: PodIpus | None = Field(default=None, description="Its IPUs; null for pods of other accelerators.")
    resources: tuple[ResourceView, ...] = ()
    has_receipt: bool = False


class Applied(Document):
    """The result of applying an order."""

    outcome: Literal["created", "changed", "unchanged"]
    change: PodChange | None = Field(default=None, description="The difference; null for a new pod.")
    pod: PodView


MOST_EVENTS = 1000
"""Events in one answer."""


class EventView(Coded):
    """Something that happened to a pod; `sequence` only increases."""

    sentence: ClassVar[str] = "message"

    sequence: int
    at: datetime
    type: str = Field(description="state, step, error, verified, repair, receipt …")
    message: Sentence
    key: str | None = Field(default=None, description="Resource that the event is about.")


class ProjectEvent(EventView):
    """Something that happened to one of a project's pods."""

    position: str = Field(description="Where it is in the stream: `after` or `Last-Event-ID` to go on with.")
    pod_id: str
    pod: str = Field(description="Name of the pod.")
    project_id: str


class EventPage(Document):
    """Events of all pods of a project, or of all projects, in the order of the stream."""

    events: tuple[ProjectEvent, ...] = Field(description=f"Oldest first; at most {MOST_EVENTS}.")
    position: str = Field(description="`after` of the next request; also if there are no events.")
    more: bool = Field(default=False, description="Whether there are more already.")
    removed: bool = Field(
        default=False,
        description="Whether events after `after` were removed (the site's `retention`) before they were read.",
    )


class EventSearch(Document):
    """Which events are read, and from where on."""

    all_projects: bool = Field(default=False, description="Of the pods of all projects (operators).")
    project: Searched | None = Field(
        default=None, description="Only of this project, by id; with `all_projects`."
    )
    after: Searched | None = Field(
        default=None,
        description="Only events after this position. Default: all that are kept, the oldest first.",
    )
    newest: int | None = Field(
        default=None, ge=1, le=MOST_EVENTS, description="Only the last so many; without `after`."
    )
    limit: int = Field(default=MOST_EVENTS, ge=1, le=MOST_EVENTS, description="Maximum number of events.")
    wait: float = Field(
        default=0.0, ge=0.0, le=60.0, description="Seconds to wait for an event, if there is none yet."
    )


class PodSearch(Document):
    """Filters and paging of a list of pods, which is sorted by name."""

    all_projects: bool = Field(default=False, description="Pods of all projects (operators).")
    project: Searched | None = Field(
        default=None, description="Only pods of this project, by id; with `all_projects`."
    )
    state: PodState | None = Field(default=None, description="Only pods in this state.")
    node: Searched | None = Field(default=None, description="Only pods that hold this node or a part of it.")
    name: Searched | None = Field(default=None, description="Only pods with this name.")
    server: Searched | None = Field(default=None, description="Only pods with a server of this name.")
    alarmed: bool = Field(
        default=False,
        description="Only pods with an alarm: FAILED, in a state for longer than its limit, or unreadable.",
    )
    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of entries.")
    marker: Searched | None = Field(
        default=None, description="Start after this entry: `next` of the previous page."
    )


FIRST_PAGE = PodSearch()
