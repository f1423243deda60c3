"""Where a partition goes: aligned (buddy) slots, best fit. Graphcore's rule is not public; this is ours.

A slot of N IPUs begins at a multiple of N in the topology ids of its IPU-Link domain. So a slot below 4
lies inside one machine, a larger one is a run of whole adjacent machines, and slots never overlap by
halves: what is free stays in blocks that can be used. Several segments take the same slot in several
adjacent domains, because machine ``i`` of one domain is cabled to machine ``i`` of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from openvipu.model.errors import BadRequest, NoRoom
from openvipu.model.partition import Partition, PlacedIpu, Selection, Shape
from openvipu.model.site import IPUS_PER_MACHINE, Cluster
from openvipu.model.state import State
from openvipu.rules.board import number_of

Site = tuple[int, int]
"""An IPU of a cluster: (IPU-Link domain, topology id)."""


CHOSEN = -1
"""Index of a slot that was chosen IPU by IPU: it is in no list of options."""


@dataclass(frozen=True, slots=True)
class Pool:
    """IPUs that one partition may be cut from: those of an allocation, or a cluster's unallocated rest."""

    cluster: Cluster
    allocation_id: str
    agent_ids: frozenset[str]

    @property
    def words(self) -> str:
        """The pool in words, for messages."""
        return f"allocation {self.allocation_id!r}" if self.allocation_id else f"cluster {self.cluster.id!r}"


@dataclass(frozen=True, slots=True)
class Slot:
    """One aligned place: ``segments`` domains from ``first_ild`` on, topology ids from ``start`` on."""

    index: int
    first_ild: int
    start: int
    segments: int
    segment_size: int

    def sites(self) -> tuple[Site, ...]:
        """Its IPUs in routing order."""
        return tuple(
            (self.first_ild + segment, self.start + offset)
            for segment in range(self.segments)
            for offset in range(self.segment_size)
        )


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Which IPUs of a pool can't be given now: used ones, and ones known to be broken."""

    pool: Pool
    used: frozenset[Site]
    broken: frozenset[Site] = field(default_factory=frozenset)

    def is_free(self, slot: Slot) -> bool:
        """Whether no IPU of the slot is used or broken."""
        return not any(site in self.used or site in self.broken for site in slot.sites())


