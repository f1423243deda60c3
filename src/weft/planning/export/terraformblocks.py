"""Resources of Terraform's OpenStack provider for what a site needs in its cloud.

Fields are those of the provider's release 3.0, which later ones have, too. What it reads back, and what it does with
differences, is in its resources' schemas (release 3.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.model.kindrow import AnyKind
from weft.model.resources import Graph, Kind, Resource
from weft.model.specs import Egress, Ingress, NetworkSpec, PortSpec, RouterSpec, SecurityGroupSpec, SubnetSpec
from weft.planning.export.terraformtext import literal, reference, tf_name
from weft.planning.site.graph import SSH

Fields = dict[str, Any]
_PREFIX = "openstack_networking_"
NETWORK, SUBNET, PORT = f"{_PREFIX}network_v2", f"{_PREFIX}subnet_v2", f"{_PREFIX}port_v2"
ROUTER, INTERFACE = f"{_PREFIX}router_v2", f"{_PREFIX}router_interface_v2"
GROUP, RULE, SHARE = f"{_PREFIX}secgroup_v2", f"{_PREFIX}secgroup_rule_v2", f"{_PREFIX}rbac_policy_v2"
EXTERNAL = "external"
"""Name in the configuration of an external network that isn't the site's own."""
_TYPES: Mapping[AnyKind, str] = {
    Kind.NETWORK: NETWORK,
    Kind.SUBNET: SUBNET,
    Kind.PORT: PORT,
    Kind.ROUTER: ROUTER,
    Kind.SECURITY_GROUP: GROUP,
}


@dataclass(frozen=True, slots=True)
class TerraformBlock:
    """A resource of Terraform's.

    Attributes:
        of: key of the graph's resource that it represents, or is a part of.
        fields: JSON; references to other blocks are expressions.
        part: the fields that distinguish a part (a rule, a share, an interface) from others of the same resource, in
            Neutron's terms, with keys of the graph instead of ids; None: it is the resource itself.
    """

    type: str
    name: str
    of: str
    fields: Fields
    part: Fields | None = None

    @property
    def address(self) -> str:
        """Its address in Terraform, such as `openstack_networking_network_v2.data`."""
        return f"{self.type}.{self.name}"


def blocks_of(graph: Graph) -> list[TerraformBlock]:
    """Blocks in the graph's order, each with its parts after it."""
    return [block for resource in graph.resources for block in _BLOCKS[resource.kind](resource)]


def external_of_others(graph: Graph) -> str | None:
    """Name of the external network that routers go to, unless it is the site's own; a cloud has one."""
    routers = [(r, r.spec) for r in graph.resources if isinstance(r.spec, RouterSpec)]
    names = {s.external_network for r, s in routers if f"network/{s.external_network}" not in r.needs}
    return min(names, default=None)


def _block(resource: Resource, fields: Fields, *ignored: str) -> TerraformBlock:
    """The resource itself. Its description, which has weft's mark if weft created or adopted it, is left alone."""
    fields = {"name": literal(resource.name), **fields}
    fields["lifecycle"] = {"ignore_changes": ["description", *ignored]}
    return TerraformBlock(_TYPES[resource.kind], _name(resource.key), resource.key, fields)


def _name(key: str) -> str:
    """The key as a name, without what the type already says."""
    kind, _, rest = key.partition("/")
    return tf_name(key if kind == "gateway" else rest)


def _id(kind: AnyKind, key: str) -> str:
    return reference(f"{_TYPES[kind]}.{_name(key)}.id")


def _network(resource: Resource) -> Iterator[TerraformBlock]:
    spec = resource.spec
    assert isinstance(spec, NetworkSpec) and spec.physical_network is not None
    segment: Fields = {
        "physical_network": spec.physical_network,
        "network_type": "flat" if spec.segment is None else "vlan",
        **({} if spec.segment is None else {"segmentation_id": spec.segment}),
    }
    fields: Fields = {
        "segments": [segment],
        "port_security_enabled": spec.port_security,
        "external": spec.external,  # Neutron shows an external network to all projects, by its own policy
    }
    if spec.mtu is not None:
        fields["mtu"] = spec.mtu
    yield _block(resource, fields)
    yield from _shares(resource, "network", spec.shared_with)


def _shares(resource: Resource, of_type: str, projects: tuple[str, ...]) -> Iterator[TerraformBlock]:
    for project in projects:
        part = {"action": "access_as_shared", "target_tenant": literal(project)}
        fields = {**part, "object_type": of_type, "object_id": _id(resource.kind, resource.key)}
        yield TerraformBlock(SHARE, tf_name(f"{resource.key}/{project}"), resource.key, fields, part)


