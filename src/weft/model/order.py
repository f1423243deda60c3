"""What a tenant orders: the pod file. Each field is documented only here; the schema is generated from it."""

from __future__ import annotations

from datetime import datetime
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from weft.model.base import Document, added
from weft.model.ids import Duration, Instant, Name, span
from weft.model.ipuorder import IpusOrder
from weft.model.localityorder import LocalityOrder
from weft.model.messages import orders
from weft.model.servernames import DEFAULT, ServerNames, why_not_names
from weft.model.site import AcceleratorCount
from weft.model.storageorder import MOST_ENTRIES, StorageOrder, check_entries

PodName = Annotated[
    str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]


def _text(value: Any) -> Any:
    """Refuses integers and booleans, which ipaddress takes for addresses."""
    if isinstance(value, bool | int):
        raise ValueError("an IPv4 network such as 10.1.0.0/24, without host bits")
    return value


Network = Annotated[IPv4Network, BeforeValidator(_text)]

SshPublicKey = Annotated[
    str,
    StringConstraints(
        max_length=16_384,
        pattern=r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [^\r\n]*)?$",
    ),
]
"""One line as in `authorized_keys` (RFC 4253 §6.6): type, base64, optional comment. What Nova can import."""


KEY_PAIR_NAME = r"^[A-Za-z0-9@._ -]*[A-Za-z0-9@_ -][A-Za-z0-9@._ -]*$"
KEY_PAIR_NAMES = "letters, digits, '@', '.', '_', '-' and spaces, and not only dots"
"""What Nova accepts as the name of a key pair (nova.api.validation, microversion 2.92), without paths."""


class NodesOrder(Document):
    """The servers."""

    count: int = Field(ge=1, le=10_000, description="Number of nodes; the order gets all of them or none.")
    flavor: Name | None = Field(default=None, description="Nova flavor of each server.")
    accelerators: AcceleratorCount | None = Field(
        default=None,
        description="Accelerators of each node, instead of a flavor; weft picks the smallest flavor that has them.",
    )
    kind: Literal["virtual", "bare_metal"] = Field(
        default="virtual",
        description="virtual: servers are virtual machines. bare_metal: each server is a whole machine that Ironic "
        "deploys and cleans, with a flavor of the site that has `bare_metal: true`.",
    )
    sharing: Literal["dedicated", "shared"] = Field(
        default="dedicated",
        description="dedicated: each server gets a whole node. shared: a server gets the accelerators, cores and "
        "memory "
        "of its flavor, and may share its node with other servers, of the same pod or others.",
    )
    image: str = Field(min_length=1, max_length=255, description="Glance image, by name or id.")
    names: ServerNames = Field(
        default=DEFAULT,
        description="Names of the servers, which are also their host names: `{pod}` is the pod's name, `{index}` the "
        "server's number from 0, `{index:03}` the same with three digits.",
    )
    spare: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="Number of spare nodes, held idle for the pod to replace nodes that fail. They count for "
        "`locality.required`; a multiple of `locality.slice`.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.flavor is None) == (self.accelerators is None):
            raise ValueError("exactly one of flavor and accelerators is required")
        return self


class FabricOrder(Document):
    """The RDMA network."""

    name: Name | None = Field(
        default=None, description="Fabric by name; may be omitted if the nodes have only one."
    )
    isolation: Literal["partition", "none"] = Field(
        default="partition",
        description="partition: the pod has its own partition, with full membership. none: no RDMA network, only the "
        "management network, on nodes with or without adapters; `fabric: none` is short for it.",
    )
    hcas: Literal["dedicated", "shared"] = Field(
        default="dedicated",
        description="dedicated: whole adapters (physical functions), one server per node. "
        "shared: virtual functions, on shared nodes only; refused on fabrics whose manager can't partition them.",
    )
    hcas_per_node: int | None = Field(
        default=None,
        ge=1,
        le=16,
        description="Adapters of each node that the pod uses. Default: all on the fabric. With `hcas: shared`: virtual "
        "functions per server, each from a different adapter. Default: 1.",
    )
    bisection_gbps: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Gb/s per node that are reserved for the pod on its leaves' uplinks; 0: no guarantee.",
    )

    @property
    def rdma(self) -> bool:
        """Whether the pod has an RDMA network."""
        return self.isolation != "none"

    @model_validator(mode="after")
    def _nothing_of_no_fabric(self) -> Self:
        asked = self.name or self.hcas_per_node or self.bisection_gbps or self.hcas != "dedicated"
        if not self.rdma and asked:
            raise ValueError("with isolation none there is no RDMA network: omit all other fields of fabric")
        return self


