"""UserService, VersionService and CatalogService."""

# ruff: noqa: N802 - the methods are named as on the wire

from __future__ import annotations

from typing import Any

from openvipu import VIPU_VERSION
from openvipu.controller.core import Core
from openvipu.controller.partitions import Partitions, Whose
from openvipu.model.errors import Conflict, NotFound
from openvipu.model.partition import ReadyState
from openvipu.model.state import State
from openvipu.proto import catalog_pb2, catalog_pb2_grpc, version_pb2, version_pb2_grpc, vipuuser_pb2_grpc
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules import admission, devices
from openvipu.rules.admission import Option, Visible
from openvipu.services import wire
from openvipu.services.gate import Gate


class UserService(vipuuser_pb2_grpc.UserServiceServicer):
    """The public user API. Requests and replies are exactly those of package ``virmgrpc``."""

    def __init__(self, core: Core, partitions: Partitions, gate: Gate) -> None:
        self._core = core
        self._partitions = partitions
        self._gate = gate

    def ListPartitions(self, request: pb.ListPartitionsRequest, context: Any) -> pb.ListPartitionsReply:
        found = self._partitions.seen(self._gate.visible(context), request.allocation_id)
        return pb.ListPartitionsReply(partitions=[wire.partition(entry) for entry in found])

    def ListIPUAttributes(
        self, request: pb.ListIPUAttributesRequest, context: Any
    ) -> pb.ListIPUAttributesReply:
        state = self._core.state
        allowed = dict.fromkeys(_agents_of(state, self._gate.visible(context)))
        for agent in request.agents:
            if agent not in allowed:
                raise NotFound(f"agent {agent!r} doesn't exist")
        wanted = dict.fromkeys(request.agents) or allowed
        return pb.ListIPUAttributesReply(entries=[self._attributes(state, agent) for agent in wanted])

    def CreatePartition(self, request: pb.CreatePartitionRequest, context: Any) -> pb.CreatePartitionReply:
        whose = self._whose(context)
        wanted = wire.requirements(request)
        id_ = self._partitions.create(wanted, whose, self._gate.patience(context))
        return pb.CreatePartitionReply(partition_id=id_)

    def RemovePartition(self, request: pb.RemovePartitionRequest, context: Any) -> pb.RemovePartitionReply:
        whose = self._whose(context)
        self._partitions.remove(request.partition_id, request.force, whose, self._gate.patience(context))
        return pb.RemovePartitionReply()

    def ResetPartition(self, request: pb.ResetPartitionRequest, context: Any) -> pb.ResetPartitionReply:
        whose = self._whose(context)
        self._partitions.reset(request.partition_id, request.relocatable, whose, self._gate.patience(context))
        return pb.ResetPartitionReply()

    def GetPartitionIpuofConfig(
        self, request: pb.GetPartitionIpuofConfigRequest, context: Any
    ) -> pb.GetPartitionIpuofConfigReply:
        """IPUoF configuration, which exists from the first ACTIVE on; before, the partition could still move."""
        partition = self._partitions.get(request.partition_id, self._gate.visible(context))
        if partition.ready is ReadyState.PENDING:
            raise Conflict(f"partition {partition.id!r} is not ready yet; wait until it is ACTIVE")
        only = request.gcd_id.id if request.HasField("gcd_id") else None
        gcds = devices.gcds(partition, self._core.state.agents, only)
        return pb.GetPartitionIpuofConfigReply(ipuof_config=wire.config(partition, gcds))

    def GetPartitionStatus(
        self, request: pb.GetPartitionStatusRequest, context: Any
    ) -> pb.GetPartitionStatusReply:
        visible = self._gate.visible(context)
        try:
            partition = self._partitions.get(request.partition_id, visible)
        except NotFound:
            if self._core.was_removed(request.partition_id, visible):
                return pb.GetPartitionStatusReply(status=wire.removed_status(request.partition_id))
            raise
        return pb.GetPartitionStatusReply(status=wire.status(partition))

    def _whose(self, context: Any) -> Whose:
        """What the caller may use; refuses an unknown caller before anything of the request is read."""
        self._gate.visible(context)
        return lambda: self._gate.visible(context)

    def _attributes(self, state: State, agent: str) -> pb.ListIPUAttributesReply.Entry:
        attributes = {
            ipu.number: pb.ListIPUAttributesReply.Entry.Attributes(attributes=dict(ipu.attributes))
            for ipu in state.agent(agent).machine.ipus
        }
        return pb.ListIPUAttributesReply.Entry(agent=agent, ipu_attributes=attributes)


class VersionService(version_pb2_grpc.VersionServiceServicer):
    """Needs no user: clients ask for the version before anything else."""

    def GetVersion(self, request: version_pb2.VersionRequest, context: Any) -> version_pb2.VersionReply:
        return version_pb2.VersionReply(version=VIPU_VERSION)


class CatalogService(catalog_pb2_grpc.CatalogServiceServicer):
    """What the user may use, and where a partition could go."""

    def __init__(self, core: Core, partitions: Partitions, gate: Gate) -> None:
        self._core = core
        self._partitions = partitions
        self._gate = gate

    def ListAllocations(
        self, request: catalog_pb2.ListAllocationsRequest, context: Any
    ) -> catalog_pb2.ListAllocationsReply:
        found = admission.allocations_seen(self._core.state, self._gate.visible(context))
        return catalog_pb2.ListAllocationsReply(allocations=[wire.allocation(entry) for entry in found])

    def ListPartitionOptions(
        self, request: catalog_pb2.ListPartitionOptionsRequest, context: Any
    ) -> catalog_pb2.ListPartitionOptionsReply:
        visible = self._gate.visible(context)
        wanted = wire.requirements(pb.CreatePartitionRequest(requirements=request.requirements))
        found = self._partitions.options(wanted, visible)
        return catalog_pb2.ListPartitionOptionsReply(options=[_option(entry) for entry in found])


def _option(option: Option) -> catalog_pb2.PartitionOption:
    return catalog_pb2.PartitionOption(
        index=option.index,
        cluster_id=option.pool.cluster.id,
        allocation_id=option.pool.allocation_id,
        ipus=[wire.placed_ipu(ipu) for ipu in option.ipus],
        agent_ids=list(dict.fromkeys(ipu.agent_id for ipu in option.ipus)),
        free=option.free,
        preferred=option.preferred,
    )


def _agents_of(state: State, visible: Visible) -> list[str]:
    if visible is None:
        return list(state.agents)
    return [agent for entry in admission.allocations_seen(state, visible) for agent in entry.agent_ids]
