"""Ports whose P_Key tables are nearly full. Only the ports know their tables' sizes, so an agent reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from weft.drivers.ufm.partitions import PartitionListing
from weft.model.errors import WeftError
from weft.model.fabric import TightPort
from weft.model.ids import parse_guid
from weft.model.site import Site
from weft.model.subnet import Partition, PortTable
from weft.planning.fabric.portkeys import crowded

Read = Callable[[Collection[int]], Mapping[int, PortTable]]


def tight_ports(site: Site, fabric: str, listing: PartitionListing, read: Read) -> tuple[TightPort, ...]:
    """The nearly full ports among those whose tables' size could be read; none without an agent, since UFM doesn't show
    sizes."""
    partitions = {n: Partition(n, p.name, p.members) for n, p in listing.partitions.items()}
    suspects = crowded(site, fabric, partitions)
    try:
        tables = read([parse_guid(p.port) for p in suspects]) if suspects else {}
    except WeftError:
        return ()
    found: list[TightPort] = []
    for port in suspects:
        table = tables.get(parse_guid(port.port))
        if table is not None and not table.unreachable:
            found.append(replace(port, entries=table.capacity))
    return tuple(found)
