"""Converts between the model and the messages of the agent API, at both of its ends."""

from __future__ import annotations

from openvipu.model.hardware import IpuSetting, MachineStatus, Setting, SettingStatus
from openvipu.model.site import Ipu, Machine, Port
from openvipu.proto import agent_pb2 as pb


def machine_to_wire(machine: Machine) -> pb.Machine:
    """A machine as a message."""
    return pb.Machine(
        serial=machine.serial,
        name=machine.name,
        product=machine.product,
        software_version=machine.software_version,
        gateway_version=machine.gateway_version,
        rnic_address=machine.rnic_address,
        server_port=machine.server_port,
        rdma_port=machine.rdma_port,
        ipus=[ipu_to_wire(ipu) for ipu in machine.ipus],
        ports=[
            pb.Port(name=port.name, peer_serial=port.peer_serial, peer_port=port.peer_port, up=port.up)
            for port in machine.ports
        ],
        exporter_port=machine.exporter_port,
    )


def machine_from_wire(wire: pb.Machine) -> Machine:
    """A machine from a message."""
    return Machine(
        serial=wire.serial,
        name=wire.name,
        product=wire.product,
        software_version=wire.software_version,
        gateway_version=wire.gateway_version,
        rnic_address=wire.rnic_address,
        server_port=wire.server_port,
        rdma_port=wire.rdma_port,
        ipus=tuple(ipu_from_wire(ipu) for ipu in wire.ipus),
        ports=tuple(Port(port.name, port.peer_serial, port.peer_port, port.up) for port in wire.ports),
        exporter_port=wire.exporter_port,
    )


def ipu_to_wire(ipu: Ipu) -> pb.Ipu:
    """An IPU as a message."""
    return pb.Ipu(
        number=ipu.number,
        chip_id=ipu.chip_id,
        healthy=ipu.healthy,
        fault=ipu.fault,
        attributes=dict(ipu.attributes),
    )


def ipu_from_wire(wire: pb.Ipu) -> Ipu:
    """An IPU from a message, attributes in their order."""
    attributes = tuple(sorted(wire.attributes.items()))
    return Ipu(wire.number, wire.chip_id, wire.healthy, wire.fault, attributes)


def setting_to_wire(setting: Setting) -> pb.Setting:
    """A partition's setting on one machine as a message."""
    return pb.Setting(
        partition_id=setting.partition_id,
        generation=setting.generation,
        ipus=[
            pb.IpuSetting(number=ipu.number, routing_id=ipu.routing_id, segment_id=ipu.segment_id)
            for ipu in setting.ipus
        ],
        open_links=setting.open_links,
        gateway_peers=setting.gateway_peers,
        sync_type=setting.sync_type,
        routing_type=setting.routing,
    )


def setting_from_wire(wire: pb.Setting) -> Setting:
    """A partition's setting on one machine from a message."""
    return Setting(
        partition_id=wire.partition_id,
        generation=wire.generation,
        ipus=tuple(IpuSetting(ipu.number, ipu.routing_id, ipu.segment_id) for ipu in wire.ipus),
        open_links=tuple(wire.open_links),
        gateway_peers=tuple(wire.gateway_peers),
        sync_type=wire.sync_type,
        routing=wire.routing_type,
    )


def status_to_wire(status: MachineStatus) -> pb.GetStatusReply:
    """A machine's state as a reply."""
    return pb.GetStatusReply(
        serial=status.serial,
        ipus=[ipu_to_wire(ipu) for ipu in status.ipus],
        settings=[
            pb.SettingStatus(
                partition_id=setting.partition_id, generation=setting.generation, failures=setting.failures
            )
            for setting in status.settings
        ],
    )


def status_from_wire(wire: pb.GetStatusReply) -> MachineStatus:
    """A machine's state from a reply."""
    return MachineStatus(
        serial=wire.serial,
        ipus=tuple(ipu_from_wire(ipu) for ipu in wire.ipus),
        settings=tuple(
            SettingStatus(setting.partition_id, setting.generation, tuple(setting.failures))
            for setting in wire.settings
        ),
    )
