"""The user API field by field, against the public table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor, MethodDescriptor

from openvipu.proto import generate, version_pb2, vipuuser_pb2

# name=number:type, * repeated; the public table in our own notation
MESSAGES = {
    "VersionRequest": "",
    "VersionReply": "version=1:string",
    "PartitionIpu": "ipulink_domain_topology_id=1:uint32 ipulink_domain_routing_id=2:uint32 "
    "topology_id=3:uint32 routing_id=4:uint32",
    "PartitionSpec": "cluster_id=1:string ipus=2*:PartitionIpu ipulink_routing_type=3:IpuLinkRoutingType "
    "sync_type=4:SyncType num_gcds=5:uint32 num_ipulink_segments=6:uint32 reconfigurable=7:bool "
    "gw_routing_type=8:GatewayRoutingType num_replicas=9:uint32 allocation_id=10:string",
    "Partition": "id=1:string spec=2:PartitionSpec ready_state=3:PartitionReadyState "
    "ipuof_server_version=4:string",
    "ListPartitionsRequest": "allocation_id=1:string",
    "ListPartitionsReply": "partitions=1*:Partition",
    "PartitionRequirements": "id=1:string size=2:uint32 cluster_id=3:string "
    "ipulink_routing_type=4:IpuLinkRoutingType num_ipulink_segments=5:uint32 "
    "gw_routing_type=6:GatewayRoutingType sync_type=7:SyncType num_gcds=8:uint32 reconfigurable=9:bool "
    "num_replicas=10:uint32 allocation_id=11:string ipus=12*:PartitionIpu",
    "CreatePartitionRequest": "requirements=2:PartitionRequirements disable_auto_reset=3:bool relocatable=5:bool",
    "CreatePartitionReply": "partition_id=1:string",
    "ResetPartitionRequest": "partition_id=1:string relocatable=2:bool",
    "ResetPartitionReply": "",
    "RemovePartitionRequest": "partition_id=1:string force=2:bool",
    "RemovePartitionReply": "",
    "GetPartitionIpuofConfigRequest": "partition_id=1:string gcd_id=2:GcdID",
    "GetPartitionIpuofConfigRequest.GcdID": "id=1:uint32",
    "GetPartitionIpuofConfigReply": "ipuof_config=1:PartitionConfig",
    "IpuofDevice": "ip=1:string server_port=2:uint32 rdma_port=3:uint32 device_id=4:uint32 "
    "ipulink_segment_id=5:uint32 routing_id=6:uint32 ipu_arch_id=7:uint32 ipu_id=8:uint32 "
    "chip_id=9:string gwsw_version=10:string ipum_sw_version=11:string",
    "PartitionConfig": "ipulink_routing_type=2:IpuLinkRoutingType sync_type=3:SyncType reconfigurable=5:bool "
    "gw_routing_type=6:GatewayRoutingType num_ipulink_segments=7:uint32 gcd_configs=8*:Gcd "
    "ipuof_server_version=9:string",
    "PartitionConfig.Gcd": "devices=2*:IpuofDevice attributes=3*:AttributesEntry",
    "PartitionConfig.Gcd.AttributesEntry": "key=1:string value=2:string",
    "PartitionStatus": "partition_id=1:string ready_state=2:PartitionReadyState "
    "operation_state=3:PartitionOperationState errors=4*:string max_auto_reset_retries=5:uint32 "
    "auto_reset_retry_count=6:uint32 last_auto_reset_time=7:Timestamp",
    "GetPartitionStatusRequest": "partition_id=1:string",
    "GetPartitionStatusReply": "status=1:PartitionStatus",
    "AllocationSpec": "cluster_id=1:string agent_ids=2*:string",
    "Allocation": "id=1:string spec=2:AllocationSpec",
    "ListIPUAttributesRequest": "agents=1*:string",
    "ListIPUAttributesReply": "entries=1*:Entry",
    "ListIPUAttributesReply.Entry": "agent=1:string ipu_attributes=2*:IpuAttributesEntry",
    "ListIPUAttributesReply.Entry.IpuAttributesEntry": "key=1:uint32 value=2:Attributes",
    "ListIPUAttributesReply.Entry.Attributes": "attributes=1*:AttributesEntry",
    "ListIPUAttributesReply.Entry.Attributes.AttributesEntry": "key=1:string value=2:string",
}
ENUMS = {
    "IpuLinkRoutingType": "IRT_UNDEFINED=0 IRT_DNC=1 IRT_SWNC=2 IRT_BTNC=3 IRT_RINGSWNC=4",
    "GatewayRoutingType": "GRT_UNDEFINED=0 GRT_RING=2 GRT_SWRING=3",
    "SyncType": "ST_UNDEFINED=0 ST_GS2_DEFAULT=1 ST_GS2_INDEPENDENT_RAILS=2 ST_POD_NATIVE_DEFAULT=3 "
    "ST_POD_NATIVE_REPLICATED_PIPELINE=4",
    "PartitionReadyState": "PS_UNDEFINED=0 PS_PENDING=1 PS_ACTIVE=2 PS_REMOVED=3 PS_ERROR=4",
    "PartitionOperationState": "POS_UNDEFINED=0 POS_IDLE=1 POS_CREATING=2 POS_REMOVING=3 POS_RESETTING=4 "
    "POS_FAILED=5",
}
METHODS = {
    "UserService": {
        "ListPartitions",
        "ListIPUAttributes",
        "CreatePartition",
        "RemovePartition",
        "ResetPartition",
        "GetPartitionIpuofConfig",
        "GetPartitionStatus",
    },
    "VersionService": {"GetVersion"},
}
FILES = (vipuuser_pb2.DESCRIPTOR, version_pb2.DESCRIPTOR)


def _messages(entries, prefix=""):
    for descriptor in entries:
        yield prefix + descriptor.name, descriptor
        yield from _messages(descriptor.nested_types, f"{prefix}{descriptor.name}.")


ALL_MESSAGES = {
    name: descriptor for file in FILES for name, descriptor in _messages(file.message_types_by_name.values())
}


def _type(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return field.message_type.name
    if field.enum_type is not None:
        return field.enum_type.name
    names = {
        FieldDescriptor.TYPE_STRING: "string",
        FieldDescriptor.TYPE_UINT32: "uint32",
        FieldDescriptor.TYPE_BOOL: "bool",
    }
    return names[field.type]


def _line(descriptor) -> str:
    return " ".join(
        f"{field.name}={field.number}{'*' if field.is_repeated else ''}:{_type(field)}"
        for field in descriptor.fields
    )


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_messages_have_the_public_fields(name: str) -> None:
    """Names, numbers, types and labels of a message are those of the table."""
    assert _line(ALL_MESSAGES[name]) == MESSAGES[name]


def test_no_message_is_missing_in_the_table() -> None:
    """The package has exactly the public messages."""
    assert set(ALL_MESSAGES) == set(MESSAGES)


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_enumerations_have_the_public_numbers(name: str) -> None:
    """Names and numbers of an enumeration are those of the table."""
    enum: EnumDescriptor = vipuuser_pb2.DESCRIPTOR.enum_types_by_name[name]
    assert " ".join(f"{value.name}={value.number}" for value in enum.values) == ENUMS[name]


def test_services_have_the_public_methods() -> None:
    """No more and no fewer; request and reply have the method's name."""
    services = {name: service for file in FILES for name, service in file.services_by_name.items()}
    assert {
        name: {method.name for method in service.methods} for name, service in services.items()
    } == METHODS
    for service in services.values():
        for method in service.methods:
            _check_method(method)