def agent_at(cluster: Cluster, site: Site) -> str:
    """The agent of the machine that holds this IPU."""
    ild, topology_id = site
    return cluster.agent_ids[ild * cluster.machines_per_ild + topology_id // IPUS_PER_MACHINE]


def pool_sites(pool: Pool) -> frozenset[Site]:
    """Every IPU of the pool."""
    cluster = pool.cluster
    return frozenset(
        (ild, topology_id)
        for ild in range(cluster.ilds)
        for topology_id in range(cluster.ild_size)
        if agent_at(cluster, (ild, topology_id)) in pool.agent_ids
    )


def occupancy(state: State, pool: Pool, unhealthy: frozenset[tuple[str, int]] = frozenset()) -> Occupancy:
    """What is taken in ``pool``. ``unhealthy`` holds (agent, IPU number) pairs that are known to be broken."""
    used = frozenset(
        (ipu.ild, ipu.topology_id)
        for partition in state.partitions.values()
        if partition.cluster_id == pool.cluster.id
        for ipu in partition.ipus
    )
    broken: frozenset[Site] = frozenset()
    if unhealthy:
        broken = frozenset(
            site
            for site in pool_sites(pool)
            if (agent_at(pool.cluster, site), number_of(site[1])) in unhealthy
        )
    return Occupancy(pool, used, broken)


def slots(shape: Shape, pool: Pool) -> Iterator[Slot]:
    """Every aligned slot inside the pool, free or not. ``index`` counts them; ``--index`` takes it."""
    cluster = pool.cluster
    index = 0
    for first_ild in range(0, cluster.ilds - shape.segments + 1, shape.segments):
        for start in range(0, cluster.ild_size, shape.segment_size):
            slot = Slot(index, first_ild, start, shape.segments, shape.segment_size)
            if all(agent_at(cluster, site) in pool.agent_ids for site in _one_per_machine(slot)):
                yield slot
                index += 1


def choose(shape: Shape, taken: Occupancy) -> Slot:
    """The free slot whose surrounding free block is smallest, the first of equals; NoRoom if none is free.

    Best fit in a buddy system: a cut is made in the smallest block that holds it, so that large
    blocks stay whole for large partitions.
    """
    free = [slot for slot in slots(shape, taken.pool) if taken.is_free(slot)]
    if not free:
        raise NoRoom(_why_no_room(shape, taken))
    sites = pool_sites(taken.pool) - taken.used - taken.broken
    return min(free, key=lambda slot: (_surroundings(slot, sites, taken.pool.cluster.ild_size), slot.index))


def match(shape: Shape, taken: Occupancy, wanted: tuple[Selection, ...]) -> Slot:
    """The place that is exactly the IPUs ``wanted``; BadRequest if they are none, NoRoom if it is taken.

    A caller that chooses may have any run of whole neighbouring machines, aligned or not: their cables join them alike.
    Below a machine the runs are the aligned ones, since IPUs 1 and 2 of a board have no link. Our choice.
    """
    asked = {(ipu.ild, ipu.topology_id) for ipu in wanted}
    if len(asked) != len(wanted):
        raise BadRequest(
            "ipus names an IPU twice; each (ipulink_domain_topology_id, topology_id) may come once"
        )
    cluster = taken.pool.cluster
    first_ild, start = min(asked)
    slot = Slot(CHOSEN, first_ild, start, shape.segments, shape.segment_size)
    fits = (
        start % min(shape.segment_size, IPUS_PER_MACHINE) == 0
        and start + shape.segment_size <= cluster.ild_size
        and first_ild % shape.segments == 0
        and first_ild + shape.segments <= cluster.ilds
        and asked == set(slot.sites())
        and all(agent_at(cluster, site) in taken.pool.agent_ids for site in _one_per_machine(slot))
    )
    if not fits:
        raise BadRequest(
            f"ipus are not a run of {shape.size} neighbouring IPUs in {taken.pool.words}; "
            "--options lists aligned ones"
        )
    _check_routing_ids(slot, wanted)
    if not taken.is_free(slot):
        raise NoRoom(f"the chosen IPUs, from {start} on in {taken.pool.words}, are not free")
    return slot


def place(slot: Slot, cluster: Cluster) -> tuple[PlacedIpu, ...]:
    """The IPUs of a slot with their names for Poplar; routing ids count from 0 in each segment [seen]."""
    return tuple(
        PlacedIpu(
            agent_id=agent_at(cluster, (ild, topology_id)),
            number=number_of(topology_id),
            ild=ild,
            segment=ild - slot.first_ild,
            topology_id=topology_id,
            routing_id=topology_id - slot.start,
        )
        for ild, topology_id in slot.sites()
    )


def slot_of(partition: Partition) -> tuple[Site, ...]:
    """The IPUs of a placed partition, by domain and topology id."""
    return tuple((ipu.ild, ipu.topology_id) for ipu in partition.ipus)


def _one_per_machine(slot: Slot) -> Iterator[Site]:
    step = min(slot.segment_size, IPUS_PER_MACHINE)
    for segment in range(slot.segments):
        for offset in range(0, slot.segment_size, step):
            yield slot.first_ild + segment, slot.start + offset


def _check_routing_ids(slot: Slot, wanted: tuple[Selection, ...]) -> None:
    """All zero means "number them for me"; otherwise they must be the numbers that we would give."""
    if not any(ipu.routing_id or ipu.segment for ipu in wanted):
        return
    for ipu in wanted:
        expected = (ipu.ild - slot.first_ild, ipu.topology_id - slot.start)
        if (ipu.segment, ipu.routing_id) != expected:
            raise BadRequest(
                f"ipus: IPU {ipu.topology_id} of domain {ipu.ild} must have ipulink_domain_routing_id "
                f"{expected[0]} and routing_id {expected[1]}, or leave all of them zero"
            )


def _surroundings(slot: Slot, free: frozenset[Site], ild_size: int) -> int:
    """Size of the largest aligned free block around the slot, summed over its segments."""
    total = 0
    for ild in range(slot.first_ild, slot.first_ild + slot.segments):
        size = slot.segment_size
        while size * 2 <= ild_size:
            begin = slot.start - slot.start % (size * 2)
            if not all((ild, topology_id) in free for topology_id in range(begin, begin + size * 2)):
                break
            size *= 2
        total += size
    return total


def _why_no_room(shape: Shape, taken: Occupancy) -> str:
    sites = pool_sites(taken.pool)
    words = f"no free slot of {shape.size} IPUs in {taken.pool.words}"
    if not any(True for _ in slots(shape, taken.pool)):
        return f"{words}: it has {len(sites)} IPUs and no aligned run of that size"
    text = f"{words}: {len(sites & taken.used)} of its {len(sites)} IPUs are in use"
    broken = sites & taken.broken - taken.used
    if broken:
        agents = sorted({agent_at(taken.pool.cluster, site) for site in broken})
        text += f", {len(broken)} are not healthy ({', '.join(agents)})"
    return text
