"""The resources that a pod is a graph of.

A `Resource` is wanted; an `Observed` was seen; an `Outcome` is what an attempt gave: three different types, so
that none can be taken for another. References to other resources are their keys; the loop swaps them for the ids
that the cloud gave (`ids` in `weft.ports.resources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.errors import WeftError
from weft.model.ids import Guid, Mac, PKey


class Kind(StrEnum):
    """Kinds of resources, in no order; the graph's `needs` give the order."""

    PARTITION = "partition"
    NETWORK = "network"
    SUBNET = "subnet"
    ROUTER = "router"
    SECURITY_GROUP = "security_group"
    KEY_PAIR = "key_pair"
    PORT = "port"
    FLOATING_IP = "floating_ip"
    SERVER = "server"
    VIPU_AGENT = "vipu_agent"
    VIPU_CLUSTER = "vipu_cluster"
    VIPU_ALLOCATION = "vipu_allocation"
    VIPU_USER = "vipu_user"


VIPU_KINDS = frozenset({Kind.VIPU_AGENT, Kind.VIPU_CLUSTER, Kind.VIPU_ALLOCATION, Kind.VIPU_USER})
"""What an IPU-POD's driver has."""


class PartitionSpec(Document):
    """Exact members of a P_Key; the set is the truth: nobody else is a member."""

    kind: Literal[Kind.PARTITION] = Kind.PARTITION
    pkey: PKey
    members: tuple[Guid, ...] = Field(description="Port GUIDs, sorted; all full members.")


class NetworkSpec(Document):
    """A VLAN provider network; on InfiniBand the segmentation id is the P_Key."""

    kind: Literal[Kind.NETWORK] = Kind.NETWORK
    physical_network: str
    segment: int
    port_security: bool = Field(
        description="False on RDMA networks: security groups don't reach a passed-through HCA."
    )


class SubnetSpec(Document):
    kind: Literal[Kind.SUBNET] = Kind.SUBNET
    network: str = Field(description="Key of the network.")
    cidr: str
    gateway: bool = Field(description="Whether the first address is a gateway (a router will have it).")
    dhcp: bool
    pool: tuple[str, str] | None = Field(
        default=None,
        description="First and last address that the cloud itself may give out (DHCP ports); none: no limit.",
    )


class RouterSpec(Document):
    kind: Literal[Kind.ROUTER] = Kind.ROUTER
    external_network: str = Field(description="Name of the external network.")
    subnets: tuple[str, ...] = Field(description="Keys of the subnets it serves.")


class Ingress(Document):
    """IPv4 traffic that a security group lets in."""

    protocol: Literal["tcp", "udp", "icmp"]
    port: int | None = Field(default=None, description="Destination port; none: all of the protocol.")
    source: str = Field(description="CIDR.")


class SecurityGroupSpec(Document):
    """SSH from the given networks, what else is named, everything inside the group, everything out."""

    kind: Literal[Kind.SECURITY_GROUP] = Kind.SECURITY_GROUP
    ssh_from: tuple[str, ...] = Field(description="CIDRs, sorted.")
    ingress: tuple[Ingress, ...] = Field(default=(), description="What else is let in.")


class KeyPairSpec(Document):
    """The tenant's public key as a key pair of weft's service user: Nova's key pairs belong to users, not projects."""

    kind: Literal[Kind.KEY_PAIR] = Kind.KEY_PAIR
    public_key: str = Field(description="OpenSSH public key: type and base64; its comment will be the mark.")


class PortSpec(Document):
    kind: Literal[Kind.PORT] = Kind.PORT
    network: str = Field(description="Key of the network; empty with `site_network`.")
    subnet: str = Field(description="Key of the subnet; empty with `site_network`.")
    site_network: str | None = Field(
        default=None,
        description="Name of a network of the site's own that is there already: no tenant may see it.",
    )
    address: str = Field(description="Fixed IPv4 address.")
    mac: Mac | None = Field(default=None, description="MAC address of a device that is there; none: drawn.")
    vnic_type: Literal["normal", "direct", "direct-physical", "baremetal"] = Field(
        description="direct: a virtual function; direct-physical: a whole adapter; baremetal: no server's."
    )
    security_groups: tuple[str, ...] = Field(default=(), description="Keys; none: port security is off.")
    host: str = Field(description="Nova host that it must be bound on in the end; empty: no server's.")


class FloatingIPSpec(Document):
    kind: Literal[Kind.FLOATING_IP] = Kind.FLOATING_IP
    external_network: str
    port: str = Field(description="Key of the port.")


class ServerSpec(Document):
    kind: Literal[Kind.SERVER] = Kind.SERVER
    host: str = Field(description="Nova host: requested, and checked by the scheduler's own claims.")
    flavor: str
    image: str
    key_pair: str | None = Field(default=None, description="Key of the key pair; none: no key.")
    user_data: str | None = None
    secrets: tuple[str, ...] = Field(
        default=(),
        description="Names of the pod's keys that stand in `user_data` as `${weft:NAME}`; put in when it is made.",
    )
    ports: tuple[str, ...] = Field(description="Keys of the ports, in the order of the devices.")


