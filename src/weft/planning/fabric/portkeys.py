"""The budget of segments of each host port: which tables have no entry left for a pod's segment. Pure.

A port's table (InfiniBand: NodeInfo.PartitionCap entries, IBTA 1.4 §14.2.5.7) has the default key and every partition
that the manager is configured to put it in. Segments of live pods don't count: a node has one pod at a time, and the
entry is freed before the next one is placed. The rest are foreign segments, the operator's, and remains of pods. Of a
full table OpenSM keeps the keys that are there, takes new ones in `table_order`, drops the rest, and only logs it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weft.model.fabric import TightPort
from weft.model.fabrictypes import FabricType
from weft.model.ids import DEFAULT_PKEY, format_guid
from weft.model.placement import FullPort
from weft.model.ranges import Range
from weft.model.site import Site
from weft.model.subnet import Partition

_SHOWN = 3


def table_order(pkey: int) -> int:
    """Sort key of OpenSM's order of new P_Keys (`osm_prtn.c`, `prtn_pkey_tbl`): it compares their network-order octets
    as little-endian numbers, so that 0x0100 comes before 0x0002."""
    return int.from_bytes(pkey.to_bytes(2, "big"), "little")


def full(port: TightPort, words: FabricType, pods: Collection[int]) -> FullPort | None:
    """Why the port has no entry left for another segment, or None.

    Args:
        pods: numbers of live pods.
    """
    others = sorted(port.numbers.difference(pods))
    if len(others) < port.entries:
        return None
    shown = ", ".join(map(words.text, others[-_SHOWN:]))
    why = (
        f"port {port.name} has no entry left for a {words.word}: {len(others)} of {port.entries} are taken, by {shown}"
        f"{' and others' if len(others) > _SHOWN else ''}"
    )
    return FullPort(fabric=port.fabric, node=port.node, why=why)


def crowded(site: Site, fabric: str, partitions: Mapping[int, Partition]) -> Sequence[TightPort]:
    """Ports of compute nodes that have more P_Keys than the default one and a pod's: only these can be full.

    The size of their tables isn't known yet: 0.
    """
    everybodys = {p.pkey for p in partitions.values() if p.everybody}
    every, ours = frozenset((DEFAULT_PKEY, *everybodys)), site.fabrics[fabric].segments
    suspects = _suspects(partitions, ours)
    if len(every) == 1 and not suspects:
        return []
    given: dict[int, set[int]] = {}
    for partition in partitions.values():
        for guid in partition.members if len(every) > 1 else suspects.intersection(partition.members):
            given.setdefault(guid, set()).add(partition.pkey)
    found: list[TightPort] = []
    for node in site.nodes:
        for hca in node.hcas_on(fabric) if node.role == "compute" else ():
            keys = every.union(given.get(hca.port_guid, ()))
            more = keys - {DEFAULT_PKEY}
            if len(more) > 1 or any(key not in ours for key in more):
                name = f"{hca.name} ({format_guid(hca.port_guid)})"
                found.append(TightPort(fabric, node.name, hca.port_id, name, keys, 0))
    return found


def _suspects(partitions: Mapping[int, Partition], ours: Range) -> set[int]:
    """GUIDs of ports that are in more than one partition, or in one that isn't a pod's. Set operations on whole
    partitions are far cheaper than a loop over their members."""
    found, seen = set[int](), set[int]()
    for partition in partitions.values():
        if partition.pkey == DEFAULT_PKEY:
            continue
        members = partition.members.keys()
        found |= members & seen if partition.pkey in ours else members
        seen |= members
    return found