def _check_method(method: MethodDescriptor) -> None:
    assert not method.client_streaming
    assert not method.server_streaming
    stem = "Version" if method.name == "GetVersion" else method.name
    assert (method.input_type.name, method.output_type.name) == (f"{stem}Request", f"{stem}Reply")
    assert method.containing_service.full_name.startswith("virmgrpc.")


def test_repeated_scalars_are_packed() -> None:
    """As proto3 packs them; no field is unpacked or has optional presence."""
    for descriptor in ALL_MESSAGES.values():
        for field in descriptor.fields:
            assert not field.GetOptions().HasField("packed")
            assert field.containing_oneof is None


def test_handwritten_wire_bytes_are_parsed_by_public_field_numbers() -> None:
    """A request written by hand from the public numbers is read field by field."""
    inner = (
        b"\x0a\x01p" + b"\x10\x40" + b"\x48\x01" + b"\x5a\x01a"
    )  # id=1, size=2, reconfigurable=9, allocation=11
    request = vipuuser_pb2.CreatePartitionRequest.FromString(
        b"\x12" + bytes([len(inner)]) + inner + b"\x28\x01"
    )
    wanted = request.requirements
    assert (wanted.id, wanted.size, wanted.reconfigurable, wanted.allocation_id) == ("p", 64, True, "a")
    assert request.relocatable
    assert request.SerializeToString() == b"\x12" + bytes([len(inner)]) + inner + b"\x28\x01"


def test_committed_stubs_are_up_to_date(tmp_path: Path) -> None:
    """Generating them again gives the same bytes."""
    # in a process of its own: the compiler's own protobuf conflicts with a second one
    subprocess.run([sys.executable, "-m", "openvipu.proto.generate", str(tmp_path)], check=True)
    made = sorted((tmp_path / "openvipu" / "proto").glob("*_pb2*"))
    assert [path.name for path in made] == sorted(path.name for path in generate.SOURCE.glob("*_pb2*.py*"))
    for path in made:
        assert path.read_text() == (generate.SOURCE / path.name).read_text(), path.name
