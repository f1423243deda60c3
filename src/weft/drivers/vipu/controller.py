"""A pod's V-IPU controller: which of the pod's resources it has, and how each is created, repaired and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from openvipu.proto import admin_pb2, vipuuser_pb2
from weft.drivers.vipu.channels import CONTROLLER, READ_TIMEOUT, At, Channel, Channels, MissingError
from weft.model.errors import NotYetError, PermanentError, UnknownError
from weft.model.messages import outside
from weft.model.resources import Difference, Observed, Resource
from weft.model.site import IPUS_PER_MACHINE
from weft.model.specs import VipuAgentSpec, VipuAllocationSpec, VipuClusterSpec, VipuUserSpec
from weft.planning.shapes.ipu.init import TENANT_KEY, TENANT_USER
from weft.ports.resources import Scope

REMOVAL = 15.0
"""Seconds for a partition to be removed gracefully; then it is forced."""

ADMIN_USER = "admin"
"""The administrator that openvipu creates, who is weft."""

Fields = Mapping[str, str]


class Controller:
    """One pod's controller; each call opens a new channel."""

    def __init__(self, channels: Channels, scope: Scope, address: At) -> None:
        self._channels, self._pod_id, self._address = channels, scope.owner.id, address
        self._fence = scope.fence

    def listed(self, wanted: Sequence[Resource]) -> dict[str, Observed]:
        """Key -> what the controller has. Raises `NoAnswerError` if it can't be reached."""
        with self._channels.admin(self._pod_id, self._address) as channel:
            lists = {kind: _listing(channel, kind) for kind in {type(r.spec) for r in wanted}}
        found: dict[str, Observed] = {}
        for resource in wanted:
            name, fields = _wanted(resource)
            seen = lists[type(resource.spec)].get(name)
            if seen is not None:
                differences = tuple(
                    Difference(field=f, wanted=value, observed=seen[f])
                    for f, value in fields.items()
                    if seen[f] != value
                )
                found[resource.key] = Observed(name, differences=differences, facts=dict(seen))
        return found

    def make(self, resource: Resource) -> None:
        """Create what cloud-init creates at boot; dependencies first."""
        asked = outside.REQUEST(verb="create", what=resource.name)
        with self._channels.admin(self._pod_id, self._address) as channel:
            match resource.spec:
                case VipuAgentSpec() as s:
                    agent = admin_pb2.AgentSpec(host=s.address, port=s.port)
                    request: Any = admin_pb2.CreateAgentRequest(id=s.machine, spec=agent)
                    channel.ask(asked, lambda stub: stub.CreateAgent, request)
                case VipuClusterSpec() as s:
                    cluster = admin_pb2.ClusterSpec(
                        topology=s.topology,
                        cluster_topology="none",
                        num_ipulink_domains=1,
                        agent_ids=s.machines,
                    )
                    request = admin_pb2.CreateClusterRequest(id=s.name, spec=cluster)
                    channel.ask(asked, lambda stub: stub.CreateCluster, request)
                case VipuAllocationSpec() as s:
                    request = admin_pb2.CreateAllocationRequest(
                        id=s.name, cluster_id=s.cluster, agent_ids=s.machines
                    )
                    channel.ask(asked, lambda stub: stub.CreateAllocation, request)
                case VipuUserSpec() as s:
                    key = self._channels.keys.key(self._pod_id, TENANT_KEY)
                    request = admin_pb2.CreateUserRequest(
                        id=s.name, allocation_ids=[s.allocation], access_key=key
                    )
                    channel.ask(asked, lambda stub: stub.CreateUser, request)
                case _:
                    raise TypeError(f"{resource.key} is a {resource.kind}")

    def repair(self, resource: Resource) -> None:
        """Restore a user's rights, or add an agent that isn't listed; nothing else can be changed in place."""
        if isinstance(resource.spec, VipuUserSpec):
            self._repair_user(resource, resource.spec)
        elif isinstance(resource.spec, VipuAgentSpec) and not self.listed([resource]):
            self.make(resource)
        else:
            what = f"a {resource.kind} can't be changed in place"
            raise PermanentError(
                outside.REQUEST(verb="update", what=resource.name), CONTROLLER, what, "release the pod"
            )

    def _repair_user(self, resource: Resource, spec: VipuUserSpec) -> None:
        """Remove users that weren't ordered; recreate the tenant's user if it was made an administrator."""
        with self._channels.admin(self._pod_id, self._address) as channel:
            listed = _users(channel)
            own = {u.id for u in listed if u.id == spec.name and not u.admin}
            for name in sorted({u.id for u in listed} - own - {ADMIN_USER}):
                self._fence()
                _gone(channel, f"remove user {name}", "RemoveUser", admin_pb2.RemoveUserRequest(id=name))
            if own:
                request = admin_pb2.UpdateUserRequest(id=spec.name, allocation_ids=[spec.allocation])
                channel.ask(
                    outside.REQUEST(verb="update", what=resource.name), lambda stub: stub.UpdateUser, request
                )
        if not own:
            self.make(resource)

    def remove(self, resource: Resource, waited: float) -> None:
        """Remove a resource; no error if it doesn't exist. An allocation's partitions are removed first, by force if
        that has taken long (`waited`, in seconds)."""
        asked = f"remove {resource.name}"
        with self._channels.admin(self._pod_id, self._address) as channel:
            match resource.spec:
                case VipuUserSpec() as s:
                    request: Any = admin_pb2.RemoveUserRequest(id=s.name)
                    _gone(channel, asked, "RemoveUser", request)
                case VipuAllocationSpec() as s:
                    self._remove_partitions(s.name, waited > REMOVAL)
                    request = admin_pb2.RemoveAllocationRequest(id=s.name)
                    _gone(channel, asked, "RemoveAllocation", request)
                case VipuClusterSpec() as s:
                    _gone(channel, asked, "RemoveCluster", admin_pb2.RemoveClusterRequest(id=s.name))
                case VipuAgentSpec() as s:
                    _gone(channel, asked, "RemoveAgent", admin_pb2.RemoveAgentRequest(id=s.machine))
                case _:
                    raise TypeError(f"{resource.key} is a {resource.kind}")

    def forget(self, resource: Resource) -> None:
        """Forget an agent that is known to be released, and refuses its controller."""
        assert isinstance(resource.spec, VipuAgentSpec)
        with self._channels.admin(self._pod_id, self._address) as channel:
            request = admin_pb2.RemoveAgentRequest(id=resource.spec.machine, force=True)
            _gone(channel, f"remove {resource.name}", "RemoveAgent", request)

    def check_health(self, machines: Sequence[str]) -> None:
        """Raises `PermanentError` unless, by the controller's last check, every agent answers and every IPU of these
        machines is healthy."""
        with self._channels.admin(self._pod_id, self._address) as channel:
            request = admin_pb2.ListAgentsRequest()
            reply = channel.ask("list agents", lambda s: s.ListAgents, request, READ_TIMEOUT)
        bad = [f"{a.id} doesn't answer" for a in reply.agents if not a.status.reachable]
        bad += [f"IPU {i.number} of {a.id}" for a in reply.agents for i in a.status.ipus if not i.healthy]
        counts = {a.id: len({i.number for i in a.status.ipus}) for a in reply.agents}
        bad += [
            f"{name} has {counts.get(name, 0)} of {IPUS_PER_MACHINE} IPUs in its list"
            for name in machines
            if counts.get(name, 0) != IPUS_PER_MACHINE
        ]
        if bad:
            what = f"not healthy: {', '.join(bad)}"
            raise PermanentError("check the pod's IPUs", CONTROLLER, what, "check the IPU-Machines")

    def _remove_partitions(self, allocation: str, force: bool) -> None:
        """Releasing the agents clears the machines in any case. Raises `NotYetError` while some are left."""
        with self._channels.user(self._pod_id, self._address, tenant=False) as channel:
            for name in _partitions(channel, allocation):
                self._fence()
                request = vipuuser_pb2.RemovePartitionRequest(partition_id=name, force=force)
                _gone(channel, f"remove partition {name}", "RemovePartition", request)
            if left := list(_partitions(channel, allocation)):
                what = f"partitions are still there: {', '.join(left)}"
                raise NotYetError(f"remove the partitions of {allocation}", channel.of, what)