_TLS = "Whether the controller's doors have TLS; those of pods from before weft gave it to them have none."


class VipuAgentSpec(Document):
    """An IPU-Machine's agent in the hands of the pod's V-IPU controller."""

    kind: Literal[Kind.VIPU_AGENT] = Kind.VIPU_AGENT
    tls: bool = Field(default=False, description=_TLS)
    controller: str = Field(description="The controller's address on the gateways' network.")
    machine: str = Field(description="Name of the IPU-Machine; the agent's id.")
    address: str = Field(description="Address of its gateway.")
    port: int


class VipuClusterSpec(Document):
    """The pod's IPU-Machines as the controller knows them to be cabled."""

    kind: Literal[Kind.VIPU_CLUSTER] = Kind.VIPU_CLUSTER
    tls: bool = Field(default=False, description=_TLS)
    controller: str
    name: str
    topology: Literal["mesh", "torus"]
    machines: tuple[str, ...] = Field(description="In the order of the cables.")


class VipuAllocationSpec(Document):
    """What of the cluster the tenant may make partitions of: all of it."""

    kind: Literal[Kind.VIPU_ALLOCATION] = Kind.VIPU_ALLOCATION
    tls: bool = Field(default=False, description=_TLS)
    controller: str
    name: str
    cluster: str
    machines: tuple[str, ...]


class VipuUserSpec(Document):
    """The tenant's user of the controller; its key is derived and stands nowhere."""

    kind: Literal[Kind.VIPU_USER] = Kind.VIPU_USER
    tls: bool = Field(default=False, description=_TLS)
    controller: str
    name: str
    allocation: str
    machines: tuple[str, ...]


VipuSpec = VipuAgentSpec | VipuClusterSpec | VipuAllocationSpec | VipuUserSpec

Spec = Annotated[
    PartitionSpec
    | NetworkSpec
    | SubnetSpec
    | RouterSpec
    | SecurityGroupSpec
    | KeyPairSpec
    | PortSpec
    | FloatingIPSpec
    | ServerSpec
    | VipuAgentSpec
    | VipuClusterSpec
    | VipuAllocationSpec
    | VipuUserSpec,
    Field(discriminator="kind"),
]


class Resource(Document):
    """One node of a pod's graph, as wanted."""

    key: str = Field(description="Unique in the pod, such as `port/gpu01/mlx5_0`.")
    name: str = Field(description="Deterministic name outside, such as `weft-1f0c9a3b-port-gpu01-mlx5_0`.")
    where: str = Field(description="Name of the cloud or the fabric that it lives in.")
    owner: Literal["tenant", "site"] = Field(
        default="tenant",
        description="Whose project it is made in: the tenant's, or that of weft's service user.",
    )
    needs: tuple[str, ...] = Field(default=(), description="Keys that must be there first.")
    spec: Spec

    @property
    def kind(self) -> Kind:
        return self.spec.kind


class Graph(Document):
    """All resources of a pod; `resources` is sorted so that needs come first, then by key."""

    resources: tuple[Resource, ...]

    def by_key(self) -> dict[str, Resource]:
        return {r.key: r for r in self.resources}


class Difference(Document):
    """Where the thing that was seen isn't the one that is wanted."""

    field: str
    wanted: str
    observed: str


class Status(StrEnum):
    """How a thing that is there is."""

    SETTLED = "settled"
    """It is there and at rest, e.g. server ACTIVE."""
    PENDING = "pending"
    """It is on its way: look again."""
    BROKEN = "broken"
    """It is there and won't come right by waiting, e.g. server ERROR: `reason` says why."""
    ABSENT = "absent"
    """It was looked for and proved not to be there: `reason` says by what. Never the default, never inferred."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of one resource.

    Attributes:
        id: id that the cloud or fabric gave; empty if it is absent.
        status: see `Status`.
        reason: why it is pending or broken, in the outside's own words; or what proves that it is absent.
        differences: from the wanted spec; empty if exact. Only what weft wants is compared.
        facts: further values as seen, for the verifier, the user and the receipt (host, segment, address, vif…).
    """

    id: str
    status: Status = Status.SETTLED
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        return self.status is not Status.ABSENT

    @classmethod
    def absent(cls, proof: str) -> Observed:
        """Proved not to be there. `proof` is what was read, from where, for the receipt."""
        return cls("", Status.ABSENT, proof)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt to create, update or delete gave: an id (accepted) or an error; never a claim that it is done.

    That something is done is only ever seen by `find`.
    """

    id: str | None = None
    error: WeftError | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """Something outside that bears weft's mark, as the audit sees it.

    Attributes:
        pod_id: the pod that the mark names.
        facts: `key`: the resource that the mark names; and what else was seen.
        created: when the outside says that it was made; None: it doesn't say.
    """

    kind: Kind
    where: str
    id: str
    name: str
    pod_id: str | None
    project_id: str | None
    facts: Mapping[str, object] = field(default_factory=dict)
    created: datetime | None = None