def _subnet(resource: Resource) -> Iterator[TerraformBlock]:
    spec = resource.spec
    assert isinstance(spec, SubnetSpec) and not spec.gateway, "a site names its gateways"
    fields: Fields = {
        "network_id": _id(Kind.NETWORK, spec.network),
        "cidr": spec.cidr,
        "ip_version": 4,
        "enable_dhcp": spec.dhcp,
    }
    if spec.gateway_address is None:
        fields["no_gateway"] = True
    else:
        fields["gateway_ip"] = spec.gateway_address
    if spec.pool is not None:
        fields["allocation_pool"] = [{"start": spec.pool[0], "end": spec.pool[1]}]
    if spec.dns:
        fields["dns_nameservers"] = list(spec.dns)
    yield _block(resource, fields)


def _port(resource: Resource) -> Iterator[TerraformBlock]:
    """A port of hardware, or one that only reserves an address: not bound, and not filtered."""
    spec = resource.spec
    assert isinstance(spec, PortSpec) and spec.vnic_type == "normal" and not spec.security_groups
    fixed = {"subnet_id": _id(Kind.SUBNET, spec.subnet), "ip_address": spec.address}
    fields: Fields = {
        "network_id": _id(Kind.NETWORK, spec.network),
        **({} if spec.mac is None else {"mac_address": spec.mac}),
        "fixed_ip": [fixed],
        "no_security_groups": True,
        "port_security_enabled": False,
    }
    if spec.dns_name is not None:
        fields["dns_name"] = spec.dns_name
    yield _block(resource, fields)


def _router(resource: Resource) -> Iterator[TerraformBlock]:
    spec = resource.spec_as(RouterSpec)
    own = f"network/{spec.external_network}"
    fields: Fields = {
        "external_network_id": _id(Kind.NETWORK, own)
        if own in resource.needs
        else reference(f"data.{NETWORK}.{EXTERNAL}.id")
    }
    # Its gateway gets an address of the external network's subnets, which nothing else here refers to.
    if later := [key for key in resource.needs if key.startswith("subnet/") and key not in spec.subnets]:
        fields["depends_on"] = [f"{SUBNET}.{_name(key)}" for key in later]
    yield _block(resource, fields)
    for key in spec.subnets:
        ids = {"router_id": _id(Kind.ROUTER, resource.key), "subnet_id": _id(Kind.SUBNET, key)}
        yield TerraformBlock(INTERFACE, _name(key), resource.key, ids, {"subnet_id": key})


def _group(resource: Resource) -> Iterator[TerraformBlock]:
    """Neutron's default rules are deleted, and all desired ones are listed."""
    spec = resource.spec_as(SecurityGroupSpec)
    # The provider never reads it back: without this, it would replace a group that was imported.
    yield _block(resource, {"delete_default_rules": True}, "delete_default_rules")
    group = _id(resource.kind, resource.key)
    for name, part in sorted(_rules(resource.key, spec).items()):
        rule = {field: group if value == resource.key else value for field, value in part.items()}
        fields = {"security_group_id": group, **rule}
        yield TerraformBlock(RULE, f"{_name(resource.key)}_{name}", resource.key, fields, part)
    yield from _shares(resource, "security_group", spec.shared_with)


def _rules(group: str, spec: SecurityGroupSpec) -> dict[str, Fields]:
    """Name -> fields of a rule. Args: group: reference to the group's id."""
    found: dict[str, Fields] = {}
    if spec.egress is None:
        for version in ("IPv4", "IPv6"):
            found[f"egress_{version}"] = {"direction": "egress", "ethertype": version}
            within = {"direction": "ingress", "ethertype": version, "remote_group_id": group}
            found[f"ingress_{version}_group"] = within
    traffic: list[Ingress | Egress] = [Ingress(protocol="tcp", port=SSH, source=b) for b in spec.ssh_from]
    for one in (*traffic, *spec.ingress, *(spec.egress or ())):
        direction, block = ("ingress", one.source) if isinstance(one, Ingress) else ("egress", one.to)
        fields: Fields = {"direction": direction, "ethertype": "IPv4", "protocol": one.protocol}
        if one.port is not None:
            fields |= {"port_range_min": one.port, "port_range_max": one.port}
        place = block.replace(".", "-").replace("/", "-")
        name = f"{direction}_{one.protocol}_{'any' if one.port is None else one.port}_{place}"
        found[name] = {**fields, "remote_ip_prefix": block}
    return found


_BLOCKS: Mapping[AnyKind, Callable[[Resource], Iterator[TerraformBlock]]] = {
    Kind.NETWORK: _network,
    Kind.SUBNET: _subnet,
    Kind.PORT: _port,
    Kind.ROUTER: _router,
    Kind.SECURITY_GROUP: _group,
}
