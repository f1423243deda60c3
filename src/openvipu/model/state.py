"""The controller's whole state as one immutable value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from openvipu.model.errors import NotFound
from openvipu.model.partition import Partition, RemovedPartition
from openvipu.model.site import Agent, Allocation, Cluster, User

T = TypeVar("T")


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``--init`` fixed. ``agent_key`` is what this controller shows to its agents."""

    controller_id: str
    agent_key: str
    secure: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that an agent accepts commands from; of its key only a hash (hex) is kept."""

    controller_id: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class State:
    """Everything that survives a restart. ``generation`` is the last one given to a partition.

    ``removed`` holds partitions that are gone, the last one at the end.
    """

    settings: Settings
    generation: int = 0
    agents: Mapping[str, Agent] = field(default_factory=_empty)
    clusters: Mapping[str, Cluster] = field(default_factory=_empty)
    allocations: Mapping[str, Allocation] = field(default_factory=_empty)
    users: Mapping[str, User] = field(default_factory=_empty)
    partitions: Mapping[str, Partition] = field(default_factory=_empty)
    removed: Mapping[str, RemovedPartition] = field(default_factory=_empty)

    def agent(self, id_: str) -> Agent:
        """The agent of this id. Raises `NotFound`."""
        return _find(self.agents, "agent", id_)

    def cluster(self, id_: str) -> Cluster:
        """The cluster of this id. Raises `NotFound`."""
        return _find(self.clusters, "cluster", id_)

    def allocation(self, id_: str) -> Allocation:
        """The allocation of this id. Raises `NotFound`."""
        return _find(self.allocations, "allocation", id_)

    def user(self, id_: str) -> User:
        """The user of this id. Raises `NotFound`."""
        return _find(self.users, "user", id_)

    def partition(self, id_: str) -> Partition:
        """The partition of this id. Raises `NotFound`."""
        return _find(self.partitions, "partition", id_)

    def with_agent(self, agent: Agent) -> State:
        """The state with the agent added, or replaced."""
        return replace(self, agents=_put(self.agents, agent.id, agent))

    def with_cluster(self, cluster: Cluster) -> State:
        """The state with the cluster added, or replaced."""
        return replace(self, clusters=_put(self.clusters, cluster.id, cluster))

    def with_allocation(self, allocation: Allocation) -> State:
        """The state with the allocation added, or replaced."""
        return replace(self, allocations=_put(self.allocations, allocation.id, allocation))

    def with_user(self, user: User) -> State:
        """The state with the user added, or replaced."""
        return replace(self, users=_put(self.users, user.id, user))

    def with_partition(self, partition: Partition) -> State:
        """The state with the partition added, or replaced."""
        return replace(self, partitions=_put(self.partitions, partition.id, partition))

    def without_agent(self, id_: str) -> State:
        """The state without the agent of this id."""
        return replace(self, agents=_drop(self.agents, id_))

    def without_cluster(self, id_: str) -> State:
        """The state without the cluster of this id."""
        return replace(self, clusters=_drop(self.clusters, id_))

    def without_allocation(self, id_: str) -> State:
        """The state without the allocation of this id."""
        return replace(self, allocations=_drop(self.allocations, id_))

    def without_user(self, id_: str) -> State:
        """The state without the user of this id."""
        return replace(self, users=_drop(self.users, id_))

    def without_partition(self, id_: str) -> State:
        """The state without the partition of this id."""
        return replace(self, partitions=_drop(self.partitions, id_))

    def with_removed(self, removed: RemovedPartition) -> State:
        """The state with this removal as the last one, even if a partition of this name was removed before."""
        return replace(self, removed=_put(_drop(self.removed, removed.id), removed.id, removed))

    def without_removed(self, ids: Collection[str]) -> State:
        """The state that no longer remembers the removal of these partitions."""
        left = {id_: entry for id_, entry in self.removed.items() if id_ not in ids}
        return replace(self, removed=MappingProxyType(left))


def _find(things: Mapping[str, T], kind: str, id_: str) -> T:
    try:
        return things[id_]
    except KeyError:
        raise NotFound(f"{kind} {id_!r} doesn't exist") from None


def _put(things: Mapping[str, T], key: str, value: T) -> Mapping[str, T]:
    return MappingProxyType({**things, key: value})


def _drop(things: Mapping[str, T], key: str) -> Mapping[str, T]:
    return MappingProxyType({other: value for other, value in things.items() if other != key})
