"""The site's own networks, which exist before any pod, for hardware, services and all tenants."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.site.ipus import Address
from weft.model.site.switching import SwitchPort

SubnetRole = Literal[
    "bmc",
    "gateway",
    "infrastructure",
    "internal-api",
    "provisioning",
    "cleaning",
    "management",
    "data",
    "storage",
    "tenant",
    "external",
]
PRIVILEGED: frozenset[SubnetRole] = frozenset(
    {"bmc", "gateway", "infrastructure", "internal-api", "provisioning", "cleaning"}
)
"""Roles of subnets that no tenant may reach: machines there could be switched off, reinstalled or broken into."""

ProjectId = Annotated[str, StringConstraints(pattern=r"^[0-9a-zA-Z_-]{1,64}$")]
"""Id of a project in Keystone."""


class AddressRange(Document):
    """Addresses from first to last, both included."""

    first: Address = Field(description="First address.")
    last: Address = Field(description="Last address.")

    def __contains__(self, address: object) -> bool:
        return self.first <= address <= self.last  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


class SiteSubnet(Document):
    """A subnet of one of the site's networks."""

    role: SubnetRole = Field(
        description="Its purpose. Tenants never reach `bmc`, `gateway` (of IPU-Machines), `infrastructure` "
        "(switches, PDUs), `internal-api`, `provisioning` and `cleaning`; `management`, `data`, "
        "`storage`, `tenant` and `external` may be shared with them."
    )
    addresses: IPv4Network = Field(description="Its addresses.")
    gateway: Address | None = Field(default=None, description="Address of its router; none by default.")
    dhcp: bool = Field(default=True, description="Whether Neutron provides DHCP there.")
    pool: AddressRange | None = Field(
        default=None,
        description="Range from which Neutron assigns addresses to ports without a fixed one; required with "
        "dhcp. Addresses of hardware are outside of it.",
    )
    dns: tuple[Address, ...] = Field(default=(), max_length=5, description="Name servers announced by DHCP.")
    nat: bool = Field(
        default=False,
        description="Whether a router connects it to the cloud's external network, translating addresses; it then "
        "needs a `gateway`.",
    )


class SiteNetwork(Document):
    """A provider network of the site: a VLAN of a physical network, or the untagged one."""

    cloud: Name | None = Field(
        default=None, description="Cloud by name; may be omitted if the site has only one."
    )
    physical_network: Name = Field(description="Name of the physical network in Neutron.")
    vlan: int | None = Field(
        default=None, ge=1, le=4094, description="VLAN id. Default: untagged (a flat network)."
    )
    fabric: Name | None = Field(
        default=None,
        description="Ethernet fabric on whose switches weft manages the VLAN: `weft site apply` defines it, "
        "and adds the ports of all hardware on this network that is cabled to them. Default: "
        "ports are recorded, but nothing is configured.",
    )
    trunks: tuple[SwitchPort, ...] = Field(
        default=(),
        description="With `fabric`: ports of its switches that carry the VLAN tagged, such as those of the "
        "cloud's own hosts and routers. Their other VLANs are left alone.",
    )
    mtu: int = Field(default=1500, ge=1280, le=9216, description="Largest IP packet in bytes.")
    shared_with: tuple[ProjectId, ...] = Field(
        default=(),
        description="Ids of the projects that see it and may have ports on it; none by default. Not with subnets of a "
        "role that tenants never reach.",
    )
    subnets: dict[Name, SiteSubnet] = Field(
        min_length=1,
        description="Subnets, by name. BMCs and gateways of IPU-Machines often share a VLAN and have a subnet each.",
    )
