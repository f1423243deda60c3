"""Checks of the site's own networks: nothing overlaps, and tenants reach none that is privileged."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Network
from typing import Literal

from weft.model.ranges import Range
from weft.model.site import PRIVILEGED, IpuPod, Site, SiteNetwork, SiteSubnet
from weft.planning.fabric.segments import unusable
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, known

Path = tuple[str | int, ...]


def check_networks(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with the site's own networks."""
    vlans = UniqueValues("a VLAN of a physical network")
    blocks: list[tuple[str | None, IPv4Network, str]] = blocks_of_pods(site)
    # Checked with the IPU-PODs, where it may be a loopback network: on one machine agents need no other.
    known_blocks = {pod.gateway.addresses for pod in site.ipu_pods.values()}
    for name, network in site.networks.items():
        path: Path = ("networks", name)
        if network.cloud is None:
            yield (*path, "cloud"), None, "required if the site has several clouds"
        yield from known((*path, "cloud"), network.cloud, site.clouds, "clouds of the site")
        place = (network.cloud, network.physical_network, network.vlan)
        for wrong_path, _, allowed in vlans.check(place, f"network {name}", (*path, "vlan")):
            yield (
                wrong_path,
                network.vlan or "untagged",
                f"{allowed} (both are on {network.physical_network})",
            )
        yield from _not_tenants(site, network, path)
        yield from _shared(network, path)
        for subnet, one in network.subnets.items():
            inner = (*path, "subnets", subnet)
            yield from _inside(one, inner, known_blocks)
            if one.nat and network.cloud in site.clouds and not site.clouds[network.cloud].external_network:
                yield (*inner, "nat"), True, f"only if cloud {network.cloud} has an external_network"
            for cloud, block, owner in blocks:
                if cloud == network.cloud and block.overlaps(one.addresses):
                    yield (*inner, "addresses"), str(one.addresses), f"must not overlap {owner} {block}"
            blocks.append((network.cloud, one.addresses, f"subnet {subnet} of network {name}"))
    for name in site.clouds:
        yield from _where_pods_are(site, name)
    yield from _of_ipu_pods(site)


def closed_networks(site: Site, cloud: str) -> frozenset[str]:
    """Names of a cloud's networks that no tenant may have a port on."""
    gateways = {pod.gateway.network for pod in site.ipu_pods.values() if pod.cloud in (cloud, None)}
    return frozenset(gateways).union(
        name
        for name, network in site.networks.items()
        if network.cloud in (cloud, None) and {s.role for s in network.subnets.values()} & PRIVILEGED
    )


def reached_from_outside(site: Site) -> Iterator[str]:
    """Hints: Neutron's routers translate outgoing traffic, but forward any traffic to the networks behind them."""
    for name, network in site.networks.items():
        routed = sorted(subnet for subnet, one in network.subnets.items() if one.nat)
        if routed and network.cloud in site.clouds:
            outside = site.clouds[network.cloud].external_network
            yield (
                f"network {name}: hosts of {', '.join(routed)} that don't filter by themselves can be reached through "
                f"its router (nat) from {outside}, and from behind tenants' routers there"
            )


def _where_pods_are(site: Site, cloud: str) -> Iterator[WrongValue]:
    """Pods' servers get ports on a cloud's storage network, and their routers on its external network, by name only. If
    the site describes the network, its role must fit."""
    offer = site.clouds[cloud]
    gateways = {pod.gateway.network for pod in site.ipu_pods.values() if pod.cloud in (cloud, None)}
    uses = (
        (("clouds", cloud, "storage", "network"), offer.storage.network, "storage"),
        (("clouds", cloud, "external_network"), offer.external_network, "external"),
    )
    for path, name, role in uses:
        network = site.networks.get(name) if name is not None else None
        if network is None or network.cloud not in (cloud, None):
            if name in gateways:
                yield (
                    path,
                    name,
                    f"another network: tenants must never reach {name}, which has IPU-Machines' gateways",
                )
            continue
        roles = {one.role for one in network.subnets.values()}
        if closed := sorted(roles & PRIVILEGED):
            yield (
                path,
                name,
                f"another network: tenants must never reach {name}, which has role {', '.join(closed)}",
            )
        elif role not in roles:
            yield (
                path,
                name,
                f"a network with a subnet of role {role}; {name} has {', '.join(sorted(roles)) or 'none'}",
            )


def tenants_vlans(site: Site, cloud: str | None) -> Iterator[tuple[str, Range, str]]:
    """Physical network, range and owner of the VLANs that pods may get in a cloud."""
    for name, fabric in site.fabrics.items():
        yield fabric.physical_network, fabric.segments, f"fabric {name}"
    if cloud in site.clouds and (vlans := site.clouds[cloud].management.vlans) is not None:
        yield *vlans, f"cloud {cloud}"
    for name, pod in site.ipu_pods.items():
        data = pod.data
        if pod.cloud == cloud and data.physical_network is not None and data.segments is not None:
            yield data.physical_network, data.segments, f"IPU-POD {name}"


def blocks_of_pods(site: Site) -> list[tuple[str | None, IPv4Network, str]]:
    """Addresses that pods' own subnets are allocated from, by cloud."""
    found: list[tuple[str | None, IPv4Network, str]] = []
    for name, cloud in site.clouds.items():
        found.append((name, cloud.management.addresses, f"cloud {name}'s management addresses"))
        found.append((name, cloud.rdma_addresses, f"cloud {name}'s rdma_addresses"))
    for name, pod in site.ipu_pods.items():
        found.append((pod.cloud, pod.data.addresses, f"the data network of IPU-POD {name}"))
    return found


