"""The table of kinds of resources: one row per kind. Besides its row a kind only has a spec and a driver.

What isn't in the table is never created, read or shown. A program with further kinds adds a table of its own, another
subclass of `AnyKind`: documents are read with all tables that exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.kindrow import AnyKind, Home, KindRow
from weft.model.specs import (
    AggregateSpec,
    FlavorSpec,
    FloatingIPSpec,
    ImagePropertiesSpec,
    KeyPairSpec,
    MachineSpec,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    ShareAccessSpec,
    ShareSpec,
    Spec,
    SubnetSpec,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuUserSpec,
    VolumeAttachmentSpec,
    VolumeSpec,
)


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


class Kind(AnyKind):
    """weft's own kinds, in the order in which they are listed for people; dependents come after what they need."""

    SEGMENT = (
        "segment",
        KindRow(
            spec=SegmentSpec,
            one="segment",
            home=Home.FABRIC,
            shown=_fields("number fabric_type"),
            in_place=_fields("members former"),
            settles=True,
        ),
    )
    NETWORK = (
        "network",
        KindRow(
            spec=NetworkSpec,
            one="network",
            shown=_fields("physical_network segment port_security"),
            in_place=_fields("port_security mtu shared_with external"),
            quota="networks",
            network=True,
        ),
    )
    SUBNET = (
        "subnet",
        KindRow(
            spec=SubnetSpec,
            one="subnet",
            shown=_fields("network cidr gateway dhcp pool"),
            in_place=_fields("gateway gateway_address dhcp pool dns"),
            quota="subnets",
        ),
    )
    ROUTER = (
        "router",
        KindRow(
            spec=RouterSpec,
            one="router",
            shown=_fields("external_network subnets"),
            in_place=_fields("subnets"),
            quota="routers",
            joins_networks=True,
        ),
    )
    SECURITY_GROUP = (
        "security_group",
        KindRow(
            spec=SecurityGroupSpec,
            one="security group",
            shown=_fields("ssh_from ingress"),
            shown_of_site=_fields(""),
            in_place=_fields("ssh_from ingress egress shared_with"),
            quota="security groups",
        ),
    )
    KEY_PAIR = (
        "key_pair",
        KindRow(
            spec=KeyPairSpec,
            one="key pair",
            shown=_fields("public_key"),
            quota="key pairs",
        ),
    )
    MACHINE = (
        "machine",
        KindRow(
            spec=MachineSpec,
            one="machine",
            shown=_fields(""),
            settles=True,
            boots=True,
            keeps_node=True,
            lent=True,
            repaired_unasked=False,
            cleaned=True,
        ),
    )
    PORT = (
        "port",
        KindRow(
            spec=PortSpec,
            one="port",
            shown=_fields("network subnet address mac vnic_type security_groups"),
            shown_of_site=_fields("network subnet vnic_type security_groups"),
            in_place=_fields("security_groups dns_name"),
            quota="ports",
            keeps_node=True,
        ),
    )
    SHARE = (
        "share",
        KindRow(
            spec=ShareSpec,
            one="share",
            shown=_fields("gib share_type ports kept_as"),
            in_place=_fields("ports kept_as"),
            quota="shares",
            settles=True,
            detachable=True,
            repaired_unasked=False,
            data=True,
        ),
    )
    SHARE_ACCESS = (
        "share_access",
        KindRow(
            spec=ShareAccessSpec,
            one="access rule",
            shown=_fields("share share_id port read_only"),
            settles=True,
            admits=True,
            detachable=True,
        ),
    )
    VOLUME = (
        "volume",
        KindRow(
            spec=VolumeSpec,
            one="volume",
            shown=_fields("gib volume_type kept_as"),
            in_place=_fields("kept_as"),
            quota="volumes",
            settles=True,
            detachable=True,
            repaired_unasked=False,
            data=True,
        ),
    )
    SERVER = (
        "server",
        KindRow(
            spec=ServerSpec,
            one="server",
            shown=_fields("by flavor image key_pair user_data ports storage"),
            shown_of_site=_fields("by key_pair ports"),
            quota="servers",
            settles=True,
            boots=True,
            on_host=True,
            keeps_node=True,
            repaired_unasked=False,
        ),
    )
    VOLUME_ATTACHMENT = (
        "volume_attachment",
        KindRow(
            spec=VolumeAttachmentSpec,
            one="attachment",
            shown=_fields("volume volume_id server"),
            settles=True,
            detachable=True,
            ends_with="server",
        ),
    )
    FLOATING_IP = (
        "floating_ip",
        KindRow(
            spec=FloatingIPSpec,
            one="floating IP",
            shown=_fields("external_network port"),
            quota="floating IPs",
        ),
    )
    FLAVOR = (
        "flavor",
        KindRow(
            spec=FlavorSpec,
            one="flavor",
            in_place=_fields("extra_specs former"),
        ),
    )
    IMAGE_PROPERTIES = (
        "image_properties",
        KindRow(
            spec=ImagePropertiesSpec,
            one="image's properties",
            many="images' properties",
            in_place=_fields("properties former"),
            lent=True,
        ),
    )
    AGGREGATE = (
        "aggregate",
        KindRow(
            spec=AggregateSpec,
            one="host aggregate",
            in_place=_fields("flavors hosts"),
        ),
    )
    VIPU_AGENT = (
        "vipu_agent",
        KindRow(
            spec=VipuAgentSpec,
            one="V-IPU agent",
            home=Home.MACHINES,
            shown=_fields("machine port"),
            keeps_node=True,
        ),
    )
    VIPU_CLUSTER = (
        "vipu_cluster",
        KindRow(
            spec=VipuClusterSpec,
            one="V-IPU cluster",
            home=Home.MACHINES,
            shown=_fields("name topology machines"),
        ),
    )
    VIPU_ALLOCATION = (
        "vipu_allocation",
        KindRow(
            spec=VipuAllocationSpec,
            one="V-IPU allocation",
            home=Home.MACHINES,
            shown=_fields("name cluster machines"),
        ),
    )
    VIPU_USER = (
        "vipu_user",
        KindRow(
            spec=VipuUserSpec,
            one="V-IPU user",
            home=Home.MACHINES,
            shown=_fields("name allocation machines"),
        ),
    )


