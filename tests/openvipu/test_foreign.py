"""A client that shares no code with openvipu: its messages are built from the names and numbers of the public table."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.openvipu.test_schema import ENUMS, MESSAGES
from tests.openvipu.vipuhouse import Controller, until

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": Field.TYPE_STRING, "uint32": Field.TYPE_UINT32, "bool": Field.TYPE_BOOL}


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    pool.Add(stamp)
    file = descriptor_pb2.FileDescriptorProto(
        name="foreign.proto", package="virmgrpc", syntax="proto3", dependency=[stamp.name]
    )
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value in values.split():
            word, _, number = value.partition("=")
            enum.value.add(name=word, number=int(number))
    made: dict[str, Any] = {}
    for name in sorted(MESSAGES, key=lambda name: name.count(".")):
        parent, _, last = name.rpartition(".")
        made[name] = (made[parent].nested_type if parent else file.message_type).add(name=last)
        made[name].options.map_entry = last.endswith("Entry") and last != "Entry"
        for text in MESSAGES[name].split():
            _add_field(made[name], name, text)
    pool.Add(file)
    return pool


def _add_field(message: Any, owner: str, text: str) -> None:
    word, _, rest = text.partition("=")
    number, _, kind = rest.partition(":")
    field = message.field.add(name=word, number=int(number.rstrip("*")), label=Field.LABEL_OPTIONAL)
    if number.endswith("*"):
        field.label = Field.LABEL_REPEATED
    if kind in SCALARS:
        field.type = SCALARS[kind]
    elif kind in ENUMS:
        field.type, field.type_name = Field.TYPE_ENUM, f".virmgrpc.{kind}"
    else:
        field.type = Field.TYPE_MESSAGE
        nested = f"{owner}.{kind}"
        sibling = f"{owner.rpartition('.')[0]}.{kind}"
        found = next((name for name in (nested, sibling, kind) if name in MESSAGES), None)
        field.type_name = f".virmgrpc.{found}" if found else f".google.protobuf.{kind}"


class Foreign:
    """Calls a method by name with keyword arguments, using messages of its own descriptor pool."""

    def __init__(self, controller: Controller) -> None:
        self._link = controller.user_channel
        self._pool = _pool()

    def message(self, name: str, **fields: Any) -> Any:
        return GetMessageClass(self._pool.FindMessageTypeByName(f"virmgrpc.{name}"))(**fields)

    def __call__(self, method: str, **fields: Any) -> Any:
        reply = type(self.message(f"{method}Reply"))
        call = self._link.unary_unary(
            f"/virmgrpc.UserService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return call(self.message(f"{method}Request", **fields))


@pytest.fixture
def foreign(pod16: Controller) -> Foreign:
    """The foreign client at the user API of a controller over a POD16."""
    return Foreign(pod16)


def test_generated_foreign_client_uses_the_whole_api(foreign: Foreign) -> None:
    """Create, wait, list, read configuration and attributes, reset, remove: every field arrives."""
    wanted = foreign.message(
        "PartitionRequirements", id="f", size=16, num_gcds=4, reconfigurable=True, num_replicas=8
    )
    assert foreign("CreatePartition", requirements=wanted, relocatable=True).partition_id == "f"

    def is_active() -> bool:
        status = foreign("GetPartitionStatus", partition_id="f").status
        return (status.ready_state, status.operation_state) == (2, 1)

    until(is_active)
    (partition,) = foreign("ListPartitions").partitions
    spec = partition.spec
    assert (partition.id, partition.ready_state, partition.ipuof_server_version) == ("f", 2, "1.18.0")
    assert (spec.cluster_id, spec.num_gcds, spec.num_replicas, spec.num_ipulink_segments) == ("c", 4, 8, 1)
    assert (spec.ipulink_routing_type, spec.sync_type, spec.gw_routing_type, spec.reconfigurable) == (
        1,
        1,
        0,
        True,
    )
    assert [(ipu.topology_id, ipu.routing_id) for ipu in spec.ipus] == [(place, place) for place in range(16)]
    gcd = foreign.message("GetPartitionIpuofConfigRequest.GcdID", id=3)
    config = foreign("GetPartitionIpuofConfig", partition_id="f", gcd_id=gcd).ipuof_config
    assert config.gcd_configs[0].attributes["GCD Id"] == "3"
    device = config.gcd_configs[0].devices[1]
    assert (device.routing_id, device.device_id, device.ipu_id, device.rdma_port) == (13, 2, 1, 10001)
    assert device.chip_id
    assert device.ipum_sw_version
    entries = foreign("ListIPUAttributes", agents=["ipum2"]).entries
    assert [(entry.agent, sorted(entry.ipu_attributes)) for entry in entries] == [("ipum2", [0, 1, 2, 3])]
    assert entries[0].ipu_attributes[0].attributes["board type"] == "M2000"
    foreign("ResetPartition", partition_id="f")
    until(is_active)
    foreign("RemovePartition", partition_id="f")
    until(lambda: foreign("GetPartitionStatus", partition_id="f").status.ready_state == 3)
    assert not foreign("ListPartitions").partitions