def _not_tenants(site: Site, network: SiteNetwork, path: Path) -> Iterator[WrongValue]:
    if network.vlan is None:
        return
    for physical, numbers, owner in tenants_vlans(site, network.cloud):
        if physical == network.physical_network and network.vlan in numbers:
            allowed = (
                f"a VLAN outside the range of {owner} ({numbers.first} to {numbers.last}), which is for pods"
            )
            yield (*path, "vlan"), network.vlan, allowed


def _shared(network: SiteNetwork, path: Path) -> Iterator[WrongValue]:
    """Tenants reach no privileged subnet: not by a port, and not through a router."""
    closed = {name: one.role for name, one in network.subnets.items() if one.role in PRIVILEGED}
    if network.shared_with and closed:
        which = ", ".join(f"{name} ({role})" for name, role in sorted(closed.items()))
        allowed = f"none: tenants must not reach its subnets {which}"
        yield (*path, "shared_with"), ", ".join(network.shared_with), allowed
    for name, one in sorted(network.subnets.items()):
        if one.role not in PRIVILEGED and closed:
            like = f"a role that tenants never reach, like that of {min(closed)}"
            allowed = f"{like}: subnets of one VLAN reach each other"
            yield (*path, "subnets", name, "role"), one.role, allowed
        elif one.role in PRIVILEGED and one.nat:
            allowed = f"false: {one.role} must not be reachable through a router that tenants' subnets share"
            yield (*path, "subnets", name, "nat"), True, allowed
    for i, project in enumerate(network.shared_with):
        if project in network.shared_with[:i]:
            yield (*path, "shared_with", i), project, "each project once"


def _inside(subnet: SiteSubnet, path: Path, known_blocks: Collection[IPv4Network]) -> Iterator[WrongValue]:
    """Gateway, pool and name servers fit the subnet."""
    block, pool, gateway = subnet.addresses, subnet.pool, subnet.gateway
    if block not in known_blocks and (reason := unusable(block)):
        yield (*path, "addresses"), str(block), f"a network for hosts; this one is {reason}"
        return
    usable = f"an address in {block}, not its first or last"
    if gateway is not None and (gateway not in block or gateway in (block[0], block[-1])):
        yield (*path, "gateway"), str(gateway), usable
    if subnet.nat and gateway is None:
        yield (*path, "gateway"), None, "the address of its router, required with nat"
    if pool is None:
        if subnet.dhcp:
            yield (*path, "pool"), None, "addresses for Neutron's own DHCP ports; or dhcp: false"
        return
    for field in ("first", "last"):
        address = getattr(pool, field)
        if address not in block or address in (block[0], block[-1]):
            yield (*path, "pool", field), str(address), usable
    if pool.first > pool.last:
        yield (*path, "pool", "first"), str(pool.first), f"not above last, which is {pool.last}"
    elif gateway is not None and gateway in pool:
        yield (*path, "pool"), str(pool), f"without the gateway {gateway}"


def _of_ipu_pods(site: Site) -> Iterator[WrongValue]:
    """A network that an IPU-POD uses is described twice: both descriptions must agree."""
    for name, pod in site.ipu_pods.items():
        for part in ("gateway", "bmc"):
            yield from _same_as(site, name, pod, part)


def _same_as(site: Site, pod_name: str, pod: IpuPod, part: Literal["gateway", "bmc"]) -> Iterator[WrongValue]:
    wanted = pod.gateway if part == "gateway" else pod.bmc
    vlan = (pod.cloud, wanted.physical_network, wanted.vlan)
    says = f"as ipu_pods.{pod_name}.{part} says"
    candidates: list[str] = []
    for name, network in site.networks.items():
        path: Path = ("networks", name)
        if (network.cloud, network.physical_network, network.vlan) == vlan:
            candidates.append(name)
            continue
        if part == "gateway" and name == pod.gateway.network:
            allowed = f"VLAN {wanted.vlan} of {wanted.physical_network}, {says}"
            yield (*path, "vlan"), f"{network.vlan or 'untagged'} of {network.physical_network}", allowed
        for subnet, one in network.subnets.items():
            if network.cloud == pod.cloud and one.addresses.overlaps(wanted.addresses):
                owner = f"the {part} addresses of IPU-POD {pod_name}, on another VLAN"
                allowed = f"must not overlap {wanted.addresses}, {owner}"
                yield (*path, "subnets", subnet, "addresses"), str(one.addresses), allowed
    if not candidates:
        return
    named = pod.gateway.network if part == "gateway" else candidates[0]
    if named not in candidates:
        allowed = f"{named}, the name in ipu_pods.{pod_name}.gateway for this VLAN"
        yield ("networks", candidates[0]), candidates[0], allowed
        return
    subnets = site.networks[named].subnets
    mine = [n for n, one in subnets.items() if one.addresses == wanted.addresses]
    if not mine:
        allowed = f"one with addresses {wanted.addresses}, {says}"
        yield ("networks", named, "subnets"), ", ".join(sorted(subnets)), allowed
    for subnet in mine:
        yield from _as_agents_need(subnets[subnet], pod, part, ("networks", named, "subnets", subnet))


def _as_agents_need(one: SiteSubnet, pod: IpuPod, part: str, path: Path) -> Iterator[WrongValue]:
    if one.role != part:
        yield (*path, "role"), one.role, f"{part}: an IPU-POD has its {part} addresses there"
    if part == "gateway" and one.gateway is not None:
        yield (*path, "gateway"), str(one.gateway), "none: nothing may route to the gateways of IPU-Machines"
    if part == "gateway" and one.pool is not None:
        controllers = pod.gateway.controllers
        if one.pool.first <= controllers[-1] and controllers[0] <= one.pool.last:
            allowed = f"outside {controllers}, which is for V-IPU controllers"
            yield (*path, "pool"), str(one.pool), allowed
