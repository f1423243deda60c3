"""What a site needs in its clouds before any pod, as a graph: its networks, routers, security groups, and a port for
each piece of hardware. Pure: equal sites give equal graphs.

Names are those of the site: people, and pods (the gateways' network), find networks by them. Source of the security
groups: Graphcore's reference design for OpenStack, 4.2.4, whose tables name traffic by role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from weft.model.fabric import Membership
from weft.model.fabrictypes import Mode
from weft.model.ids import Mac
from weft.model.novaflavor import extra_specs
from weft.model.resources import Graph, Resource
from weft.model.site import LEGS, Flavor, Site, SiteNetwork, SiteSubnet, SubnetRole
from weft.model.specs import (
    Egress,
    FlavorSpec,
    ImagePropertiesSpec,
    Ingress,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    Spec,
    SubnetSpec,
)
from weft.planning.shapes.graph import in_order
from weft.planning.site.aggregates import wanted_aggregates
from weft.planning.site.hardware import network_at

SSH, DNS, HTTPS, SNMP, TRAPS, SYSLOG, RPC, NFS, EXPORTER = 22, 53, 443, 161, 162, 514, 111, 2049, 9100
_FILTERED: tuple[SubnetRole, ...] = ("bmc", "gateway", "infrastructure", "management", "storage")
"""Roles with a group each; that of `management` is open inside and outbound, the others are closed."""
_FOR_TENANTS = frozenset[SubnetRole]({"storage"})
"""Roles whose groups are shared with the projects that see the network: only closed ones, since members of an open
group reach each other across projects."""


def site_graph(site: Site) -> Graph:
    """The graph of a checked site."""
    return Graph(resources=in_order(_resources(site)))


def _resources(site: Site) -> Iterator[Resource]:
    for name, network in site.networks.items():
        yield from _network(site, name, network)
    yield from _groups(site)
    for leg in legs(site):
        yield leg.resource(site)
    yield from _segments(site)
    yield from _of_nova(site)


# -- networks ------------------------------------------------------------------------------------------------------


def _network(site: Site, name: str, network: SiteNetwork) -> Iterator[Resource]:
    cloud = cloud_of(network)
    key = f"network/{name}"
    roles = {subnet.role for subnet in network.subnets.values()}
    spec = NetworkSpec(
        physical_network=network.physical_network,
        segment=network.vlan,
        # The reference design filters nothing on the data network: passed-through adapters can't be filtered.
        port_security="data" not in roles,
        mtu=network.mtu,
        shared_with=tuple(sorted(network.shared_with)),
        external="external" in roles,
    )
    yield _made(key, name, cloud, spec)
    for subnet, one in network.subnets.items():
        yield _made(f"subnet/{name}/{subnet}", f"{name}-{subnet}", cloud, _subnet(key, one), key)
        if network.shared_with and one.gateway is not None and not one.nat:
            yield _reserved(name, subnet, str(one.gateway), cloud)
    routed = [subnet for subnet, one in network.subnets.items() if one.nat]
    if routed:
        yield _router(site, name, cloud, routed)


def _subnet(network: str, one: SiteSubnet) -> SubnetSpec:
    return SubnetSpec(
        network=network,
        cidr=str(one.addresses),
        gateway=False,
        gateway_address=None if one.gateway is None else str(one.gateway),
        dhcp=one.dhcp,
        pool=None if one.pool is None else (str(one.pool.first), str(one.pool.last)),
        dns=tuple(str(address) for address in one.dns),
    )


def _reserved(network: str, subnet: str, gateway: str, cloud: str) -> Resource:
    """A port that reserves the gateway's address of a router that Neutron doesn't know. Otherwise a member of a project
    that the network is shared with could take the address with `openstack router add subnet`, and receive all packets.
    """
    key, needs = f"gateway/{network}/{subnet}", (f"network/{network}", f"subnet/{network}/{subnet}")
    spec = PortSpec(network=needs[0], subnet=needs[1], address=gateway, vnic_type="normal", host="")
    return _made(key, f"{network}-{subnet}-gateway", cloud, spec, *needs)


def _router(site: Site, name: str, cloud: str, routed: Sequence[str]) -> Resource:
    """One router for each network: the subnets that it connects reach each other anyway."""
    external = site.clouds[cloud].external_network
    assert external is not None, "nat is only possible with an external network"
    subnets = tuple(f"subnet/{name}/{subnet}" for subnet in routed)
    own = site.networks.get(external)
    first = (f"network/{external}",) if own is not None and cloud_of(own) == cloud else ()
    spec = RouterSpec(external_network=external, subnets=subnets)
    needs = (*first, *((f"subnet/{external}/{s}" for s in own.subnets) if first and own else ()), *subnets)
    return _made(f"router/{name}", f"{site.name}-{name}", cloud, spec, *dict.fromkeys(needs))


# -- hardware ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leg:
    """An interface of hardware on one of the site's networks.

    Attributes:
        key: of its port, such as `port/m1/bmc`.
        network: name in the site.
        plug: switch port that it is cabled to, as switch/port; None: not described.
    """

    key: str
    device: str
    network: str
    mac: Mac
    address: IPv4Address
    host_name: str
    plug: str | None = None

    def resource(self, site: Site) -> Resource:
        """Its port: unbound, since only the cloud's own services bind ports, and not filtered, which isn't possible."""
        network = site.networks[self.network]
        subnet = next(name for name, one in network.subnets.items() if self.address in one.addresses)
        spec = PortSpec(
            network=f"network/{self.network}",
            subnet=f"subnet/{self.network}/{subnet}",
            address=str(self.address),
            mac=self.mac,
            vnic_type="normal",
            host="",
            dns_name=self.host_name,
        )
        needs = (spec.network, spec.subnet)
        made = _made(self.key, self.host_name, cloud_of(network), spec, *needs)
        return made.model_copy(update={"node": self.device})


def legs(site: Site) -> Iterator[Leg]:
    """Interfaces of the table `interfaces`, and those of IPU-Machines whose network the site describes.

    An RNIC is on its pod's network, which has its port, unless the site describes a network for it.
    """
    for one in site.interfaces:
        key = f"port/{one.device}/{one.name}"
        plug = _plug(one.switch, one.port)
        yield Leg(key, one.device, one.network, one.mac, one.address, one.host_name, plug)
    for machine in site.ipu_machines:
        pod = site.ipu_pods.get(machine.ipu_pod)
        for name in LEGS:
            mac, address = getattr(machine, f"{name}_mac"), getattr(machine, f"{name}_address")
            network = network_at(site, pod.cloud if pod else None, address)
            if network is not None:
                key, host_name = f"port/{machine.name}/{name}", machine.host_name(name)
                port = machine.rnic_switch_port if name == "rnic" else getattr(machine, f"{name}_port")
                plug = _plug(getattr(machine, f"{name}_switch"), port)
                if name == "rnic" and pod is not None and pod.data.fabric is not None:
                    plug = None  # its pods use that port
                yield Leg(key, machine.name, network, mac, address, host_name, plug)


def _plug(switch: str | None, port: str | None) -> str | None:
    return f"{switch}/{port}" if switch and port else None


# -- switch ports --------------------------------------------------------------------------------------------------


def _segments(site: Site) -> Iterator[Resource]:
    """The VLAN of each network with a `fabric`, which weft manages on its switches, with exactly its ports."""
    cabled = list(legs(site)) if any(n.fabric for n in site.networks.values()) else []
    for name, network in site.networks.items():
        if network.fabric is None or network.vlan is None:
            continue
        fabric = site.fabrics[network.fabric]
        switches = {s.name for s in site.switches if s.fabric == network.fabric}
        ports = {
            leg.plug for leg in cabled if leg.network == name and leg.plug and switch_of(leg.plug) in switches
        }
        members = [Membership(port=port, mode=Mode.ACCESS) for port in ports]
        members += [Membership(port=port, mode=Mode.TRUNK) for port in network.trunks]
        spec = SegmentSpec(
            number=network.vlan,
            fabric_type=fabric.type,
            members=tuple(sorted(members, key=lambda m: m.port)),
            shared=True,
        )
        yield _made(f"segment/{name}", name, network.fabric, spec)


def switch_of(plug: str) -> str:
    """Name of the switch in `switch/port`."""
    return plug.partition("/")[0]


# -- flavors, images and aggregates ---------------------------------------------------------------------------------


def _of_nova(site: Site) -> Iterator[Resource]:
    """Flavors that weft creates, properties of images, and aggregates that keep pods' hosts free."""
    for cloud, one in site.clouds.items():
        for name, flavor in one.flavors.items():
            if flavor.nova is not None:
                spec = FlavorSpec(
                    vcpus=flavor.vcpus,
                    ram=flavor.ram_mib,
                    disk=flavor.nova.disk_gib,
                    extra_specs=specs_of(flavor),
                )
                yield _made(f"flavor/{cloud}/{name}", name, cloud, spec)
        for name, image in one.images.items():
            properties = ImagePropertiesSpec(properties=dict(sorted(image.properties.items())))
            yield _made(f"image_properties/{cloud}/{name}", name, cloud, properties)
        for name, aggregate in wanted_aggregates(site, cloud).items():
            yield _made(f"aggregate/{cloud}/{name}", f"{site.name}-{name}", cloud, aggregate)


