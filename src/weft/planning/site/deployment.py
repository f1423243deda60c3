"""Checks of how clouds are deployed: roles, addresses of the APIs, interfaces, CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from weft.model.fabrictypes import FabricKind
from weft.model.ids import FULL_MEMBER
from weft.model.site import BOOTABLE, Deployment, DeploymentRole, Node, Site, SiteNetwork, SubnetRole, cpus_of
from weft.planning.fabric.topology import natural
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, known

Path = tuple[str | int, ...]

LOCAL_DOMAINS = frozenset({"default", "service", "heat"})
"""Keystone domains of service accounts and of the tools."""


def check_deployments(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with the clouds' `deployment`."""
    for name, cloud in site.clouds.items():
        if cloud.deployment is not None:
            yield from _deployment(site, name, cloud.deployment, ("clouds", name, "deployment"))


def networks_of(site: Site, cloud: str) -> dict[str, SiteNetwork]:
    """The cloud's networks by name."""
    return {n: net for n, net in sorted(site.networks.items()) if net.cloud == cloud}


def networks_with(site: Site, cloud: str, role: SubnetRole) -> tuple[str, ...]:
    """Names of the cloud's networks that have a subnet with this role."""
    return tuple(
        n for n, net in networks_of(site, cloud).items() if any(s.role == role for s in net.subnets.values())
    )


def network_at(site: Site, cloud: str, address: IPv4Address) -> str | None:
    """Name of the cloud's network that an address is in."""
    return next(
        (
            n
            for n, net in networks_of(site, cloud).items()
            if any(address in s.addresses for s in net.subnets.values())
        ),
        None,
    )


def hosts_of(site: Site, cloud: str, role: DeploymentRole) -> tuple[Node, ...]:
    """A role's hosts in natural order, without machines that Ironic manages."""
    if role.nodes:
        wanted = frozenset(role.nodes)
        found = [n for n in site.nodes if n.name in wanted]
    else:
        deployment = site.clouds[cloud].deployment
        named = {n for r in deployment.roles.values() for n in r.nodes} if deployment else set[str]()
        found = [
            n
            for n in site.nodes
            if n.role in BOOTABLE and n.cloud == cloud and n.machine is None and n.name not in named
        ]
    return tuple(sorted(found, key=lambda n: natural(n.name)))


def _deployment(site: Site, cloud: str, one: Deployment, path: Path) -> Iterator[WrongValue]:
    yield from _vips(site, cloud, one, path)
    yield from _roles(site, cloud, one, path)
    for name, role in one.roles.items():
        yield from _role(site, cloud, role, (*path, "roles", name))
    types = {a.type for n in site.nodes if n.cloud == cloud for a in n.accelerators}
    ids = UniqueValues("vendor and product")
    for name, device in one.devices.items():
        yield from known((*path, "devices", name), name, types, f"types of accelerators of cloud {cloud}")
        identity = f"{device.vendor_id}:{device.product_id}"
        yield from ids.check(identity, f"devices.{name}", (*path, "devices", name, "product_id"))
    for name, domain in one.ldap_domains.items():
        if name.lower() in LOCAL_DOMAINS:
            allowed = f"another name: {', '.join(sorted(LOCAL_DOMAINS))} are local domains of Keystone"
            yield (*path, "ldap_domains", name), name, allowed
        if len({u.partition(":")[0] for u in domain.url.split(",")}) > 1:
            yield (
                (*path, "ldap_domains", name, "url"),
                domain.url,
                "all servers with ldaps://, or all with ldap://",
            )
    if one.sdn_url is None and one.weft_url is None and _serves_tenant_networks(site):
        allowed = "weft's address: a fabric has tenant_networks, and Neutron must notify weft of these"
        yield (*path, "weft_url"), None, allowed
    services = {n.name for n in site.nodes if n.role == "service"}
    yield from known((*path, "seed"), one.seed, services, "nodes with role service")
    if one.seed is not None and any(one.seed in r.nodes for r in one.roles.values()):
        yield (*path, "seed"), one.seed, "a node in no role: hosts are installed from it"
    yield from _inspection(site, cloud, one, path)


def _serves_tenant_networks(site: Site) -> bool:
    return any(f.tenant_networks for f in site.fabrics.values())


