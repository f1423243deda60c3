"""Converts between the model and the messages of the user API."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from openvipu import VIPU_VERSION
from openvipu.model.errors import BadRequest
from openvipu.model.partition import (
    GatewayRouting,
    Partition,
    PlacedIpu,
    Requirements,
    Routing,
    Selection,
    SyncType,
)
from openvipu.model.site import Allocation
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules.devices import IPU_ARCHITECTURE, Device, Gcd
from openvipu.rules.lifecycle import MAX_AUTO_RESETS

E = TypeVar("E", bound=IntEnum)


def requirements(request: pb.CreatePartitionRequest) -> Requirements:
    """What a request asks for; BadRequest for a number that no enumeration has."""
    wanted = request.requirements
    return Requirements(
        id=wanted.id,
        size=wanted.size,
        cluster_id=wanted.cluster_id,
        routing=_enum(Routing, "ipulink_routing_type", wanted.ipulink_routing_type),
        segments=wanted.num_ipulink_segments,
        gw_routing=_enum(GatewayRouting, "gw_routing_type", wanted.gw_routing_type),
        sync_type=_enum(SyncType, "sync_type", wanted.sync_type),
        gcds=wanted.num_gcds,
        reconfigurable=wanted.reconfigurable,
        replicas=wanted.num_replicas,
        allocation_id=wanted.allocation_id,
        ipus=tuple(
            Selection(
                ild=ipu.ipulink_domain_topology_id,
                segment=ipu.ipulink_domain_routing_id,
                topology_id=ipu.topology_id,
                routing_id=ipu.routing_id,
            )
            for ipu in wanted.ipus
        ),
        auto_reset=not request.disable_auto_reset,
        relocatable=request.relocatable,
    )


def placed_ipu(ipu: PlacedIpu) -> pb.PartitionIpu:
    """Where an IPU of a partition is, as a message."""
    return pb.PartitionIpu(
        ipulink_domain_topology_id=ipu.ild,
        ipulink_domain_routing_id=ipu.segment,
        topology_id=ipu.topology_id,
        routing_id=ipu.routing_id,
    )


def partition(value: Partition) -> pb.Partition:
    """A partition as a message."""
    shape = value.shape
    return pb.Partition(
        id=value.id,
        spec=pb.PartitionSpec(
            cluster_id=value.cluster_id,
            ipus=[placed_ipu(ipu) for ipu in value.ipus],
            ipulink_routing_type=_number(shape.routing),
            sync_type=_number(shape.sync_type),
            num_gcds=shape.gcds,
            num_ipulink_segments=shape.segments,
            reconfigurable=shape.reconfigurable,
            gw_routing_type=_number(shape.gw_routing),
            num_replicas=shape.replicas,
            allocation_id=value.allocation_id,
        ),
        ready_state=_number(value.ready),
        ipuof_server_version=VIPU_VERSION,
    )


def status(value: Partition) -> pb.PartitionStatus:
    """A partition's states as a message; times in milliseconds."""
    found = pb.PartitionStatus(
        partition_id=value.id,
        ready_state=_number(value.ready),
        operation_state=_number(value.operation),
        errors=value.errors,
        max_auto_reset_retries=MAX_AUTO_RESETS if value.auto_reset else 0,
        auto_reset_retry_count=value.retries,
    )
    if value.last_auto_reset:
        found.last_auto_reset_time.FromMilliseconds(int(value.last_auto_reset * 1000))
    return found


def removed_status(partition_id: str) -> pb.PartitionStatus:
    """The states of a partition that was removed."""
    return pb.PartitionStatus(
        partition_id=partition_id, ready_state=pb.PS_REMOVED, operation_state=pb.POS_IDLE
    )


def config(value: Partition, gcds: tuple[Gcd, ...]) -> pb.PartitionConfig:
    """What Poplar needs of a partition: routing, synchronization, and its graph compile domains."""
    shape = value.shape
    return pb.PartitionConfig(
        ipulink_routing_type=_number(shape.routing),
        sync_type=_number(shape.sync_type),
        reconfigurable=shape.reconfigurable,
        gw_routing_type=_number(shape.gw_routing),
        num_ipulink_segments=shape.segments,
        gcd_configs=[
            pb.PartitionConfig.Gcd(
                devices=[_device(device) for device in gcd.devices], attributes=dict(gcd.attributes)
            )
            for gcd in gcds
        ],
        ipuof_server_version=VIPU_VERSION,
    )


def allocation(value: Allocation) -> pb.Allocation:
    """An allocation as a message."""
    return pb.Allocation(
        id=value.id, spec=pb.AllocationSpec(cluster_id=value.cluster_id, agent_ids=value.agent_ids)
    )


def _device(device: Device) -> pb.IpuofDevice:
    return pb.IpuofDevice(
        ip=device.ip,
        server_port=device.server_port,
        rdma_port=device.rdma_port,
        device_id=device.device_id,
        ipulink_segment_id=device.segment_id,
        routing_id=device.routing_id,
        ipu_arch_id=IPU_ARCHITECTURE,
        ipu_id=device.ipu_id,
        chip_id=device.chip_id,
        gwsw_version=device.gateway_version,
        ipum_sw_version=device.software_version,
    )


def _enum(kind: type[E], field: str, value: int) -> E:
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(f"{entry.value} ({entry.name})" for entry in kind)
        raise BadRequest(f"{field} {value} is not allowed; use one of {allowed}") from None


def _number(value: IntEnum) -> str:
    """An enumerator by its name on the wire, which the generated classes take in place of the number."""
    return f"{_PREFIX[type(value).__name__]}_{value.name}"


_PREFIX = {
    "Routing": "IRT",
    "GatewayRouting": "GRT",
    "SyncType": "ST",
    "ReadyState": "PS",
    "Operation": "POS",
}
