"""Health of nodes and pods as the API shows it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.messages.documents import Coded, Sentence
from weft.model.pod import PodState

HealthValue = Literal["ok", "warning", "failed", "unknown"]
HealthGroup = Literal["type", "rack", "project", "use", "cloud"]


class HealthReason(Coded):
    """Something that the health of a node or pod follows from."""

    sentence: ClassVar[str] = "reason"

    health: HealthValue = Field(description="What the health would be if this were the only reason.")
    reason: Sentence
    since: datetime | None = Field(default=None, description="Null: not known.")


class NodeHealth(Document):
    """The health of a node. Unknown is not healthy: something wasn't read, or not lately."""

    node: str
    health: HealthValue = Field(description="The worst of its reasons: failed, unknown or warning; ok: none.")
    rack: str | None = None
    type: str = Field(description="Type of its accelerators; its role if it has none.")
    cloud: str | None = None
    use: Literal["free", "busy"] = Field(description="busy: a pod has it, or a part of it.")
    pod: str | None = None
    project_id: str | None = None
    reasons: tuple[HealthReason, ...] = ()


class HealthCount(Document):
    """How many nodes of a group have which health."""

    group: str = Field(description="Value that its nodes have in common; empty: none.")
    nodes: int
    ok: int = 0
    warning: int = 0
    failed: int = 0
    unknown: int = 0


class SiteHealth(Document):
    """The health of all nodes, counted."""

    by: HealthGroup
    total: HealthCount
    groups: tuple[HealthCount, ...] = Field(description="Each node is in one of them.")


class NodeHealths(Document):
    """Nodes with their health."""

    nodes: tuple[NodeHealth, ...]


class PodNodeHealth(Document):
    """The health of a pod's node."""

    node: str
    health: HealthValue
    reasons: tuple[HealthReason, ...] = ()


class PodHealth(Document):
    """The health of a pod: of itself and of its nodes."""

    id: str
    name: str
    project_id: str
    state: PodState
    health: HealthValue = Field(description="The worst of its reasons: failed, unknown or warning; ok: none.")
    reasons: tuple[HealthReason, ...] = Field(default=(), description="Of the pod itself.")
    nodes: tuple[PodNodeHealth, ...] = Field(default=(), description="Its nodes, spares included.")


class PartStay(Document):
    """A time in which a part was in a node."""

    node: str
    place: str = Field(description="PCI address, or an adapter's name.")
    since: datetime = Field(description="When the node reported it first.")
    seen_at: datetime = Field(description="When the node reported it last.")


class PartFailure(Document):
    """A check that turned failed of a part."""

    at: datetime
    node: str
    place: str
    check: str = Field(description="Code of the check.")
    reason: str


class PartHistory(Document):
    """Where a part was, and what failed of it, as nodes' own checks reported it; the newest first."""

    serial: str
    kind: str = Field(description="gpu, adapter, or other, such as cable.")
    model: str
    stays: tuple[PartStay, ...]
    failures: tuple[PartFailure, ...] = ()