def _vips(site: Site, cloud: str, one: Deployment, path: Path) -> Iterator[WrongValue]:
    """Each address of the APIs is on a network that the load balancer's hosts are on, and is used by nothing else."""
    taken = {i.address: f"{i.device}/{i.name}" for i in site.interfaces}
    for field in ("internal_vip", "external_vip"):
        address: IPv4Address = getattr(one, field)
        name, inner = network_at(site, cloud, address), (*path, field)
        if name is None:
            yield inner, str(address), f"an address in a subnet of a network of cloud {cloud}"
            continue
        for label, subnet in site.networks[name].subnets.items():
            if address not in subnet.addresses:
                continue
            if (field == "internal_vip") != (subnet.role == "internal-api"):
                allowed = (
                    "with the role internal-api"
                    if field == "internal_vip"
                    else "of another role than internal-api"
                )
                yield (
                    inner,
                    str(address),
                    f"an address in a subnet {allowed}; {label} has the role {subnet.role}",
                )
            if address in (subnet.addresses[0], subnet.addresses[-1], subnet.gateway):
                yield inner, str(address), f"an address for a host in {subnet.addresses}, not its gateway"
            if subnet.pool is not None and address in subnet.pool:
                yield inner, str(address), f"an address outside the pool of subnet {label} ({subnet.pool})"
        if address in taken:
            yield inner, str(address), f"an unused address; {taken[address]} has it"
        for role, value in one.roles.items():
            if "network" in value.functions and name not in value.interfaces:
                allowed = (
                    f"the interface on {name}, where {field} is: hosts with function network have it in turn"
                )
                yield (*path, "roles", role, "interfaces"), None, allowed


def _roles(site: Site, cloud: str, one: Deployment, path: Path) -> Iterator[WrongValue]:
    path = (*path, "roles")
    for function in ("control", "network", "compute"):
        if not any(function in r.functions for r in one.roles.values()):
            yield path, ", ".join(sorted(one.roles)), f"a role with function {function}"
    names = UniqueValues("a role's name", lambda v: str(v).casefold())
    hosts = UniqueValues("a host's role")
    rest: str | None = None
    for name, role in one.roles.items():
        yield from names.check(name, f"role {name}", (*path, name))
        for i, node in enumerate(role.nodes):
            yield from hosts.check(node, f"role {name}", (*path, name, "nodes", i))
        if role.nodes:
            continue
        if role.functions != ("compute",):
            yield (*path, name, "nodes"), None, "required for functions other than compute"
        elif rest is not None:
            yield (*path, name, "nodes"), None, f"names of its hosts: {rest} has all that no other role names"
        elif not hosts_of(site, cloud, role):
            yield (
                (*path, name, "nodes"),
                None,
                f"names of its hosts: cloud {cloud} has none that no other role names",
            )
        rest = rest or name
    control = {n for r in one.roles.values() if "control" in r.functions for n in r.nodes}
    if control and not len(control) % 2:
        allowed = "an odd number of hosts with function control: Galera and RabbitMQ need a majority"
        yield path, len(control), allowed


def _role(site: Site, cloud: str, role: DeploymentRole, path: Path) -> Iterator[WrongValue]:
    by_name = site.node_by_name
    for i, name in enumerate(role.nodes):
        inner = (*path, "nodes", i)
        node = by_name.get(name)
        if node is None:
            yield inner, name, "a node of the site"
        elif node.machine is not None:
            yield inner, name, "a node without `machine`: Ironic gives whole machines to tenants"
        elif node.cloud not in (None, cloud):
            yield inner, name, f"a node of cloud {cloud}; it is one of {node.cloud}"
        elif "compute" in role.functions and node.role not in BOOTABLE:
            yield inner, name, f"a node that servers are booted on; its role is {node.role}"
        elif "compute" not in role.functions and node.role != "service":
            yield inner, name, f"a node with role service; its role is {node.role}"
    for i, function in enumerate(role.functions):
        if function in role.functions[:i]:
            yield (*path, "functions", i), function, "each function once"
    yield from _interfaces(site, cloud, role, path)
    yield from _adapters(site, cloud, role, path)
    yield from _cpus(role, path)


