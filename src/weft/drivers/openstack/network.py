"""Networks and subnets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from weft.drivers.openstack.base import Call, Fence, Fields, ListedResource
from weft.drivers.openstack.errors import CloudAnswer
from weft.drivers.openstack.networks import EVERYBODYS, add_share, set_shares, shared_projects
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.onnetworks import SUBNET, subnets_on
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import (
    OutsideError,
    PermanentError,
    TakenError,
    TemporaryError,
    UnknownError,
    WeftError,
)
from weft.model.messages import outside
from weft.model.resources import Kind, Outcome, Resource
from weft.model.specs import NetworkSpec, SubnetSpec

SHARED = "weft:shared_with"
"""Field that `prepare` adds to a network's row: ids of the projects that it is shared with."""


class Networks(NeutronKind):
    """VLAN provider networks, on InfiniBand with the P_Key as segmentation id; and self-service networks,
    whose segment Neutron chooses."""

    kind = Kind.NETWORK
    updatable = frozenset({"mark", "name", "port_security", "shared_with", "mtu", "external"})
    collection, item = "networks", "network"
    fields = (
        "provider:physical_network",
        "provider:segmentation_id",
        "provider:network_type",
        "port_security_enabled",
        "mtu",
        "router:external",
        "subnets",
    )

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(NetworkSpec)
        provider: Json = {
            "provider:network_type": "flat" if spec.segment is None else "vlan",
            "provider:physical_network": spec.physical_network,
            **({} if spec.segment is None else {"provider:segmentation_id": spec.segment}),
        }
        return {
            **(provider if spec.physical_network is not None else {}),
            "port_security_enabled": spec.port_security,
            **({} if spec.mtu is None else {"mtu": spec.mtu}),
            # By default only administrators may set it, to either value.
            **({"router:external": True} if spec.external else {}),
        }

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec_as(NetworkSpec)
        every = {
            "port_security": ("port_security_enabled", spec.port_security),
            "mtu": ("mtu", spec.mtu),
            "external": ("router:external", spec.external),
            "name": ("name", resource.name),
        }
        return dict(every[name] for name in sorted(fields & every.keys()))

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(NetworkSpec)
        of_site = call.scope.owner.kind == "site"
        provider = {
            "type": "flat" if spec.segment is None else "vlan",
            "physical_network": spec.physical_network,
            "segment": spec.segment,
        }
        return {
            **(provider if spec.physical_network is not None else {"overlay": True}),
            "port_security": spec.port_security,
            "shared_with": _shared_with(spec),
            # A network that a tenant may make external is made internal again even without that policy. Pods
            # find the site's own networks by their names.
            **({"external": spec.external, "name": resource.name} if of_site else {}),
            **({} if spec.mtu is None else {"mtu": spec.mtu}),
        }

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        """Create provider networks in bulk, and self-service networks one by one: the answer says what Neutron
        chose."""
        picked = [r for r in wanted if isinstance(r.spec, NetworkSpec) and r.spec.physical_network is None]
        outcomes = super().create(call, [r for r in wanted if r not in picked])
        for resource in picked:
            outcomes |= super().create(call, [resource])
        return outcomes | self._share(call, wanted, outcomes)

    @staticmethod
    def _share(call: Call, wanted: Sequence[Resource], made: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Share new networks with the projects that may use them; a failure is found as a difference
        later."""
        pairs = [
            (r, outcome.id, project)
            for r in wanted
            if isinstance(r.spec, NetworkSpec)
            and (outcome := made.get(r.key, Outcome())).id is not None
            and outcome.error is None
            for project in r.spec.shared_with
        ]

        def share(pair: tuple[Resource, str, str]) -> WeftError | None:
            resource, id_, project = pair
            call.scope.fence()
            try:
                add_share(call.project, "network", id_, resource.name, project)
            except WeftError as error:
                return error
            return None

        errors = zip(pairs, list(call.spread.map(share, pairs)), strict=True)
        return {r.key: Outcome(id_, error) for (r, id_, _), error in errors if error is not None}

    def created(self, call: Call, resource: Resource, raw: Json) -> None:
        """A VLAN chosen by Neutron may conflict: the site may keep it closed, or a fabric may need it."""
        spec = resource.spec_as(NetworkSpec)
        if spec.physical_network is None and not _overlay(raw):
            raise PermanentError(
                outside.REQUEST(verb="create", what=f"network {resource.name}"),
                "network",
                f"Neutron made it of type {raw['provider:network_type']}",
                "put geneve or vxlan first in Neutron's project_network_types, or use provider networks in the site",
            )

    def seen(self, call: Call, row: ListedResource) -> Fields:
        return {
            "name": row.name,
            "overlay": _overlay(row.raw),
            "type": row.raw.get("provider:network_type"),
            "physical_network": row.raw.get("provider:physical_network"),
            "segment": row.raw.get("provider:segmentation_id"),
            # A cloud without the port security extension doesn't have the field.
            "port_security": row.raw.get("port_security_enabled", True),
            "shared_with": row.raw[SHARED],
            "external": bool(row.raw.get("router:external")),
            "mtu": row.raw.get("mtu"),
        }

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {
            "type": row.raw.get("provider:network_type"),
            "physical_network": row.raw.get("provider:physical_network"),
            "segment": row.raw.get("provider:segmentation_id"),
            "mtu": row.raw.get("mtu"),
        }

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """Neutron deletes a network with all its subnets. The site's own are gone by then; any others are an
        operator's."""
        if row.mark is not None and row.mark.owner.kind == "site":
            asked, left = outside.REQUEST(verb="delete", what=f"network {row.name}"), row.raw.get("subnets")
            if left is None:
                raise UnknownError(
                    asked, "network", "the answer doesn't say which subnets it has", "ask again"
                )
            if left:
                said = f"it still has subnets that aren't weft's: {', '.join(sorted(left))}"
                raise TemporaryError(asked, "network", said, "remove them first")
        super().remove(project, row, fence)

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        """Add the projects that the networks are shared with: a network's owner can let other projects put ports on
        it."""
        ids = [row.id for row in rows]
        with_whom = shared_projects(call.project, ids, "network", call.scope.listings)
        return [replace(row, raw={**row.raw, SHARED: with_whom[row.id]}) for row in rows]

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        if "shared_with" in fields:
            spec = resource.spec_as(NetworkSpec)
            set_shares(call.project, "network", row.id, resource.name, _shared_with(spec))
        super().repair(call, resource, row, fields)

    def _made_before(self, call: Call, resource: Resource, asked: str, answer: CloudAnswer) -> str:
        spec = resource.spec_as(NetworkSpec)
        if answer.status == 400 and spec.mtu is not None and "mtu" in answer.message.lower():
            then = "raise global_physnet_mtu, path_mtu or physical_network_mtus in Neutron, or lower mtu in the site"
            raise PermanentError(asked, "network", answer.sentence(), then)
        try:
            return super()._made_before(call, resource, asked, answer)
        except OutsideError as error:
            if answer.error_type != "VlanIdInUse":
                raise
            raise TakenError(error.asked, error.of, error.answer, resource.key) from error


class Subnets(NeutronKind):
    """IPv4 subnets; the gateway is the first address, unless the spec says another, and set only if a router will have
    it."""

    kind = Kind.SUBNET
    updatable = frozenset({"mark", "gateway", "dhcp", "pool", "dns"})
    collection, item = "subnets", "subnet"
    fields = SUBNET

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        """Subnets of the owner's networks, if others who observe it list these now."""
        networks = {call.ids.get(r.spec_as(SubnetSpec).network) for r in wanted}
        known = [one for one in networks if one]
        if call.scope.listings is None or len(known) < len(networks):
            return super().rows(call, wanted)
        rows = subnets_on(call.project, known, call.scope.listings)
        return [self.row(raw) for raw in rows if raw["project_id"] == call.scope.project_id]

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(SubnetSpec)
        body: Json = {
            "network_id": call.id_of(spec.network),
            "ip_version": 4,
            "cidr": spec.cidr,
            "gateway_ip": _gateway(spec),
            "enable_dhcp": spec.dhcp,
        }
        if spec.pool is not None:
            body["allocation_pools"] = [{"start": spec.pool[0], "end": spec.pool[1]}]
        if spec.dns:
            body["dns_nameservers"] = list(spec.dns)
        return body

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        spec = resource.spec_as(SubnetSpec)
        body: Json = {}
        if "gateway" in fields:
            body["gateway_ip"] = _gateway(spec)
        if "dhcp" in fields:
            body["enable_dhcp"] = spec.dhcp
        if "pool" in fields and spec.pool is not None:
            body["allocation_pools"] = [{"start": spec.pool[0], "end": spec.pool[1]}]
        if "dns" in fields:
            body["dns_nameservers"] = list(spec.dns or ())
        return body

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(SubnetSpec)
        fields: dict[str, object] = {
            "network": call.ids.get(spec.network, spec.network),
            "cidr": spec.cidr,
            "gateway": _gateway(spec),
            "dhcp": spec.dhcp,
        }
        if spec.pool is not None:
            fields["pool"] = (f"{spec.pool[0]}-{spec.pool[1]}",)
        if spec.dns is not None:
            fields["dns"] = spec.dns
        return fields

    def seen(self, call: Call, row: ListedResource) -> Fields:
        pools: list[dict[str, str]] = row.raw.get("allocation_pools") or []
        return {
            "network": row.raw["network_id"],
            "cidr": row.raw["cidr"],
            "gateway": row.raw.get("gateway_ip"),
            "dhcp": row.raw["enable_dhcp"],
            "pool": tuple(f"{p['start']}-{p['end']}" for p in pools),
            "dns": tuple(row.raw.get("dns_nameservers") or ()),
        }

    def facts(self, row: ListedResource) -> dict[str, object]:
        raw = row.raw
        known = {"network": raw["network_id"], "cidr": raw["cidr"], "dhcp": raw["enable_dhcp"]}
        return {**known, "gateway": raw.get("gateway_ip")}


def _shared_with(spec: NetworkSpec) -> frozenset[str]:
    return frozenset({*spec.shared_with, *((EVERYBODYS,) if spec.external else ())})


def _overlay(raw: Json) -> bool:
    """Whether a network is on no physical network, as far as Neutron shows: weft's user needs a policy to see its
    type."""
    return raw.get("provider:network_type") not in ("vlan", "flat")


def _gateway(spec: SubnetSpec) -> str | None:
    if spec.gateway_address is not None:
        return spec.gateway_address
    return str(next(IPv4Network(spec.cidr).hosts())) if spec.gateway else None
