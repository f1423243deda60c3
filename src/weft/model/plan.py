"""The plan of an order; planning changes nothing. Same order, site and state: same plan, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Set

from pydantic import Field

from weft.model.base import Document
from weft.model.change import PodChange
from weft.model.order import Order
from weft.model.placement import Placement, by_server
from weft.model.resources import Graph
from weft.model.spaces import SEGMENT, VLAN


class Allotment(Document):
    """The numbers that are allocated to a pod."""

    segment: str | None = Field(
        default=None,
        description="The number on the fabric as its type writes it (P_Key `0x65`, VLAN `101`); the RDMA network's "
        "segmentation id is the same. None: IPUs.",
    )
    rdma_cidr: str = Field(
        description="Subnet of the RDMA network, or of the IPU data network; empty: it has neither."
    )
    management_cidr: str
    numbers: Mapping[str, int] = Field(
        default_factory=dict,
        description="Space -> number: `segment/<fabric>`, `vlan/<cloud>` (management network), `data/<IPU-POD>` "
        "(VLAN), `controller/<IPU-POD>` (place in the block of controllers' addresses), `host/<node>` (place on a "
        "shared host).",
    )
    hosts: Mapping[str, int] = Field(
        default_factory=dict,
        description="Node, or server on a shared node (`gpu3/0`) -> its number in the pod's subnets, from 0, also for "
        "those being given back: what stays keeps its addresses. Empty: its place in the placement.",
    )
    rails: int | None = Field(
        default=None,
        description="Adapters of each node that the RDMA subnet counts with. None: as many as the node with most has.",
    )


class UsedNumbers(Document):
    """What can't be allocated now: held by pods, or observed to be in use by others."""

    segments: Mapping[str, frozenset[int]] = Field(
        default_factory=dict, description="Fabric -> numbers of segments."
    )
    vlans: Mapping[str, frozenset[int]] = Field(
        default_factory=dict, description="Cloud -> management VLANs."
    )
    rdma_cidrs: Mapping[str, Set[str]] = Field(
        default_factory=dict, description="Cloud -> subnets on RDMA networks."
    )
    management_cidrs: Mapping[str, Set[str]] = Field(
        default_factory=dict, description="Cloud -> subnets on management networks."
    )
    spaces: Mapping[str, frozenset[int]] = Field(
        default_factory=dict, description="Space -> numbers, as in `Allotment.numbers`."
    )


class Plan(Document):
    """A placed order with its whole graph."""

    generation: int = Field(
        default=1, ge=1, description="1 for the order as it was first made; each change adds 1."
    )
    pod_id: str = Field(
        description="The pod's actual or prospective id; 00000000-… in a plan that was not ordered."
    )
    project: str
    site: str
    order: Order
    cloud: str
    fabric: str
    flavor: str
    placement: Placement
    allotment: Allotment
    graph: Graph
    limits: tuple[str, ...] = Field(
        default=(),
        description="What weft can't do or prove on the pod's fabric, one sentence each, as of the time of planning.",
    )
    names_taken: tuple[str, ...] = Field(
        default=(),
        description="Names of its new servers that servers of the project have already. Only shown, never stored.",
    )
    change: PodChange | None = Field(
        default=None,
        description="For an existing pod: what the order would change. Only shown, never stored.",
    )

    @property
    def server_numbers(self) -> dict[str, int]:
        """Server, as `by_server` names it -> its number, as `Allotment.hosts`, for all that have one."""
        hosts = self.allotment.hosts
        return {s: hosts.get(s, i) for i, s in enumerate(by_server(self.placement.nodes))} | dict(hosts)

    @property
    def segment(self) -> int | None:
        """Number on the fabric; None: the pod has none."""
        return self.allotment.numbers.get(SEGMENT + self.fabric)

    @property
    def vlan(self) -> int | None:
        """VLAN of the management network; None: Neutron allocated that network."""
        return self.allotment.numbers.get(VLAN + self.cloud)