def specs_of(flavor: Flavor) -> dict[str, str]:
    """Extra specs in Nova: those derived from what weft counts, and the site's own."""
    own = flavor.nova.extra_specs if flavor.nova is not None else {}
    following = {} if flavor.bare_metal else extra_specs(flavor)
    return dict(sorted({**own, **following}.items()))


# -- security groups -----------------------------------------------------------------------------------------------


def _groups(site: Site) -> Iterator[Resource]:
    """One for each role whose interfaces of servers are filtered."""
    for cloud in sorted(site.clouds):
        mine = {name: n for name, n in site.networks.items() if cloud_of(n) == cloud}
        for role in _FILTERED:
            having = {n: net for n, net in mine.items() if any(s.role == role for s in net.subnets.values())}
            if not having:
                continue
            shared = having.values() if role in _FOR_TENANTS else ()
            projects = {p for n in shared for p in n.shared_with}
            subnets = [s for n in having.values() for s in n.subnets.values() if s.role == role]
            spec = _group(site, role, having, subnets, tuple(sorted(projects)))
            yield _made(f"security_group/{cloud}/{role}", f"{site.name}-{role}", cloud, spec)


def _group(
    site: Site,
    role: SubnetRole,
    networks: dict[str, SiteNetwork],
    subnets: Sequence[SiteSubnet],
    projects: tuple[str, ...],
) -> SecurityGroupSpec:
    blocks = sorted({str(s.addresses) for s in subnets})
    if role == "management":
        return SecurityGroupSpec(ssh_from=tuple(blocks), shared_with=projects)
    if role == "storage":
        return SecurityGroupSpec(
            ssh_from=(), egress=tuple(_to_storage(site, networks, blocks)), shared_with=projects
        )
    out = [Egress(protocol="icmp", to=b) for b in blocks]
    out += [Egress(protocol="tcp", port=port, to=b) for b in blocks for port in _tcp(site, role)]
    servers = sorted({str(address) for s in subnets for address in s.dns})
    out += [Egress(protocol=p, port=DNS, to=f"{s}/32") for s in servers for p in ("tcp", "udp")]
    logs = [Ingress(protocol="udp", port=SYSLOG, source=b) for b in blocks]
    if role == "infrastructure":
        out += [Egress(protocol="udp", port=SNMP, to=b) for b in blocks]
        logs += [Ingress(protocol="udp", port=TRAPS, source=b) for b in blocks]
    return SecurityGroupSpec(ssh_from=(), ingress=tuple(logs), egress=tuple(out))


def _tcp(site: Site, role: SubnetRole) -> Sequence[int]:
    """TCP ports through which hardware there is managed."""
    if role == "gateway":
        return (SSH, EXPORTER, *sorted({m.agent_port for m in site.ipu_machines}))
    return (SSH, HTTPS)


def _to_storage(site: Site, networks: dict[str, SiteNetwork], blocks: Sequence[str]) -> Iterator[Egress]:
    """NFS to the filers that the site describes, or to any address there."""
    filers = {d.name for d in site.devices if d.kind == "storage"}
    there = sorted(f"{i.address}/32" for i in site.interfaces if i.device in filers and i.network in networks)
    for address in there or blocks:
        yield Egress(protocol="tcp", port=NFS, to=address)
        yield Egress(protocol="tcp", port=RPC, to=address)
        yield Egress(protocol="udp", port=RPC, to=address)


def cloud_of(network: SiteNetwork) -> str:
    """The network's cloud, which a checked site always has."""
    assert network.cloud is not None, "a checked site names it"
    return network.cloud


def _made(key: str, name: str, cloud: str, spec: Spec, *needs: str) -> Resource:
    return Resource(key=key, name=name, where=cloud, owner="site", needs=needs, spec=spec)