def _partitions(channel: Channel, allocation: str) -> Iterator[str]:
    """Ids of an allocation's partitions; none if the allocation no longer exists."""
    request = vipuuser_pb2.ListPartitionsRequest(allocation_id=allocation)
    try:
        reply = channel.ask("list partitions", lambda stub: stub.ListPartitions, request, READ_TIMEOUT)
    except MissingError:
        return
    yield from (p.id for p in reply.partitions if p.spec.allocation_id == allocation)


def _gone(channel: Channel, asked: str, method: str, request: Any) -> None:
    try:
        channel.ask(asked, lambda stub: getattr(stub, method), request)
    except MissingError:
        return


def _listing(channel: Channel, kind: type) -> dict[str, Fields]:
    """Id -> fields of all objects of that kind."""
    if kind is VipuAgentSpec:
        reply = channel.ask(
            "list agents", lambda s: s.ListAgents, admin_pb2.ListAgentsRequest(), READ_TIMEOUT
        )
        return _by_id(reply.agents, lambda a: {"address": f"{a.spec.host}:{a.spec.port}"})
    if kind is VipuClusterSpec:
        reply = channel.ask(
            "list clusters", lambda s: s.ListClusters, admin_pb2.ListClustersRequest(), READ_TIMEOUT
        )
        return _by_id(
            reply.clusters,
            lambda c: {"topology": c.spec.topology, "machines": ", ".join(c.spec.agent_ids)},
        )
    if kind is VipuAllocationSpec:
        request = admin_pb2.ListAllocationsRequest()
        reply = channel.ask("list allocations", lambda s: s.ListAllocations, request, READ_TIMEOUT)
        return _by_id(
            reply.allocations,
            lambda a: {"cluster": a.spec.cluster_id, "machines": ", ".join(a.spec.agent_ids)},
        )
    users = _users(channel)
    others = ", ".join(sorted(u.id for u in users if u.id not in (ADMIN_USER, TENANT_USER)))
    return _by_id(
        users,
        lambda u: {
            "allocations": ", ".join(u.allocation_ids),
            "administrator": "yes" if u.admin else "no",
            "other users": others or "none",
        },
    )


