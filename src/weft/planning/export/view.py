"""What all formats read from a site: the cloud's hosts by role, its networks, fabrics and devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address

from weft.model.errors import InputError, InputErrors
from weft.model.fabrictypes import FabricKind
from weft.model.site import (
    Cloud,
    Deployment,
    DeploymentRole,
    Fabric,
    Function,
    Interface,
    Node,
    Site,
    SiteNetwork,
    SiteSubnet,
    SubnetRole,
)
from weft.planning.export.text import identifier
from weft.planning.fabric.topology import natural
from weft.planning.site.deployment import hosts_of, network_at, networks_of, networks_with

TENANTS: frozenset[SubnetRole] = frozenset({"storage", "tenant"})
"""Roles of networks that may be for tenants only, with no host on them."""
USUAL_MTU = 1500
"""Default of Neutron's `global_physnet_mtu`, which refuses networks with a larger MTU."""


@dataclass(frozen=True)
class CloudView:
    """One cloud of a checked site that says how it is deployed."""

    site: Site
    name: str
    deployment: Deployment

    @property
    def cloud(self) -> Cloud:
        """The cloud in the site."""
        return self.site.clouds[self.name]

    @property
    def roles(self) -> dict[str, DeploymentRole]:
        """Role -> its hosts and functions."""
        return self.deployment.roles

    @cached_property
    def hosts(self) -> dict[str, tuple[Node, ...]]:
        """Role -> its hosts, in natural order."""
        return {name: hosts_of(self.site, self.name, role) for name, role in self.roles.items()}

    def roles_with(self, function: Function) -> tuple[str, ...]:
        """Names of the roles with a function."""
        return tuple(name for name, role in self.roles.items() if function in role.functions)

    @cached_property
    def networks(self) -> dict[str, SiteNetwork]:
        """The cloud's networks of the site, by name."""
        return networks_of(self.site, self.name)

    def network_with(self, role: SubnetRole) -> str | None:
        """Name of the hosts' network with this role: the first one that roles' `interfaces` name, or that a host's row
        in `interfaces` is on. Storage and tenant networks without a host don't count: they are for tenants only.
        """
        found = networks_with(self.site, self.name, role)
        for used in (self._roles_networks, self._hosts_networks):
            for name in found:
                if name in used:
                    return name
        return None if role in TENANTS else next(iter(found), None)

    @cached_property
    def _roles_networks(self) -> frozenset[str]:
        return frozenset(name for role in self.roles.values() for name in role.interfaces)

    @cached_property
    def _hosts_networks(self) -> frozenset[str]:
        names = {host.name for hosts in self.hosts.values() for host in hosts}
        return frozenset(i.network for i in self.site.interfaces if i.device in names)

    def subnet_with(self, role: SubnetRole) -> tuple[str, str, SiteSubnet] | None:
        """Network, name and subnet of the first one with this role."""
        name = self.network_with(role)
        if name is None:
            return None
        return next((name, label, s) for label, s in self.networks[name].subnets.items() if s.role == role)

    def network_at(self, address: IPv4Address) -> str:
        """Name of the network that an address of the APIs is in; the site's check has seen that there is one."""
        found = network_at(self.site, self.name, address)
        assert found is not None
        return found

    @cached_property
    def fabrics(self) -> dict[str, Fabric]:
        """Fabrics that hosts or bare-metal machines of the cloud have adapters on, by name."""
        hosts = [n for nodes in self.hosts.values() for n in nodes]
        hosts += [n for n in self.site.nodes if n.cloud == self.name]
        used = {h.fabric for n in hosts for h in n.hcas}
        used |= {p.data.fabric for p in self.site.ipu_pods.values() if p.cloud == self.name and p.data.fabric}
        return {name: fabric for name, fabric in sorted(self.site.fabrics.items()) if name in used}

    @property
    def has_machines(self) -> bool:
        """Whether Ironic is part of the cloud."""
        return any(n.machine for n in self.site.nodes if n.cloud == self.name)

    @cached_property
    def physical_networks(self) -> tuple[str, ...]:
        """Names of the physical networks that Neutron has networks on; `weft site apply` makes all that are described,
        including those that aren't shared."""
        found = {f.physical_network for f in self.fabrics.values()}
        found |= {p for role in self.roles.values() for p in role.bridges}
        found |= {n.physical_network for n in self.networks.values()}
        if (vlans := self.cloud.management.vlans) is not None:
            found.add(vlans[0])
        for pod in self.site.ipu_pods.values():
            if pod.cloud == self.name:
                found |= {p for p in (pod.data.physical_network, pod.gateway.physical_network) if p}
        return tuple(sorted(found, key=natural))

    @cached_property
    def mtus(self) -> dict[str, int]:
        """Physical network -> the largest packet that a network of the site, or of pods, has there; empty if Neutron's
        own default is enough for all of them."""
        wanted = [(n.physical_network, n.mtu) for n in self.networks.values()]
        wanted += [(f.physical_network, f.network_mtu or USUAL_MTU) for f in self.fabrics.values()]
        found = dict.fromkeys(self.physical_networks, USUAL_MTU)
        for name, mtu in wanted:
            found[name] = max(found[name], mtu)
        return found if max(found.values(), default=0) > USUAL_MTU else {}

    def has_large_packets(self, physical_network: str) -> bool:
        """Whether its bridges' interfaces need an MTU other than Linux's default."""
        return self.mtus.get(physical_network, USUAL_MTU) > USUAL_MTU

    @property
    def tunnels_mtu(self) -> int:
        """MTU of the network that carries the tunnels of projects' own networks."""
        return self.networks[self.network_with("tenant") or self.network_at(self.deployment.internal_vip)].mtu

    def mappings(self, role: str, kind: FabricKind) -> tuple[tuple[str, str], ...]:
        """Physical network and interface of the role's adapters with virtual functions on fabrics of this kind."""
        found: dict[tuple[str, str], None] = {}
        for host in self.hosts[role]:
            for hca in host.hcas:
                fabric = self.fabrics[hca.fabric]
                if hca.vfs and fabric.type is kind and hca.name in self.roles[role].adapters:
                    found[fabric.physical_network, self.roles[role].adapters[hca.name]] = None
        return tuple(sorted(found, key=lambda m: (natural(m[0]), natural(m[1]))))

    def has_functions(self, kind: FabricKind) -> bool:
        """Whether servers get virtual functions of adapters on fabrics of this kind."""
        return any(self.mappings(role, kind) for role in self.roles_with("compute"))

    @cached_property
    def _interfaces(self) -> dict[tuple[str, str], Interface]:
        return {(i.device, i.network): i for i in reversed(self.site.interfaces)}

    def interface(self, node: str, network: str | None) -> Interface | None:
        """The described interface of a host on a network."""
        return None if network is None else self._interfaces.get((node, network))

    def reach(self, node: Node) -> IPv4Address | None:
        """Where a deployment tool finds the host: its address for provisioning, or that of the internal APIs."""
        for role in ("provisioning", "internal-api"):
            found = self.interface(node.name, self.network_with(role))
            if found is not None:
                return found.address
        return None

    @property
    def internal_name(self) -> str:
        """Host name of the internal APIs."""
        return self.deployment.internal_name or f"api-internal.{self.deployment.domain}"

    @property
    def external_name(self) -> str:
        """The API's public DNS name, by default `api.` and the domain."""
        return self.deployment.external_name or f"api.{self.deployment.domain}"


