"""Networks that tenants created in Neutron, as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from weft.model.base import Document
from weft.model.messages.documents import Coded, Sentence
from weft.model.pod import PodState
from weft.model.tenantnetwork import PortState
from weft.model.views.searched import Searched


class NetworkSummary(Coded):
    """A row of a list."""

    sentence: ClassVar[str] = "reason"

    id: str = Field(description="Id in Neutron.")
    name: str = Field(description="Name in Neutron.")
    project_id: str
    cloud: str
    fabric: str
    segment: str = Field(description="P_Key of its partition, as text.")
    state: PodState = Field(
        description="State of its partition; READY: exactly as wanted, read from the fabric."
    )
    reason: Sentence = Field(default="", description="Why it is in this state, in one sentence.")
    since: datetime = Field(description="When it entered this state.")
    ports_in: int = Field(description="Number of ports whose adapters are in the partition.")
    waiting: int = Field(description="Number of ports that belong in and aren't there yet.")
    out: int = Field(description="Number of ports that don't belong in, such as unbound ones.")
    read_at: datetime = Field(description="When Neutron was last read.")


class NetworkPortView(Coded):
    """A port with an adapter, or a function of one; others don't concern the fabric."""

    sentence: ClassVar[str] = "why"

    id: str = Field(description="Id in Neutron.")
    name: str = Field(default="", description="Name in Neutron.")
    vnic_type: str = Field(description="direct, direct-physical or baremetal.")
    state: PortState
    why: Sentence = Field(default="", description="Why it isn't in.")
    since: datetime = Field(description="Since when it is in that state.")
    host: str = Field(default="", description="Host that Neutron has bound it to (operators).")
    member: str = Field(default="", description="Port of the fabric that belongs in (operators).")


class NetworkView(NetworkSummary):
    """A network in full."""

    ports: tuple[NetworkPortView, ...] = ()


class NetworkSearch(Document):
    """Paging of a list of networks, which is sorted by id."""

    all_projects: bool = Field(default=False, description="Networks of all projects (operators).")
    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of entries.")
    marker: Searched | None = Field(
        default=None, description="Start after this id: `next` of the previous page."
    )


FIRST_NETWORKS = NetworkSearch()
