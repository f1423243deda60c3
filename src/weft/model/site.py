"""The site, described once: racks, switches, links, nodes with accelerators and HCAs, fabrics, clouds.

This is the value; reading it from YAML and CSV with file and line in every error is `weft.app.sitefile`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.fabrictypes import FABRIC_TYPES, FabricKind, FabricType
from weft.model.ids import Duration, Guid, Mac, Name, PciAddress, Words, format_guid
from weft.model.ipusite import IpuMachine, IpuPod
from weft.model.ranges import Range
from weft.model.retention import RetentionPolicy
from weft.model.switches import Switching

MOST_VFS = 256
"""Virtual functions of an adapter at most: as many as its derived MAC addresses have a last byte for."""


class Hca(Document):
    """A host channel adapter or RDMA NIC with one port on the fabric (one rail)."""

    name: Name = Field(description="Device name on the host, such as mlx5_0.")
    fabric: Name = Field(description="Fabric that the port is cabled to.")
    guid: Guid = Field(description="Node GUID of the adapter.")
    port_guid: Guid = Field(description="Port GUID, which is what partitions list as members.")
    pci: PciAddress = Field(description="PCI address of the physical function.")
    numa: int = Field(default=0, ge=0, description="NUMA node.")
    switch: str | None = Field(
        default=None, max_length=64, description="PCIe switch that the adapter is behind."
    )
    mac: Mac | None = Field(default=None, description="MAC address (Ethernet or IPoIB).")
    rate_gbps: int = Field(default=200, ge=1, description="Line rate in Gb/s.")
    switch_port: str | None = Field(
        default=None,
        pattern=r"^[^\s/]+/\S+$",
        description="Ethernet fabrics: switch port that the adapter is cabled to, as switch/port with the vendor's "
        "port "
        "name, such as leaf01/Ethernet7.",
    )
    vfs: int = Field(
        default=0,
        ge=0,
        le=MOST_VFS,
        description="Number of virtual functions (SR-IOV) for servers on shared nodes.",
    )
    vf_mac: Mac | None = Field(
        default=None,
        description="MAC address of the first virtual function; the others count up from it. InfiniBand GUIDs are made "
        "of them, with two zero bytes in the middle. Default: locally administered, derived from `port_guid`.",
    )
    vf_pci: PciAddress | None = Field(
        default=None,
        description="PCI address of the first virtual function; the others count up from it. It tells weft which "
        "adapter the function that Nova chose belongs to. Default: functions are counted per node once Nova chose.",
    )

    @property
    def port_id(self) -> str:
        """Id under which the fabric's driver knows the port."""
        return self.switch_port or format_guid(self.port_guid)


class Accelerator(Document):
    """One accelerator of a node."""

    type: Name = Field(description="Accelerator type that orders use, such as h100.")
    pci: PciAddress = Field(description="PCI address.")
    numa: int = Field(default=0, ge=0, description="NUMA node.")
    switch: str | None = Field(
        default=None,
        max_length=64,
        description="PCIe switch that the accelerator is behind; devices behind the same switch are closest to each "
        "other.",
    )


class Node(Document):
    """A host. Only `compute` nodes are ever assigned to a pod whole."""

    name: Name = Field(description="Name of the node; also its host name in Nova unless `host` is set.")
    rack: Name | None = Field(default=None, description="Rack.")
    role: Literal["compute", "poplar", "controller", "subnet-manager", "service"] = Field(
        default="compute",
        description="compute: can be ordered; poplar: Poplar server of an IPU-POD; controller: generic compute node "
        "for "
        "V-IPU controllers; the other roles are only attached to the fabric.",
    )
    cloud: Name | None = Field(
        default=None, description="Cloud that the host belongs to; may be omitted if the site has only one."
    )
    host: str | None = Field(
        default=None, description="Host name in Nova, if it differs from the node's name."
    )
    maintenance: str | None = Field(
        default=None, description="Set while the node must not be assigned: the reason."
    )
    labels: Words = Field(
        default=(),
        description="Labels that orders can prefer or avoid; separated by spaces in a CSV file.",
    )
    ipu_pod: Name | None = Field(
        default=None, description="Poplar server: IPU-POD whose data network it is connected to."
    )
    servers: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Poplar server or controller node: maximum number of pods with a virtual machine on it at a time.",
    )
    cores: int | None = Field(
        default=None,
        ge=1,
        description="vCPUs available to servers on a shared node, as Nova counts them; not limited by default.",
    )
    memory_mib: int | None = Field(
        default=None,
        ge=1,
        description="Memory in MiB available to servers on a shared node; not limited by default.",
    )
    dedicated_cores: int | None = Field(
        default=None,
        ge=1,
        description="Cores available to servers with dedicated CPUs (`hw:cpu_policy: dedicated`), as Nova counts PCPU. "
        "Default: such servers are counted against `cores`.",
    )
    numa_nodes: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Number of NUMA nodes, over which cores and memory are spread evenly; for flavors with "
        "`numa_nodes`. Default: as many as its devices name.",
    )
    sockets: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Number of sockets, each with equally many NUMA nodes. Default: one per NUMA node.",
    )
    hcas: tuple[Hca, ...] = Field(default=(), description="Adapters; may also be listed in the table `hcas`.")
    accelerators: tuple[Accelerator, ...] = Field(
        default=(), description="Accelerators; may also be listed in the table `accelerators`."
    )

    @property
    def nova_host(self) -> str:
        return self.host or self.name

    def hcas_on(self, fabric: str) -> tuple[Hca, ...]:
        return tuple(h for h in self.hcas if h.fabric == fabric)

    @property
    def numa(self) -> int:
        """How many NUMA nodes it has, as far as is known."""
        return self.numa_nodes or 1 + max((d.numa for d in (*self.accelerators, *self.hcas)), default=0)


