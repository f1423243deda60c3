"""Uses of weft's resources in Neutron, by anyone, and how a use is ended.

A network's owner sees, and may remove, all ports on it, including other projects' (Neutron's policies `get_port` and
`delete_port`: NET_OWNER; `_port_filter_hook` of its database); only the owner can create subnets and shares
of it. A security group that is shared by RBAC may have ports of other projects on networks of their own,
which only weft's policies show. Anyone who sees a port can make it a trunk's parent or subport (neutron,
`services.trunk.validators`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from weft.drivers.openstack import vpnuses
from weft.drivers.openstack.filters import Filters
from weft.drivers.openstack.forwardings import end_forwardings
from weft.drivers.openstack.onnetworks import ports_on, shares_of, subnets_on
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError, WeftError
from weft.model.kinds import Kind
from weft.model.uses import MOST_SHOWN, ROUTER_INTERFACES, ROUTER_PORTS, SUBPORT, Use
from weft.ports.listings import SharedListings

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_THE_CLOUDS: Mapping[str, str] = {
    "network:dhcp": rf"dhcp{_UUID}-{{network}}(?:-[0-9]{{1,8}})?|ovnmeta-{{network}}|reserved_dhcp_port",
    "network:distributed": r"ovnmeta-{network}",
}
"""Owner of ports of the cloud's own agents (DHCP, metadata) -> pattern of their `device_id`. These Neutron deletes with
their network and subnet. Every other owner that begins with `network:` may have been written by the network's owner
(`create_port:device_owner`), and such a port keeps both from being deleted."""
NEUTRONS = "network:"
"""Prefix of owners of ports that are Neutron's own."""
_PORT = ("id", "name", "network_id", "project_id", "device_owner", "device_id")
_TRUNKS = "trunk"


def on_networks(
    project: Project, networks: Collection[str], listings: SharedListings | None = None
) -> list[Use]:
    """Uses of networks: ports, subnets and shares. Args: listings: shared with others who observe the owner now."""
    if not networks:
        return []
    ids = sorted(networks)
    if listings is None:
        ports = _ports(project, {"network_id": ids}, "list ports on networks")
        fields = {"fields": ("id", "name", "network_id", "project_id")}
        asked = "list subnets on networks"
        rows = project.network.listing(asked, "/subnets", "subnets", fields, only={"network_id": ids})
    else:
        ports, rows = ports_on(project, ids, listings), subnets_on(project, ids, listings)
    found = [_port(row, Kind.NETWORK, row["network_id"]) for row in _not_the_clouds(ports)]
    found += [Use("subnet", r["id"], Kind.NETWORK, r["network_id"], r["name"], r["project_id"]) for r in rows]
    networks_of = {r["id"]: r["network_id"] for r in rows}
    if networks_of:
        found += vpnuses.on_subnets(
            project, project.extensions.of(project.network), Kind.NETWORK, networks_of
        )
    return [*found, *_shares(project, Kind.NETWORK, ids, listings)]


def in_groups(project: Project, groups: Collection[str]) -> list[Use]:
    """Uses of security groups: ports of all projects, and shares."""
    if not groups:
        return []
    own = project.own()
    rows = _ports(
        own, {"security_groups": sorted(groups)}, "list ports in security groups", "security_groups"
    )
    found = [
        _port(row, Kind.SECURITY_GROUP, group)
        for row in rows
        for group in sorted(set(row["security_groups"]).intersection(groups))
    ]
    return [*found, *_shares(project, Kind.SECURITY_GROUP, groups)]


def of_ports(project: Project, ports: Collection[str]) -> list[Use]:
    """Uses of ports: trunks that have them as parent or subport, and floating IPs."""
    if not ports:
        return []
    ids = sorted(ports)
    found = _floating_ips(project.own(), Kind.PORT, "port_id", ids)
    if _TRUNKS not in project.extensions.of(project.network):
        return found
    fields = {"fields": ("id", "name", "project_id", "port_id")}
    asked = "list trunks of ports"
    rows = project.network.listing(asked, "/trunks", "trunks", fields, only={"port_id": ids})
    found += [Use("trunk", r["id"], Kind.PORT, r["port_id"], r["name"], r["project_id"]) for r in rows]
    # A subport names its trunk: trunks can't be listed by their subports.
    for row in _ports(project, {"id": ids}, "look for subports"):
        if row["device_owner"] == SUBPORT:
            found.append(
                Use("trunk", row["device_id"], Kind.PORT, row["id"], "", row["project_id"], owner=SUBPORT)
            )
    return found


