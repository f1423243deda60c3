"""Checks of the site's own networks on switches: which VLANs and ports weft may configure there. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind
from weft.model.site import Site, SiteNetwork, Switching
from weft.planning.site.hardware import network_at
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, known

Path = tuple[str | int, ...]
DEFAULT = 1
"""VLAN of ports that were never configured."""


def check_own_ports(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with `fabric` and `trunks` of networks."""
    vlans: dict[str, UniqueValues] = {}
    for name, network in site.networks.items():
        path: Path = ("networks", name)
        if network.fabric is None:
            if network.trunks:
                yield (*path, "trunks"), ", ".join(network.trunks), "nothing without a fabric"
            continue
        wrong = [*_fabric(site, network.fabric, (*path, "fabric"))]
        yield from wrong
        switching = None if wrong else site.fabrics[network.fabric].manager.switching
        if switching is None:
            continue
        seen = vlans.setdefault(
            network.fabric, UniqueValues(f"a VLAN of the switches of fabric {network.fabric}")
        )
        yield from _vlan(site, name, network, switching, seen)
    for fabric in sorted(vlans):
        yield from _Ports(site, fabric).check()


def _fabric(site: Site, name: str, path: Path) -> Iterator[WrongValue]:
    """The fabric's switches must be configured by weft, and readable."""
    ours = [n for n, f in site.fabrics.items() if f.type is FabricKind.ETHERNET and f.manager.switching]
    yield from known(path, name, ours, "Ethernet fabrics with manager.switching")
    if name not in ours:
        return
    fabric = site.fabrics[name]
    assert fabric.manager.switching is not None
    if fabric.is_neutrons:
        yield path, name, "a fabric whose switches weft configures; those of this one are Neutron's"
    if unreadable := [s.name for s in fabric.manager.switching.switches if s.interface == "generic"]:
        listed = ", ".join(unreadable[:5])
        yield path, name, f"a fabric whose switches can be read back; {listed} can't (interface generic)"


def _vlan(
    site: Site, name: str, network: SiteNetwork, switching: Switching, seen: UniqueValues
) -> Iterator[WrongValue]:
    path: Path = ("networks", name, "vlan")
    assert network.fabric is not None
    pods = site.fabrics[network.fabric].segments
    if network.vlan is None:
        yield path, None, "required with a fabric: switch ports are put into it"
    elif network.vlan == DEFAULT:
        yield path, network.vlan, "another with a fabric: ports that were never configured are in this one"
    elif network.vlan == switching.parking:
        yield path, network.vlan, f"another: parked ports of fabric {network.fabric} are in this one"
    elif network.vlan in pods:
        allowed = f"outside of {pods.first} to {pods.last}, which are for pods on fabric {network.fabric}"
        yield path, network.vlan, allowed
    else:
        yield from seen.check(network.vlan, f"network {name}", path)


class _Ports:
    """What is cabled to one fabric's switches."""

    def __init__(self, site: Site, fabric: str) -> None:
        self._site, self._fabric = site, fabric
        self._switches = {s.name for s in site.switches if s.fabric == fabric}
        switching = site.fabrics[fabric].manager.switching
        assert switching is not None
        taken: dict[str, str] = {}
        for node in site.nodes:
            for hca in node.hcas_on(fabric):
                taken[hca.port_id] = f"adapter {node.name}/{hca.name}, whose pods have it"
        for (on, port), machine in site.machine_by_port.items():
            if on == fabric:
                taken[port] = f"the RNIC of {machine.name}, whose pods have it"
        for link in switching.links:
            taken |= dict.fromkeys((link.a, link.b), f"the link {link.a} to {link.b}")
        for bundle in switching.bundles:
            for port in bundle.ports:
                taken.setdefault(port, f"the bundle of {bundle.ports[0]}")
        self._pods, self._access = taken, dict[str, str]()
        self._cabled: dict[str, int] = {}

    def check(self) -> Iterator[WrongValue]:
        yield from self._interfaces()
        yield from self._machines()
        yield from self._trunks()
        for name, network in self._mine():
            if not self._cabled.get(name) and not network.trunks:
                allowed = f"a fabric with a port on this network: nothing on it is cabled to switches of {self._fabric}"
                yield ("networks", name, "fabric"), self._fabric, allowed

    def _mine(self) -> list[tuple[str, SiteNetwork]]:
        return [(n, net) for n, net in self._site.networks.items() if net.fabric == self._fabric]

    def _interfaces(self) -> Iterator[WrongValue]:
        for i, one in enumerate(self._site.interfaces):
            owner, network = f"{one.device}/{one.name}", self._site.networks.get(one.network)
            if network is not None and network.fabric == self._fabric and one.bond_ports:
                allowed = (
                    "none: weft sets this port's VLAN on its switch, so `port` is the switch's aggregation"
                )
                yield ("interfaces", i, "bond_ports"), " ".join(one.bond_ports), allowed
                continue
            for j, (switch, port) in enumerate(one.ends):
                first = one.port is not None and not j
                where: Path = ("interfaces", i, "port") if first else ("interfaces", i, "bond_ports")
                yield from self._port(one.network, switch, port, owner, where)

    def _machines(self) -> Iterator[WrongValue]:
        for i, machine in enumerate(self._site.ipu_machines):
            pod = self._site.ipu_pods.get(machine.ipu_pod)
            for leg in ("bmc", "gw", "rnic"):
                if leg == "rnic" and (pod is None or pod.data.fabric is not None):
                    continue
                field = "rnic_switch_port" if leg == "rnic" else f"{leg}_port"
                network = network_at(
                    self._site, pod.cloud if pod else None, getattr(machine, f"{leg}_address")
                )
                switch, port = getattr(machine, f"{leg}_switch"), getattr(machine, field)
                if network is not None:
                    path: Path = ("ipu_machines", i, field)
                    yield from self._port(network, switch, port, f"{machine.name}/{leg}", path)

    def _port(
        self, network: str, switch: str | None, port: str | None, owner: str, path: Path
    ) -> Iterator[WrongValue]:
        """A port on which weft sets the network's VLAN untagged."""
        found = self._site.networks.get(network)
        if switch not in self._switches or port is None:
            return
        end = f"{switch}/{port}"
        if port.isdecimal():  # only the switch knows which port that is: weft may configure it
            allowed = f"the port's name on switch {switch}, not its number: weft sets VLANs of ports there"
            yield path, port, allowed
        if found is None or found.fabric != self._fabric:
            self._access.setdefault(end, owner)
            return
        self._cabled[network] = self._cabled.get(network, 0) + 1
        if port.isdecimal():
            return
        if end in self._pods:
            yield path, end, f"a port of its own: this is that of {self._pods[end]}"
        elif end in self._access:
            yield path, end, f"a port of its own: {self._access[end]} has this one"
        self._access.setdefault(end, owner)

    def _trunks(self) -> Iterator[WrongValue]:
        for name, network in self._mine():
            for i, end in enumerate(network.trunks):
                path: Path = ("networks", name, "trunks", i)
                if end.partition("/")[0] not in self._switches:
                    yield path, end, f"a port of a switch of fabric {self._fabric}"
                elif end in network.trunks[:i]:
                    yield path, end, "each port once"
                elif end in self._pods:
                    yield path, end, f"a port of its own: this is that of {self._pods[end]}"
                elif end in self._access:
                    allowed = f"a port that hardware isn't cabled to: this is that of {self._access[end]}"
                    yield path, end, allowed