class Switch(Document):
    """A switch of a fabric."""

    name: Name = Field(description="Name of the switch; on InfiniBand its node description.")
    fabric: Name = Field(description="Fabric that the switch belongs to.")
    level: Literal["leaf", "spine", "core"] = Field(
        description="Level of the switch; hosts connect to leaf switches."
    )
    ports: int = Field(ge=1, le=254, description="Number of external ports.")
    guid: Guid | None = Field(default=None, description="Node GUID; InfiniBand only.")
    rack: Name | None = Field(default=None, description="Rack.")
    block: Name | None = Field(
        default=None,
        description="Block: a group of leaves with spines of their own. Default: the whole fabric is one block.",
    )
    hall: Name | None = Field(
        default=None, description="Hall that the block is in. Default: the whole site is one hall."
    )
    building: Name | None = Field(
        default=None, description="Building that the hall is in. Default: the whole site is one building."
    )
    project: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Leaf switch: id of the project that it is dedicated to. Existing pods of other projects stay.",
    )


class Link(Document):
    """A cable. Each end is the name of a switch, or `node/hca`."""

    a: str = Field(description="One end: switch or node/hca.")
    a_port: int = Field(ge=1, le=254, description="Port number at that end.")
    b: str = Field(description="The other end: switch or node/hca.")
    b_port: int = Field(ge=1, le=254, description="Port number at that end.")
    rate_gbps: int | None = Field(
        default=None, ge=1, description="Line rate in Gb/s. Default: that of the fabric's fastest adapter."
    )


HttpsUrl = Annotated[str, StringConstraints(pattern=r"^https://[^\s/?#@]+$", max_length=300)]
"""An HTTPS address with nothing behind host and port."""


class FabricAgent(Document):
    """`weft fabric-agent` next to one subnet manager."""

    name: Name = Field(description="Name of the agent, as in its certificate.")
    url: str = Field(pattern=r"^https://", description="URL that it listens on, with mutual TLS.")
    node: Name | None = Field(
        default=None, description="Node (role `subnet-manager`) that the subnet manager runs on."
    )


class FabricManager(Document):
    """How the fabric is managed."""

    driver: Literal["opensm", "ufm", "switches"] = Field(
        description="opensm: the subnet managers of an InfiniBand fabric, through their agents. "
        "ufm: NVIDIA UFM Enterprise, through its REST API. "
        "switches: the switches of an Ethernet fabric, each through its own API (`switching`)."
    )
    agents: tuple[FabricAgent, ...] = Field(
        default=(),
        description="Agents, one next to each subnet manager. With UFM they are optional: they read the ports' own "
        "P_Key tables as a second proof.",
    )
    addresses: tuple[HttpsUrl, ...] = Field(
        default=(),
        max_length=4,
        description="UFM: base URLs of its REST API, such as https://ufm.example. For a high-availability pair, the "
        "virtual address or both nodes' addresses.",
    )
    authentication: Literal["token", "basic", "session", "certificate"] = Field(
        default="token",
        description="UFM: how weft signs in. token: access token (/ufmRestV3). basic: user and password with each "
        "request (/ufmRest). session: user and password once, then a cookie (/ufmRestV2). certificate: weft's client "
        "certificate (/ufmRest).",
    )
    credentials: str | None = Field(
        default=None,
        description="UFM: YAML file with `token`, or `username` and `password`, readable by weft only. None: the "
        "environment variables WEFT_UFM_TOKEN, or WEFT_UFM_USERNAME and WEFT_UFM_PASSWORD.",
    )
    ca: str | None = Field(
        default=None,
        description="PEM file of the CA that signed the agents' certificates, and UFM's. None, for UFM: the host's "
        "own trusted CAs.",
    )
    certificate: str | None = Field(default=None, description="PEM file of weft's client certificate.")
    key: str | None = Field(default=None, description="PEM file of its private key.")
    switching: Switching | None = Field(
        default=None, description="Driver switches: how the switches are managed, and the links between them."
    )


