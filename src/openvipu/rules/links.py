"""Which links a partition opens on each of its machines. Everything else stays blocked [user guide]."""

from __future__ import annotations

from collections.abc import Mapping

from openvipu.model.hardware import IpuSetting, Setting
from openvipu.model.partition import Partition, PlacedIpu, Routing
from openvipu.model.site import IPUS_PER_MACHINE, Cluster, ClusterTopology
from openvipu.rules.board import DOWN, GATEWAY, UP, inner_links, position_of


def settings(partition: Partition, cluster: Cluster, serials: Mapping[str, str]) -> dict[str, Setting]:
    """One Setting for each agent of the partition. ``serials`` gives each agent's machine."""
    on_machine: dict[str, list[PlacedIpu]] = {}
    for ipu in partition.ipus:
        on_machine.setdefault(ipu.agent_id, []).append(ipu)
    found: dict[str, Setting] = {}
    for agent_id, ipus in on_machine.items():
        peers = _gateway_peers(partition, cluster, ipus[0])
        links = list(inner_links({position_of(ipu.number) for ipu in ipus}))
        links += _cables(partition, cluster, ipus[0])
        links += GATEWAY if peers else ()
        found[agent_id] = Setting(
            partition_id=partition.id,
            generation=partition.generation,
            ipus=tuple(IpuSetting(ipu.number, ipu.routing_id, ipu.segment) for ipu in ipus),
            open_links=tuple(links),
            gateway_peers=tuple(serials[peer] for peer in peers),
            sync_type=int(partition.shape.sync_type),
            routing=int(partition.shape.routing),
        )
    return found


def _cables(partition: Partition, cluster: Cluster, ipu: PlacedIpu) -> tuple[str, ...]:
    """IPU-Link ports towards machines of the same segment; the loop only for RINGSWNC, which uses it."""
    segment = [other.topology_id for other in partition.ipus if other.segment == ipu.segment]
    first, last = min(segment) // IPUS_PER_MACHINE, max(segment) // IPUS_PER_MACHINE
    machine = ipu.topology_id // IPUS_PER_MACHINE
    looped = partition.shape.routing is Routing.RINGSWNC and last - first + 1 == cluster.machines_per_ild
    ports: tuple[str, ...] = ()
    if machine < last or (looped and last > first):
        ports += UP
    if machine > first or (looped and last > first):
        ports += DOWN
    return ports


def _gateway_peers(partition: Partition, cluster: Cluster, ipu: PlacedIpu) -> tuple[str, ...]:
    """Machines at the same place in the other segments: the neighbours if looped, all if switched."""
    count = partition.shape.segments
    if count == 1:
        return ()
    if cluster.gateway is ClusterTopology.SWITCHED:
        others = [segment for segment in range(count) if segment != ipu.segment]
    else:
        others = [segment for segment in (ipu.segment - 1, ipu.segment + 1) if 0 <= segment < count]
        if count == cluster.ilds:
            others = [(ipu.segment + step) % count for step in (-1, 1)]
    first_ild = ipu.ild - ipu.segment
    machine = ipu.topology_id // IPUS_PER_MACHINE
    return tuple(dict.fromkeys(cluster.domain(first_ild + segment)[machine] for segment in others))
