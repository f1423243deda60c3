"""What a tenant orders: the pod file. Each field is documented here and nowhere else; the schema is made from it."""

from __future__ import annotations

from datetime import datetime
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from weft.model.base import Document
from weft.model.ids import Duration, Instant, Name, span
from weft.model.ipuorder import IpusOrder
from weft.model.site import AcceleratorCount

Level = Literal["node", "leaf", "block", "hall", "building", "site"]
LEVELS: tuple[Level, ...] = ("node", "leaf", "block", "hall", "building", "site")

PodName = Annotated[
    str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


def _text(value: Any) -> Any:
    """ipaddress takes whole numbers and even booleans for addresses; nobody means that."""
    if isinstance(value, bool | int):
        raise ValueError("an IPv4 network such as 10.1.0.0/24, without host bits")
    return value


Network = Annotated[IPv4Network, BeforeValidator(_text)]

ProjectRef = Annotated[str, StringConstraints(min_length=1, max_length=64)]
"""A project by its id in Keystone; operators may give its name there."""

SshPublicKey = Annotated[
    str,
    StringConstraints(
        max_length=16_384,
        pattern=r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [^\r\n]*)?$",
    ),
]
"""One line as in `authorized_keys` (RFC 4253 §6.6): type, base64, perhaps a comment. What Nova can import."""


KEY_PAIR_NAME = r"^[A-Za-z0-9@._ -]*[A-Za-z0-9@_ -][A-Za-z0-9@._ -]*$"
KEY_PAIR_NAMES = "letters, digits, '@', '.', '_', '-' and spaces, and not only dots"
"""What Nova takes for the name of a key pair (nova.api.validation, microversion 2.92), less what is a path."""


class NodesOrder(Document):
    """The servers."""

    count: int = Field(ge=1, le=10_000, description="Number of nodes; all or none.")
    flavor: Name | None = Field(default=None, description="Nova flavor of each server.")
    accelerators: AcceleratorCount | None = Field(
        default=None,
        description="Accelerators of each node, instead of a flavor: the smallest flavor that has them.",
    )
    sharing: Literal["dedicated", "shared"] = Field(
        default="dedicated",
        description="dedicated: each server has its node alone. shared: a server takes the accelerators, cores and "
        "memory of its flavor, and others may be on the same node; several of the pod's own, too.",
    )
    image: str = Field(min_length=1, max_length=255, description="Glance image, by name or id.")
    spare: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="So many nodes more are held idle for the pod, to replace one that fails: inside the required "
        "level too, without a server; a multiple of the slice.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.flavor is None) == (self.accelerators is None):
            raise ValueError("give exactly one of flavor and accelerators")
        return self


class FabricOrder(Document):
    """The RDMA network."""

    name: Name | None = Field(default=None, description="Fabric by name; none: the only fabric of the nodes.")
    isolation: Literal["partition", "none"] = Field(
        default="partition",
        description="partition: a P_Key of the pod's own, all members full. none: no RDMA network, "
        "the management network alone, on nodes with or without adapters; `fabric: none` is short for it.",
    )
    hcas: Literal["dedicated", "shared"] = Field(
        default="dedicated",
        description="dedicated: whole adapters (physical functions), one server a node. "
        "shared: virtual functions; refused on a fabric whose manager can't partition them.",
    )
    hcas_per_node: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Adapters of each node that the pod uses; none: all on the fabric.",
    )
    bisection_gbps: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Gb/s of each node that the uplinks of its leaf keep for the pod; 0: no guarantee.",
    )

    @property
    def rdma(self) -> bool:
        """Whether the pod has an RDMA network."""
        return self.isolation != "none"

    @model_validator(mode="after")
    def _nothing_of_no_fabric(self) -> Self:
        asked = self.name or self.hcas_per_node or self.bisection_gbps or self.hcas != "dedicated"
        if not self.rdma and asked:
            raise ValueError(
                "with isolation none there is no RDMA network: leave everything else of fabric out"
            )
        return self


class Preference(Document):
    """Nodes that an order would rather have, or not: a cost that is weighed against leaves and blocks."""

    kind: Literal["node", "rack", "leaf", "block", "label", "accelerator"] = Field(
        description="What `name` is the name of."
    )
    name: str = Field(
        min_length=1, description="Nodes of this name, rack, leaf, block, label or accelerator type."
    )
    cost: int = Field(
        ge=-1_000_000,
        le=1_000_000,
        description="Of each such node, in thousandths of a leaf: above 0 avoided, below 0 preferred.",
    )


