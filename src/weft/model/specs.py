"""What is wanted of each kind of resource, and how that is told to people; the rest is in `weft.model.kinds`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.fabric import Membership
from weft.model.fabrictypes import AFabricKind, FabricKind
from weft.model.ids import Mac

RULES_OF_A_GROUP = 4
"""Security group rules that a group has without any for SSH: out (IPv4, IPv6) and inside the group (the same)."""


class Spec(Document):
    """Base of every kind's spec. Each has a field `kind`, first, which is a `Literal` of the kind's name."""

    def summary(self) -> str:
        """A few words for the tree of resources in a plan."""
        return ""

    def inside(self) -> str | None:
        """Key of the resource under which it stands in that tree; None: at the root."""
        return None

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        """Quota's name -> what it needs besides one of its kind's own (`Row.quota`).

        Args:
            vcpus: virtual CPUs of the pod's flavor.
            ram: memory of the flavor in MiB.
        """
        return {}

    @property
    def is_counted(self) -> bool:
        """Whether a quota of its kind's own (`Row.quota`) counts it."""
        return True

    @property
    def is_closed(self) -> bool:
        """Of a network: whether nothing but its owner's own may be on it."""
        return False

    @property
    def stays(self) -> bool:
        """Whether it stays outside, without weft's mark, when its owner is released."""
        return False


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
        description="With `shared`: ids of ports that were members and must not be in it any more, sorted.",
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
        """The same with its word, such as `P_Key 0x65`."""
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


class KeyPairSpec(Spec):
    """The tenant's public key as a key pair of weft's service user: Nova's key pairs belong to users, not projects."""

    kind: Literal["key_pair"] = "key_pair"
    public_key: str = Field(description="OpenSSH public key: type and base64; its comment will be the mark.")

    def summary(self) -> str:
        return "public key of the tenant"


class MachineSpec(Spec):
    """A bare-metal machine that is the pod's, from before it is deployed until its cleaning was proved."""

    kind: Literal["machine"] = "machine"
    machine: str = Field(description="Id of the node in Ironic; hidden from tenants.")

    def summary(self) -> str:
        return f"node {self.machine} in Ironic"


class PortSpec(Spec):
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
        description="MAC address of an existing device, or the one that a virtual function gets; null: assigned by "
        "Neutron.",
    )
    vnic_type: Literal["normal", "direct", "direct-physical", "baremetal"] = Field(
        description="direct: a virtual function; direct-physical: a whole adapter; baremetal: not of a server."
    )
    function: str | None = Field(
        default=None,
        description="Virtual function as weft counts it, such as mlx5_0/3; which one of the host it is, Neutron's "
        "binding profile says (pci_slot).",
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
    kind: Literal["floating_ip"] = "floating_ip"
    external_network: str
    port: str = Field(description="Key of the port.")

    def summary(self) -> str:
        return f"from {self.external_network}"

    def inside(self) -> str:
        return self.port


class ShareSpec(Spec):
    """A new NFS share of the tenant's project, with access for the pod's ports only."""

    kind: Literal["share"] = "share"
    gib: int
    share_type: str | None = Field(default=None, description="Share type in Manila; null: Manila's default.")
    ports: tuple[str, ...] = Field(
        default=(), description="Keys of the ports whose addresses may mount it, sorted; nobody else may."
    )
    kept_as: str | None = Field(
        default=None, description="The name under which it stays when it is released; null: it is deleted."
    )

    def summary(self) -> str:
        return _size(self.gib, self.share_type, self.kept_as)

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"share gigabytes": self.gib}

    @property
    def stays(self) -> bool:
        return self.kept_as is not None


class ShareAccessSpec(Spec):
    """One address that may mount a share."""

    kind: Literal["share_access"] = "share_access"
    share: str = Field(description="Key of the share; empty with `share_id`.")
    share_id: str | None = Field(default=None, description="Id of a share that isn't the pod's.")
    port: str = Field(description="Key of the port whose address it is.")
    read_only: bool = False

    def summary(self) -> str:
        how = "read" if self.read_only else "read and write"
        of = f" share {self.share_id}" if self.share_id else ""
        return f"{how}{of} from {self.port}"

    def inside(self) -> str | None:
        return self.share or None


class VolumeSpec(Spec):
    """A new volume of the tenant's project."""

    kind: Literal["volume"] = "volume"
    gib: int
    volume_type: str | None = Field(
        default=None, description="Volume type in Cinder; null: Cinder's default."
    )
    kept_as: str | None = Field(
        default=None, description="The name under which it stays when it is released; null: it is deleted."
    )

    def summary(self) -> str:
        return _size(self.gib, self.volume_type, self.kept_as)

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"volume gigabytes": self.gib}

    @property
    def stays(self) -> bool:
        return self.kept_as is not None


