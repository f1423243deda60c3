"""Uses of a project's routers and subnets by its VPN services, and how these are ended.

While one is there, Neutron refuses to delete the router, the subnet, and the router's interface on the subnet
(neutron-vpnaas, `db.vpn.vpn_db`: `check_router_in_use`, `check_subnet_in_use` and its sibling for endpoint groups).
A service, or a group of endpoints, is itself refused while a site connection uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from weft.drivers.openstack.session import Project
from weft.model.kinds import Kind
from weft.model.uses import Use

VPN, GROUPS = "vpnaas", "vpn-endpoint-groups"
"""Neutron's extensions: services and connections; groups of endpoints."""
_CONNECTION_BY = {"vpn_service": "vpnservice_id", "vpn_endpoint_group": "local_ep_group_id"}
PATHS = {"vpn_service": "/vpn/vpnservices", "vpn_endpoint_group": "/vpn/endpoint-groups"}
Remove = Callable[[str], object]


def of_routers(project: Project, routers: Collection[str]) -> list[Use]:
    """VPN services of these routers. Only for a Neutron with `VPN`."""
    fields = {"fields": ("id", "name", "project_id", "router_id")}
    only = {"router_id": sorted(routers)}
    rows = project.network.listing(
        "list VPN services", PATHS["vpn_service"], "vpnservices", fields, only=only
    )
    return [
        Use("vpn_service", r["id"], Kind.ROUTER, r["router_id"], r["name"], r["project_id"]) for r in rows
    ]


def on_subnets(
    project: Project, extensions: Collection[str], of: Kind, by_subnet: dict[str, str]
) -> list[Use]:
    """VPN services and groups of endpoints on these subnets.

    Args:
        extensions: Neutron's, by alias.
        of: kind of what is used: the subnets, or their networks.
        by_subnet: id of a subnet -> id of what is used.
    """
    found: list[Use] = []
    if not by_subnet:
        return found
    if VPN in extensions:
        fields = {"fields": ("id", "name", "project_id", "subnet_id")}
        only = {"subnet_id": sorted(by_subnet)}
        asked, path = "list VPN services on subnets", PATHS["vpn_service"]
        for row in project.network.listing(asked, path, "vpnservices", fields, only=only):
            on = by_subnet[row["subnet_id"]]
            found.append(Use("vpn_service", row["id"], of, on, row["name"], row["project_id"]))
    if GROUPS in extensions:
        fields = {"fields": ("id", "name", "project_id", "endpoints")}
        asked, path = "list VPN endpoint groups", PATHS["vpn_endpoint_group"]
        # Groups can't be listed by their endpoints, nor by their type: Neutron ignores that filter.
        for row in project.network.listing(asked, path, "endpoint_groups", fields):
            used = dict.fromkeys(by_subnet[e] for e in row["endpoints"] if e in by_subnet)
            found += [
                Use("vpn_endpoint_group", row["id"], of, on, row["name"], row["project_id"]) for on in used
            ]
    return found


def end(project: Project, use: Use, remove: Remove) -> None:
    """End a use with its site connections. Raises the error.

    Args:
        project: of the service or group.
        remove: deletes what a path names.
    """
    by = _CONNECTION_BY[use.kind]
    asked, path = (
        f"list site connections of {use.kind.replace('_', ' ')} {use.id}",
        "/vpn/ipsec-site-connections",
    )
    fields = {"fields": ("id", by)}
    for row in project.network.listing(asked, path, "ipsec_site_connections", fields, only={by: [use.id]}):
        remove(f"{path}/{row['id']}")
    remove(f"{PATHS[use.kind]}/{use.id}")
