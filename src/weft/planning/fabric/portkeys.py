"""The budget of P_Keys of each host port: which tables have no entry left for a pod's key. Pure.

A port's table (NodeInfo.PartitionCap entries, IBTA 1.4 §14.2.5.7) has the default key and every partition that the
manager is configured to put it in. Keys of pods that hold something don't count: a node has one pod at a time, and gets
its entry back before the next one is let in. What is left are partitions of somebody else, of weft's operator, and
what a pod left behind. OpenSM loses the highest keys of a full table and says so in its log alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weft.model.fabric import Partition
from weft.model.ids import DEFAULT_PKEY, format_guid, format_pkey
from weft.model.placement import FullPort
from weft.model.site import Site

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PortKeys:
    """The P_Keys (15 bits) that a host port is configured to have, the default one included."""

    fabric: str
    node: str
    hca: str
    guid: int
    keys: frozenset[int]

    def full(self, entries: int | None, pods: Collection[int]) -> FullPort | None:
        """Why the port takes no further key, or None.

        Args:
            entries: what its table has; None: not known, then nothing is said.
            pods: keys of pods that hold something.
        """
        others = sorted(self.keys.difference(pods))
        if entries is None or len(others) < entries:
            return None
        shown = ", ".join(map(format_pkey, others[-_SHOWN:]))
        why = (
            f"port {self.hca} ({format_guid(self.guid)}) has no entry left for a P_Key: {len(others)} of {entries} are "
            f"taken, by {shown}{' and others' if len(others) > _SHOWN else ''}"
        )
        return FullPort(fabric=self.fabric, node=self.node, why=why)


def crowded(site: Site, fabric: str, partitions: Mapping[int, Partition]) -> Sequence[PortKeys]:
    """Ports of compute nodes that have more keys than the default one and a pod's: only these can be full."""
    every = frozenset((DEFAULT_PKEY, *(p.pkey for p in partitions.values() if p.everybody)))
    given: dict[int, set[int]] = {}
    for partition in partitions.values():
        for guid in partition.members:
            given.setdefault(guid, set()).add(partition.pkey)
    ours = site.fabrics[fabric].segments
    found: list[PortKeys] = []
    for node in site.nodes if len(every) > 1 or given else ():
        for hca in node.hcas_on(fabric) if node.role == "compute" else ():
            keys = every.union(given.get(hca.port_guid, ()))
            more = keys - {DEFAULT_PKEY}
            if len(more) > 1 or any(key not in ours for key in more):
                found.append(PortKeys(fabric, node.name, hca.name, hca.port_guid, keys))
    return found