class Fabric(Document):
    """An RDMA network with its own isolation."""

    type: FabricKind = Field(default=FabricKind.INFINIBAND, description="Type of the fabric.")
    physical_network: Name = Field(description="Name of the physical network in Neutron.")
    segments: Range = Field(
        description="P_Keys or VLANs that weft may allocate; each is also the segmentation id of a Neutron network."
    )
    manager: FabricManager = Field(description="What manages the fabric.")

    @property
    def words(self) -> FabricType:
        """Properties of the fabric's type: what segments are called, how their numbers are written."""
        return FABRIC_TYPES[self.type]


class AcceleratorCount(Document):
    """A number of accelerators of one type."""

    type: Name = Field(description="Accelerator type, such as h100.")
    count: int = Field(ge=1, le=64, description="Number of accelerators.")


PciAffinity = Literal["required", "legacy", "socket", "preferred"]
"""Nova's `hw:pci_numa_affinity_policy`. legacy is required for devices whose NUMA node is known, as a site's are."""


class Flavor(Document):
    """What weft must know about a Nova flavor to plan without querying the cloud."""

    accelerators: AcceleratorCount | None = Field(default=None, description="Accelerators of each server.")
    cores: int = Field(default=0, ge=0, description="vCPUs of each server; counted on shared nodes.")
    memory_mib: int = Field(
        default=0, ge=0, description="Memory of each server in MiB; counted on shared nodes."
    )
    one_numa: bool = Field(
        default=False,
        description="All accelerators of a server come from one NUMA node. Short for `numa_nodes: 1` and "
        "`pci_affinity: required`: the flavor has `hw:numa_nodes: 1`, without which Nova ignores "
        "`hw:pci_numa_affinity_policy`.",
    )
    numa_nodes: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="NUMA nodes that a server is spread over evenly: `hw:numa_nodes`, or 1 where Nova implies it "
        "(`hw:cpu_policy: dedicated`, `hw:mem_page_size`). Default: not bound to NUMA nodes.",
    )
    dedicated_cores: bool = Field(
        default=False, description="Servers have dedicated CPUs: `hw:cpu_policy: dedicated`."
    )
    pci_affinity: PciAffinity = Field(
        default="legacy",
        description="`hw:pci_numa_affinity_policy` of servers bound to NUMA nodes: devices must be on these (required, "
        "legacy) or on their sockets (socket), or only should be (preferred).",
    )

    @property
    def numa(self) -> int | None:
        """NUMA nodes that a server is spread over; None: it isn't bound to any."""
        return self.numa_nodes or (1 if self.one_numa or self.dedicated_cores else None)

    @property
    def affinity(self) -> PciAffinity:
        return "required" if self.one_numa else self.pci_affinity


class ManagementNetwork(Document):
    """The tenant's Ethernet network for SSH, DHCP and metadata; one per pod."""

    type: Literal["provider", "self-service"] = Field(
        default="provider",
        description="provider: each pod gets a VLAN from `segments` on `physical_network`. self-service: an overlay "
        "(Geneve, VXLAN) allocated by Neutron, of the first type in its `project_network_types`.",
    )
    physical_network: Name | None = Field(
        default=None, description="Provider networks: name of the physical network in Neutron."
    )
    segments: Range | None = Field(
        default=None, description="Provider networks: VLANs that weft may allocate."
    )
    addresses: IPv4Network = Field(
        description="Address range that pods' management subnets are allocated from."
    )
    prefix: int = Field(
        default=24, ge=8, le=29, description="Default prefix length of a pod's management subnet."
    )

    @property
    def vlans(self) -> tuple[str, Range] | None:
        """Physical network and range of the VLANs that weft allocates there; None: it allocates none."""
        if self.type == "self-service" or self.physical_network is None or self.segments is None:
            return None
        return self.physical_network, self.segments


class Cloud(Document):
    """An OpenStack cloud."""

    profile: Name | None = Field(
        default=None, description="Profile in clouds.yaml, if it differs from the cloud's name."
    )
    management: ManagementNetwork = Field(description="Management networks of pods.")
    external_network: str | None = Field(
        default=None, description="External network in Neutron that floating IPs are allocated from."
    )
    rdma_addresses: IPv4Network = Field(
        description="Address range that pods' RDMA subnets are allocated from."
    )
    rdma_prefix: int = Field(
        default=24, ge=8, le=29, description="Default prefix length of a pod's RDMA subnet."
    )
    flavors: dict[Name, Flavor] = Field(
        default_factory=dict, description="Nova flavors that pods may use, by name."
    )


BOOTABLE = frozenset({"compute", "poplar", "controller"})
"""Roles of nodes that a cloud boots servers on."""