def of_routers(project: Project, routers: Collection[str]) -> list[Use]:
    """Uses of routers: interfaces, VPN services, and floating IPs."""
    if not routers:
        return []
    own, ids = project.own(), sorted(routers)
    rows = _ports(own, {"device_id": ids}, "list interfaces of routers")
    found = [
        _port(row, Kind.ROUTER, row["device_id"]) for row in rows if row["device_owner"] in ROUTER_INTERFACES
    ]
    if vpnuses.VPN in project.extensions.of(project.network):
        found += vpnuses.of_routers(project, ids)
    return [*found, *_floating_ips(own, Kind.ROUTER, "router_id", ids)]


def on_subnets(project: Project, subnets: Collection[str]) -> list[Use]:
    """Uses of subnets: ports with addresses on them, and VPN services."""
    if not subnets:
        return []
    found = vpnuses.on_subnets(
        project, project.extensions.of(project.network), Kind.SUBNET, {s: s for s in subnets}
    )
    for subnet in sorted(subnets):
        rows = _ports(project, {"fixed_ips": f"subnet_id={subnet}"}, "list ports of a subnet")
        found += [_port(row, Kind.SUBNET, subnet) for row in _not_the_clouds(rows)]
    return found


USES: Mapping[Kind, Callable[[Project, Collection[str]], list[Use]]] = {
    Kind.NETWORK: on_networks,
    Kind.SECURITY_GROUP: in_groups,
    Kind.PORT: of_ports,
    Kind.ROUTER: of_routers,
    Kind.SUBNET: on_subnets,
}


def in_the_way(project: Project, kind: Kind, thing_id: str) -> list[Use]:
    """What uses one resource. The first uses by the project's own servers have these servers' names. Raises
    `UnknownError`."""
    found = USES[kind](project, [thing_id]) if kind in USES else []
    # A share prevents no deletion, and weft itself removes a router's interfaces, on any network.
    found = [
        use
        for use in found
        if use.kind != "share" and not (kind is Kind.ROUTER and use.owner in ROUTER_INTERFACES)
    ]
    return [*(with_server(project, use) for use in found[:MOST_SHOWN]), *found[MOST_SHOWN:]]


def with_server(project: Project, use: Use) -> Use:
    """The use with its server's name, if the server is the project's own."""
    mine = project.project_id is not None and use.is_of(project.project_id)
    if not (mine and ID.fullmatch(use.device) and use.owner.startswith("compute:")):
        return use
    asked = f"read the name of server {use.device}"
    try:
        row = project.compute.item_or_absent(asked, f"/servers/{use.device}", "server", use.device)
    except WeftError:
        return use  # the use is reported without the name
    if row is None or row.get("tenant_id") != project.project_id:
        return use  # a port's owner may write any server's id there
    return replace(use, server=str(row.get("name") or ""))


def end_use(project: Project, theirs: Project | None, use: Use) -> None:
    """End a use; no error if it has ended already. Raises the error.

    Args:
        project: owner of the used resource.
        theirs: owner of the user; None: weft has no role there.
    """
    asked = f"remove {use.kind.replace('_', ' ')} {use.id} from {use.of.row.one} {use.on}"
    subport = use.kind == "port" and use.owner == SUBPORT
    for one in (use.id, use.device) if subport else (use.id,):
        if not ID.fullmatch(one):  # a port's owner may write anything as its device
            raise UnknownError(asked, "network", f"{one[:80]!r} isn't an id", "look at the port")
    eyes = theirs or project
    if use.kind == "port" and use.of is Kind.SECURITY_GROUP:
        _leave_group(eyes, asked, use)
    elif use.owner in ROUTER_INTERFACES and ID.fullmatch(use.device):  # anything else is no router's
        # Changing a router takes its owner's rights, whether the interface is on weft's router or on someone
        # else's.
        router = project if use.of is Kind.ROUTER else eyes
        path = f"/routers/{use.device}/remove_router_interface"
        if not _change(router, asked, path, {"port_id": use.id}, use) and use.of is not Kind.ROUTER:
            _delete_port(project, eyes, asked, use)  # of no router's: its owner wrote so
    elif use.kind == "floating_ip":
        if eyes.project_id == use.project_id:
            end_forwardings(eyes, use.id)
        _change(eyes, asked, f"/floatingips/{use.id}", {"floatingip": {"port_id": None}}, use)
    elif use.kind in vpnuses.PATHS:
        vpnuses.end(eyes, use, lambda path: _change(eyes, asked, path, None, use))
    elif use.kind == "trunk" and use.owner == SUBPORT:
        _change(eyes, asked, f"/trunks/{use.id}/remove_subports", {"sub_ports": [{"port_id": use.on}]}, use)
    elif use.kind == "trunk":
        _change(eyes, asked, f"/trunks/{use.id}", None, use)
    else:  # the owner of a network, or of a shared resource, may delete what is on it
        if subport:
            body = {"sub_ports": [{"port_id": use.id}]}
            _change(eyes, asked, f"/trunks/{use.device}/remove_subports", body, use)
        if use.kind == "port":
            _delete_port(project, eyes, asked, use)
            return
        path = {"subnet": "/subnets", "share": "/rbac-policies"}[use.kind]
        project.network.ask(asked, "DELETE", f"{path}/{use.id}", ok=(404,))