def _interfaces(site: Site, cloud: str, role: DeploymentRole, path: Path) -> Iterator[WrongValue]:
    used = UniqueValues("an interface")
    mine = networks_of(site, cloud)
    for name, interface in role.interfaces.items():
        inner = (*path, "interfaces", name)
        yield from known(inner, name, mine, f"networks of cloud {cloud}")
        yield from used.check(interface, f"network {name}", inner)
        if name in mine:
            yield from _number(site, mine[name], interface, inner)
    for api in networks_with(site, cloud, "internal-api"):
        if api not in role.interfaces:
            yield (*path, "interfaces"), None, f"the interface on {api}, which services talk over"
    physical = {n.physical_network for n in mine.values()} | {
        f.physical_network for f in site.fabrics.values()
    }
    if (vlans := site.clouds[cloud].management.vlans) is not None:
        physical.add(vlans[0])
    for name, interface in role.bridges.items():
        yield from known((*path, "bridges", name), name, physical, "physical networks of the site")
        yield from used.check(interface, f"the bridge of {name}", (*path, "bridges", name))


def _number(site: Site, network: SiteNetwork, interface: str, path: Path) -> Iterator[WrongValue]:
    """The suffix after a dot is the network's VLAN; on InfiniBand the P_Key in hex with the top bit, as the kernel
    names it."""
    _, dot, number = interface.partition(".")
    if not dot:
        return
    kinds = {f.physical_network: f.type for f in site.fabrics.values()}
    hexadecimal = kinds.get(network.physical_network) is FabricKind.INFINIBAND
    if network.vlan is None:
        yield path, interface, "an interface without a dot: the network has no vlan"
        return
    wanted = f"{network.vlan | FULL_MEMBER:x}" if hexadecimal else str(network.vlan)
    if number != wanted:
        yield path, interface, f"a name that ends with .{wanted}, of the network's vlan {network.vlan}"


def _adapters(site: Site, cloud: str, role: DeploymentRole, path: Path) -> Iterator[WrongValue]:
    hosts = hosts_of(site, cloud, role)
    names = {h.name for n in hosts for h in n.hcas}
    used = UniqueValues("an adapter's interface")
    for name, interface in role.adapters.items():
        inner = (*path, "adapters", name)
        yield from known(inner, name, names, "adapters of its hosts")
        yield from used.check(interface, f"adapter {name}", inner)
    if "compute" in role.functions:
        for name in sorted(names - role.adapters.keys(), key=natural):
            allowed = f"the interface of {name}: an adapter with the host's own networks isn't a tenant's"
            yield (*path, "adapters"), None, allowed
    parents = {i.partition(".")[0] for i in (*role.interfaces.values(), *role.bridges.values())}
    for bond in role.bonds:
        yield from known((*path, "bonds", bond), bond, parents, "interfaces of `interfaces` and `bridges`")


def _cpus(role: DeploymentRole, path: Path) -> Iterator[WrongValue]:
    if role.cpu_dedicated_set is not None and role.cpu_shared_set is not None:
        both = cpus_of(role.cpu_dedicated_set) & cpus_of(role.cpu_shared_set)
        if both:
            allowed = f"CPUs that aren't in cpu_dedicated_set; {min(both)} is in both"
            yield (*path, "cpu_shared_set"), role.cpu_shared_set, allowed
    if "compute" not in role.functions:
        for field in ("cpu_dedicated_set", "cpu_shared_set", "reserved_memory_mib"):
            if (value := getattr(role, field)) is not None:
                yield (*path, field), value, "only for roles with function compute"


def _inspection(site: Site, cloud: str, one: Deployment, path: Path) -> Iterator[WrongValue]:
    if one.inspection is None:
        return
    inner, (first, last) = (*path, "inspection"), (one.inspection.first, one.inspection.last)
    subnets = [
        (label, s)
        for net in networks_of(site, cloud).values()
        for label, s in net.subnets.items()
        if s.role == "provisioning"
    ]
    fits = [(label, s) for label, s in subnets if first in s.addresses and last in s.addresses]
    if first > last:
        yield inner, str(one.inspection), "addresses from the lower to the higher"
    elif not fits:
        yield inner, str(one.inspection), "addresses in a subnet with the role provisioning"
    for label, subnet in fits:
        if subnet.pool is not None and first <= subnet.pool.last and subnet.pool.first <= last:
            yield inner, str(one.inspection), f"addresses outside the pool of subnet {label} ({subnet.pool})"
