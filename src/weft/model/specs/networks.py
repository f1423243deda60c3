"""Segments of fabrics, and Neutron's resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.fabric import Membership
from weft.model.fabrictypes import AFabricKind, FabricKind
from weft.model.ids import Mac
from weft.model.specs.base import Spec

RULES_OF_A_GROUP = 4
"""Security group rules that a group has without any for SSH: out (IPv4, IPv6) and inside the group (the same)."""


class SegmentSpec(Spec):
    """Exact members of a fabric's segment; nothing else is a member."""

    kind: Literal["segment"] = "segment"
    number: int = Field(ge=1, description="P_Key (15 bits) or VLAN.")
    fabric_type: AFabricKind = Field(
        default=FabricKind.INFINIBAND, description="How the number is written and what its members can be."
    )
    members: tuple[Membership, ...] = Field(description="Ports, sorted.")
    shared: bool = Field(
        default=False,
        description="Of the site's own networks: ports that weft knows nothing of may be in it, and are left alone.",
    )
    former: tuple[str, ...] = Field(
        default=(),
        description="With `shared`: ids of former members that must no longer be in it, sorted.",
    )

    def summary(self) -> str:
        # A tenant's plan doesn't name the members (weft.app.shown).
        return self.named + (f", {len(self.members)} members" if self.members else "")

    @property
    def text(self) -> str:
        """The number in the notation of the fabric's tools."""
        return self.fabric_type.row.text(self.number)

    @property
    def named(self) -> str:
        """The number with its word, such as `P_Key 0x65`."""
        return self.fabric_type.row.named(self.number)

    @property
    def ports(self) -> frozenset[str]:
        """Ids of the members' ports."""
        return frozenset(m.port for m in self.members)


class NetworkSpec(Spec):
    """A VLAN provider network, that of a fabric with the number of the fabric's segment; an untagged provider network
    (flat); or a self-service network, of which Neutron picks type and number."""

    kind: Literal["network"] = "network"
    physical_network: str | None = Field(
        default=None, description="Physical network in Neutron; null: a self-service network."
    )
    segment: int | None = Field(
        default=None,
        description="VLAN; null: a self-service network, or the untagged one of `physical_network`.",
    )
    port_security: bool = Field(
        description="False on RDMA networks: security groups don't reach a passed-through HCA."
    )
    mtu: int | None = Field(
        default=None, description="Largest IP packet in bytes; null: as Neutron picks it."
    )
    shared_with: tuple[str, ...] = Field(
        default=(), description="Ids of the projects that may have ports on it, sorted; an RBAC policy each."
    )
    external: bool = Field(default=False, description="Routers may have their gateway there.")

    @property
    def is_closed(self) -> bool:
        return not self.port_security

    def summary(self) -> str:
        if self.physical_network is None:
            return "self-service network"
        where = "untagged" if self.segment is None else f"segment {self.segment}"
        mtu = f", MTU {self.mtu}" if self.mtu is not None else ""
        shared = f", shared with {len(self.shared_with)} projects" if self.shared_with else ""
        return f"{where} on {self.physical_network}{mtu}{shared}"


class SubnetSpec(Spec):
    """A subnet of a network."""

    kind: Literal["subnet"] = "subnet"
    network: str = Field(description="Key of the network.")
    cidr: str
    gateway: bool = Field(description="Whether the first address is a gateway (a router will have it).")
    gateway_address: str | None = Field(
        default=None, description="Address of the gateway, if it has another."
    )
    dhcp: bool
    dns: tuple[str, ...] | None = Field(
        default=None, description="Name servers, in the order in which DHCP names them; null: any."
    )
    pool: tuple[str, str] | None = Field(
        default=None,
        description="First and last address that the cloud itself may allocate (DHCP ports); null: no limit.",
    )

    def summary(self) -> str:
        dhcp = "DHCP" if self.dhcp else "no DHCP"
        gateway = "gateway" if self.gateway or self.gateway_address else "no gateway"
        return f"{self.cidr}, {dhcp}, {gateway}"

    def inside(self) -> str:
        return self.network


