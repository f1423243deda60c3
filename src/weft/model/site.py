"""The site, described once: racks, switches, links, nodes with accelerators and HCAs, fabrics, clouds.

This is the value; reading it from YAML and CSV with file and line in every error is `weft.app.sitefile`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from ipaddress import IPv4Network
from typing import Any, Literal, Self

from pydantic import Field

from weft.model.base import Document
from weft.model.fabrictypes import FABRIC_TYPES, FabricKind, FabricType
from weft.model.ids import Duration, Guid, Mac, Name, PciAddress, Words, format_guid
from weft.model.ipusite import IpuMachine, IpuPod
from weft.model.ranges import Range
from weft.model.retention import RetentionPolicy


class Hca(Document):
    """A host channel adapter or RDMA NIC with one port to the fabric (one rail)."""

    name: Name = Field(description="Name on the host, such as mlx5_0.")
    fabric: Name = Field(description="Name of the fabric that the port is cabled to.")
    guid: Guid = Field(description="Node GUID of the adapter.")
    port_guid: Guid = Field(description="GUID of the port: what a partition has as its member.")
    pci: PciAddress = Field(description="PCI address of the physical function.")
    numa: int = Field(default=0, ge=0, description="NUMA node.")
    switch: str | None = Field(default=None, max_length=64, description="PCIe switch that it is behind.")
    mac: Mac | None = Field(default=None, description="MAC address, for Ethernet or IPoIB.")
    rate_gbps: int = Field(default=200, ge=1, description="Line rate in Gb/s.")
    switch_port: str | None = Field(
        default=None,
        pattern=r"^[^\s/]+/\S+$",
        description="Ethernet fabrics: the port that it is cabled to, by the switch's name and the vendor's name of "
        "the port, such as leaf01/Ethernet7.",
    )

    @property
    def port_id(self) -> str:
        """Id of the port that is a member of segments, as the fabric's driver knows it."""
        return self.switch_port or format_guid(self.port_guid)


class Accelerator(Document):
    """One accelerator of a node."""

    type: Name = Field(description="Type as orders name it, such as h100.")
    pci: PciAddress = Field(description="PCI address.")
    numa: int = Field(default=0, ge=0, description="NUMA node.")
    switch: str | None = Field(
        default=None,
        max_length=64,
        description="PCIe switch that it is behind: what has the same on a host is nearest.",
    )


class Node(Document):
    """A host. Only `compute` nodes are ever given to a pod whole."""

    name: Name = Field(description="Name of the node; also Nova's host name unless `host` is given.")
    rack: Name | None = Field(default=None, description="Rack.")
    role: Literal["compute", "poplar", "controller", "subnet-manager", "service"] = Field(
        default="compute",
        description="compute: may be ordered; poplar: a Poplar server of an IPU-POD; controller: a generic compute "
        "node for V-IPU controllers; the others are only part of the fabric.",
    )
    cloud: Name | None = Field(default=None, description="Name of the cloud that the host belongs to.")
    host: str | None = Field(default=None, description="Nova's name of the host, if it is not the node's.")
    maintenance: str | None = Field(default=None, description="Why the node may not be ordered now.")
    labels: Words = Field(
        default=(),
        description="Words that orders may prefer or avoid nodes by; in a table with spaces between them.",
    )
    ipu_pod: Name | None = Field(
        default=None, description="Poplar server: IPU-POD whose data network it is on."
    )
    servers: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Poplar server or controller node: pods that may have a virtual machine on it at a time.",
    )
    cores: int | None = Field(
        default=None,
        ge=1,
        description="Virtual cores that servers may have on it in all, as Nova counts them; none: not counted. "
        "For nodes that are given in parts.",
    )
    memory_mib: int | None = Field(
        default=None, ge=1, description="The same of memory, in MiB; none: not counted."
    )
    hcas: tuple[Hca, ...] = Field(default=(), description="Its adapters; or rows of the table hcas.")
    accelerators: tuple[Accelerator, ...] = Field(
        default=(), description="Its accelerators; or rows of the table accelerators."
    )

    @property
    def nova_host(self) -> str:
        return self.host or self.name

    def hcas_on(self, fabric: str) -> tuple[Hca, ...]:
        return tuple(h for h in self.hcas if h.fabric == fabric)


class Switch(Document):
    """A switch of a fabric."""

    name: Name = Field(description="Name (InfiniBand: the node description).")
    fabric: Name = Field(description="Name of its fabric.")
    level: Literal["leaf", "spine", "core"] = Field(description="Leaf switches have hosts on them.")
    ports: int = Field(ge=1, le=254, description="Number of external ports.")
    guid: Guid | None = Field(default=None, description="Node GUID; InfiniBand only.")
    rack: Name | None = Field(default=None, description="Rack.")
    block: Name | None = Field(
        default=None, description="Group of leaves with their own spines; none: all are one."
    )
    hall: Name | None = Field(default=None, description="Hall that its block stands in; none: all are one.")
    building: Name | None = Field(
        default=None, description="Building that its hall is in; none: all are one."
    )
    project: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Leaf switch: id of the project that alone may have nodes on it. Pods that are there stay.",
    )


