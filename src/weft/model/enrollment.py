"""The hardware list of `weft site enroll`: what Ironic must know of the site's machines that the site file doesn't say.

It stays on the host where it is used: neither the list nor the secrets that it names are sent to weft's service.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from weft.model.base import Document
from weft.model.ids import Mac, Name

Driver = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
PciIds = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
Trait = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]*$", max_length=255)]
RootHint = Literal[
    "by_path",
    "hctl",
    "model",
    "name",
    "rotational",
    "serial",
    "size",
    "vendor",
    "wwn",
    "wwn_vendor_extension",
    "wwn_with_extension",
]
"""Names of Ironic's root device hints (admin guide, "Root device hints")."""
Interface = Literal[
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "vendor",
]


class LogicalDisk(Document):
    """An array of disks, made by Ironic's agent (MD RAID)."""

    level: Literal["0", "1", "5", "6", "1+0"] = Field(description="RAID level.")
    size_gib: int | None = Field(
        default=None, ge=1, description="GiB of each disk that it takes. Default: all that is left."
    )
    disks: tuple[Mapping[RootHint, str], ...] = Field(
        default=(),
        description="Its disks: for each one hints, as for root_device. Default: all disks of the machine.",
    )

    @field_validator("disks")
    @classmethod
    def _several(cls, disks: tuple[Mapping[RootHint, str], ...]) -> tuple[Mapping[RootHint, str], ...]:
        if len(disks) == 1 or not all(disks):
            raise ValueError("at least two disks with hints")
        return disks


class MachinePort(Document):
    """An Ethernet port of a machine. Its InfiniBand ports are the adapters of the site file."""

    mac: Mac
    physical_network: Name | None = Field(default=None, description="Neutron's physical network.")
    switch: Name | None = Field(
        default=None, description="Name of the switch that it is cabled to, as LLDP reports it."
    )
    switch_port: str | None = Field(
        default=None, max_length=64, description="Port of that switch, as LLDP reports it."
    )
    switch_mac: Mac | None = Field(default=None, description="MAC address of the switch (its chassis id).")
    pxe: bool = Field(default=True, description="Whether Ironic's agent is booted through it.")


class MachineSettings(Document):
    """Settings that apply to all machines, or to one."""

    driver: Driver | None = Field(
        default=None, description="Ironic's hardware type, one with Redfish. Default: redfish."
    )
    resource_class: Name | None = Field(
        default=None, description="Resource class, which Nova's flavor requests."
    )
    account: str | None = Field(
        default=None,
        min_length=1,
        description="File with the name and the password of the BMC's account, on one line, readable only by "
        "its owner; relative to the list.",
    )
    verify_ca: str | None = Field(
        default=None,
        pattern=r"^(true|false|/.+)$",
        description="How the BMC's certificate is verified: true, false, or a CA file on Ironic's conductors. "
        "Default: true.",
    )
    memory_gib: int | None = Field(default=None, ge=1, description="Memory that it must have.")
    disks: int | None = Field(default=None, ge=0, description="Number of disks that it must have.")
    root_device: Mapping[RootHint, str] = Field(
        default_factory=dict[RootHint, str],
        description="Hints for the disk that images are written to, as Ironic's root device hints; default: the "
        "smallest disk of at least 4 GiB.",
    )
    raid: tuple[LogicalDisk, ...] = Field(
        default=(),
        max_length=2,
        description="Arrays that its disks are made into before it is available; the first one is for the root disk, "
        "and a mirror. Default: none.",
    )
    boot_mode: Literal["uefi", "bios"] | None = Field(
        default=None, description="How it boots; default: Ironic's own."
    )
    traits: tuple[Trait, ...] = Field(
        default=(), description="Traits, which Nova's flavors and images may require, such as CUSTOM_NVME."
    )
    ignored_macs: tuple[Mac, ...] = Field(
        default=(),
        max_length=64,
        description="MAC addresses of interfaces that may be there although they are neither ports nor adapters, and "
        "of which Ironic gets no port: such as the BMC's USB interface, which has the same one on every machine.",
    )
    interfaces: Mapping[Interface, Name] = Field(
        default_factory=dict[Interface, Name], description="Ironic's interfaces; default: the driver's own."
    )

    @field_validator("raid")
    @classmethod
    def _as_the_agent_makes_it(cls, raid: tuple[LogicalDisk, ...]) -> tuple[LogicalDisk, ...]:
        if raid and raid[0].level != "1":
            raise ValueError('the first array, for the root disk, has level "1"')
        if len([one for one in raid if one.size_gib is None]) > 1:
            raise ValueError("size_gib of all arrays but one")
        return raid


class ListedMachine(MachineSettings):
    """One machine, by its node's name in the site."""

    bmc: str = Field(pattern=r"^https?://[^\s/@]+$", description="Address of its BMC.")
    system: str | None = Field(
        default=None, pattern=r"^/redfish/\S+$", description="Its system in Redfish; default: the only one."
    )
    ports: tuple[MachinePort, ...] = Field(min_length=1)


class MachineList(Document):
    """The whole list."""

    defaults: MachineSettings = MachineSettings()
    accelerators: Mapping[Name, PciIds] = Field(
        default_factory=dict[Name, PciIds],
        description="Accelerator type in the site -> PCI vendor and product, such as 10de:2335.",
    )
    inspect: bool = Field(
        default=True,
        description="Have Ironic inspect machines before they are made available. false: only what Ironic "
        "already knows is compared.",
    )
    machines: Mapping[Name, ListedMachine] = Field(min_length=1)

    def of(self, name: str) -> ListedMachine:
        """A machine with the defaults filled in."""
        one, default = self.machines[name], self.defaults
        known = {
            f: getattr(default, f) for f in MachineSettings.model_fields if getattr(one, f) in (None, {}, ())
        }
        return one.model_copy(update=known)


class Inspected(Document):
    """A machine as it was enrolled, or found.

    Attributes:
        state: its provision state in Ironic; empty: Ironic doesn't have it.
        made: what this run has made or asked for.
        differences: between the list, the site, Ironic's node and its inspection data.
        notes: what isn't compared, because the list says so.
    """

    machine: str
    state: str
    made: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether the machine is usable and has no differences."""
        return not self.differences and self.state in ("available", "active")


class Enrolled(Document):
    """All machines of a run of `weft site enroll`."""

    machines: tuple[Inspected, ...]

    @property
    def good(self) -> bool:
        """Whether all machines are good."""
        return all(m.good for m in self.machines)
