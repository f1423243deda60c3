"""Where the VLANs of an IPU-POD's data network come from: a range of its own, or a fabric's, shared with other pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from weft.model.plan import UsedNumbers
from weft.model.ranges import Range
from weft.model.site import Site
from weft.model.spaces import SEGMENT
from weft.planning.kept import kept

DATA = "data/"
"""Prefix in `Allotment.numbers` of the spaces of data VLANs that don't belong to a fabric."""


class DataVlans(NamedTuple):
    """The source of one IPU-POD's data VLANs.

    Attributes:
        cloud: the cloud that has the network.
        space: the space in which a pod holds its number.
        fabric: the fabric whose switches weft configures; None: weft configures none.
    """

    space: str
    physical_network: str
    allowed: Range
    fabric: str | None = None
    cloud: str | None = None

    def taken(self, used: UsedNumbers) -> frozenset[int]:
        """Numbers that can't be allocated now."""
        held = used.spaces.get(self.space, frozenset[int]())
        return held if self.fabric is None else held | used.segments.get(self.fabric, frozenset())


def data_vlans(site: Site, ipu_pod: str) -> DataVlans:
    """The data VLANs of an IPU-POD of a checked site."""
    cloud, data = site.ipu_pods[ipu_pod].cloud, site.ipu_pods[ipu_pod].data
    if data.fabric is not None:
        fabric = site.fabrics[data.fabric]
        return DataVlans(SEGMENT + data.fabric, fabric.physical_network, fabric.segments, data.fabric, cloud)
    assert data.physical_network is not None and data.segments is not None
    return DataVlans(DATA + ipu_pod, data.physical_network, data.segments, cloud=cloud)


@kept
def data_networks(site: Site) -> Mapping[str, DataVlans]:
    """`Plan.fabric` of IPU pods -> its data network, for all IPU-PODs that have a network of their own."""
    return {name: data_vlans(site, name) for name in site.ipu_pods}
