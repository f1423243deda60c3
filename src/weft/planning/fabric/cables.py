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
    """Node GUID of an adapter -> the switch and port at the other end of its cable, as discovered; a switch by its name
    in the site, else by its own."""
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
        node: node or IPU-Machine; empty, as all others: the site has no such port.
        wanted: where its cable should end.
        found_by: its key in `seen_ports`; None: it isn't discovered.
    """

    node: str = ""
    adapter: str = ""
    wanted: str = ""
    found_by: int | None = None


def place_of_port(site: Site, fabric: str, ids: Iterable[str]) -> PortPlace:
    """The first of the ports that the site has. Args: ids: the fabric's own."""
    for port in ids:
        if found := site.port_by_id.get((fabric, port)):
            node, hca = found
            guid = hca.guid if hca.switch_port is None else None
            return PortPlace(node.name, hca.name, wanted_port(site, node.name, hca), guid)
        if machine := site.machine_by_port.get((fabric, port)):
            return PortPlace(machine.name, "rnic", machine.port_id)
    return PortPlace()