def view_of(site: Site, cloud: str | None) -> CloudView:
    """The site's cloud with this name; None: its only one that says how it is deployed. Raises `InputError`."""
    described = sorted(name for name, one in site.clouds.items() if one.deployment is not None)
    listed = f"clouds with a deployment in the site file: {', '.join(described) or 'there are none'}"
    if cloud is None and len(described) != 1:
        raise InputError("--cloud", None, f"one of the {listed}")
    name = described[0] if cloud is None else cloud
    deployment = site.clouds[name].deployment if name in site.clouds else None
    if deployment is None:
        raise InputError("--cloud", name, listed)
    view = CloudView(site, name, deployment)
    if errors := [*_devices(view), *_domains(view)]:
        raise InputErrors(errors)
    return view


def _devices(view: CloudView) -> Iterator[InputError]:
    """Every accelerator of a host must be known on the PCI bus, or servers can't get it."""
    types = {a.type for role in view.roles_with("compute") for n in view.hosts[role] for a in n.accelerators}
    for kind in sorted(types - view.deployment.devices.keys()):
        field = f"clouds.{view.name}.deployment.devices"
        yield InputError(field, None, f"vendor_id and product_id of {kind}, which hosts of the cloud have")


def _domains(view: CloudView) -> Iterator[InputError]:
    seen: dict[str, str] = {}
    for name in view.deployment.ldap_domains:
        first = seen.setdefault(identifier(name), name)
        if first != name:
            field = f"clouds.{view.name}.deployment.ldap_domains.{name}"
            yield InputError(
                field, name, f"a name that differs from {first} in more than punctuation and case"
            )
