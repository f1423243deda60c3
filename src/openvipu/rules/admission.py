"""Admitting a partition: which pools it may come from, and the state that has it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, replace

from openvipu.model.errors import AlreadyExists, BadRequest, Conflict, NoRoom, NotFound
from openvipu.model.partition import Partition, PlacedIpu, Requirements
from openvipu.model.site import Allocation, Cluster
from openvipu.model.state import State
from openvipu.rules import placement
from openvipu.rules.placement import Pool
from openvipu.rules.shape import check_requirements, resolve

Unhealthy = frozenset[tuple[str, int]]
"""(agent id, IPU number) pairs that must not be given."""

Visible = Collection[str] | None
"""Allocation ids that the user may use; None: every one, and unallocated machines too."""


@dataclass(frozen=True, slots=True)
class Option:
    """One place for a partition, as ``--options`` shows it."""

    index: int
    pool: Pool
    ipus: tuple[PlacedIpu, ...]
    free: bool
    preferred: bool


def allocations_seen(state: State, visible: Visible) -> tuple[Allocation, ...]:
    """The allocations that this user may use, by name."""
    return tuple(
        allocation
        for id_, allocation in sorted(state.allocations.items())
        if visible is None or id_ in visible
    )


def rest_of(state: State, cluster: Cluster) -> Pool:
    """The machines of a cluster that are in no allocation."""
    allocated = {agent for allocation in state.allocations.values() for agent in allocation.agent_ids}
    return Pool(cluster, "", frozenset(cluster.agent_ids) - allocated)


def pools(state: State, wanted: Requirements, visible: Visible) -> tuple[Pool, ...]:
    """Where this partition may come from, in the order to try.

    A partition uses machines of one allocation only [user guide]. Without an allocation any that the
    user has will do; a cluster narrows them down [API]. Callers that aren't bound to allocations (the
    administrator, or all users of a controller without ``--secure``) may also use unallocated
    machines: our choice, so that a controller works before the first allocation is made.
    """
    check_requirements(wanted)
    if wanted.cluster_id:
        state.cluster(wanted.cluster_id)
    if wanted.allocation_id:
        if visible is not None and wanted.allocation_id not in visible:
            raise NotFound(f"allocation {wanted.allocation_id!r} doesn't exist")
        allocation = state.allocation(wanted.allocation_id)
        if wanted.cluster_id not in ("", allocation.cluster_id):
            raise BadRequest(
                f"allocation {allocation.id!r} is in cluster {allocation.cluster_id!r}, "
                f"not in cluster_id {wanted.cluster_id!r}"
            )
        return (_pool(state, allocation),)
    found = [_pool(state, allocation) for allocation in allocations_seen(state, visible)]
    if visible is None:
        found += [rest_of(state, cluster) for _, cluster in sorted(state.clusters.items())]
    found = [pool for pool in found if pool.agent_ids and wanted.cluster_id in ("", pool.cluster.id)]
    if not found:
        where = f" in cluster {wanted.cluster_id!r}" if wanted.cluster_id else ""
        raise NoRoom(f"no free allocation{where}: there is none that you may use")
    return tuple(found)


def admit(state: State, wanted: Requirements, pool: Pool, unhealthy: Unhealthy) -> tuple[State, Partition]:
    """The state with the new partition placed in ``pool``, pending. Refused if the name is taken."""
    if wanted.id in state.partitions:
        raise AlreadyExists(f"partition {wanted.id!r} exists already")
    shape = resolve(wanted, pool.cluster)
    taken = placement.occupancy(state, pool, unhealthy)
    slot = placement.match(shape, taken, wanted.ipus) if wanted.ipus else placement.choose(shape, taken)
    partition = Partition(
        id=wanted.id,
        cluster_id=pool.cluster.id,
        allocation_id=pool.allocation_id,
        shape=shape,
        ipus=placement.place(slot, pool.cluster),
        generation=state.generation + 1,
        auto_reset=wanted.auto_reset,
        relocatable=wanted.relocatable,
    )
    return replace(state.with_partition(partition), generation=partition.generation), partition


def relocate(state: State, partition: Partition, unhealthy: Unhealthy) -> tuple[State, Partition]:
    """The partition on other IPUs of the same pool, under a new generation; NoRoom if there are none.

    Its own healthy IPUs count as free, so that a partition of a full allocation can shift by the one
    machine that it lost.
    """
    cluster = state.cluster(partition.cluster_id)
    pool = pool_of(state, partition)
    others = placement.occupancy(state.without_partition(partition.id), pool, unhealthy)
    slot = placement.choose(partition.shape, others)
    if slot.sites() == placement.slot_of(partition):
        raise NoRoom(f"no other place for partition {partition.id!r} than the one that it has")
    moved = replace(partition, ipus=placement.place(slot, cluster), generation=state.generation + 1)
    return replace(state.with_partition(moved), generation=moved.generation), moved


def pool_of(state: State, partition: Partition) -> Pool:
    """The pool that a partition was cut from."""
    if partition.allocation_id:
        return _pool(state, state.allocation(partition.allocation_id))
    return rest_of(state, state.cluster(partition.cluster_id))


def options(state: State, wanted: Requirements, visible: Visible, unhealthy: Unhealthy) -> list[Option]:
    """Every place where the partition could go, numbered through all pools; nothing is created.

    A pool whose cluster can't hold such a partition has none; if no pool can, its reason is raised.
    """
    found: list[Option] = []
    reason: BadRequest | None = None
    for pool in pools(state, wanted, visible):
        try:
            shape = resolve(wanted, pool.cluster)
        except BadRequest as refusal:
            reason = refusal
            continue
        taken = placement.occupancy(state, pool, unhealthy)
        best = -1
        if not any(option.preferred for option in found):
            with contextlib.suppress(NoRoom):
                best = placement.choose(shape, taken).index
        offset = len(found)
        for slot in placement.slots(shape, pool):
            ipus = placement.place(slot, pool.cluster)
            free = taken.is_free(slot)
            found.append(Option(offset + slot.index, pool, ipus, free, slot.index == best))
    if not found and reason:
        raise reason
    return found


def check_removable_agents(state: State, agent_ids: Collection[str], what: str) -> None:
    """Refuse while a partition uses one of these machines."""
    users = sorted(
        partition.id
        for partition in state.partitions.values()
        if any(agent in agent_ids for agent in partition.agent_ids)
    )
    if users:
        raise Conflict(f"{what} is in use by partition {users[0]!r}; remove its partitions first")


def _pool(state: State, allocation: Allocation) -> Pool:
    return Pool(state.cluster(allocation.cluster_id), allocation.id, frozenset(allocation.agent_ids))
