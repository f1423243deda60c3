"""Cables from adapters to leaf switches: by the site, and as they are discovered. Pure."""

from __future__ import annotations

from collections.abc import Mapping

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
