"""Parts of the site's resources in the cloud that have ids of their own: rules, shares, interfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.drivers.openstack.onnetworks import shares_of
from weft.drivers.openstack.security_group import COMPARED
from weft.drivers.openstack.session import Project, Sessions
from weft.model.resources import Kind, Resource
from weft.model.uses import ROUTER_INTERFACES
from weft.ports.existing import ResourcePart


def parts_of(sessions: Sessions, wanted: Sequence[Resource], ids: Mapping[str, str]) -> list[ResourcePart]:
    """Parts of those of the desired resources that have an id. Raises `UnknownError`.

    Args:
        ids: key -> id.
    """
    own = sessions.own()
    of_kind = {
        kind: [ids[r.key] for r in wanted if r.kind is kind and r.key in ids]
        for kind in (Kind.NETWORK, Kind.SECURITY_GROUP, Kind.ROUTER)
    }
    return [
        *_shares(own, of_kind[Kind.NETWORK], "network"),
        *_shares(own, of_kind[Kind.SECURITY_GROUP], "security_group"),
        *_rules(own, of_kind[Kind.SECURITY_GROUP]),
        *_interfaces(own, of_kind[Kind.ROUTER]),
    ]


def _shares(own: Project, shared: Sequence[str], kind: str) -> Iterator[ResourcePart]:
    for row in shares_of(own, shared, kind) if shared else ():
        if row["action"] == "access_as_shared":  # Neutron itself shares external networks with all projects
            fields = {name: row[name] for name in ("action", "target_tenant")}
            yield ResourcePart("share", row["object_id"], row["id"], fields)


def _rules(own: Project, groups: Sequence[str]) -> Iterator[ResourcePart]:
    fields = ("id", "security_group_id", *COMPARED)
    asked, only = "list rules of the site's security groups", {"security_group_id": groups}
    path, params = "/security-group-rules", {"fields": fields}
    for row in own.network.listing(asked, path, "security_group_rules", params, only=only):
        known = {name: row[name] for name in COMPARED if row.get(name) is not None}
        yield ResourcePart("rule", row["security_group_id"], row["id"], known)


def _interfaces(own: Project, routers: Sequence[str]) -> Iterator[ResourcePart]:
    fields = ("id", "device_id", "device_owner", "fixed_ips")
    asked, only = "list interfaces of the site's routers", {"device_id": routers}
    for row in own.network.listing(asked, "/ports", "ports", {"fields": fields}, only=only):
        if row["device_owner"] in ROUTER_INTERFACES:
            for fixed in row["fixed_ips"]:
                yield ResourcePart(
                    "interface", row["device_id"], row["id"], {"subnet_id": fixed["subnet_id"]}
                )