class AccessOrder(Document):
    """Access to the servers."""

    key_pair: str | None = Field(
        default=None,
        max_length=255,
        pattern=KEY_PAIR_NAME,
        description="Nova key pair of the user who orders; read at that time.",
    )
    ssh_key: SshPublicKey | None = Field(
        default=None, description="Public key in OpenSSH format, instead of a key pair."
    )
    ssh_from: tuple[Network, ...] = Field(
        default=(), description="Networks with access to SSH. Default: only the pod's own nodes."
    )
    floating_ip: Literal["none", "first", "each"] = Field(
        default="none",
        description="Floating IPs: none, one for the first server, or one for each. Implies a router.",
    )
    user_data: str | None = Field(
        default=None, description="cloud-init user data for each server; at most 49149 bytes (Nova's limit)."
    )

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.key_pair is not None and self.ssh_key is not None:
            raise ValueError("give key_pair or ssh_key, not both")
        return self

    @field_validator("user_data")
    @classmethod
    def _fits_nova(cls, text: str | None) -> str | None:
        # Nova accepts 65535 bytes of base64 (its schema of `user_data`): three quarters of that before encoding.
        if text is not None and len(text.encode()) > 49_149:
            raise ValueError(f"at most 49149 bytes (Nova's limit); it has {len(text.encode())}")
        return text


class NetworkOrder(Document):
    """Subnets; allocated from the site's address ranges by default."""

    rdma: Network | None = Field(default=None, description="Subnet on the RDMA network.")
    management: Network | None = Field(default=None, description="Subnet on the management network.")
    router: bool = Field(
        default=False, description="Router to the external network; implied by floating IPs."
    )


class LeaseOrder(Document):
    """Start and end of the pod."""

    start: Instant | None = Field(
        default=None,
        description="Start, with time zone. Default: now. Nodes for a later start are booked when it is ordered.",
    )
    end: Instant | None = Field(
        default=None, description="Time, with time zone, at which the pod is released automatically."
    )
    duration: Duration | None = Field(
        default=None,
        description="Duration from the start, such as 90m, 12h or 7d, instead of an end.",
    )

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.end is not None and self.duration is not None:
            raise ValueError("give end or duration, not both")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be later than start")
        return self

    def ends(self, start: datetime) -> datetime | None:
        """When a lease that begins at `start` ends; None: it has no end."""
        return start + span(self.duration) if self.duration is not None else self.end


def _no_fabric(value: Any) -> Any:
    return {"isolation": "none"} if value == "none" else value


