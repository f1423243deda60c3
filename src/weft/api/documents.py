"""Documents only used in the HTTP API: list envelopes and small request bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from weft.api.paging import Paged
from weft.model.base import Document
from weft.model.change import Replacement
from weft.model.ids import Instant, ServerName
from weft.model.placement import Refusal
from weft.model.reservation import ReservationView
from weft.model.views import (
    MOST_EVENTS,
    AgentCertificateView,
    AuditLogEntry,
    AuditReport,
    CheckTokenView,
    DrainView,
    EventView,
    FabricReading,
    HoldView,
    LeafView,
    NetworkSummary,
    NodeHealths,
    NodeLoads,
    NodeView,
    PodSummary,
    ReportView,
    SiteResources,
    UseReport,
    WebhookView,
)
from weft.ports.servers import Action


class NetworkList(Paged):
    """A page of tenants' own networks, by id."""

    networks: tuple[NetworkSummary, ...]


class AgentCertificateList(Paged):
    """A page of certificates of agents."""

    certificates: tuple[AgentCertificateView, ...]


class PodList(Paged):
    """A page of pods."""

    pods: tuple[PodSummary, ...]


class EventList(Document):
    """Events of a pod, a network or the site."""

    events: tuple[EventView, ...] = Field(description=f"By sequence number; at most {MOST_EVENTS}.")
    next: int | None = Field(
        default=None,
        exclude_if=lambda after: after is None,
        description="`after` of the next page; omitted on the last one.",
    )

    @classmethod
    def of(cls, events: Sequence[EventView]) -> EventList:
        """With the sequence to continue from, if there may be more than `MOST_EVENTS`."""
        whole = len(events) < MOST_EVENTS
        return cls(events=tuple(events), next=None if whole else events[-1].sequence)


class WebhookList(Paged):
    """A page of webhooks."""

    webhooks: tuple[WebhookView, ...]


class NodeList(Paged):
    """A page of the site's nodes."""

    nodes: tuple[NodeView, ...]


class NodeHealthPage(NodeHealths, Paged):
    """A page of nodes with their health."""


class NodeLoadsPage(NodeLoads, Paged):
    """A page of loads of nodes."""


class SiteResourcesPage(SiteResources, Paged):
    """What was applied of a site, with a page of its resources."""


class UsePage(UseReport, Paged):
    """A page of hours of nodes and accelerators."""


class AuditPage(AuditReport, Paged):
    """The result of an audit, with a page of its findings."""


class PartRows(Document):
    """Rows of a table of the site."""

    rows: tuple[dict[str, object], ...]


class FabricReadings(Document):
    """Response of GET /v1/site/fabrics."""

    fabrics: tuple[FabricReading, ...]


class LeafList(Paged):
    """A page of leaves."""

    leaves: tuple[LeafView, ...]


class AuditLog(Document):
    """Entries of the audit log."""

    entries: tuple[AuditLogEntry, ...]


class ReservationList(Paged):
    """A page of reservations."""

    reservations: tuple[ReservationView, ...]


class ExtendRequest(Document):
    """Body of POST /v1/pods/{name}/extend."""

    until: Instant = Field(description="New end of the lease, with time zone.")


class ReportRequest(Document):
    """Body of POST /v1/pods/{name}/report."""

    node: ServerName = Field(description="Node of the pod, by its name or that of the server on it.")
    reason: str = Field(
        min_length=1,
        max_length=500,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        description="What is wrong with it, for operators.",
    )


class ReportList(Document):
    """Nodes that projects have reported."""

    reports: tuple[ReportView, ...]


class ReportPage(ReportList, Paged):
    """A page of nodes that projects have reported."""


class CheckTokenList(Paged):
    """A page of tokens with which nodes report their checks."""

    tokens: tuple[CheckTokenView, ...]


