"""Allocations: whole machines of one cluster, granted to users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openvipu.model.errors import AlreadyExists, BadRequest, Conflict, NoRoom, NotFound
from openvipu.model.names import check_id
from openvipu.model.site import IPUS_PER_MACHINE, Allocation, Cluster
from openvipu.model.state import State
from openvipu.rules.admission import check_removable_agents, rest_of
from openvipu.rules.board import is_power_of_two


def by_agents(state: State, id_: str, cluster_id: str, agent_ids: Sequence[str]) -> Allocation:
    """An allocation of exactly these machines. They are in one cluster and in no other allocation.

    Disjoint allocations are our choice: isolation between users is then isolation between machines.
    """
    _check_new(state, id_)
    if len(set(agent_ids)) != len(agent_ids):
        raise BadRequest("agent_ids names an agent twice")
    cluster = _cluster_of(state, cluster_id, agent_ids)
    for agent in agent_ids:
        owner = next((entry.id for entry in state.allocations.values() if agent in entry.agent_ids), None)
        if owner:
            raise NoRoom(f"no free allocation: agent {agent!r} is in allocation {owner!r}")
    check_removable_agents(state, agent_ids, "one of the agents")
    return Allocation(id_, cluster.id, tuple(agent for agent in cluster.agent_ids if agent in set(agent_ids)))


def by_size(state: State, id_: str, cluster_id: str, size: int) -> Allocation:
    """An allocation of ``size`` IPUs, the best fit of :func:`candidates`; NoRoom with "no free allocation"."""
    _check_new(state, id_)
    found = candidates(state, cluster_id, size)
    if not found:
        where = f" in cluster {cluster_id!r}" if cluster_id else ""
        raise NoRoom(f"no free allocation of {size} IPUs{where}")
    return replace(found[0], id=id_)


def candidates(state: State, cluster_id: str, size: int) -> list[Allocation]:
    """Every free aligned run of machines for ``size`` IPUs, the best fit first.

    ``size`` counts IPUs, as everywhere else in the API, in whole machines: our choice. The best fit is
    the run in the smallest free block; equals come in cluster order.
    """
    if size < IPUS_PER_MACHINE or not is_power_of_two(size):
        raise BadRequest(f"size {size} is not allowed; an allocation takes whole machines: 4, 8, 16 … IPUs")
    clusters = (
        [state.cluster(cluster_id)] if cluster_id else [state.clusters[key] for key in sorted(state.clusters)]
    )
    used = {agent for partition in state.partitions.values() for agent in partition.agent_ids}
    found: list[tuple[int, Allocation]] = []
    for cluster in clusters:
        free = rest_of(state, cluster).agent_ids - used
        found += _runs(cluster, size // IPUS_PER_MACHINE, free)
    return [allocation for _, allocation in sorted(found, key=lambda entry: entry[0])]


def without(state: State, id_: str) -> State:
    """The state without the allocation; users lose it, its partitions must be gone."""
    allocation = state.allocation(id_)
    owner = next((entry.id for entry in state.partitions.values() if entry.allocation_id == id_), None)
    if owner:
        raise Conflict(f"allocation {id_!r} is in use by partition {owner!r}; remove its partitions first")
    for user in state.users.values():
        if allocation.id in user.allocation_ids:
            left = tuple(entry for entry in user.allocation_ids if entry != allocation.id)
            state = state.with_user(replace(user, allocation_ids=left))
    # an allocation of the same name may later be another tenant's, who shall not learn these names
    state = state.without_removed(
        [entry.id for entry in state.removed.values() if entry.allocation_id == id_]
    )
    return state.without_allocation(id_)


def _runs(cluster: Cluster, count: int, free: frozenset[str]) -> list[tuple[int, Allocation]]:
    found: list[tuple[int, Allocation]] = []
    agents = cluster.agent_ids
    if count > len(agents):
        return found
    if count > cluster.machines_per_ild and count % cluster.machines_per_ild:
        return found
    for first in range(0, len(agents) - count + 1, count):
        run = agents[first : first + count]
        if free.issuperset(run):
            found.append((_block(agents, first, count, free), Allocation("", cluster.id, run)))
    return found


def _block(agents: tuple[str, ...], first: int, count: int, free: frozenset[str]) -> int:
    size = count
    while size * 2 <= len(agents):
        begin = first - first % (size * 2)
        if not free.issuperset(agents[begin : begin + size * 2]) or begin + size * 2 > len(agents):
            break
        size *= 2
    return size


def _check_new(state: State, id_: str) -> None:
    check_id("allocation id", id_)
    if id_ in state.allocations:
        raise AlreadyExists(f"allocation {id_!r} exists already")


def _cluster_of(state: State, cluster_id: str, agent_ids: Sequence[str]) -> Cluster:
    for agent in agent_ids:
        state.agent(agent)
    if cluster_id:
        cluster = state.cluster(cluster_id)
        outside = [agent for agent in agent_ids if agent not in cluster.agent_ids]
        if outside:
            raise BadRequest(f"agent {outside[0]!r} is not in cluster {cluster_id!r}")
        return cluster
    homes = {entry.id: entry for entry in state.clusters.values() if set(agent_ids) & set(entry.agent_ids)}
    if not homes:
        raise NotFound(f"agent {agent_ids[0]!r} is in no cluster; create the cluster first")
    home = next((entry for entry in homes.values() if set(agent_ids) <= set(entry.agent_ids)), None)
    if home is None:
        raise BadRequest(f"agent_ids are not all in one cluster (seen: {', '.join(sorted(homes))})")
    return home