def _by_id(rows: Iterable[Any], fields: Callable[[Any], Fields]) -> dict[str, Fields]:
    """Id -> fields of the rows. Raises `UnknownError` for an id that is listed twice: either row may be the one in
    force."""
    found: dict[str, Fields] = {}
    for row in rows:
        if row.id in found:
            raise UnknownError("read its lists", CONTROLLER, f"it lists {row.id[:63]!r} twice")
        found[row.id] = fields(row)
    return found


def _users(channel: Channel) -> Sequence[admin_pb2.User]:
    request = admin_pb2.ListUsersRequest()
    users: Sequence[admin_pb2.User] = channel.ask(
        "list users", lambda s: s.ListUsers, request, READ_TIMEOUT
    ).users
    return users


def _wanted(resource: Resource) -> tuple[str, Fields]:
    """Id and fields as in `_listing`."""
    match resource.spec:
        case VipuAgentSpec() as s:
            return s.machine, {"address": f"{s.address}:{s.port}"}
        case VipuClusterSpec() as s:
            return s.name, {"topology": s.topology, "machines": ", ".join(s.machines)}
        case VipuAllocationSpec() as s:
            return s.name, {"cluster": s.cluster, "machines": ", ".join(s.machines)}
        case VipuUserSpec() as s:
            return s.name, {"allocations": s.allocation, "administrator": "no", "other users": "none"}
        case _:
            raise TypeError(f"{resource.key} is a {resource.kind}")
