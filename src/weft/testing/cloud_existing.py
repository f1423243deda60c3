"""The fake cloud: existing resources that resemble a wanted one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Network

from weft.model.resources import Kind, Resource
from weft.model.specs import AggregateSpec, NetworkSpec, PortSpec, SubnetSpec
from weft.ports.existing import Existing, NamedPort, NamedSubnet
from weft.ports.resources import Scope
from weft.testing.cloud_aggregates import aggregates_like
from weft.testing.cloud_networks import FakeNetworks
from weft.testing.cloud_rules import segments_of
from weft.testing.cloud_state import Fault, Thing

SERVICE_PROJECT = "service"
"""Project of the site's own resources."""


_BY_NAME = (Kind.ROUTER, Kind.SECURITY_GROUP, Kind.FLAVOR)


def known_by_name(scope: Scope, resource: Resource) -> bool:
    """Whether others find the resource by its name, so that an adopted one gets the desired name."""
    return scope.owner.kind == "site" and resource.kind in (Kind.NETWORK, Kind.SECURITY_GROUP)


def _named(port: Thing) -> NamedPort:
    groups = port.fields.get("security_groups") or ()
    assert isinstance(groups, tuple)
    return NamedPort(
        port.id,
        str(port.fields.get("network")),
        port.project_id,
        str(port.fields.get("dns_name") or ""),
        port.project_id == SERVICE_PROJECT,
        str(port.fields.get("device_owner") or ""),
        port.name,
        frozenset({str(port.fields["address"])} if port.fields.get("address") else ()),
        str(port.fields.get("device") or ""),
        frozenset(map(str, groups)),
    )


class FakeExisting(FakeNetworks):
    """`ExistingThings`."""

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        self._call("alike", None)
        known, found = dict(ids), dict[str, Sequence[Existing]]()
        order = sorted((r for r in wanted if r.key not in ids), key=lambda r: r.kind is not Kind.NETWORK)
        for resource in order:
            like = list(self._like(resource, known))
            if like:
                found[resource.key] = like
            if resource.kind is Kind.NETWORK and len([e for e in like if e.same]) == 1:
                known[resource.key] = next(e.id for e in like if e.same)
        return found

    def ports_on(self, networks: Collection[str]) -> Sequence[NamedPort]:
        self._call("alike", None)
        if self._planted(Fault.EMPTY):
            return []
        return [_named(p) for p in self.things(Kind.PORT) if p.fields.get("network") in networks]

    def subnets_on(self, networks: Collection[str]) -> Sequence[NamedSubnet]:
        self._call("alike", None)
        return [
            NamedSubnet(s.id, str(s.fields["network"]), s.project_id, s.name, str(s.fields["cidr"]))
            for s in self.things(Kind.SUBNET)
            if s.fields.get("network") in networks
        ]

    def ports_in(self, groups: Collection[str], known: Collection[str]) -> Sequence[NamedPort]:
        self._call("alike", None)
        if self._planted(Fault.EMPTY):
            return []
        ports = map(_named, self.things(Kind.PORT))
        return [port for port in ports if port.id in known or port.groups.intersection(groups)]

    def _like(self, resource: Resource, ids: Mapping[str, str]) -> Iterator[Existing]:
        for thing in self.things(resource.kind):
            if thing.id in ids.values():
                continue
            for like, same in self._reasons(resource, thing, ids):
                own = thing.project_id == SERVICE_PROJECT
                yield Existing(thing.id, thing.name, thing.project_id, like, own, same, thing.mark)
                break

    @staticmethod
    def _reasons(resource: Resource, thing: Thing, ids: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
        fields, spec = thing.fields, resource.spec
        mine = thing.project_id == SERVICE_PROJECT
        match spec:
            case NetworkSpec():
                where, there = (spec.physical_network, spec.segment), segments_of(thing)
                if fields.get("segments") and where in there:
                    yield (
                        f"VLAN {spec.segment} of {spec.physical_network}, one of {len(there)} segments",
                        False,
                    )
                elif (fields.get("physical_network"), fields.get("segment")) == where:
                    yield f"VLAN {spec.segment} of {spec.physical_network}", True
                if mine and thing.name == resource.name:
                    yield f"the name {thing.name}", False
            case SubnetSpec() if fields.get("network") == ids.get(spec.network, ""):
                if fields["cidr"] == spec.cidr:
                    yield f"the CIDR {spec.cidr}", True
                elif IPv4Network(str(fields["cidr"])).overlaps(IPv4Network(spec.cidr)):
                    yield f"overlapping addresses ({fields['cidr']})", False
            case PortSpec() if fields.get("network") == ids.get(spec.network, ""):
                if spec.mac is not None and fields.get("mac") == spec.mac:
                    yield f"the MAC address {spec.mac}", True
                elif fields.get("address") == spec.address:
                    yield f"the address {spec.address}", spec.mac is None
                elif spec.dns_name and fields.get("dns_name") == spec.dns_name:
                    yield f"the host name {spec.dns_name}", False
            case AggregateSpec():
                yield from aggregates_like(thing, resource)
            case _ if mine and thing.name == resource.name and resource.kind in _BY_NAME:
                yield f"the name {thing.name}", True
            case _:
                pass
