"""Checks of hardware on the site's own networks: MAC addresses, addresses, names in DNS, and switch ports."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address

from weft.model.site import (
    DNS_NAMES,
    LEGS,
    Device,
    Interface,
    IpuMachine,
    Site,
    SiteNetwork,
    is_dns_name,
    port_names,
)
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, casefold, known

Path = tuple[str | int, ...]
RNIC_GBPS = 100.0
"""An IPU-Machine's RNIC is a port of 100 Gigabit Ethernet."""
_NO_MACHINE = "a MAC address of one machine: this one is {}"


def check_hardware(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with devices and interfaces, if the site describes any, and with adapters' MAC
    addresses."""
    yield from _adapters_macs(site)
    if not (site.devices or site.interfaces or site.networks or site.ipu_machines):
        return
    yield from _devices(site)
    yield from _interfaces(site)
    yield from _macs(site)
    yield from _addresses(site)
    yield from _host_names(site)
    yield from _ports(site)


def _devices(site: Site) -> Iterator[WrongValue]:
    names = UniqueValues("a name of a switch, node, IPU-Machine or device", casefold)
    for owner in (*site.switches, *site.nodes, *site.ipu_machines):
        names.first.setdefault(casefold(owner.name), owner.name)
    racks = {r.name for r in site.racks}
    for i, device in enumerate(site.devices):
        path: Path = ("devices", i)
        yield from names.check(device.name, f"{device.kind} {device.name}", (*path, "name"))
        yield from known((*path, "rack"), device.rack, racks, "racks of the site")
        if device.kind == "switch":
            if not device.ports:
                yield (
                    (*path, "ports"),
                    None,
                    "names of its ports, such as Ethernet[1-48]; required for a switch",
                )
            continue
        for field in ("ports", "port_gbps", "mtu"):
            value = getattr(device, field)
            if value:
                shown = " ".join(value) if field == "ports" else value
                yield (*path, field), shown, f"only for switches; {device.name} is a {device.kind}"


def _interfaces(site: Site) -> Iterator[WrongValue]:
    owners = {o.name for o in (*site.switches, *site.nodes, *site.ipu_machines, *site.devices)}
    adapters = {(n.name, h.name) for n in site.nodes for h in n.hcas}
    machines = {m.name for m in site.ipu_machines}
    names = UniqueValues("an interface's name on a device")
    for i, one in enumerate(site.interfaces):
        path: Path = ("interfaces", i)
        owner = f"{one.device}/{one.name}"
        yield from known((*path, "device"), one.device, owners, "hardware of the site")
        yield from known((*path, "network"), one.network, site.networks, "networks of the site")
        yield from names.check(owner, owner, (*path, "name"))
        if (one.device, one.name) in adapters:
            yield (*path, "name"), one.name, f"another name: {one.device} has an adapter of this one"
        if one.device in machines and one.name in ("bmc", "gw", "rnic"):
            yield (
                (*path, "name"),
                one.name,
                f"another name: {one.name} of {one.device} is in its row of ipu_machines",
            )


def _macs(site: Site) -> Iterator[WrongValue]:
    """A MAC address is unique and not a multicast one: Neutron accepts any, and the same one on two networks."""
    seen = UniqueValues("a MAC address")
    for i, machine in enumerate(site.ipu_machines):
        for field in ("rnic_mac", "bmc_mac", "gw_mac"):
            mac = getattr(machine, field)
            seen.first.setdefault(mac, f"{machine.name} ({field})")
            yield from _unicast(mac, ("ipu_machines", i, field))
    for node in site.nodes:
        for hca in node.hcas:
            if hca.mac is not None:
                seen.first.setdefault(hca.mac, f"{node.name}/{hca.name}")
    for i, one in enumerate(site.interfaces):
        path: Path = ("interfaces", i, "mac")
        yield from seen.check(one.mac, f"{one.device}/{one.name}", path)
        yield from _unicast(one.mac, path)
        for j, mac in enumerate(one.bond_macs):
            inner: Path = ("interfaces", i, "bond_macs", j)
            if mac != one.mac:
                yield from seen.check(mac, f"{one.device}/{one.name}", inner)
            yield from _unicast(mac, inner)


def _adapters_macs(site: Site) -> Iterator[WrongValue]:
    for i, node in enumerate(site.nodes):
        for j, hca in enumerate(node.hcas):
            if hca.mac is not None:
                yield from _unicast(hca.mac, ("nodes", i, "hcas", j, "mac"))


def _unicast(mac: str, path: Path) -> Iterator[WrongValue]:
    """A MAC address isn't that of a group: IEEE 802 marks these by the lowest bit of the first octet."""
    if int(mac[:2], 16) & 1:
        yield path, mac, _NO_MACHINE.format("that of a group (multicast)")
    elif mac == "00:00:00:00:00:00":
        yield path, mac, _NO_MACHINE.format("all zeros")


def _addresses(site: Site) -> Iterator[WrongValue]:
    seen: dict[str | None, UniqueValues] = {}

    def of(cloud: str | None) -> UniqueValues:
        return seen.setdefault(cloud, UniqueValues("an IPv4 address"))

    for number, machine in enumerate(site.ipu_machines):
        pod = site.ipu_pods.get(machine.ipu_pod)
        for field in ("rnic_address", "bmc_address", "gw_address"):
            address = str(getattr(machine, field))
            of(pod.cloud if pod else None).first.setdefault(address, f"{machine.name} ({field})")
            network = network_at(site, pod.cloud if pod else None, getattr(machine, field))
            if network is not None:
                yield from _free(
                    getattr(machine, field), site.networks[network], ("ipu_machines", number, field)
                )
    for i, one in enumerate(site.interfaces):
        network = site.networks.get(one.network)
        if network is None:
            continue
        path: Path = ("interfaces", i, "address")
        yield from of(network.cloud).check(str(one.address), f"{one.device}/{one.name}", path)
        yield from _fits(one, network, path)
        yield from _free(one.address, network, path)


def network_at(site: Site, cloud: str | None, address: IPv4Address) -> str | None:
    """Name of the site's network in a cloud that has this address; None: it describes none."""
    of_cloud = (item for item in site.networks.items() if item[1].cloud == cloud)
    return next((k for k, n in of_cloud if any(address in s.addresses for s in n.subnets.values())), None)


def _fits(one: Interface, network: SiteNetwork, path: Path) -> Iterator[WrongValue]:
    blocks = [s.addresses for s in network.subnets.values()]
    if not any(one.address in b and one.address not in (b[0], b[-1]) for b in blocks):
        yield path, str(one.address), f"an address in {', '.join(map(str, blocks))}, of network {one.network}"


def _free(address: IPv4Address, network: SiteNetwork, path: Path) -> Iterator[WrongValue]:
    """An address is neither the router's nor one that Neutron may allocate itself."""
    for name, subnet in network.subnets.items():
        if address == subnet.gateway:
            yield path, str(address), f"another address: it is the gateway of subnet {name}"
        if subnet.pool is not None and address in subnet.pool:
            yield path, str(address), f"an address outside the pool of subnet {name} ({subnet.pool})"


def _host_names(site: Site) -> Iterator[WrongValue]:
    """Host names are unique: Neutron lets two ports have one name, and which one resolves is random."""
    seen: dict[str | None, UniqueValues] = {}
    for machine in site.ipu_machines:
        pod = site.ipu_pods.get(machine.ipu_pod)
        names = seen.setdefault(pod.cloud if pod else None, UniqueValues("a host name"))
        for name in map(machine.host_name, LEGS):
            names.first.setdefault(name, machine.name)
    for i, one in enumerate(site.interfaces):
        network = site.networks.get(one.network)
        if network is None:
            continue
        path: Path = ("interfaces", i, "dns_name")
        names = seen.setdefault(network.cloud, UniqueValues("a host name"))
        yield from names.check(one.host_name, f"{one.device}/{one.name}", path)
        if not is_dns_name(one.host_name):
            yield path, one.host_name, f"a dns_name of {DNS_NAMES}: device and interface don't make one"


class _Plugs(UniqueValues):
    """Switch ports that are taken. A BMC may share that of its own host's interface (NC-SI), except on bare-metal
    machines of pods: a tenant with root there could reach the BMCs' VLAN by its tag."""

    def __init__(self, site: Site) -> None:
        super().__init__("a switch port")
        self._device: dict[str, str] = {}
        self._bmcs: set[str] = set()
        self._machines = {n.name for n in site.nodes if n.machine is not None}
        for one in site.interfaces:
            owner, network = f"{one.device}/{one.name}", site.networks.get(one.network)
            self._device[owner] = one.device
            subnets = network.subnets.values() if network is not None else ()
            if any(s.role == "bmc" and one.address in s.addresses for s in subnets):
                self._bmcs.add(owner)

    def check(self, value: object, owner: str, path: Path) -> Iterator[WrongValue]:
        other = self.first.get(value, owner)
        device = self._device.get(owner)
        shares = other != owner and device is not None and device == self._device.get(other)
        if not shares or (owner in self._bmcs) == (other in self._bmcs):
            yield from super().check(value, owner, path)
        elif device in self._machines:
            allowed = f"a port of its own: it shares that of {other}, and {device}'s tenants would reach BMCs over it"
            yield path, value, allowed
        else:
            self.first[value] = f"{other} with {owner}"


def _ports(site: Site) -> Iterator[WrongValue]:
    """Each switch port exists, has one cable, and meets the requirements of what is cabled to it."""
    devices = {d.name: d for d in site.devices if d.kind == "switch"}
    switches = {s.name: s.ports for s in site.switches}
    used = _Plugs(site)
    for node in site.nodes:
        for hca in node.hcas:
            if hca.switch_port is not None:
                switch, _, port = hca.switch_port.partition("/")
                used.first.setdefault((switch, port), f"{node.name}/{hca.name}")
    for link in site.links:
        for end, port in ((link.a, link.a_port), (link.b, link.b_port)):
            used.first.setdefault((end, str(port)), f"the cable {link.a} to {link.b}")
    for i, machine in enumerate(site.ipu_machines):
        yield from _rnic(i, machine, devices, switches, used)
        if machine.rnic_switch in devices:
            path = ("ipu_machines", i, "rnic_switch")
            yield from _rnic_carried(machine, devices[machine.rnic_switch], site, path)
        for leg in ("bmc", "gw"):
            plug = getattr(machine, f"{leg}_switch"), getattr(machine, f"{leg}_port")
            where = ("ipu_machines", i, f"{leg}_switch"), ("ipu_machines", i, f"{leg}_port")
            yield from _plugged(*plug, f"{machine.name} ({leg})", where, devices, switches, used)
            name, network = _network_of(site, machine, leg)
            if plug[0] in devices and network is not None:
                yield from _frames_fit(devices[plug[0]], network.mtu, f"network {name}", where[0])
    for i, one in enumerate(site.interfaces):
        where = ("interfaces", i, "switch"), ("interfaces", i, "port")
        if one.switch == one.device:
            yield where[0], one.switch, "another switch than itself"
            continue
        owner = f"{one.device}/{one.name}"
        yield from _plugged(one.switch, one.port, owner, where, devices, switches, used)
        for j, end in enumerate(one.bond_ports):
            switch, _, port = end.partition("/")
            here: Path = ("interfaces", i, "bond_ports", j)
            yield from _plugged(switch, port, owner, (here, here), devices, switches, used)
        if one.switch in devices:
            yield from _carries(devices[one.switch], one, site.networks.get(one.network), ("interfaces", i))


def _rnic(
    i: int, machine: IpuMachine, devices: dict[str, Device], switches: dict[str, int], used: UniqueValues
) -> Iterator[WrongValue]:
    """An IPU-Machine's RNIC, whose switch need not be described; two on one port are reported with the IPU-PODs."""
    switch, number = machine.rnic_switch, machine.rnic_port
    names = port_names(devices[switch].ports) if switch in devices else ()
    count = len(names) or switches.get(switch)
    if count is not None and number > count:
        yield ("ipu_machines", i, "rnic_port"), number, f"switch {switch} has ports 1 to {count}"
    elif devices and switch not in devices:
        everything = {*devices, *switches}
        yield from known(("ipu_machines", i, "rnic_switch"), switch, everything, "switches of the site")
    used.first.setdefault((switch, names[number - 1] if number <= len(names) else str(number)), machine.name)


def _plugged(
    switch: str | None,
    port: str | None,
    owner: str,
    where: tuple[Path, Path],
    devices: dict[str, Device],
    switches: dict[str, int],
    used: UniqueValues,
) -> Iterator[WrongValue]:
    """A switch and port that hardware is cabled to. Args: where: paths of the fields with them."""
    if switch is None or port is None:
        if switch is not port:
            yield where[port is None], None, "switch and port are given together"
    elif (device := devices.get(switch)) is not None:
        yield from _on_device(device, port, owner, used, where[1])
    elif (count := switches.get(switch)) is not None:
        if port.isdecimal() and not 1 <= int(port) <= count:
            yield where[1], port, f"switch {switch} has ports 1 to {count}"
        for wrong, _, allowed in used.check((switch, port), owner, where[1]):
            yield wrong, f"{switch}/{port}", allowed
    else:
        yield from known(where[0], switch, {*devices, *switches}, "switches of the site")


def _on_device(device: Device, port: str, owner: str, used: UniqueValues, path: Path) -> Iterator[WrongValue]:
    """A port may be named by the vendor's name or by its number: both are the same port."""
    names = port_names(device.ports)
    if not names:
        return  # reported with the device
    if port in names:
        name = port
    elif port.isdecimal() and 1 <= int(port) <= len(names):
        name = names[int(port) - 1]
    else:
        allowed = f"a port of {device.name}: {' '.join(device.ports)}, or 1 to {len(names)}"
        yield path, port, allowed
        return
    for wrong, _, allowed in used.check((device.name, name), owner, path):
        yield wrong, f"{device.name}/{name}", allowed


def _carries(device: Device, one: Interface, network: SiteNetwork | None, path: Path) -> Iterator[WrongValue]:
    if device.port_gbps is not None and one.rate_gbps is not None and one.rate_gbps > device.port_gbps:
        allowed = f"at most {device.port_gbps:g}, the rate of the ports of {device.name}"
        yield (*path, "rate_gbps"), f"{one.rate_gbps:g}", allowed
    if network is not None:
        yield from _frames_fit(device, network.mtu, f"network {one.network}", (*path, "switch"))


def _rnic_carried(machine: IpuMachine, device: Device, site: Site, path: Path) -> Iterator[WrongValue]:
    if device.port_gbps is not None and device.port_gbps < RNIC_GBPS:
        allowed = f"a switch with ports of {RNIC_GBPS:g} Gb/s or more, the rate of an IPU-Machine's RNIC; "
        yield path, device.name, f"{allowed}{device.name} has {device.port_gbps:g}"
    pod = site.ipu_pods.get(machine.ipu_pod)
    fabric = site.fabrics.get(pod.data.fabric or "") if pod is not None else None
    if fabric is not None and fabric.network_mtu is not None:
        yield from _frames_fit(
            device, fabric.network_mtu, f"the data network of IPU-POD {machine.ipu_pod}", path
        )


def _network_of(site: Site, machine: IpuMachine, leg: str) -> tuple[str, SiteNetwork | None]:
    """The network of a machine's BMC or gateway, if the site describes it."""
    pod = site.ipu_pods.get(machine.ipu_pod)
    if pod is None:
        return "", None
    of = pod.bmc if leg == "bmc" else pod.gateway
    where = (pod.cloud, of.physical_network, of.vlan)
    found = (
        (n, net) for n, net in site.networks.items() if (net.cloud, net.physical_network, net.vlan) == where
    )
    return next(found, ("", None))


def _frames_fit(device: Device, mtu: int, what: str, path: Path) -> Iterator[WrongValue]:
    if device.mtu is not None and mtu > device.mtu:
        wanted = f"a switch with an mtu of {mtu} or more, that of {what}"
        yield path, device.name, f"{wanted}; {device.name} has {device.mtu}"
