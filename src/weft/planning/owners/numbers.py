"""Which of weft's numbers a graph uses: they must not be allocated again."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.spaces import SEGMENT, VLAN
from weft.model.specs import NetworkSpec, SegmentSpec
from weft.planning.fabric.datanetwork import data_networks


def numbers_of(resources: Iterable[Resource], site: Site) -> frozenset[tuple[str, int]]:
    """Space and number of every segment, and of every network on a physical network that weft gives numbers out on."""
    found: set[tuple[str, int]] = set()
    for resource in resources:
        spec = resource.spec
        if isinstance(spec, SegmentSpec):
            found.add((SEGMENT + resource.where, spec.number))
        elif isinstance(spec, NetworkSpec) and spec.segment is not None:
            found |= {(space, spec.segment) for space in _spaces(site, resource.where, spec.physical_network)}
    return frozenset(found)


def _spaces(site: Site, cloud: str, physical_network: str | None) -> Iterable[str]:
    """Spaces of the numbers on a cloud's physical network; none: weft allocates none there."""
    for name, fabric in site.fabrics.items():
        if fabric.physical_network == physical_network:
            yield SEGMENT + name
    for data in data_networks(site).values():
        if data.cloud == cloud and data.fabric is None and data.physical_network == physical_network:
            yield data.space
    here = site.clouds.get(cloud)
    vlans = here.management.vlans if here else None
    if vlans is not None and vlans[0] == physical_network:
        yield VLAN + cloud
