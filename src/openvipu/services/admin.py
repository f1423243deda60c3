"""AdminService: agents, clusters, allocations, users, cluster tests."""

# ruff: noqa: N802 - the methods are named as on the wire

from __future__ import annotations

import time
from typing import Any

from openvipu.controller import testing
from openvipu.controller.core import Core
from openvipu.controller.discovery import Discovery
from openvipu.controller.inventory import Inventory
from openvipu.model.site import Agent, Cluster, User
from openvipu.proto import admin_pb2 as pb
from openvipu.proto import admin_pb2_grpc as pb_grpc
from openvipu.services import wire
from openvipu.services.gate import Gate


class AdminService(pb_grpc.AdminServiceServicer):
    """openvipu's own admin API. Every call needs an administrator when the controller is secure."""

    def __init__(
        self, core: Core, inventory: Inventory, gate: Gate, discovery: Discovery | None, user_port: int
    ) -> None:
        """``user_port``: port of the user API, for accounts created here."""
        self._user_port = user_port
        self._core = core
        self._inventory = inventory
        self._gate = gate
        self._discovery = discovery

    def CreateAgent(self, request: pb.CreateAgentRequest, context: Any) -> pb.CreateAgentReply:
        self._gate.visible(context)
        agent = self._inventory.create_agent(request.id, request.spec.host, request.spec.port)
        return pb.CreateAgentReply(agent=self._agent(agent))

    def GetAgent(self, request: pb.GetAgentRequest, context: Any) -> pb.GetAgentReply:
        self._gate.visible(context)
        return pb.GetAgentReply(agent=self._agent(self._core.state.agent(request.id)))

    def ListAgents(self, request: pb.ListAgentsRequest, context: Any) -> pb.ListAgentsReply:
        self._gate.visible(context)
        return pb.ListAgentsReply(agents=[self._agent(agent) for agent in self._core.state.agents.values()])

    def RemoveAgent(self, request: pb.RemoveAgentRequest, context: Any) -> pb.RemoveAgentReply:
        self._gate.visible(context)
        self._inventory.remove_agent(request.id, request.force)
        return pb.RemoveAgentReply()

    def DiscoverAgents(self, request: pb.DiscoverAgentsRequest, context: Any) -> pb.DiscoverAgentsReply:
        self._gate.visible(context)
        known = {(agent.host, agent.port): agent.id for agent in self._core.state.agents.values()}
        now = time.monotonic()
        seen = self._discovery.seen() if self._discovery else []
        return pb.DiscoverAgentsReply(
            discovered=[
                pb.DiscoveredAgent(
                    host=entry.host,
                    port=entry.port,
                    interface=entry.interface,
                    seconds_since_seen=int(now - entry.when),
                    suggested_id=entry.name,
                    agent_id=known.get((entry.host, entry.port), ""),
                )
                for entry in seen
            ]
        )

    def CreateCluster(self, request: pb.CreateClusterRequest, context: Any) -> pb.CreateClusterReply:
        self._gate.visible(context)
        spec = request.spec
        cluster = self._inventory.create_cluster(
            request.id, spec.topology, spec.cluster_topology, spec.num_ipulink_domains, tuple(spec.agent_ids)
        )
        return pb.CreateClusterReply(cluster=_cluster(cluster))

    def GetCluster(self, request: pb.GetClusterRequest, context: Any) -> pb.GetClusterReply:
        self._gate.visible(context)
        return pb.GetClusterReply(cluster=_cluster(self._core.state.cluster(request.id)))

    def ListClusters(self, request: pb.ListClustersRequest, context: Any) -> pb.ListClustersReply:
        self._gate.visible(context)
        return pb.ListClustersReply(
            clusters=[_cluster(entry) for entry in self._core.state.clusters.values()]
        )

    def RemoveCluster(self, request: pb.RemoveClusterRequest, context: Any) -> pb.RemoveClusterReply:
        self._gate.visible(context)
        self._inventory.remove_cluster(request.id)
        return pb.RemoveClusterReply()

    def TestCluster(self, request: pb.TestClusterRequest, context: Any) -> pb.TestClusterReply:
        self._gate.visible(context)
        results = testing.run(self._core, self._inventory, request.id, tuple(request.tests))
        return pb.TestClusterReply(
            results=[
                pb.TestResult(
                    test_type=result.name,
                    duration_seconds=result.seconds,
                    passed=result.passed,
                    total=result.total,
                    summary=result.summary,
                    failures=result.failures,
                )
                for result in results
            ]
        )

    def CreateAllocation(self, request: pb.CreateAllocationRequest, context: Any) -> pb.CreateAllocationReply:
        self._gate.visible(context)
        made = self._inventory.create_allocation(
            request.id, request.cluster_id, request.size, tuple(request.agent_ids)
        )
        return pb.CreateAllocationReply(allocation=wire.allocation(made))

    def ListAllocationOptions(
        self, request: pb.CreateAllocationRequest, context: Any
    ) -> pb.ListAllocationOptionsReply:
        self._gate.visible(context)
        found = self._inventory.allocation_options(
            request.id, request.cluster_id, request.size, tuple(request.agent_ids)
        )
        return pb.ListAllocationOptionsReply(options=[wire.allocation(entry) for entry in found])

    def GetAllocation(self, request: pb.GetAllocationRequest, context: Any) -> pb.GetAllocationReply:
        self._gate.visible(context)
        return pb.GetAllocationReply(allocation=wire.allocation(self._core.state.allocation(request.id)))

    def ListAllocations(self, request: pb.ListAllocationsRequest, context: Any) -> pb.ListAllocationsReply:
        self._gate.visible(context)
        found = self._core.state.allocations.values()
        return pb.ListAllocationsReply(allocations=[wire.allocation(entry) for entry in found])

    def RemoveAllocation(self, request: pb.RemoveAllocationRequest, context: Any) -> pb.RemoveAllocationReply:
        self._gate.visible(context)
        self._inventory.remove_allocation(request.id)
        return pb.RemoveAllocationReply()

    def CreateUser(self, request: pb.CreateUserRequest, context: Any) -> pb.CreateUserReply:
        self._gate.visible(context)
        user, key = self._inventory.create_user(
            request.id, tuple(request.allocation_ids), request.admin, request.access_key
        )
        return pb.CreateUserReply(user=_user(user), access_key=key, user_port=self._user_port)

    def UpdateUser(self, request: pb.UpdateUserRequest, context: Any) -> pb.UpdateUserReply:
        self._gate.visible(context)
        return pb.UpdateUserReply(
            user=_user(self._inventory.update_user(request.id, tuple(request.allocation_ids)))
        )

    def ListUsers(self, request: pb.ListUsersRequest, context: Any) -> pb.ListUsersReply:
        self._gate.visible(context)
        return pb.ListUsersReply(users=[_user(user) for user in self._core.state.users.values()])

    def RemoveUser(self, request: pb.RemoveUserRequest, context: Any) -> pb.RemoveUserReply:
        self._gate.visible(context)
        self._inventory.remove_user(request.id)
        return pb.RemoveUserReply()

    def _agent(self, agent: Agent) -> pb.Agent:
        health = self._core.health
        status = health.status(agent.id)
        used = {
            ipu.number: partition.id
            for partition in self._core.state.partitions.values()
            for ipu in partition.ipus
            if ipu.agent_id == agent.id
        }
        ipus = [
            pb.IpuInfo(
                number=ipu.number,
                chip_id=ipu.chip_id,
                healthy=ipu.healthy,
                partition_id=used.get(ipu.number, ""),
            )
            for ipu in (status.ipus if status else agent.machine.ipus)
        ]
        reachable = health.is_reachable(agent.id)
        return pb.Agent(
            id=agent.id,
            spec=pb.AgentSpec(host=agent.host, port=agent.port),
            status=pb.AgentStatus(
                reachable=reachable,
                serial=agent.machine.serial,
                product=agent.machine.product,
                software_version=agent.machine.software_version,
                gateway_version=agent.machine.gateway_version,
                rnic_address=agent.machine.rnic_address,
                ipus=ipus,
                error="" if reachable else "the agent doesn't answer",
                exporter=agent.exporter,
            ),
        )


def _cluster(cluster: Cluster) -> pb.Cluster:
    return pb.Cluster(
        id=cluster.id,
        spec=pb.ClusterSpec(
            topology=cluster.topology.value,
            cluster_topology=cluster.gateway.value,
            num_ipulink_domains=cluster.ilds,
            agent_ids=cluster.agent_ids,
        ),
    )


def _user(user: User) -> pb.User:
    return pb.User(id=user.id, allocation_ids=user.allocation_ids, admin=user.admin)
