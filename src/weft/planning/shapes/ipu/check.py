"""Checks of a site's IPU-PODs: unique addresses, machines in their networks, tenants' VLANs used for nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from cryptography import x509

from weft.model.fabrictypes import FabricKind
from weft.model.ranges import Range
from weft.model.site import IpuMachine, IpuPod, Node, Site
from weft.planning.site.ranges import MAX_VLAN
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, casefold, known

RESERVED = "controller"
"""Keys of a pod's resources contain names: `server/controller` is the V-IPU controller's."""
KEPT = 32
"""Addresses at the end of a data network's subnet for Poplar servers and the cloud's DHCP ports."""

Path = tuple[str | int, ...]


def ipu_hints(site: Site) -> Iterator[str]:
    """Hints that aren't errors; one sentence each."""
    for name, pod in sorted(site.ipu_pods.items()):
        if pod.gateway.keys_in_clear:
            whose = "agents and of controllers" if pod.gateway.agents_ca is None else "controllers"
            yield f"IPU-POD {name} has keys_in_clear: keys of {whose} without TLS can be sniffed on the gateway network"
        for role, what in (("poplar", "Poplar servers"), ("controller", "controller nodes")):
            if not any(n.role == role and n.ipu_pod in (None, name) for n in site.nodes):
                yield f"IPU-POD {name} has no {what}: no IPUs can be ordered there"


def check_ipus(site: Site) -> list[WrongValue]:
    """Everything that is wrong with IPU-PODs, IPU-Machines and Poplar servers."""
    return [*_pods(site), *_machines(site), *_servers(site)]


def _pods(site: Site) -> Iterator[WrongValue]:
    if not site.fabrics and not site.ipu_pods:
        yield ("fabrics",), None, "a site needs at least one fabric, or ipu_pods"
    for name, pod in site.ipu_pods.items():
        path: Path = ("ipu_pods", name)
        if name in site.clouds or name in site.fabrics:
            yield path, name, "another name: a cloud or fabric has this one"
        if pod.cloud is None:
            yield (*path, "cloud"), None, "required if the site has several clouds"
        yield from known((*path, "cloud"), pod.cloud, site.clouds, "clouds of the site")
        if pod.cloud in site.clouds:
            flavors = site.clouds[pod.cloud].flavors
            what = f"flavors of cloud {pod.cloud}"
            yield from known((*path, "controller", "flavor"), pod.controller.flavor, flavors, what)
        yield from _data(site, pod, (*path, "data"))
        yield from _keys(pod, (*path, "gateway"))
        yield from _vlans(site, name, pod)
        yield from _blocks(site, pod, path)