class LocalityOrder(Document):
    """How near the nodes must be, and should be, to one another."""

    required: Level = Field(
        default="site", description="All nodes inside one of these, or the order is refused."
    )
    preferred: Level = Field(default="leaf", description="Tried first; not refused for it.")
    slice: int = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Groups of so many nodes stay inside one leaf; the count is a multiple of it.",
    )
    exclusive: bool = Field(
        default=False,
        description="The pod's leaves are shared with no other project: it goes where none has anything, and none is "
        "put beside it as long as it lives.",
    )
    apart_from: tuple[ProjectRef, ...] = Field(
        default=(),
        max_length=64,
        description="Projects by id that the pod shares no leaf with, from either side; operators may give names.",
    )
    preferences: tuple[Preference, ...] = Field(
        default=(), max_length=64, description="Nodes to prefer or avoid, each at a cost."
    )

    @model_validator(mode="after")
    def _preferred_is_nearer(self) -> Self:
        if LEVELS.index(self.preferred) > LEVELS.index(self.required):
            raise ValueError(
                f"preferred ({self.preferred}) must not be wider than required ({self.required})"
            )
        return self


class AccessOrder(Document):
    """Who gets in, and how."""

    key_pair: str | None = Field(
        default=None,
        max_length=255,
        pattern=KEY_PAIR_NAME,
        description="Nova key pair of the ordering user; read when it is ordered.",
    )
    ssh_key: SshPublicKey | None = Field(
        default=None, description="Public key in OpenSSH's form, instead of a key pair."
    )
    ssh_from: tuple[Network, ...] = Field(
        default=(), description="Networks that may reach SSH; none: only the pod's own nodes."
    )
    floating_ip: Literal["none", "first", "each"] = Field(
        default="none",
        description="Floating IPs: none, one on the first node, or one on each. Needs a router.",
    )
    user_data: str | None = Field(
        default=None, description="cloud-init user data of each server; at most 49149 bytes (Nova's limit)."
    )

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.key_pair is not None and self.ssh_key is not None:
            raise ValueError("give key_pair or ssh_key, not both")
        return self

    @field_validator("user_data")
    @classmethod
    def _fits_nova(cls, text: str | None) -> str | None:
        # Nova takes 65535 bytes of base64 (its schema of `user_data`), which is three quarters of that in plain.
        if text is not None and len(text.encode()) > 49_149:
            raise ValueError(f"it has {len(text.encode())} bytes; Nova takes at most 49149")
        return text


class NetworkOrder(Document):
    """Addresses; left out: cut automatically from the site's blocks."""

    rdma: Network | None = Field(default=None, description="Subnet on the RDMA network.")
    management: Network | None = Field(default=None, description="Subnet on the management network.")
    router: bool = Field(
        default=False, description="A router to the external network; a floating IP implies it."
    )


class LeaseOrder(Document):
    """From when, and how long."""

    start: Instant | None = Field(
        default=None,
        description="Not before this time, with time zone; none: now. Nodes are promised for it when it is ordered.",
    )
    end: Instant | None = Field(
        default=None, description="When the pod is released by itself, with time zone."
    )
    duration: Duration | None = Field(
        default=None,
        description="How long from its start, such as 90m, 12h or 7d, instead of an end.",
    )

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.end is not None and self.duration is not None:
            raise ValueError("give end or duration, not both")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be later than start")
        return self

    def ends(self, start: datetime) -> datetime | None:
        """When a lease that begins at `start` ends; None: never by itself."""
        return start + span(self.duration) if self.duration is not None else self.end


def _no_fabric(value: Any) -> Any:
    return {"isolation": "none"} if value == "none" else value


class Order(Document):
    """A pod as a tenant orders it."""

    name: PodName = Field(description="Name of the pod, unique in the project: a-z, 0-9 and -, at most 40.")
    cloud: Name | None = Field(default=None, description="Cloud by name; none: the only one.")
    nodes: NodesOrder = Field(description="The servers.")
    ipus: IpusOrder | None = Field(default=None, description="IPUs; the servers are Poplar servers then.")
    fabric: Annotated[FabricOrder, BeforeValidator(_no_fabric)] = Field(
        default=FabricOrder(), description="The RDMA network; `none`: the pod has none."
    )
    locality: LocalityOrder = Field(
        default=LocalityOrder(), description="How near the nodes are to one another."
    )
    access: AccessOrder = Field(default=AccessOrder(), description="Who gets in, and how.")
    network: NetworkOrder = Field(default=NetworkOrder(), description="Addresses and router.")
    lease: LeaseOrder = Field(default=LeaseOrder(), description="From when, and how long.")
    queue: bool = Field(
        default=False,
        description="Wait in the queue where it can't be served at once, instead of being refused.",
    )

    @model_validator(mode="after")
    def _parts_of_nodes(self) -> Self:
        if self.nodes.sharing == "dedicated":
            return self
        refused = {
            "ipus": self.ipus is not None,
            "nodes.spare": self.nodes.spare > 0,
            "locality.slice": self.locality.slice > 1,
            "locality.preferences": bool(self.locality.preferences),
            "lease.start": self.lease.start is not None,
        }
        if wrong := [name for name, given in refused.items() if given]:
            raise ValueError(
                f"with nodes.sharing shared leave out {', '.join(wrong)}: that is for whole nodes"
            )
        return self
