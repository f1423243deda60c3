"""Every cable of a site that its description has, with both ends: switches', adapters' and interfaces'. Pure.

`weft.planning.fabric.topology.cables` has what placement needs of one fabric; here are also the further ends of bonds,
IPU-Machines, and interfaces on the site's own networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from weft.model.site import Site
from weft.model.site.devices import plain_port
from weft.planning.kept import kept

End = tuple[str, str]
"""A switch and its port, as the site writes them; numbers as text."""


class FabricCable(NamedTuple):
    """A cable on a fabric.

    Attributes:
        a: its end at a switch.
        b: the other end: at a switch, or `node/adapter` and its port.
        gbps: its rate, if it is given.
        peer: peer link of an MLAG pair.
        host: `b` is a node's adapter or an IPU-Machine's RNIC.
    """

    fabric: str
    a: End
    b: End
    gbps: int | None
    peer: bool = False
    host: bool = False


class InterfacePlug(NamedTuple):
    """An interface on one of the site's own networks, or on the data network of an IPU-POD that isn't a fabric.

    Attributes:
        ends: of each of its links; none: where it is cabled isn't described.
    """

    device: str
    name: str
    network: str
    ends: tuple[End, ...]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Cables by what they connect.

    Attributes:
        of_host: `node/adapter` -> its cables.
        at: switch -> all cables of fabrics at it.
        between: fabric -> cables between its switches.
        plugs: switch -> interfaces that are cabled to it.
        ends: ends of all cables and interfaces at switches.
        cabled: devices with an interface of which the site has a cable.
        fastest: fabric -> Gb/s of its fastest adapter, the rate of cables without one.
    """

    of_host: Mapping[str, tuple[FabricCable, ...]]
    at: Mapping[str, tuple[FabricCable, ...]]
    between: Mapping[str, tuple[FabricCable, ...]]
    plugs: Mapping[str, tuple[InterfacePlug, ...]]
    ends: frozenset[End]
    cabled: frozenset[str]
    fastest: Mapping[str, int]


@kept
def wiring(site: Site) -> Wiring:
    """The cables of a site."""
    of_host: dict[str, list[FabricCable]] = {}
    at: dict[str, list[FabricCable]] = {}
    between: dict[str, list[FabricCable]] = {}
    plugs: dict[str, list[InterfacePlug]] = {}
    ends: set[End] = set()
    cabled: set[str] = set()
    for wire in (*_links(site), *_by_port(site)):
        at.setdefault(wire.a[0], []).append(wire)
        ends.add(wire.a)
        if wire.host:
            of_host.setdefault(wire.b[0], []).append(wire)
        else:
            at.setdefault(wire.b[0], []).append(wire)
            between.setdefault(wire.fabric, []).append(wire)
            ends.add(wire.b)
    for plug in _plugs(site):
        ends.update(plug.ends)
        cabled.update((plug.device,) if plug.ends else ())
        for switch in dict.fromkeys(switch for switch, _ in plug.ends):
            plugs.setdefault(switch, []).append(plug)
    fastest: dict[str, int] = {}
    for node in site.nodes:
        for hca in node.hcas:
            fastest[hca.fabric] = max(hca.rate_gbps, fastest.get(hca.fabric, 0))
    return Wiring(
        _frozen(of_host), _frozen(at), _frozen(between), {k: tuple(v) for k, v in plugs.items()},
        frozenset(ends), frozenset(cabled), fastest,
    )  # fmt: skip


def _frozen(wires: Mapping[str, Iterable[FabricCable]]) -> dict[str, tuple[FabricCable, ...]]:
    return {name: tuple(mine) for name, mine in wires.items()}


def _links(site: Site) -> Iterator[FabricCable]:
    """Cables in the table `links`."""
    switches = site.switch_by_name
    for link in site.links:
        a, b = (link.a, str(link.a_port)), (link.b, str(link.b_port))
        if a[0] not in switches:
            a, b = b, a
        if a[0] in switches:
            yield FabricCable(switches[a[0]].fabric, a, b, link.rate_gbps, host=b[0] not in switches)


def _by_port(site: Site) -> Iterator[FabricCable]:
    """Cables of switches that are described port by port."""
    machines = {(fabric, port): m.name for (fabric, port), m in site.machine_by_port.items()}
    for fabric, one in site.fabrics.items():
        switching = one.manager.switching
        if switching is None:
            continue
        bundles = {end: bundle.ports for bundle in switching.bundles for end in bundle.ports}
        hosts = {
            h.switch_port: (f"{n.name}/{h.name}", h.rate_gbps)
            for n in site.nodes
            for h in n.hcas_on(fabric)
            if h.switch_port is not None
        }
        hosts |= {port: (f"{name}/rnic", None) for (on, port), name in machines.items() if on == fabric}
        for port, (host, gbps) in hosts.items():
            for end in bundles.get(port, (port,)):
                yield FabricCable(fabric, _end(end), (host, ""), gbps, host=True)
        for link in switching.links:
            yield FabricCable(fabric, _end(link.a), _end(link.b), link.rate_gbps, link.peer)


def _end(text: str) -> End:
    switch, _, port = text.partition("/")
    return switch, plain_port(port)


def _plugs(site: Site) -> Iterator[InterfacePlug]:
    for one in site.interfaces:
        ends = tuple((switch, plain_port(port)) for switch, port in one.ends)
        yield InterfacePlug(one.device, one.name, one.network, ends)
    on_fabric = {m.name for m in site.machine_by_port.values()}
    for machine in site.ipu_machines:
        of = f"of IPU-POD {machine.ipu_pod}"
        legs = (
            ("bmc", f"BMC network {of}", machine.bmc_switch, machine.bmc_port),
            ("gw", f"gateway network {of}", machine.gw_switch, machine.gw_port),
        )
        for name, network, switch, port in legs:
            ends = ((switch, plain_port(port or "")),) if switch is not None else ()
            yield InterfacePlug(machine.name, name, network, ends)
        if machine.name not in on_fabric:
            port = machine.rnic_switch_port or str(machine.rnic_port)
            yield InterfacePlug(machine.name, "rnic", f"data network {of}", ((machine.rnic_switch, port),))
