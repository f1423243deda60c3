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
    """Those that the site describes, without nodes in maintenance. Of a partial reading this says nothing."""
    there = {port for node in seen.nodes for port in node.port_guids}
    return tuple(
        Unseen(format_guid(hca.port_guid), node.name, hca.name)
        for node in site.nodes
        for hca in node.hcas_on(fabric)
        if node.maintenance is None and hca.port_guid not in there
    )


def unplugged_adapters(site: Site, fabric: str, links: LinkStates) -> tuple[Unseen, ...]:
    """Those whose switch says that their link is down, without nodes in maintenance."""
    return tuple(
        Unseen(hca.port_id, node.name, hca.name)
        for node in site.nodes
        for hca in node.hcas_on(fabric)
        if node.maintenance is None and hca.port_id in links.down
    )
