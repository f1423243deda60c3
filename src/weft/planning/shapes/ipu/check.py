"""Checks of a site's IPU-PODs: unique addresses, machines in their networks, tenants' VLANs nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from cryptography import x509

from weft.model.ipusite import IpuMachine, IpuPod
from weft.model.site import Range, Site
from weft.planning.site.ranges import MAX_VLAN
from weft.planning.site.seen import Seen, WrongValue, casefold, known

RESERVED = "controller"
"""The keys of a pod's resources are made of names: `server/controller` is the V-IPU controller's."""
KEPT = 32
"""Addresses at the end of a data network's subnet that Poplar servers and the cloud's DHCP ports get."""

Path = tuple[str | int, ...]


def check_ipus(site: Site) -> list[WrongValue]:
    """Everything that is wrong with IPU-PODs, IPU-Machines and Poplar servers."""
    return [*_pods(site), *_machines(site), *_servers(site)]


def _pods(site: Site) -> Iterator[WrongValue]:
    if not site.fabrics and not site.ipu_pods:
        yield ("fabrics",), None, "a site has at least one fabric or one of ipu_pods"
    for name, pod in site.ipu_pods.items():
        path: Path = ("ipu_pods", name)
        if name in site.clouds or name in site.fabrics:
            yield path, name, "another name: a cloud or a fabric has it"
        if pod.cloud is None:
            yield (*path, "cloud"), None, "it must be given where the site has several clouds"
        yield from known((*path, "cloud"), pod.cloud, site.clouds, "clouds of the site")
        if pod.cloud in site.clouds:
            flavors = site.clouds[pod.cloud].flavors
            what = f"flavors of cloud {pod.cloud}"
            yield from known((*path, "controller", "flavor"), pod.controller.flavor, flavors, what)
        yield from _keys(pod, (*path, "gateway"))
        yield from _vlans(site, name, pod)
        yield from _blocks(site, pod, path)


def _keys(pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    """Keys that own machines go to agents in TLS, unless the site says in so many words that they needn't."""
    text = pod.gateway.agents_ca
    if text is None:
        if not pod.gateway.keys_in_clear:
            allowed = (
                "the text of the PEM file of the V-IPU agents' authority; or keys_in_clear: true, and every key of "
                "agents can be read on the gateways' network"
            )
            yield (*path, "agents_ca"), None, allowed
        return
    try:
        found = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        yield (*path, "agents_ca"), "…", "one certificate or more in PEM"
        return
    for certificate in found:
        name = certificate.subject.rfc4514_string()
        try:
            is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_authority = False
        if not is_authority:
            yield (*path, "agents_ca"), name, "an authority's certificate, which may sign others"


def _vlans(site: Site, name: str, pod: IpuPod) -> Iterator[WrongValue]:
    """A VLAN that a tenant may get is nobody else's on that physical network."""
    numbers, path = pod.data.segments, ("ipu_pods", name, "data", "segments")
    if numbers.last > MAX_VLAN:
        yield (*path, "last"), numbers.last, f"at most {MAX_VLAN}: it is a VLAN"
    if numbers.first > numbers.last:
        yield (*path, "first"), numbers.first, f"not above last, which is {numbers.last}"
    for network, its, owner in _given_out(site, but=name):
        if network == pod.data.physical_network and numbers.first <= its.last and its.first <= numbers.last:
            shown = f"{numbers.first} to {numbers.last}"
            yield (*path, "first"), shown, f"it must not overlap that of {owner} ({its.first} to {its.last})"
    for part, net in (("gateway", pod.gateway), ("bmc", pod.bmc)):
        for network, its, owner in _given_out(site):
            if network == net.physical_network and net.vlan in its:
                allowed = f"a VLAN outside of {owner} ({its.first} to {its.last}): tenants get those"
                yield ("ipu_pods", name, part, "vlan"), net.vlan, allowed


def _given_out(site: Site, but: str = "") -> Iterator[tuple[str, Range, str]]:
    """Physical network and range of every VLAN that tenants may get, and whose range it is.

    Args:
        but: an IPU-POD; of the others only those before it are told, so that each clash is told once.
    """
    for name, fabric in site.fabrics.items():
        yield fabric.physical_network, fabric.segments, f"fabric {name}"
    for name, cloud in site.clouds.items():
        if cloud.management.vlans is not None:
            yield *cloud.management.vlans, f"cloud {name}"
    for name, pod in site.ipu_pods.items():
        if name == but:
            return
        yield pod.data.physical_network, pod.data.segments, f"IPU-POD {name}"


