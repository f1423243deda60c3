"""OpenStack clouds: their flavors, and the addresses and VLANs that pods get there."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.ranges import Range
from weft.model.site.deployment import Deployment
from weft.model.site.networks import ProjectId
from weft.model.site.storage import Storage


class AcceleratorCount(Document):
    """A number of accelerators of one type."""

    type: Name = Field(description="Accelerator type, such as h100.")
    count: int = Field(ge=1, le=64, description="Number of accelerators.")


CleaningStep = Annotated[str, StringConstraints(pattern=r"^[a-z]+\.[a-z][a-z0-9_]*$", max_length=100)]
FirmwareComponent = Annotated[str, StringConstraints(pattern=r"^\S+$", max_length=255)]
FirmwareVersion = Annotated[str, StringConstraints(min_length=1, max_length=255)]
PciAffinity = Literal["required", "legacy", "socket", "preferred"]
"""Nova's `hw:pci_numa_affinity_policy`. legacy is required for devices whose NUMA node is known, as a site's are."""


PropertyKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,255}$")]
PropertyValue = Annotated[str, StringConstraints(min_length=1, max_length=255)]
"""Nova's limits on extra specs."""


class FlavorInNova(Document):
    """What `weft site apply` makes of a flavor in Nova."""

    vcpus: int | None = Field(default=None, ge=1, description="vCPUs. Default: the flavor's `cores`.")
    ram_mib: int | None = Field(
        default=None, ge=1, description="Memory in MiB. Default: the flavor's `memory_mib`."
    )
    disk_gib: int = Field(default=0, ge=0, description="Root disk in GiB; 0: as large as the image.")
    extra_specs: dict[PropertyKey, PropertyValue] = Field(
        default_factory=dict,
        description="Extra specs besides those that follow from the flavor (`pci_passthrough:alias`, `hw:cpu_policy`, "
        "`hw:numa_nodes`, `hw:pci_numa_affinity_policy`), such as `hw:mem_page_size: large`.",
    )


class ImageProperties(Document):
    """An image in Glance, in the project of weft's service user."""

    properties: dict[PropertyKey, PropertyValue] = Field(
        min_length=1,
        description="Properties that `weft site apply` sets on it, such as `hw_numa_nodes` or "
        "`trait:CUSTOM_GPU`; its other properties are left alone.",
    )


class Flavor(Document):
    """What weft must know about a Nova flavor to plan without querying the cloud."""

    accelerators: AcceleratorCount | None = Field(default=None, description="Accelerators of each server.")
    bare_metal: bool = Field(
        default=False,
        description="Whole machines in Ironic: the flavor requests a resource class (`resources:CUSTOM_…`), "
        "and for no devices.",
    )
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
    nvme: int = Field(
        default=0,
        ge=0,
        le=32,
        description="Local NVMe drives of each server besides its boot disk, for `scratch`: a machine's own, "
        "or passed through to a virtual machine.",
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

    nova: FlavorInNova | None = Field(
        default=None, description="`weft site apply` creates it in Nova. Default: it already exists."
    )

    @property
    def vcpus(self) -> int:
        """Virtual CPUs of the flavor in Nova; 0: the site doesn't say."""
        return (self.nova.vcpus if self.nova else None) or self.cores

    @property
    def ram_mib(self) -> int:
        """Memory of the flavor in Nova, in MiB; 0: the site doesn't say."""
        return (self.nova.ram_mib if self.nova else None) or self.memory_mib

    @property
    def numa(self) -> int | None:
        """NUMA nodes that a server is spread over; None: it isn't bound to any."""
        return self.numa_nodes or (1 if self.one_numa or self.dedicated_cores else None)

    @property
    def affinity(self) -> PciAffinity:
        """How Nova places devices and memory: `required` where the flavor keeps all on one NUMA node."""
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
    machines_by: Literal["nova", "ironic"] = Field(
        default="nova",
        description="Bare metal: which service deploys a pod's machines. nova: Nova's ironic driver, so that "
        "the tenant has a server in Nova. ironic: weft uses Ironic directly, for clouds whose "
        "Nova has no such driver. Can't be changed while a pod holds a machine.",
    )
    machine_owners: tuple[ProjectId, ...] = Field(
        default=(),
        description="Bare metal: ids of projects, of operators alone, that may be a machine's owner or lessee in "
        "Ironic, besides weft's own. Members of these may act on it whichever pod has it; a machine with any other "
        "owner is neither claimed nor returned.",
    )
    cleaning_steps: tuple[CleaningStep, ...] = Field(
        default=(),
        description="Bare metal: steps that Ironic's cleaning must have run besides one that erases disks, as "
        "interface.step, such as deploy.erase_devices or bios.factory_reset. A machine that was cleaned without one of "
        "them isn't clean.",
    )
    firmware: dict[FirmwareComponent, Annotated[tuple[FirmwareVersion, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Bare metal: versions that a machine's firmware may have after cleaning, by Ironic's "
        "component, such as bios, bmc or nic:NIC.Slot.1. A machine with any other version, or one "
        "unknown to Ironic, isn't clean.",
    )
    firmware_unchanged: bool = Field(
        default=False,
        description="Bare metal: after cleaning, firmware that `firmware` doesn't list must have the version that "
        "Ironic read at the machine's enrolment. After an upgrade, list the new version in `firmware`.",
    )
    bios_settings: dict[FirmwareComponent, str] = Field(
        default_factory=dict,
        description="Bare metal: values that BIOS settings must have after cleaning, by Ironic's names.",
    )
    hosts_kept_free: Literal["aggregate", "otherwise"] = Field(
        default="aggregate",
        description="What keeps servers of other flavors off pods' hosts. aggregate: host aggregates whose "
        "`instance_type` names the flavors for them, made by `weft site apply`; `weft site check --live "
        "--cloud-profile` compares them with the site. otherwise: means of the operator's own, which weft neither "
        "makes nor checks.",
    )
    external_network: str | None = Field(
        default=None, description="External network in Neutron that floating IPs are allocated from."
    )
    rdma_addresses: IPv4Network = Field(
        description="Address range that pods' RDMA subnets are allocated from."
    )
    rdma_prefix: int = Field(
        default=24, ge=8, le=29, description="Default prefix length of a pod's RDMA subnet."
    )
    storage: Storage = Field(default=Storage(), description="Shares, volumes and exports that pods may have.")
    flavors: dict[Name, Flavor] = Field(
        default_factory=dict, description="Nova flavors that pods may use, by name."
    )
    images: dict[Name, ImageProperties] = Field(
        default_factory=dict, description="Images with properties that `weft site apply` sets, by name."
    )
    deployment: Deployment | None = Field(
        default=None, description="How the cloud itself is deployed, for `weft site export`."
    )