def _delete_port(project: Project, eyes: Project, asked: str, use: Use) -> None:
    if use.owner.startswith(NEUTRONS) and use.project_id == eyes.project_id:
        free_port(eyes, asked, use.id)
    project.network.ask(asked, "DELETE", f"/ports/{use.id}", ok=(404,))


def free_port(project: Project, asked: str, port_id: str) -> None:
    """Take a port from its device. While it has one of Neutron's routers or floating IPs, as the owner of its network
    may write, Neutron refuses to delete it (`l3_db.prevent_l3_port_deletion`)."""
    body = {"port": {"device_id": "", "device_owner": ""}}
    project.network.ask(asked, "PUT", f"/ports/{port_id}", json=body, ok=(404,))


def _change(
    eyes: Project,
    asked: str,
    path: str,
    body: Json | None,
    use: Use,
    headers: Mapping[str, str] | None = None,
) -> bool:
    """PUT the body, or DELETE without one; returns whether it was there. Neutron answers 404 to a project without
    rights over the resource: that doesn't end a use, unless the resource is the project's own router."""
    method = "DELETE" if body is None else "PUT"
    answer = eyes.network.ask(asked, method, path, json=body, headers=headers, ok=(404,))
    own_router = use.of is Kind.ROUTER and use.owner in ROUTER_INTERFACES
    if answer.status == 404 and not own_router and eyes.project_id != use.project_id:
        raise _powerless(asked, use)
    return answer.status != 404


def _leave_group(eyes: Project, asked: str, use: Use) -> None:
    row = eyes.network.item_or_absent(asked, f"/ports/{use.id}", "port", use.id)
    if row is None:
        if eyes.project_id != use.project_id:
            raise _powerless(asked, use)
        return
    groups = [group for group in row["security_groups"] if group != use.on]
    if groups != row["security_groups"]:
        known = row.get("revision_number")  # its owner may be changing it as well
        headers = {} if known is None else {"If-Match": f"revision_number={known}"}
        _change(eyes, asked, f"/ports/{use.id}", {"port": {"security_groups": groups}}, use, headers)


def _powerless(asked: str, use: Use) -> UnknownError:
    seen = f"it is of project {use.project_id}, in which weft's user has no role"
    return UnknownError(asked, "network", seen, "its members remove it, or an administrator does")


def _ports(project: Project, only: Filters, asked: str, *more: str) -> list[Json]:
    return project.network.listing(asked, "/ports", "ports", {"fields": (*_PORT, *more)}, only=only)


def _port(row: Json, of: Kind, on: str) -> Use:
    return Use(
        "port",
        row["id"],
        of,
        on,
        row["name"],
        row["project_id"],
        row["device_owner"],
        row["device_id"],
        row["network_id"],
    )


def _not_the_clouds(rows: Sequence[Json]) -> list[Json]:
    """The ports without those of the cloud's agents, and without those that a router has in addition to its
    interface."""
    joined = {
        (row["network_id"], row["device_id"]) for row in rows if row["device_owner"] in ROUTER_INTERFACES
    }
    beside = ROUTER_PORTS - ROUTER_INTERFACES
    return [
        row
        for row in rows
        if not _is_the_clouds(row)
        and not (row["device_owner"] in beside and (row["network_id"], row["device_id"]) in joined)
    ]


def _is_the_clouds(row: Json) -> bool:
    pattern = _THE_CLOUDS.get(row["device_owner"])
    if pattern is None:
        return False
    return (
        re.fullmatch(pattern.replace("{network}", re.escape(row["network_id"])), row["device_id"]) is not None
    )


def _floating_ips(own: Project, of: Kind, by: str, ids: Sequence[str]) -> list[Use]:
    fields = {"fields": ("id", "floating_ip_address", "project_id", by)}
    rows = own.network.listing("list floating IPs", "/floatingips", "floatingips", fields, only={by: ids})
    return [Use("floating_ip", r["id"], of, r[by], r["floating_ip_address"], r["project_id"]) for r in rows]


def _shares(
    project: Project, kind: Kind, ids: Collection[str], listings: SharedListings | None = None
) -> Iterable[Use]:
    for row in shares_of(project, ids, kind.value, listings):
        yield Use("share", row["id"], kind, row["object_id"], "", row["target_tenant"])