class Order(Document):
    """A pod as a tenant orders it."""

    name: PodName = Field(
        description="Name of the pod, unique in the project: a-z, 0-9 and -, at most 40 characters."
    )
    cloud: Name | None = Field(
        default=None, description="Cloud by name; may be omitted if the site has only one."
    )
    nodes: NodesOrder = Field(description="Nodes and their servers.")
    ipus: IpusOrder | None = Field(default=None, description="IPUs; `nodes` are then Poplar servers.")
    fabric: Annotated[
        FabricOrder, BeforeValidator(_no_fabric, json_schema_input_type=FabricOrder | Literal["none"])
    ] = Field(default=FabricOrder(), description="RDMA network; `none`: the pod has none.")
    locality: LocalityOrder = Field(
        default=LocalityOrder(), description="How close to each other the nodes are."
    )
    access: AccessOrder = Field(default=AccessOrder(), description="Access to the servers.")
    network: NetworkOrder = Field(default=NetworkOrder(), description="Subnets and router.")
    storage: tuple[StorageOrder, ...] = Field(
        default=(),
        max_length=MOST_ENTRIES,
        description="Shares, volumes, exports and local drives of the servers.",
    )
    lease: LeaseOrder = Field(default=LeaseOrder(), description="Start and end of the pod.")
    on_failure: Literal["report", "replace"] = Field(
        default="report",
        description="What happens when a node fails. report: it is reported. replace: weft also puts another node in "
        "its place, as `weft pod replace` does: a spare of the pod, else the nearest free node that keeps "
        "`locality.required`; of a shared node all servers of the pod there, with names and addresses of their own. "
        "Not for IPUs, and not for shared nodes with volumes.",
    )
    on_drain: Literal["release"] | None = added(
        None,
        description="What happens at the time by which operators want a node of the pod empty (`weft node drain "
        "--by`). release: weft releases the whole pod then, as `weft pod release` does, unless only spares are "
        "concerned, the drain has `--wait`, or operators end or move it before. If it is set after that time, the pod "
        "is released at once. Omitted: the node is replaced with `on_failure: replace`, else the pod keeps it.",
    )
    verify: Literal["nothing", "bandwidth"] = Field(
        default="nothing",
        description="bandwidth: the pod has the condition `BandwidthUnproved` until a bandwidth test of its servers on "
        "these nodes passed (`weft pod verify-bandwidth`), which its project runs. Only for whole GPU nodes.",
    )
    verify_floor: float | None = Field(
        default=None,
        ge=0.5,
        le=1,
        description="Share of the adapters' nominal rate below which that test finds a pair slow. Default: 0.95, and "
        "0.9 with GPU memory.",
    )
    queue: bool = Field(
        default=False,
        description="Wait in the queue instead of being refused if there is no capacity.",
    )

    @model_validator(mode="after")
    def _names_are_host_names(self) -> Self:
        if why := why_not_names(self.nodes.names, self.name):
            raise ValueError(f"nodes.names: {why}")
        return self

    @model_validator(mode="after")
    def _storage_is_apart(self) -> Self:
        check_entries(self.storage)
        return self

    @model_validator(mode="after")
    def _can_be_verified(self) -> Self:
        if self.verify == "nothing":
            if self.verify_floor is not None:
                raise ValueError("verify_floor needs verify: bandwidth")
            return self
        if (
            self.ipus is not None
            or self.nodes.sharing == "shared"
            or not self.fabric.rdma
            or self.nodes.count < 2
        ):
            raise ValueError(
                "verify: bandwidth is possible with two whole GPU nodes or more on a fabric only"
            )
        return self

    @model_validator(mode="after")
    def _can_be_replaced(self) -> Self:
        if self.on_failure == "report":
            return self
        if self.ipus is not None:
            raise ValueError(orders.IPUS_ARE_WHOLE())
        if self.nodes.sharing == "shared" and any(entry.kind == "volume" for entry in self.storage):
            raise ValueError(orders.VOLUMES_ARE_EMPTY())
        return self

    @model_validator(mode="after")
    def _whole_machines(self) -> Self:
        if self.nodes.kind == "virtual":
            return self
        refused = {
            "nodes.sharing shared": self.nodes.sharing == "shared",
            "fabric.hcas shared": self.fabric.hcas == "shared",
        }
        if wrong := [name for name, given in refused.items() if given]:
            raise ValueError(
                f"with nodes.kind bare_metal, omit {', '.join(wrong)}: only for virtual machines"
            )
        return self

    @model_validator(mode="after")
    def _parts_of_nodes(self) -> Self:
        if self.nodes.sharing == "dedicated":
            return self
        refused = {
            "nodes.spare": self.nodes.spare > 0,
            "locality.slice": self.locality.slice > 1,
            "locality.preferences": bool(self.locality.preferences),
        }
        if wrong := [name for name, given in refused.items() if given]:
            raise ValueError(f"with nodes.sharing shared, omit {', '.join(wrong)}: only for whole nodes")
        return self