def every_kind() -> Iterator[AnyKind]:
    """Kinds of all tables, weft's own first."""
    for table in AnyKind.__subclasses__():
        yield from table


def kind_named(name: str) -> AnyKind | None:
    """The kind of that name, if a table has it."""
    found = _NAMED.get(name)
    if found is None:
        found = next((kind for kind in every_kind() if kind == name), None)
        if found is not None:
            _NAMED[name] = found
    return found


_NAMED: dict[str, AnyKind] = {}
_KIND_OF: dict[type[Spec], AnyKind] = {}
"""A cache of the tables, which never change: a visit asks for each resource's kind many times."""


def kind_of(spec: Spec) -> AnyKind:
    """The kind of a spec. Raises ValueError for a class that is in no table: a programming error."""
    found = _KIND_OF.get(type(spec))
    if found is None:
        found = next((kind for kind in every_kind() if kind.row.spec is type(spec)), None)
        if found is None:
            raise ValueError(f"no kind has the spec {type(spec).__name__}")
        _KIND_OF[type(spec)] = found
    return found


def kinds_at(home: Home) -> frozenset[AnyKind]:
    """All of weft's own kinds that can live there."""
    return frozenset(kind for kind in Kind if kind.row.home is home)


def removal_order() -> list[AnyKind]:
    """Dependents are deleted before what they need, resources on a fabric first: without them servers are isolated."""
    backwards = list(every_kind())[::-1]
    return sorted(backwards, key=lambda kind: kind.row.home is not Home.FABRIC)
