"""Ports, subnets and shares of an owner's networks, listed once for all who observe the owner at the same time: whether
its own are as wanted, and what else is there.

A network's owner is shown all ports on it, other projects' too (`weft.drivers.openstack.uses`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.ports.listings import SharedListings

ALWAYS = ("id", "name", "description", "project_id", "created_at")
"""Fields of all of Neutron's resources."""
PORT = (
    "network_id",
    "fixed_ips",
    "mac_address",
    "status",
    "device_id",
    "device_owner",
    "security_groups",
    "port_security_enabled",
    "allowed_address_pairs",
    "binding:vnic_type",
    "binding:vif_type",
    "binding:host_id",
    "binding:profile",
    "binding:vif_details",
    "dns_name",
)
SUBNET = ("network_id", "cidr", "gateway_ip", "enable_dhcp", "allocation_pools", "dns_nameservers")
LARGE = 128
"""Number of an owner's resources from which the ports of each network are listed separately, in parallel: Neutron
spends more time on each port than on each request, and its API has several processes."""


def ports_on(
    project: Project,
    networks: Collection[str],
    listings: SharedListings,
    spread: Callable[[Callable[[Collection[str]], list[Json]], list[list[str]]], Iterable[list[Json]]] = map,
) -> list[Json]:
    """All ports on these networks, of any project. Raises `UnknownError`.

    Args:
        spread: `map`, for the listings of a large owner.
    """
    ids = sorted(networks)
    parts = [[one] for one in ids] if listings.size >= LARGE else [ids]
    found = spread(lambda part: _on(project, "ports", PORT, part, listings), parts)
    return [row for rows in found for row in rows]


def subnets_on(project: Project, networks: Collection[str], listings: SharedListings) -> list[Json]:
    """All subnets of these networks. Raises `UnknownError`."""
    return _on(project, "subnets", SUBNET, networks, listings)


def shares_of(
    project: Project, shared: Collection[str], kind: str = "network", listings: SharedListings | None = None
) -> list[Json]:
    """Neutron's RBAC policies for these networks or other resources, created by a project. Raises `UnknownError`."""
    ids, asked = sorted(shared), f"list shares of {kind}s"

    def ask() -> list[Json]:
        only = {"object_type": kind, "object_id": ids}
        return project.network.listing(asked, "/rbac-policies", "rbac_policies", only=only)

    return ask() if listings is None else listings.once((asked, project.project_id, *ids), ask)


def _on(
    project: Project, what: str, fields: Sequence[str], networks: Collection[str], listings: SharedListings
) -> list[Json]:
    ids, asked = sorted(networks), f"list {what} on networks"
    params = {"fields": (*ALWAYS, *fields)}

    def ask() -> list[Json]:
        return project.network.listing(asked, f"/{what}", what, params, only={"network_id": ids})

    return listings.once((asked, project.project_id, *ids), ask) if ids else []
