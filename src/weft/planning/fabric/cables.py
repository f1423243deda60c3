"""Cables from adapters to leaf switches: by the site, and as they are discovered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.model.observedfabric import ObservedFabric
from weft.model.site import Hca, Site
from weft.planning.kept import kept


@kept
def cabled_to(site: Site) -> Mapping[str, str]:
    """`node/adapter` -> its switch and port there, such as `leaf01 port 7`, of the table of links."""
    switches = site.switch_by_name
    found: dict[str, str] = {}
    for link in site.links:
        for end, other, port in ((link.a, link.b, link.b_port), (link.b, link.a, link.a_port)):
            if end not in switches and other in switches:
                found[end] = f"{other} port {port}"
    return found


def wanted_port(site: Site, node: str, hca: Hca) -> str:
    """Where the site has an adapter cabled; empty: nowhere."""
    return hca.switch_port or cabled_to(site).get(f"{node}/{hca.name}", "")


def seen_ports(site: Site, fabric: str, seen: ObservedFabric) -> Mapping[int, str]:
    """Node GUID of an adapter -> the switch and port at the other end of its cable, as discovered. A switch has its
    name in the site, or its node description if the site doesn't know it."""
    names = {s.guid: s.name for s in site.switches if s.fabric == fabric and s.guid is not None}
    switches = {node.guid: names.get(node.guid, node.name) for node in seen.nodes if node.kind == "switch"}
    found: dict[int, str] = {}
    for a, b in seen.links:
        for end, other in ((a, b), (b, a)):
            if end.guid not in switches and other.guid in switches:
                found[end.guid] = f"{switches[other.guid]} port {other.port}"
    return found


@dataclass(frozen=True, slots=True)
class PortPlace:
    """Where the site has a port of a fabric.

    Attributes:
        node: node or IPU-Machine; empty, like the other attributes, if the site has no such port.
        wanted: where its cable should end.
        found_by: its keys in `seen_ports`: several for a virtual function that may be on several adapters; None: its
            cable isn't discovered by a GUID.
    """

    node: str = ""
    adapter: str = ""
    wanted: str = ""
    found_by: tuple[int, ...] | None = None


def place_of_port(site: Site, fabric: str, ids: Iterable[str]) -> PortPlace:
    """Where a port is. Args: ids: its id on the fabric; for a virtual function, those of all adapters that it may be
    on."""
    ids = tuple(ids)
    hosts = [site.port_by_id[fabric, port] for port in ids if (fabric, port) in site.port_by_id]
    if hosts:
        node = hosts[0][0].name
        hcas = [hca for host, hca in hosts if host.name == node]
        guids = tuple(hca.guid for hca in hcas) if hcas[0].switch_port is None else None
        wanted = either(wanted_port(site, node, hca) for hca in hcas)
        return PortPlace(node, either(hca.name for hca in hcas), wanted, guids)
    machines = (site.machine_by_port.get((fabric, port)) for port in ids)
    machine = next((one for one in machines if one is not None), None)
    return PortPlace(machine.name, "rnic", machine.port_id) if machine is not None else PortPlace()


def either(names: Iterable[str]) -> str:
    """The names joined by `or`; empty if any of them is empty."""
    every = tuple(names)
    return " or ".join(every) if all(every) else ""