class ReplaceRequest(Document):
    """Body of POST /v1/pods/{name}/replace and /v1/pods/{name}/replace/plan."""

    node: ServerName = Field(description="Node to be replaced, by its name or that of the server on it.")
    by: ServerName | None = Field(
        default=None,
        alias="with",
        description="Node that takes its place; for those who may choose nodes (policy rule pods:choose_node). None: "
        "the pod's spare, else the nearest free node.",
    )
    hold: bool = Field(
        default=True,
        description="Hold the replaced node until it is accepted. false: any order may get it once it was read back "
        "clean; for those who may accept nodes (policy rule nodes:accept).",
    )

    @property
    def asked(self) -> Replacement:
        """What is to be replaced; the condition of the request isn't part of it."""
        return Replacement(node=self.node, by=self.by, hold=self.hold)


class AbandonRequest(Document):
    """Body of POST /v1/pods/{name}/abandon."""

    reason: str = Field(
        min_length=1, max_length=500, description="Reason; the pod's project can read it in the receipt."
    )


class ActionRequest(Document):
    """Body of POST /v1/pods/{name}/servers/{server}/action."""

    action: Action = Field(
        description="reboot: ask its operating system. reset: power off and on. rescue: boot a rescue system. "
        "unrescue: boot its own disk again."
    )


UnknownPod = Annotated[str, Field(pattern=r"^(all|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$")]


FindingKey = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class RepairRequest(Document):
    """Body of POST /v1/audit."""

    repair: Literal[True] = Field(description="Repair what is weft's.")
    unknown_pods: Annotated[tuple[UnknownPod, ...], Field(max_length=1000)] = Field(
        default=(),
        description="Ids of pods unknown to the database whose resources are removed anyway; "
        "`all`: of any. After a restore of an older dump these may be live pods.",
    )
    findings: Annotated[tuple[FindingKey, ...], Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        description="Repair only these findings, by their `key`; if a pod is missing something, all of that pod. "
        "400, and nothing is repaired, if no finding has such a key now. "
        "Without it: all findings; an empty list is refused.",
    )


class QuarantineRequest(Document):
    """Body of PUT /v1/nodes/{name}/quarantine."""

    reason: str = Field(min_length=1, max_length=500, description="Why the node is taken out of service.")


class HoldRequest(Document):
    """Body of PUT /v1/nodes/{name}/hold."""

    what: str = Field(
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f-\x9f]+$",
        description="What the node must be accepted for, such as `burn-in`.",
    )


class DrainList(Paged):
    """Response of GET /v1/drains."""

    drains: tuple[DrainView, ...]


class HoldList(Paged):
    """Response of GET /v1/holds."""

    holds: tuple[HoldView, ...]


class ApplySiteRequest(Document):
    """Body of POST /v1/site/apply."""

    adopt: bool = Field(
        default=False,
        description="Adopt existing resources, matched by VLAN, CIDR, MAC address or name.",
    )


class InputProblem(Document):
    """One invalid value in a problem document."""

    field: str
    value: str | None = None
    allowed: str
    where: str | None = None
    code: str = Field(
        default="", description="Code of what is allowed (docs/problems); empty if it has none."
    )
    params: Mapping[str, object] = Field(default_factory=dict, description="Its values.")


class Problem(Document):
    """An error (RFC 9457, application/problem+json)."""

    type: str = Field(description="urn:weft:problem:…, by class of error.")
    title: str
    status: int
    detail: str
    code: str = Field(default="", description="Code of `detail`, or of the class of error (docs/problems).")
    params: Mapping[str, object] = Field(default_factory=dict, description="Its values.")
    instance: str = ""
    request_id: str = ""
    errors: tuple[InputProblem, ...] = Field(default=(), description="Invalid input: one per value.")
    more_errors: int = Field(default=0, description="Number of further invalid values.")
    explanation: Refusal | dict[str, object] = Field(
        default_factory=dict, description="Why an order was refused, and what would fit."
    )
    asked: str = Field(default="", description="Failure of an external service: the request.")
    of: str = Field(default="", description="Failure of an external service: which one.")
    answer: str = Field(default="", description="Failure of an external service: its answer.")
    then: str = Field(
        default="", description="Failure of an external service: what happens next, or what to do."
    )
    retry_after: int | None = Field(default=None, description="Seconds after which to retry.")