class RouterSpec(Spec):
    """A router from subnets to an external network."""

    kind: Literal["router"] = "router"
    external_network: str = Field(description="Name of the external network.")
    subnets: tuple[str, ...] = Field(description="Keys of the subnets it serves.")

    def summary(self) -> str:
        return f"to {self.external_network}"

    def inside(self) -> str:
        return self.subnets[0]

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        # An interface for each subnet and one on the external network are ports too; that last one belongs to no
        # project.
        return {"ports": len(self.subnets)}


class Ingress(Document):
    """IPv4 traffic that a security group allows in."""

    protocol: Literal["tcp", "udp", "icmp"]
    port: int | None = Field(default=None, description="Destination port; null: all of the protocol.")
    source: str = Field(description="CIDR.")


class Egress(Document):
    """IPv4 traffic that a security group allows out."""

    protocol: Literal["tcp", "udp", "icmp"]
    port: int | None = Field(default=None, description="Destination port; null: all of the protocol.")
    to: str = Field(description="CIDR.")


class SecurityGroupSpec(Spec):
    """SSH from the given networks, further ingress rules; everything within the group and everything outbound, unless
    the group is closed."""

    kind: Literal["security_group"] = "security_group"
    ssh_from: tuple[str, ...] = Field(description="CIDRs, sorted.")
    ingress: tuple[Ingress, ...] = Field(default=(), description="Further allowed ingress traffic.")
    egress: tuple[Egress, ...] | None = Field(
        default=None,
        description="Everything that is allowed out, and then nothing is within the group; null: the group is open "
        "inside and outbound.",
    )
    shared_with: tuple[str, ...] = Field(
        default=(), description="Ids of the projects whose ports may have it, sorted; an RBAC policy each."
    )

    def summary(self) -> str:
        if self.egress is not None:
            return f"closed: {len(self.ingress)} rules in, {len(self.egress)} out"
        more = f", and {len(self.ingress)} rules by role" if self.ingress else ""
        return f"SSH from {', '.join(self.ssh_from) or 'the pod only'}{more}"

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        base = RULES_OF_A_GROUP if self.egress is None else len(self.egress)
        return {"security group rules": base + len(self.ssh_from) + len(self.ingress)}


class PortSpec(Spec):
    """A port of a server, of a piece of hardware, or one that only reserves an address."""

    kind: Literal["port"] = "port"
    network: str = Field(description="Key of the network; empty with `site_network`.")
    subnet: str = Field(description="Key of the subnet; empty with `site_network`.")
    site_network: str | None = Field(
        default=None,
        description="Name of an existing network of the site that tenants must not see.",
    )
    address: str = Field(description="Fixed IPv4 address; empty: Neutron picks one.")
    mac: Mac | None = Field(
        default=None,
        description="MAC address of an existing device, or of a virtual function to be; null: assigned by "
        "Neutron.",
    )
    vnic_type: Literal["normal", "direct", "direct-physical", "baremetal"] = Field(
        description="direct: a virtual function; direct-physical: a whole adapter; baremetal: not of a server."
    )
    function: str | None = Field(
        default=None,
        description="Virtual function as weft counts it, such as mlx5_0/3; Neutron's binding profile (pci_slot) says "
        "which one of the host it is.",
    )
    switchdev: bool = Field(
        default=False,
        description="A virtual function behind its NIC's embedded switch: Neutron's Open vSwitch agent gives it its "
        "VLAN, not the SR-IOV agent.",
    )
    security_groups: tuple[str, ...] = Field(
        default=(), description="Keys of security groups; empty: port security is off."
    )
    host: str = Field(description="Nova host that it must finally be bound to; empty: not of a server.")
    dns_name: str | None = Field(default=None, description="Host name in the cloud's DNS; null: none.")

    def summary(self) -> str:
        device = f" (virtual function {self.function})" if self.function else ""
        named = f", {self.dns_name}" if self.dns_name else ""
        return (
            f"{self.address or 'an address of the subnet'}, {self.vnic_type}{device}"
            + (f", {self.mac}" if self.mac else "")
            + named
        )


class FloatingIPSpec(Spec):
    """A floating IP for a port."""

    kind: Literal["floating_ip"] = "floating_ip"
    external_network: str
    port: str = Field(description="Key of the port.")

    def summary(self) -> str:
        return f"from {self.external_network}"

    def inside(self) -> str:
        return self.port
