"""Kayobe's networks and the interfaces of hosts on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.model.site import DeploymentRole, SiteNetwork
from weft.planning.export.text import identifier
from weft.planning.export.view import CloudView

Variables = dict[str, Any]


def described(view: CloudView) -> list[str]:
    """Networks of the site that hosts are on, and that of their BMCs."""
    used: set[str] = {name for role in view.roles.values() for name in role.interfaces}
    bmcs = view.network_with("bmc")
    return sorted(used if bmcs is None else used | {bmcs})


def networks(view: CloudView) -> Variables:
    """networks.yml: which networks there are, and what each is for."""
    one, provisioning = view.deployment, view.network_with("provisioning")
    assert provisioning is not None
    internal = view.network_at(one.internal_vip)
    found: Variables = {
        "provision_oc_net_name": identifier(provisioning),
        "oob_oc_net_name": _named(view.network_with("bmc")),
        "internal_net_name": identifier(internal),
        "public_net_name": identifier(view.network_at(one.external_vip)),
        "external_net_names": [bridged(p) for p in physical_networks(view)],
        "tunnel_net_name": identifier(view.network_with("tenant") or internal),
        "storage_net_name": _named(view.network_with("storage")),
        "storage_mgmt_net_name": None,
    }
    if view.has_machines:
        found |= {f"{use}_net_name": identifier(provisioning) for use in ("provision_wl", "inspection")}
    for name in described(view):
        found |= _network(view, name, view.networks[name])
    for physical in physical_networks(view):
        found |= {f"{bridged(physical)}_physical_network": physical, f"{bridged(physical)}_no_ip": True}
        if view.has_large_packets(physical):
            found[f"{bridged(physical)}_mtu"] = view.mtus[physical]
    return found


def _network(view: CloudView, name: str, network: SiteNetwork) -> Variables:
    """A network's attributes; those of its first subnet, since Kayobe has one on each."""
    prefix, subnet = identifier(name), next(iter(network.subnets.values()))
    found: Variables = {f"{prefix}_cidr": str(subnet.addresses), f"{prefix}_mtu": network.mtu}
    if subnet.pool is not None:
        found[f"{prefix}_allocation_pool_start"] = str(subnet.pool.first)
        found[f"{prefix}_allocation_pool_end"] = str(subnet.pool.last)
    if name == view.network_with("provisioning"):
        inspection = view.deployment.inspection
        assert inspection is not None
        found[f"{prefix}_inspection_allocation_pool_start"] = str(inspection.first)
        found[f"{prefix}_inspection_allocation_pool_end"] = str(inspection.last)
        if view.has_machines:
            found[f"{prefix}_physical_network"] = network.physical_network
    return found


def allocation(view: CloudView) -> Variables:
    """network-allocation.yml: addresses that the site has; Kayobe picks the others of the pools."""
    names = {host.name: host.nova_host for hosts in view.hosts.values() for host in hosts}
    seed = view.deployment.seed
    assert seed is not None
    names[seed] = seed
    found: dict[str, dict[str, str]] = {f"{identifier(name)}_ips": {} for name in described(view)}
    for row in sorted(view.site.interfaces, key=lambda i: (i.network, int(i.address))):
        ips = found.get(f"{identifier(row.network)}_ips")
        if ips is not None and row.device in names:
            ips.setdefault(names[row.device], str(row.address))
    return {name: ips for name, ips in found.items() if ips}


def role_networks(view: CloudView, role: DeploymentRole) -> Variables:
    """A role's interfaces, in Kayobe's words; the host's default route goes by one of them."""
    bridges = {bridged(p): interface for p, interface in sorted(role.bridges.items())}
    used = {identifier(n): interface for n, interface in role.interfaces.items()}
    bonds = {bond: _bond(role, bond) for bond in role.bonds}
    found: Variables = {"network_interfaces": list(dict.fromkeys([*bonds.values(), *used, *bridges]))}
    for bond, name in bonds.items():
        found |= {f"{name}_interface": bond, f"{name}_bond_slaves": list(role.bonds[bond])}
        if name not in used and name not in bridges:
            found[f"{name}_no_ip"] = True
    for name, interface in (used | bridges).items():
        found[f"{name}_interface"] = interface
    for name, interface in role.interfaces.items():
        vlan = view.networks[name].vlan
        if vlan is not None and interface.endswith(f".{vlan}"):
            found[f"{identifier(name)}_vlan"] = vlan
    return found | _default_route(view, role.interfaces)


def _bond(role: DeploymentRole, bond: str) -> str:
    """The network by which Kayobe configures a bond: one that is on it untagged, or one of its own."""
    for physical, interface in role.bridges.items():
        if interface == bond:
            return bridged(physical)
    return next((identifier(n) for n, i in role.interfaces.items() if i == bond), f"{identifier(bond)}_net")


def _default_route(view: CloudView, names: Iterable[str]) -> Variables:
    """The gateway of one of a host's networks: the public one's, or that of the first other network with one."""
    public = view.network_at(view.deployment.external_vip)
    for name in sorted(names, key=lambda n: (n != public, n)):
        gateway = next(iter(view.networks[name].subnets.values())).gateway
        if gateway is not None:
            return {f"{identifier(name)}_gateway": str(gateway)}
    return {}


def seed_variables(view: CloudView) -> Variables:
    """The seed's interfaces, as its rows have them, and its default route."""
    used = set(described(view)) - {view.network_with("bmc")}
    rows = [i for i in view.site.interfaces if i.device == view.deployment.seed and i.network in used]
    names = {identifier(row.network): row.name for row in sorted(rows, key=lambda r: r.network)}
    found: Variables = {"network_interfaces": list(names)}
    found |= {f"{name}_interface": interface for name, interface in names.items()}
    return found | _default_route(view, [row.network for row in rows])


def physical_networks(view: CloudView) -> list[str]:
    """Physical networks of the cloud with bridges, sorted."""
    return sorted({p for role in view.roles.values() for p in role.bridges})


def bridged(physical_network: str) -> str:
    """Name of the network that represents a bridge; it has no addresses."""
    return f"physnet_{identifier(physical_network)}"


def _named(network: str | None) -> str | None:
    return None if network is None else identifier(network)