def _blocks(site: Site, pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    inner = pod.gateway.controllers
    if not inner.subnet_of(pod.gateway.addresses):
        yield (*path, "gateway", "controllers"), str(inner), f"a block inside {pod.gateway.addresses}"
    if pod.data.addresses.num_addresses < 4 * KEPT:
        yield (*path, "data", "addresses"), str(pod.data.addresses), "a /25 or larger"
    tenants: list[tuple[IPv4Network, str]] = [(pod.data.addresses, "the data network's")]
    for name, cloud in site.clouds.items():
        tenants += [(cloud.management.addresses, f"cloud {name}'s management addresses")]
        tenants += [(cloud.rdma_addresses, f"cloud {name}'s rdma_addresses")]
    for part, block in (("gateway", pod.gateway.addresses), ("bmc", pod.bmc.addresses)):
        for other, what in tenants:
            if block.overlaps(other):
                yield (*path, part, "addresses"), str(block), f"it must not overlap {what} {other}"
    for other, what in tenants[1:]:
        if pod.data.addresses.overlaps(other):
            shown = str(pod.data.addresses)
            yield (*path, "data", "addresses"), shown, f"it must not overlap {what} {other}"
    if pod.gateway.addresses.overlaps(pod.bmc.addresses):
        allowed = f"another subnet than the gateways' {pod.gateway.addresses}"
        yield (*path, "bmc", "addresses"), str(pod.bmc.addresses), allowed


def _machines(site: Site) -> Iterator[WrongValue]:
    names, macs = Seen("a name of a switch, node or IPU-Machine", casefold), Seen("a MAC address")
    for owner in (*site.switches, *site.nodes):
        names.first.setdefault(casefold(owner.name), owner.name)
    macs.first.update({h.mac: f"{n.name}/{h.name}" for n in site.nodes for h in n.hcas if h.mac})
    addresses, places, ports = (
        Seen("an IPv4 address"),
        Seen("a position in an IPU-POD"),
        Seen("a switch port"),
    )
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


def _inside(machine: IpuMachine, pod: IpuPod, path: Path) -> Iterator[WrongValue]:
    """Each address is in its network, and not where weft gives out others."""
    data, gateway = pod.data.addresses, pod.gateway
    for field, address, network in (
        ("rnic_address", machine.rnic_address, data),
        ("gw_address", machine.gw_address, gateway.addresses),
        ("bmc_address", machine.bmc_address, pod.bmc.addresses),
    ):
        if address not in network or address in (network[0], network[-1]):
            yield (*path, field), str(address), f"an address of {network}"
    if machine.rnic_address in data and int(data[-1]) - int(machine.rnic_address) < KEPT:
        allowed = f"below {data[-KEPT]}: the last {KEPT} of {data} are for Poplar servers and DHCP"
        yield (*path, "rnic_address"), str(machine.rnic_address), allowed
    if machine.gw_address in gateway.controllers:
        allowed = f"outside of {gateway.controllers}, which is for V-IPU controllers"
        yield (*path, "gw_address"), str(machine.gw_address), allowed


def _servers(site: Site) -> Iterator[WrongValue]:
    named = [("nodes", i, n.name) for i, n in enumerate(site.nodes) if n.role == "poplar"]
    named += [("ipu_machines", i, m.name) for i, m in enumerate(site.ipu_machines)]
    for table, i, name in named:
        if name == RESERVED:
            yield (table, i, "name"), name, "another name: a pod's own V-IPU controller is called so"
    for i, node in enumerate(site.nodes):
        path: Path = ("nodes", i, "ipu_pod")
        if node.role == "poplar":
            if node.ipu_pod is None:
                yield path, None, "a Poplar server needs it"
            yield from known(path, node.ipu_pod, site.ipu_pods, "IPU-PODs of the site")
        elif node.ipu_pod is not None:
            yield path, node.ipu_pod, f"only a Poplar server has it; the role of {node.name} is {node.role}"
