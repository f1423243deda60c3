"""What a cloud already has that resembles what a site wants there, and what depends on it.

Everything is read with a token of the service user's own project, which sees networks of all projects and all ports on
networks of its own (docs/operating-roles.md).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Network

from weft.drivers.openstack import aggregates
from weft.drivers.openstack.errors import shaped
from weft.drivers.openstack.images import images_named
from weft.drivers.openstack.networks import EVERYBODY, shared_projects
from weft.drivers.openstack.neutron import default_group
from weft.drivers.openstack.segments import SHOWN, read_segments
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.model.mark import Mark
from weft.model.resources import Kind, Resource
from weft.model.specs import NetworkSpec, PortSpec, SubnetSpec
from weft.ports.existing import Existing, NamedPort, NamedSubnet, host_name

Found = dict[str, list[Existing]]
ALWAYS = ("id", "name", "description", "project_id")
_WHOSE = ("id", "name", "network_id", "project_id", "device_owner", "device_id")
PORT = (*_WHOSE, "dns_name", "fixed_ips", "security_groups")


class OpenStackExisting:
    """`ExistingThings`. Thread-safe."""

    def __init__(self, sessions: Sessions) -> None:
        self._existing_of = sessions

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        left = [r for r in wanted if r.key not in ids]
        if not left:
            return {}
        with shaped("look for what is there already"):
            search = _Search(self._existing_of.own(), dict(ids))
            search.networks([r for r in left if r.kind is Kind.NETWORK])
            search.subnets([r for r in left if r.kind is Kind.SUBNET])
            search.ports([r for r in left if r.kind is Kind.PORT])
            search.named([r for r in left if r.kind is Kind.ROUTER], "routers")
            search.named([r for r in left if r.kind is Kind.SECURITY_GROUP], "security_groups")
            search.flavors([r for r in left if r.kind is Kind.FLAVOR])
            search.images([r for r in left if r.kind is Kind.IMAGE_PROPERTIES])
            search.aggregates([r for r in left if r.kind is Kind.AGGREGATE])
        return {key: found for key, found in search.found.items() if found}

    def ports_on(self, networks: Collection[str]) -> Sequence[NamedPort]:
        return self._named_ports("network_id", networks, "list ports on the site's networks")

    def subnets_on(self, networks: Collection[str]) -> Sequence[NamedSubnet]:
        """The networks list their subnets: the owner of another project's subnet is shown only by weft's
        policies."""
        asked = "list subnets of the site's networks"
        with shaped(asked):
            own = self._existing_of.own()
            fields = ("id", "name", "cidr", "network_id", "project_id")
            rows = {row["id"]: row for row in _on(own, "subnets", networks, fields, asked=asked)}
            return [
                NamedSubnet(id_, network["id"], row["project_id"], row["name"], row["cidr"])
                if (row := rows.get(id_)) is not None
                else NamedSubnet(id_, network["id"])
                for network in _on(own, "networks", networks, ("id", "subnets"), "id", asked)
                for id_ in network["subnets"]
            ]

    def ports_in(self, groups: Collection[str], known: Collection[str]) -> Sequence[NamedPort]:
        """Projects that share a group may have ports in it that only weft's policies show; the same policies
        show their group `default`."""
        asked = "list ports in the site's security groups"
        inside = self._named_ports("security_groups", groups, asked)
        beside = self._named_ports("id", sorted(known), asked)
        own = self._existing_of.own()
        shared = shared_projects(own, groups, "security_group").values()
        for project in sorted({p for projects in shared for p in projects} - {EVERYBODY}):
            default_group(own, project)
        return list({port.id: port for port in (*inside, *beside)}.values())

    def _named_ports(self, by: str, ids: Collection[str], asked: str) -> Sequence[NamedPort]:
        with shaped(asked):
            own = self._existing_of.own()
            project, rows = own.network.signed_in_project(), _on(own, "ports", ids, PORT, by, asked)
            return [
                NamedPort(
                    row["id"],
                    row["network_id"],
                    row["project_id"],
                    str(row.get("dns_name") or ""),
                    row["project_id"] == project,
                    row["device_owner"],
                    row["name"],
                    frozenset(f["ip_address"] for f in row["fixed_ips"]),
                    str(row.get("device_id") or ""),
                    frozenset(row.get("security_groups") or ()),
                )
                for row in rows
            ]


class _Search:
    """One search; networks come first, since other resources are on them.

    Attributes:
        ids: key -> id; for networks also the ids of those that could be adopted.
    """

    def __init__(self, own: Project, ids: dict[str, str]) -> None:
        self._own, self._ids, self._known = own, ids, frozenset(ids.values())
        self._project = own.network.signed_in_project()
        self.found: Found = {}

    def networks(self, wanted: Sequence[Resource]) -> None:
        if not wanted:
            return
        asked, params = "list the networks of all projects", {"fields": (*ALWAYS, *SHOWN)}
        rows = self._own.network.listing(asked, "/networks", "networks", params)
        segments = read_segments(self._own, asked, rows)
        rows = self._others(rows)
        for resource in wanted:
            spec = resource.spec_as(NetworkSpec)
            where = (spec.physical_network, spec.segment)
            for row in rows:
                there = segments.get(row["id"], ())
                if any((s.place, s.number) == where and s.type in ("vlan", "flat") for s in there):
                    vlan = "untagged" if spec.segment is None else f"VLAN {spec.segment}"
                    one_of = f", one of {len(there)} segments" if len(there) > 1 else ""
                    self._add(resource, row, f"{vlan} of {spec.physical_network}{one_of}", same=not one_of)
                elif row["name"] == resource.name and row["project_id"] == self._project:
                    self._add(resource, row, f"the name {resource.name}", same=False)
            same = [one for one in self.found.get(resource.key, ()) if one.same]
            if len(same) == 1:
                self._ids[resource.key] = same[0].id

    def subnets(self, wanted: Sequence[Resource]) -> None:
        specs = [
            (r, r.spec) for r in wanted if isinstance(r.spec, SubnetSpec) and r.spec.network in self._ids
        ]
        networks = {self._ids[spec.network] for _, spec in specs}
        rows = self._others(
            _on(self._own, "subnets", networks, (*ALWAYS, "network_id", "cidr", "ip_version"))
        )
        for resource, spec in specs:
            block = IPv4Network(spec.cidr)
            for row in rows:
                if row["network_id"] != self._ids[spec.network] or row["ip_version"] != 4:
                    continue
                if row["cidr"] == spec.cidr:
                    self._add(resource, row, f"the CIDR {spec.cidr}")
                elif IPv4Network(row["cidr"]).overlaps(block):
                    self._add(resource, row, f"overlapping addresses ({row['cidr']})", same=False)

    def ports(self, wanted: Sequence[Resource]) -> None:
        specs = [(r, r.spec) for r in wanted if isinstance(r.spec, PortSpec) and r.spec.network in self._ids]
        networks = {self._ids[spec.network] for _, spec in specs}
        fields = (*ALWAYS, "network_id", "mac_address", "fixed_ips", "dns_name", "device_id", "device_owner")
        rows: dict[str, list[Json]] = {}
        for row in self._others(_on(self._own, "ports", networks, fields)):
            rows.setdefault(row["network_id"], []).append(row)
        for resource, spec in specs:
            for row in rows.get(self._ids[spec.network], ()):
                used = f", as a port of {row['device_owner']} {row['device_id']}" if row["device_id"] else ""
                if row["mac_address"].lower() == spec.mac:
                    self._add(resource, row, f"the MAC address {spec.mac}{used}", same=not used)
                elif any(f["ip_address"] == spec.address for f in row["fixed_ips"]):
                    # A port that only reserves an address has no MAC address of its own.
                    same = spec.mac is None and not used
                    self._add(resource, row, f"the address {spec.address}{used}", same=same)
                elif spec.dns_name and host_name(str(row.get("dns_name") or "")) == spec.dns_name:
                    self._add(resource, row, f"the host name {spec.dns_name}", same=False)

    def named(self, wanted: Sequence[Resource], collection: str) -> None:
        if not wanted:
            return
        asked, path, only = (
            f"list {collection}",
            "/" + collection.replace("_", "-"),
            {"project_id": self._project},
        )
        rows = self._own.network.listing(asked, path, collection, {"fields": ALWAYS}, only=only)
        rows = self._others(rows)
        for resource in wanted:
            for row in (row for row in rows if row["name"] == resource.name):
                self._add(resource, row, f"the name {resource.name}")

    def flavors(self, wanted: Sequence[Resource]) -> None:
        if not wanted:
            return
        params = {"is_public": "None"}  # private ones too: their names must be unique as well
        rows = self._own.compute.listing("list flavors", "/flavors/detail", "flavors", params)
        for resource in wanted:
            for row in self._others([row for row in rows if row["name"] == resource.name]):
                mark, like = Mark.parse(row.get("description") or ""), f"the name {resource.name}"
                public = bool(row.get("os-flavor-access:is_public", True))
                one = Existing(
                    id=row["id"],
                    name=f"flavor {row['id']}",
                    project_id="",
                    like=like if public else f"{like}, and is private",
                    own=True,
                    same=public,
                    mark=mark,
                )
                self.found.setdefault(resource.key, []).append(one)

    def images(self, wanted: Sequence[Resource]) -> None:
        """Report images that don't exist, or that have properties set by someone else."""
        for resource in wanted:
            rows = images_named(self._own, resource.name)
            mine = [row for row in rows if row.get("owner") == self._project]
            if len(mine) == 1:
                continue
            then = "upload it there, once, or correct the site"
            has = f"{len(mine) or 'no'} active image{'' if len(mine) == 1 else 's'} of that name"
            if rows and not mine:
                has += f" ({rows[0]['id']} is of project {rows[0].get('owner')})"
            where = f"project {self._project} of weft's service user, for {resource.name},"
            one = Existing("", where, "", has, own=False, same=False, then=then)
            self.found.setdefault(resource.key, []).append(one)

    def aggregates(self, wanted: Sequence[Resource]) -> None:
        for resource, one in aggregates.alike(self._own, wanted, self._known):
            self.found.setdefault(resource.key, []).append(one)

    def _others(self, rows: Sequence[Json]) -> list[Json]:
        """The rows without resources that weft has already, also under a key that is no longer desired."""
        return [row for row in rows if row["id"] not in self._known]

    def _add(self, resource: Resource, row: Json, like: str, same: bool = True) -> None:
        one = Existing(
            id=row["id"],
            name=row["name"],
            project_id=row["project_id"],
            like=like,
            own=row["project_id"] == self._project,
            same=same,
            mark=Mark.parse(row.get("description") or ""),
        )
        self.found.setdefault(resource.key, []).append(one)


def _on(
    own: Project,
    collection: str,
    things: Collection[str],
    fields: Sequence[str],
    by: str = "network_id",
    asked: str = "",
) -> list[Json]:
    """Rows of a collection that refer to these networks or other resources in the field `by`."""
    asked, only = asked or f"list {collection} on the site's networks", {by: sorted(things)}
    return own.network.listing(asked, f"/{collection}", collection, {"fields": fields}, only=only)
