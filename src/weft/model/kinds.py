"""The table of kinds of resources: one row a kind. Besides its row a kind has a spec and a driver, and nothing else.

What isn't in the table is made, read and shown by nobody. A program that has further kinds has a table of its own
beside this one, another subclass of `AnyKind`: documents are read by the tables there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from weft.model.specs import (
    FloatingIPSpec,
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuUserSpec,
)


class Home(StrEnum):
    """What has the things of a kind."""

    CLOUD = "cloud"
    FABRIC = "fabric"
    """A fabric, ruled by its managers; what is left of a thing there is read from the fabric itself."""
    MACHINES = "machines"
    """A manager of accelerators that belong to no cloud's host, such as an IPU-POD's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row.

    Attributes:
        spec: what is wanted of one.
        one, many: what people call it.
        home: what has it; `Resource.where` names which.
        shown: fields of the spec that a tenant's plan shows; None: tenants aren't told that there is such a thing.
        shown_of_site: the same of what is made for the pod in the project of weft's service user.
        quota: the cloud's quota of which it takes one; more: `Spec.quota`.
        settles: whether what needs it waits until it is at rest; of the others an accepted request is enough until
            everything is verified.
        boots: it takes minutes and not seconds to come and to go, and the pod is BOOTING meanwhile.
        on_host: it runs on the host of its node, and whoever lists what is there finds it by its id.
        keeps_node: as long as one is there, its node can't be given back.
        in_place: fields of the spec that a change of an order changes in place; the others stay as they were made.
        repaired_unasked: made again when it is missed. Else only if an operator asks: a tenant may have deleted it.
    """

    spec: type[Spec]
    one: str
    many: str
    home: Home = Home.CLOUD
    shown: frozenset[str] | None = None
    shown_of_site: frozenset[str] | None = None
    quota: str = ""
    settles: bool = False
    boots: bool = False
    on_host: bool = False
    keeps_node: bool = False
    in_place: frozenset[str] = frozenset()
    repaired_unasked: bool = True


class AnyKind(StrEnum):
    """Base of the tables: a member is a kind's name, and has its row."""

    row: Row
    _value_: str

    def __new__(cls, name: str, row: Row) -> Self:
        self = str.__new__(cls, name)
        self._value_, self.row = name, row
        return self


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


class Kind(AnyKind):
    """weft's own kinds, in the order in which people are told of them; what hangs on others comes after them."""

    SEGMENT = (
        "segment",
        Row(
            spec=SegmentSpec,
            one="segment",
            many="segments",
            home=Home.FABRIC,
            shown=_fields("number fabric_type"),
            in_place=_fields("members"),
            settles=True,
        ),
    )
    NETWORK = (
        "network",
        Row(
            spec=NetworkSpec,
            one="network",
            many="networks",
            shown=_fields("physical_network segment port_security"),
            quota="networks",
        ),
    )
    SUBNET = (
        "subnet",
        Row(
            spec=SubnetSpec,
            one="subnet",
            many="subnets",
            shown=_fields("network cidr gateway dhcp pool"),
            in_place=_fields("gateway"),
            quota="subnets",
        ),
    )
    ROUTER = (
        "router",
        Row(
            spec=RouterSpec,
            one="router",
            many="routers",
            shown=_fields("external_network subnets"),
            in_place=_fields("subnets"),
            quota="routers",
        ),
    )
    SECURITY_GROUP = (
        "security_group",
        Row(
            spec=SecurityGroupSpec,
            one="security group",
            many="security groups",
            shown=_fields("ssh_from ingress"),
            shown_of_site=_fields(""),
            in_place=_fields("ssh_from ingress"),
            quota="security groups",
        ),
    )
    KEY_PAIR = (
        "key_pair",
        Row(
            spec=KeyPairSpec,
            one="key pair",
            many="key pairs",
            shown=_fields("public_key"),
            quota="key pairs",
        ),
    )
    PORT = (
        "port",
        Row(
            spec=PortSpec,
            one="port",
            many="ports",
            shown=_fields("network subnet address mac vnic_type security_groups"),
            shown_of_site=_fields("network subnet vnic_type security_groups"),
            quota="ports",
            keeps_node=True,
        ),
    )
    SERVER = (
        "server",
        Row(
            spec=ServerSpec,
            one="server",
            many="servers",
            shown=_fields("flavor image key_pair user_data ports"),
            shown_of_site=_fields("key_pair ports"),
            quota="servers",
            settles=True,
            boots=True,
            on_host=True,
            keeps_node=True,
            repaired_unasked=False,
        ),
    )
    FLOATING_IP = (
        "floating_ip",
        Row(
            spec=FloatingIPSpec,
            one="floating IP",
            many="floating IPs",
            shown=_fields("external_network port"),
            quota="floating IPs",
        ),
    )
    VIPU_AGENT = (
        "vipu_agent",
        Row(
            spec=VipuAgentSpec,
            one="V-IPU agent",
            many="V-IPU agents",
            home=Home.MACHINES,
            shown=_fields("machine port"),
            keeps_node=True,
        ),
    )
    VIPU_CLUSTER = (
        "vipu_cluster",
        Row(
            spec=VipuClusterSpec,
            one="V-IPU cluster",
            many="V-IPU clusters",
            home=Home.MACHINES,
            shown=_fields("name topology machines"),
        ),
    )
    VIPU_ALLOCATION = (
        "vipu_allocation",
        Row(
            spec=VipuAllocationSpec,
            one="V-IPU allocation",
            many="V-IPU allocations",
            home=Home.MACHINES,
            shown=_fields("name cluster machines"),
        ),
    )
    VIPU_USER = (
        "vipu_user",
        Row(
            spec=VipuUserSpec,
            one="V-IPU user",
            many="V-IPU users",
            home=Home.MACHINES,
            shown=_fields("name allocation machines"),
        ),
    )


def every_kind() -> Iterator[AnyKind]:
    """Of all tables there are, weft's own first."""
    for table in AnyKind.__subclasses__():
        yield from table


def kind_named(name: str) -> AnyKind | None:
    """The kind of that name, if a table has it."""
    return next((kind for kind in every_kind() if kind == name), None)


def kind_of(spec: Spec) -> AnyKind:
    """The kind that has such specs. Raises ValueError for a class that no table has: a fault of the program."""
    found = next((kind for kind in every_kind() if kind.row.spec is type(spec)), None)
    if found is None:
        raise ValueError(f"no kind has the spec {type(spec).__name__}")
    return found


def kinds_at(home: Home) -> frozenset[AnyKind]:
    """All of weft's own that such a place can have."""
    return frozenset(kind for kind in Kind if kind.row.home is home)


def removal_order() -> list[AnyKind]:
    """What hangs on others goes before them. What is on a fabric goes first: without it a server reaches nobody."""
    backwards = list(every_kind())[::-1]
    return sorted(backwards, key=lambda kind: kind.row.home is not Home.FABRIC)
