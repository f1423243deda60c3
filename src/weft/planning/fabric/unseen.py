"""Adapters that a reading of a fabric doesn't show. Pure."""

from __future__ import annotations

from typing import NamedTuple

from weft.model.ids import format_guid
from weft.model.linkstates import LinkStates
from weft.model.observedfabric import ObservedFabric
from weft.model.site import Site


class Unseen(NamedTuple):
    """An adapter. Attributes: port: id, as in `Membership`; name: of the adapter."""

    port: str
    node: str
    name: str


def unseen_adapters(site: Site, fabric: str, seen: ObservedFabric) -> tuple[Unseen, ...]:
    """Adapters that the site describes and the reading lacks, without those of nodes in maintenance. A partial
    reading proves none of them missing."""
    there = {port for node in seen.nodes for port in node.port_guids}
    return tuple(
        Unseen(format_guid(hca.port_guid), node.name, hca.name)
        for node in site.nodes
        for hca in node.hcas_on(fabric)
        if node.maintenance is None and hca.port_guid not in there
    )


def unplugged_adapters(site: Site, fabric: str, links: LinkStates) -> tuple[Unseen, ...]:
    """Adapters whose link is down by their switch, without those of nodes in maintenance."""
    return tuple(
        Unseen(hca.port_id, node.name, hca.name)
        for node in site.nodes
        for hca in node.hcas_on(fabric)
        if node.maintenance is None and hca.port_id in links.down
    )