class Link(Document):
    """A cable. An end is a switch's name, or `node/hca`."""

    a: str = Field(description="One end: a switch, or node/hca.")
    a_port: int = Field(ge=1, le=254, description="Port number at that end.")
    b: str = Field(description="The other end: a switch, or node/hca.")
    b_port: int = Field(ge=1, le=254, description="Port number at that end.")
    rate_gbps: int | None = Field(
        default=None, ge=1, description="Line rate in Gb/s; none: that of the fabric's fastest adapter."
    )


class FabricAgent(Document):
    """`weft fabric-agent` beside one subnet manager."""

    name: Name = Field(description="Name of the agent, as in its certificate.")
    url: str = Field(pattern=r"^https://", description="Where it listens; mutual TLS.")
    node: Name | None = Field(default=None, description="Node (role subnet-manager) that the SM runs on.")


class FabricManager(Document):
    """How the fabric is ruled."""

    driver: Literal["opensm", "switches"] = Field(
        description="What weft speaks to. opensm: the subnet managers of an InfiniBand fabric, by their agents. "
        "switches: each switch of an Ethernet fabric; weft can plan for it, and not wire it yet."
    )
    agents: tuple[FabricAgent, ...] = Field(default=(), description="Agents beside each subnet manager.")
    ca: str | None = Field(default=None, description="PEM file of the authority that signed the agents.")
    certificate: str | None = Field(default=None, description="PEM file of weft's client certificate.")
    key: str | None = Field(default=None, description="PEM file of its private key.")


class Fabric(Document):
    """An RDMA network with its own isolation."""

    type: FabricKind = Field(default=FabricKind.INFINIBAND, description="What kind of network it is.")
    physical_network: Name = Field(description="Neutron's name of the physical network.")
    segments: Range = Field(
        description="Numbers (P_Keys, VLANs) that weft may give out; each is also the Neutron segmentation id."
    )
    manager: FabricManager = Field(description="How the fabric is managed.")

    @property
    def words(self) -> FabricType:
        """What its segments are called, and how their numbers are written."""
        return FABRIC_TYPES[self.type]


class AcceleratorCount(Document):
    """So many accelerators of one type."""

    type: Name = Field(description="Type of the accelerators, such as h100.")
    count: int = Field(ge=1, le=64, description="How many.")


class Flavor(Document):
    """What weft must know of a Nova flavor to plan without the cloud."""

    accelerators: AcceleratorCount | None = Field(default=None, description="Accelerators of a server.")
    cores: int = Field(
        default=0, ge=0, description="Virtual cores of a server; counted where nodes are shared."
    )
    memory_mib: int = Field(
        default=0, ge=0, description="Memory of a server in MiB; counted where nodes are shared."
    )
    one_numa: bool = Field(
        default=False,
        description="Nova gives a server accelerators of one NUMA node or none: "
        "`hw:pci_numa_affinity_policy: required`.",
    )


class ManagementNetwork(Document):
    """The tenant's Ethernet network for SSH, DHCP and metadata; one a pod."""

    type: Literal["provider", "self-service"] = Field(
        default="provider",
        description="provider: each pod has a VLAN of `segments` on `physical_network`; self-service: an overlay "
        "(Geneve, VXLAN) that Neutron itself picks, the first of its `project_network_types`; no number of weft's.",
    )
    physical_network: Name | None = Field(
        default=None, description="Provider networks: Neutron's name of the physical network."
    )
    segments: Range | None = Field(
        default=None, description="Provider networks: VLANs that weft may give out."
    )
    addresses: IPv4Network = Field(description="Block that pods' management subnets are cut from.")
    prefix: int = Field(default=24, ge=8, le=29, description="Prefix length of a pod's management subnet.")

    @property
    def vlans(self) -> tuple[str, Range] | None:
        """Physical network and range of the VLANs that weft gives out there; None: it gives out none."""
        if self.type == "self-service" or self.physical_network is None or self.segments is None:
            return None
        return self.physical_network, self.segments


class Cloud(Document):
    """An OpenStack cloud, by its name in clouds.yaml."""

    profile: Name | None = Field(
        default=None, description="Name in clouds.yaml, if it is not the cloud's name here."
    )
    management: ManagementNetwork = Field(description="The pods' Ethernet networks.")
    external_network: str | None = Field(default=None, description="Network that floating IPs come from.")
    rdma_addresses: IPv4Network = Field(description="Block that pods' RDMA subnets are cut from.")
    rdma_prefix: int = Field(default=24, ge=8, le=29, description="Prefix length of a pod's RDMA subnet.")
    flavors: dict[Name, Flavor] = Field(default_factory=dict, description="Flavors that pods may order.")


