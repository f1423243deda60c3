"""Hosts: nodes with their adapters and accelerators."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Guid, Mac, MachineId, Name, PciAddress, Reason, Words, format_guid

MOST_VFS = 256
"""Maximum number of virtual functions of an adapter: their derived MAC addresses differ in the last byte."""


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
    rate_gbps: int = Field(default=200, ge=1, le=10_000, description="Line rate in Gb/s.")
    locates: bool = Field(
        default=True,
        description="Whether placement locates the node by the leaf that it is cabled to. False: it serves "
        "something else, such as storage on leaves that many groups of nodes share; pods get it all the same. If no "
        "cabled adapter of a node locates it, all do.",
    )
    switch_port: str | None = Field(
        default=None,
        pattern=r"^[^\s/]+/[!-~]+$",
        description="Ethernet fabrics: switch port that the adapter is cabled to, as switch/port with the vendor's "
        "port "
        "name, such as leaf01/Ethernet7.",
    )
    bond_pci: PciAddress | None = Field(
        default=None,
        description="Ethernet: PCI address of the NIC's other physical function, if both are one bond on the host "
        "(VF-LAG); `switch_port` is then one end of it.",
    )
    bond_mode: Literal["802.3ad", "balance-xor", "active-backup"] | None = Field(
        default=None, description="Mode of that bond; adapters support these three."
    )
    eswitch: Literal["legacy", "switchdev"] | None = Field(
        default=None,
        description="Mode of the NIC's embedded switch, of both functions of a bond. switchdev: Neutron's Open vSwitch "
        "agent sets the functions' VLANs (hardware offload), not the SR-IOV agent.",
    )
    vfs: int = Field(
        default=0,
        ge=0,
        le=MOST_VFS,
        description="Number of virtual functions (SR-IOV) for servers on shared nodes.",
    )
    vf_mac: Mac | None = Field(
        default=None,
        description="MAC address of the first virtual function; the others count up from it. InfiniBand GUIDs "
        "are derived from them by inserting two zero bytes in the middle. Default: locally "
        "administered, derived from `port_guid`.",
    )
    vf_pci: PciAddress | None = Field(
        default=None,
        description="PCI address of the first virtual function; the others count up from it. By it weft "
        "knows the adapter of a function that Nova chose. Default: functions are counted per "
        "node once Nova has chosen.",
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
    machine: MachineId | None = Field(
        default=None,
        description="Bare metal: id (UUID) of the node in Ironic, which is also its hypervisor name in Nova. "
        "Only pods with `nodes.kind: bare_metal` get such nodes.",
    )
    serial: str | None = Field(
        default=None,
        max_length=200,
        description="Serial number of the machine, as DMI has it (`product_serial`): weft takes no results of checks "
        "from another one.",
    )
    product_uuid: str | None = Field(
        default=None,
        max_length=200,
        description="UUID of the machine, as DMI has it (`product_uuid`): as for `serial`.",
    )
    maintenance: Reason = Field(
        default=None, description="Set while the node must not be assigned: the reason."
    )
    nvlink_domain: Name | None = Field(
        default=None,
        description="NVLink domain (of a rack-scale system such as GB200 NVL72) that the node is a compute tray of: "
        "its accelerators reach those of the domain's other nodes over NVLink switches.",
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
        """Where Nova has its server: a compute host, or a machine's own hypervisor."""
        return self.machine or self.host or self.name

    def hcas_on(self, fabric: str) -> tuple[Hca, ...]:
        """Its adapters on a fabric."""
        return tuple(h for h in self.hcas if h.fabric == fabric)

    def bond_on(self, fabric: str) -> Hca | None:
        """An adapter that is a bond of both functions of its NIC (VF-LAG) on the host; bare-metal machines configure
        theirs."""
        return next((h for h in self.hcas_on(fabric) if h.bond_pci and self.machine is None), None)

    @property
    def machine_type(self) -> str:
        """Name of its machine type, from its accelerators, such as `h100x8`; `cpu`: it has none."""
        counted = Counter(a.type for a in self.accelerators)
        return "-".join(f"{type_}x{count}" for type_, count in sorted(counted.items())) or "cpu"

    @property
    def is_whole(self) -> bool:
        """Whether it is assigned to pods as a whole, and can be reserved."""
        return self.role == "compute"

    @property
    def numa(self) -> int:
        """How many NUMA nodes it has, as far as is known."""
        return self.numa_nodes or 1 + max((d.numa for d in (*self.accelerators, *self.hcas)), default=0)


BOOTABLE = frozenset({"compute", "poplar", "controller"})
"""Roles of nodes that a cloud boots servers on."""