def _keys(pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    """The keys that control machines are sent to agents over TLS, unless the site explicitly allows otherwise."""
    text = pod.gateway.agents_ca
    if text is None:
        if not pod.gateway.keys_in_clear:
            allowed = (
                "the CA of the V-IPU agents' certificates as PEM text; or keys_in_clear: true, and all keys of agents "
                "can be sniffed on the gateway network"
            )
            yield (*path, "agents_ca"), None, allowed
        return
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        yield (*path, "agents_ca"), "…", "one or more certificates in PEM format"
        return
    for certificate in found:
        name = certificate.subject.rfc4514_string()
        try:
            is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_authority = False
        if not is_authority:
            yield (*path, "agents_ca"), name, "a CA certificate"


def _data(site: Site, pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    """A fabric whose switches weft configures, or a physical network and VLANs."""
    data = pod.data
    own = {"physical_network": data.physical_network, "segments": data.segments}
    if data.fabric is None:
        for field, value in own.items():
            if value is None:
                yield (*path, field), None, "required, or a fabric"
        return
    for field, value in own.items():
        if value is not None:
            shown = value if isinstance(value, str) else f"{value.first} to {value.last}"
            yield (*path, field), shown, f"omitted: it is that of fabric {data.fabric}"
    # Neutron never binds the ports of IPU-Machines, so it would never put them in a VLAN.
    switched = {n for n, f in site.fabrics.items() if f.type is FabricKind.ETHERNET and not f.is_neutrons}
    yield from known((*path, "fabric"), data.fabric, switched, "Ethernet fabrics whose VLANs weft sets")


def _rnic(machine: IpuMachine, site: Site, path: Path) -> Iterator[WrongValue]:
    """The switch port of a RNIC that weft puts into VLANs."""
    port, fabric = machine.rnic_switch_port, site.ipu_pods[machine.ipu_pod].data.fabric
    if fabric is None:
        if port is not None:
            yield (*path, "rnic_switch_port"), port, f"omitted: IPU-POD {machine.ipu_pod} has no data.fabric"
        return
    switches = {s.name for s in site.switches if s.fabric == fabric}
    yield from known((*path, "rnic_switch"), machine.rnic_switch, switches, f"switches of fabric {fabric}")
    if port is None:
        yield (*path, "rnic_switch_port"), None, f"required: the data network is fabric {fabric}"


def _vlans(site: Site, name: str, pod: IpuPod) -> Iterator[WrongValue]:
    """A VLAN that a tenant may get must not be used for anything else on that physical network."""
    for part, net in (("gateway", pod.gateway), ("bmc", pod.bmc)):
        for network, its, owner in _tenant_vlans(site):
            if network == net.physical_network and net.vlan in its:
                allowed = (
                    f"a VLAN outside the range of {owner} ({its.first} to {its.last}), which is for tenants"
                )
                yield ("ipu_pods", name, part, "vlan"), net.vlan, allowed
    numbers, path = pod.data.segments, ("ipu_pods", name, "data", "segments")
    if numbers is None:
        return
    if numbers.last > MAX_VLAN:
        yield (*path, "last"), numbers.last, f"at most {MAX_VLAN}, the highest VLAN"
    if numbers.first > numbers.last:
        yield (*path, "first"), numbers.first, f"not above last, which is {numbers.last}"
    for network, its, owner in _tenant_vlans(site, before=name):
        if network == pod.data.physical_network and numbers.first <= its.last and its.first <= numbers.last:
            shown = f"{numbers.first} to {numbers.last}"
            yield (
                (*path, "first"),
                shown,
                f"must not overlap the range of {owner} ({its.first} to {its.last})",
            )


def _tenant_vlans(site: Site, before: str = "") -> Iterator[tuple[str, Range, str]]:
    """Physical network, range and owner of all VLANs that tenants may get.

    Args:
        before: an IPU-POD; only IPU-PODs before it are included, so that each conflict is reported once.
    """
    for name, fabric in site.fabrics.items():
        yield fabric.physical_network, fabric.segments, f"fabric {name}"
    for name, cloud in site.clouds.items():
        if cloud.management.vlans is not None:
            yield *cloud.management.vlans, f"cloud {name}"
    for name, pod in site.ipu_pods.items():
        if name == before:
            return
        if pod.data.physical_network is not None and pod.data.segments is not None:
            yield pod.data.physical_network, pod.data.segments, f"IPU-POD {name}"


def _blocks(site: Site, pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    inner = pod.gateway.controllers
    if not inner.subnet_of(pod.gateway.addresses):
        yield (*path, "gateway", "controllers"), str(inner), f"a subnet of {pod.gateway.addresses}"
    if pod.data.addresses.num_addresses < 4 * KEPT:
        yield (*path, "data", "addresses"), str(pod.data.addresses), "a /25 or larger"
    tenants: list[tuple[IPv4Network, str]] = [(pod.data.addresses, "the data network's")]
    for name, cloud in site.clouds.items():
        tenants += [(cloud.management.addresses, f"cloud {name}'s management addresses")]
        tenants += [(cloud.rdma_addresses, f"cloud {name}'s rdma_addresses")]
    for part, block in (("gateway", pod.gateway.addresses), ("bmc", pod.bmc.addresses)):
        for other, what in tenants:
            if block.overlaps(other):
                yield (*path, part, "addresses"), str(block), f"must not overlap {what} {other}"
    for other, what in tenants[1:]:
        if pod.data.addresses.overlaps(other):
            shown = str(pod.data.addresses)
            yield (*path, "data", "addresses"), shown, f"must not overlap {what} {other}"
    if pod.gateway.addresses.overlaps(pod.bmc.addresses):
        allowed = f"must differ from the gateways' subnet {pod.gateway.addresses}"
        yield (*path, "bmc", "addresses"), str(pod.bmc.addresses), allowed


def _machines(site: Site) -> Iterator[WrongValue]:
    names, macs = (
        UniqueValues("a name of a switch, node or IPU-Machine", casefold),
        UniqueValues("a MAC address"),
    )
    for owner in (*site.switches, *site.nodes):
        names.first.setdefault(casefold(owner.name), owner.name)
    macs.first.update({h.mac: f"{n.name}/{h.name}" for n in site.nodes for h in n.hcas if h.mac})
    addresses, places, ports = (
        UniqueValues("an IPv4 address"),
        UniqueValues("a position in an IPU-POD"),
        UniqueValues("a switch port"),
    )
    ends = UniqueValues("a switch port")
    racks = {r.name for r in site.racks}
    for i, machine in enumerate(site.ipu_machines):
        path: Path = ("ipu_machines", i)
        yield from names.check(machine.name, f"IPU-Machine {machine.name}", (*path, "name"))
        yield from known((*path, "rack"), machine.rack, racks, "racks of the site")
        yield from known((*path, "ipu_pod"), machine.ipu_pod, site.ipu_pods, "IPU-PODs of the site")
        place = f"{machine.ipu_pod}/{machine.position}"
        yield from places.check(place, machine.name, (*path, "position"))
        plug = f"{machine.rnic_switch}[{machine.rnic_port}]"
        yield from ports.check(plug, machine.name, (*path, "rnic_port"))
        for field in ("rnic_mac", "bmc_mac", "gw_mac"):
            yield from macs.check(getattr(machine, field), f"{machine.name} ({field})", (*path, field))
        for field in ("rnic_address", "bmc_address", "gw_address"):
            value = str(getattr(machine, field))
            yield from addresses.check(value, f"{machine.name} ({field})", (*path, field))
        if machine.ipu_pod in site.ipu_pods:
            yield from _inside(machine, site.ipu_pods[machine.ipu_pod], path)
            yield from _rnic(machine, site, path)
        if machine.rnic_switch_port is not None:
            yield from ends.check(machine.port_id, machine.name, (*path, "rnic_switch_port"))


def _inside(machine: IpuMachine, pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    """Each address is in its network, and outside the ranges that weft allocates from."""
    data, gateway = pod.data.addresses, pod.gateway
    for field, address, network in (
        ("rnic_address", machine.rnic_address, data),
        ("gw_address", machine.gw_address, gateway.addresses),
        ("bmc_address", machine.bmc_address, pod.bmc.addresses),
    ):
        if address not in network or address in (network[0], network[-1]):
            yield (*path, field), str(address), f"an address in {network}"
    if machine.rnic_address in data and int(data[-1]) - int(machine.rnic_address) < KEPT:
        allowed = f"below {data[-KEPT]}: the last {KEPT} of {data} are for Poplar servers and DHCP"
        yield (*path, "rnic_address"), str(machine.rnic_address), allowed
    if machine.gw_address in gateway.controllers:
        allowed = f"outside {gateway.controllers}, which is for V-IPU controllers"
        yield (*path, "gw_address"), str(machine.gw_address), allowed


def _servers(site: Site) -> Iterator[WrongValue]:
    named = [("nodes", i, n.name) for i, n in enumerate(site.nodes) if n.role == "poplar"]
    named += [("ipu_machines", i, m.name) for i, m in enumerate(site.ipu_machines)]
    for table, i, name in named:
        if name == RESERVED:
            yield (
                (table, i, "name"),
                name,
                "another name: this one is reserved for the pod's V-IPU controller",
            )
    for i, node in enumerate(site.nodes):
        path: Path = ("nodes", i, "ipu_pod")
        if node.role == "poplar":
            if node.ipu_pod is None:
                yield path, None, "required for a Poplar server"
            yield from known(path, node.ipu_pod, site.ipu_pods, "IPU-PODs of the site")
            yield from _adapter(node, site, ("nodes", i, "hcas"))
        elif node.ipu_pod is not None:
            yield path, node.ipu_pod, f"only for Poplar servers; the role of {node.name} is {node.role}"


def _adapter(node: Node, site: Site, path: Path) -> Iterator[WrongValue]:
    """A Poplar server whose adapter isn't described would never be put in its pods' VLANs."""
    pod = site.ipu_pods.get(node.ipu_pod or "")
    fabric = pod.data.fabric if pod is not None else None
    if fabric is not None and not node.hcas_on(fabric):
        yield (
            path,
            len(node.hcas),
            f"an adapter on fabric {fabric}, the data network of IPU-POD {node.ipu_pod}",
        )