class Rack(Document):
    """A rack; `row` and `power` are informational."""

    name: Name = Field(description="Name of the rack.")
    row: str | None = Field(default=None, description="Row that the rack is in.")
    power: str | None = Field(default=None, description="Power feed.")


class ProjectLimits(Document):
    """Limits of one project."""

    max_nodes: int | None = Field(
        default=None, ge=0, description="Maximum number of nodes at a time; not limited by default."
    )
    share: float | None = Field(
        default=None, gt=0, le=1e6, description="Fair share relative to other projects. Default: 1."
    )


class QueuePolicy(Document):
    """How waiting orders are served."""

    patience: Duration | None = Field(
        default=None,
        description="Longest time that an order waits for a placement on fewer leaves. Default: it starts wherever it "
        "fits.",
    )
    promises: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Number of waiting orders per fabric that get a booking: a start that no other order can delay, or "
        "nodes that no later order gets, if no start is known since pods without an end are in the way. 0: large "
        "orders may wait for ever behind small ones.",
    )
    waiting: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Maximum number of waiting orders per project, in the queue or with a booking.",
    )
    half_life: Duration = Field(
        default="7d", description="Half-life of a project's past usage in the calculation of its fair share."
    )
    projects: dict[str, ProjectLimits] = Field(
        default_factory=dict,
        description="Limits by project id. If any project has a share, orders of the project that has used least of "
        "its "
        "share go first; otherwise first come, first served.",
    )


class LeasePolicy(Document):
    """Limits on leases."""

    longest: Duration | None = Field(
        default=None,
        description="How far in the future a lease may end, when ordered or extended; if set, an order must have an "
        "end. "
        "Not limited by default.",
    )


class PlacementPolicy(Document):
    """What it costs an order to use another block, hall or building, in units of one leaf, rounded to thousandths."""

    block: float = Field(
        default=0.5,
        ge=0,
        le=1000,
        description="Cost of another block (β): 0.5 favours fewer leaves, 4 fewer blocks.",
    )
    hall: float = Field(
        default=1.0, ge=0, le=1000, description="Cost of another hall (γ), in addition to that of its block."
    )
    building: float = Field(
        default=2.0,
        ge=0,
        le=1000,
        description="Cost of another building (δ), in addition to that of its hall.",
    )


class Site(Document):
    """The whole site. Equal sites give equal plans."""

    name: Name = Field(description="Name of the site; part of the mark on everything that weft creates.")
    clouds: dict[Name, Cloud] = Field(min_length=1, description="OpenStack clouds, by name.")
    fabrics: dict[Name, Fabric] = Field(default_factory=dict, description="RDMA fabrics, by name.")
    racks: tuple[Rack, ...] = Field(default=(), description="Racks.")
    switches: tuple[Switch, ...] = Field(default=(), description="Switches.")
    links: tuple[Link, ...] = Field(default=(), description="Cables.")
    nodes: tuple[Node, ...] = Field(default=(), description="Hosts.")
    ipu_pods: dict[Name, IpuPod] = Field(default_factory=dict, description="IPU-PODs, by name.")
    ipu_machines: tuple[IpuMachine, ...] = Field(default=(), description="IPU-Machines.")
    queue: QueuePolicy = Field(default=QueuePolicy(), description="How waiting orders are served.")
    leases: LeasePolicy = Field(default=LeasePolicy(), description="Limits on leases.")
    retention: RetentionPolicy = Field(
        default=RetentionPolicy(), description="How long records that are no longer needed are kept."
    )
    placement: PlacementPolicy = Field(
        default=PlacementPolicy(), description="What decides between possible placements."
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, without anything cached from the old ones."""
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
        """Names of what manages accelerators that are not in hosts: the IPU-PODs."""
        return self.ipu_pods.keys()

    @cached_property
    def machine_by_name(self) -> dict[str, IpuMachine]:
        return {m.name: m for m in self.ipu_machines}

    @cached_property
    def port_by_id(self) -> dict[tuple[str, str], tuple[Node, Hca]]:
        """Fabric and id of a port -> its node and adapter."""
        return {(h.fabric, h.port_id): (n, h) for n in self.nodes for h in n.hcas}

    @cached_property
    def _guids_on(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {}
        for node in self.nodes:
            for hca in node.hcas:
                found.setdefault(hca.fabric, set()).add(hca.port_guid)
        return {fabric: frozenset(guids) for fabric, guids in found.items()}

    def ports_on(self, fabric: str) -> frozenset[int]:
        """GUIDs of nodes' ports on a fabric."""
        return self._guids_on.get(fabric, frozenset())

    @cached_property
    def hca_by_port_guid(self) -> dict[int, tuple[Node, Hca]]:
        return {h.port_guid: (n, h) for n in self.nodes for h in n.hcas}