class VolumeAttachmentSpec(Spec):
    """A volume attached to a server."""

    kind: Literal["volume_attachment"] = "volume_attachment"
    volume: str = Field(description="Key of the volume; empty with `volume_id`.")
    volume_id: str | None = Field(default=None, description="Id of a volume that isn't the pod's.")
    server: str = Field(description="Key of the server.")

    def summary(self) -> str:
        return f"volume {self.volume_id or self.volume} on {self.server}"

    def inside(self) -> str | None:
        return self.volume or None


def _size(gib: int, type_: str | None, kept_as: str | None) -> str:
    kept = f", stays as {kept_as}" if kept_as else ""
    return f"{gib} GiB" + (f", type {type_}" if type_ else "") + kept


class ServerSpec(Spec):
    kind: Literal["server"] = "server"
    host: str = Field(
        description="Nova host: requested, and checked by the scheduler's own claims; of bare metal the hypervisor."
    )
    bare_metal: bool = Field(default=False, description="A whole machine.")
    by: Literal["nova", "ironic"] = Field(
        default="nova",
        description="Who deploys it: Nova, of machines with its driver of Ironic; or Ironic alone.",
    )
    flavor: str
    image: str
    key_pair: str | None = Field(default=None, description="Key of the key pair; null: no key.")
    user_data: str | None = None
    secrets: tuple[str, ...] = Field(
        default=(),
        description="Names of pod keys with placeholders `${weft:NAME}` in `user_data`, substituted at creation.",
    )
    ports: tuple[str, ...] = Field(description="Keys of the ports, in the order of the devices.")
    storage: tuple[str, ...] = Field(
        default=(),
        description="Keys of shares and volumes, or their ids, with placeholders `${weft:KEY}` in `user_data`: a "
        "share's export location, and a volume's id, are substituted at creation.",
    )

    def summary(self) -> str:
        return f"{self.flavor} on host {self.host}, image {self.image}"

    @property
    def is_counted(self) -> bool:
        return self.by == "nova"  # Ironic counts nothing

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"cores": vcpus, "RAM (MiB)": ram} if self.is_counted else {}


class VipuSpec(Spec):
    """A pod's V-IPU controller."""

    tls: bool = Field(
        default=False,
        description="Whether the controller has TLS; those of older pods don't.",
    )
    controller: str = Field(description="The controller's address on the gateways' network.")


class VipuAgentSpec(VipuSpec):
    """An IPU-Machine's agent, bound to the pod's V-IPU controller."""

    kind: Literal["vipu_agent"] = "vipu_agent"
    machine: str = Field(description="Name of the IPU-Machine; the agent's id.")
    address: str = Field(description="Address of its gateway.")
    port: int

    def summary(self) -> str:
        return f"agent of {self.machine}"


class VipuNamedSpec(VipuSpec):
    """A named object of the controller with some of the pod's IPU-Machines, in cable order."""

    name: str
    machines: tuple[str, ...]


class VipuClusterSpec(VipuNamedSpec):
    """The pod's IPU-Machines as a V-IPU cluster."""

    kind: Literal["vipu_cluster"] = "vipu_cluster"
    topology: Literal["mesh", "torus"]

    def summary(self) -> str:
        return f"{self.topology} of {len(self.machines)} machines"


class VipuAllocationSpec(VipuNamedSpec):
    """The part of the cluster that the tenant may create partitions from: all of it."""

    kind: Literal["vipu_allocation"] = "vipu_allocation"
    cluster: str

    def summary(self) -> str:
        return f"{len(self.machines)} machines of cluster {self.cluster}"


class VipuUserSpec(VipuNamedSpec):
    """The tenant's user on the controller; its key is derived and stored nowhere."""

    kind: Literal["vipu_user"] = "vipu_user"
    allocation: str

    def summary(self) -> str:
        return f"user {self.name} of allocation {self.allocation}"


class PropertiesSpec(Spec):
    """Properties by which Nova places servers. Others that the thing has are left alone."""

    former: tuple[str, ...] = Field(
        default=(), description="Keys that weft has set before and that must not be there any more, sorted."
    )

    @property
    def keys(self) -> Mapping[str, str]:
        """Key -> value, of those that weft sets."""
        raise NotImplementedError

    @property
    def stays(self) -> bool:
        """What was there before weft stays after it, with the values that it had."""
        return True


class FlavorSpec(PropertiesSpec):
    """A flavor that everybody may use."""

    kind: Literal["flavor"] = "flavor"
    vcpus: int
    ram: int = Field(description="MiB.")
    disk: int = Field(description="GiB.")
    extra_specs: dict[str, str]

    @property
    def keys(self) -> Mapping[str, str]:
        return self.extra_specs

    def summary(self) -> str:
        specs = ", ".join(f"{k}={v}" for k, v in sorted(self.extra_specs.items()))
        return f"{self.vcpus} vcpus, {self.ram} MiB" + (f", {specs}" if specs else "")


class ImagePropertiesSpec(PropertiesSpec):
    """Properties of an image, which others have made."""

    kind: Literal["image_properties"] = "image_properties"
    properties: dict[str, str]

    @property
    def keys(self) -> Mapping[str, str]:
        return self.properties

    def summary(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in sorted(self.properties.items()))