BOOTABLE = frozenset({"compute", "poplar", "controller"})
"""Roles of nodes that a cloud boots servers on."""


class Rack(Document):
    """A rack; `row` and `power` are only shown."""

    name: Name = Field(description="Name of the rack.")
    row: str | None = Field(default=None, description="Row that it stands in.")
    power: str | None = Field(default=None, description="Power feed.")


class ProjectLimits(Document):
    """What a project may have of the site."""

    max_nodes: int | None = Field(default=None, ge=0, description="Most nodes at once; none: no limit.")
    share: float | None = Field(
        default=None, gt=0, le=1e6, description="Its share relative to others', 1 unless given."
    )


class QueuePolicy(Document):
    """How orders that wait are served."""

    patience: Duration | None = Field(
        default=None,
        description="Most time that an order waits for fewer leaves; none: it starts wherever it fits.",
    )
    promises: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="How many waiting orders of a fabric are promised a start that nobody delays.",
    )
    waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Most orders of one project that wait at a time, in the queue or for a promised start.",
    )
    half_life: Duration = Field(default="7d", description="After which a project's past use counts half.")
    projects: dict[str, ProjectLimits] = Field(
        default_factory=dict,
        description="Limits by project id. With a share anywhere, who has used least of its share goes first; "
        "with none, who came first.",
    )


class LeasePolicy(Document):
    """What leases may be."""

    longest: Duration | None = Field(
        default=None,
        description="How far from now a lease may end, when it is ordered and when it is extended; an order without "
        "an end is refused then. None: no limit.",
    )


class PlacementPolicy(Document):
    """What it costs an order to be in a further domain, counted in leaves and rounded to thousandths of one."""

    block: float = Field(
        default=0.5,
        ge=0,
        le=1000,
        description="Cost of a further block (β): 0.5 favours few leaves, 4 few blocks.",
    )
    hall: float = Field(
        default=1.0, ge=0, le=1000, description="Cost of a further hall (γ), beside that of its block."
    )
    building: float = Field(
        default=2.0, ge=0, le=1000, description="Cost of a further building (δ), beside that of its hall."
    )


class Site(Document):
    """The whole site. Equal sites give equal plans."""

    name: Name = Field(description="Name of the site; part of the mark on everything weft makes.")
    clouds: dict[Name, Cloud] = Field(min_length=1, description="OpenStack clouds by name.")
    fabrics: dict[Name, Fabric] = Field(default_factory=dict, description="RDMA fabrics by name.")
    racks: tuple[Rack, ...] = Field(default=(), description="Racks.")
    switches: tuple[Switch, ...] = Field(default=(), description="Switches.")
    links: tuple[Link, ...] = Field(default=(), description="Cables.")
    nodes: tuple[Node, ...] = Field(default=(), description="Hosts.")
    ipu_pods: dict[Name, IpuPod] = Field(default_factory=dict, description="IPU-PODs by name.")
    ipu_machines: tuple[IpuMachine, ...] = Field(default=(), description="IPU-Machines.")
    queue: QueuePolicy = Field(default=QueuePolicy(), description="How orders that wait are served.")
    leases: LeasePolicy = Field(default=LeasePolicy(), description="What leases may be.")
    retention: RetentionPolicy = Field(
        default=RetentionPolicy(), description="How long records are kept that nothing needs any more."
    )
    placement: PlacementPolicy = Field(
        default=PlacementPolicy(), description="What decides between places that an order fits in."
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, and without what was cached of the old ones."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("node_by_name", "switch_by_name", "hca_by_port_guid", "port_by_id", "machine_by_name"):
            vars(copied).pop(name, None)
        return copied

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        return {n.name: n for n in self.nodes}

    @cached_property
    def switch_by_name(self) -> dict[str, Switch]:
        return {s.name: s for s in self.switches}

    @property
    def managers(self) -> Collection[str]:
        """Names of what manages machines of accelerators that stand apart from hosts."""
        return self.ipu_pods.keys()

    @cached_property
    def machine_by_name(self) -> dict[str, IpuMachine]:
        return {m.name: m for m in self.ipu_machines}

    @cached_property
    def port_by_id(self) -> dict[tuple[str, str], tuple[Node, Hca]]:
        """Fabric and id of a port -> its node and adapter."""
        return {(h.fabric, h.port_id): (n, h) for n in self.nodes for h in n.hcas}

    @cached_property
    def hca_by_port_guid(self) -> dict[int, tuple[Node, Hca]]:
        return {h.port_guid: (n, h) for n in self.nodes for h in n.hcas}
