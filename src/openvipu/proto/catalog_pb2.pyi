from openvipu.proto import vipuuser_pb2 as _vipuuser_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListAllocationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAllocationsReply(_message.Message):
    __slots__ = ("allocations",)
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    allocations: _containers.RepeatedCompositeFieldContainer[_vipuuser_pb2.Allocation]
    def __init__(self, allocations: _Optional[_Iterable[_Union[_vipuuser_pb2.Allocation, _Mapping]]] = ...) -> None: ...

class ListPartitionOptionsRequest(_message.Message):
    __slots__ = ("requirements",)
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    requirements: _vipuuser_pb2.PartitionRequirements
    def __init__(self, requirements: _Optional[_Union[_vipuuser_pb2.PartitionRequirements, _Mapping]] = ...) -> None: ...

class PartitionOption(_message.Message):
    __slots__ = ("index", "cluster_id", "allocation_id", "ipus", "agent_ids", "free", "preferred")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    IPUS_FIELD_NUMBER: _ClassVar[int]
    AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    index: int
    cluster_id: str
    allocation_id: str
    ipus: _containers.RepeatedCompositeFieldContainer[_vipuuser_pb2.PartitionIpu]
    agent_ids: _containers.RepeatedScalarFieldContainer[str]
    free: bool
    preferred: bool
    def __init__(self, index: _Optional[int] = ..., cluster_id: _Optional[str] = ..., allocation_id: _Optional[str] = ..., ipus: _Optional[_Iterable[_Union[_vipuuser_pb2.PartitionIpu, _Mapping]]] = ..., agent_ids: _Optional[_Iterable[str]] = ..., free: _Optional[bool] = ..., preferred: _Optional[bool] = ...) -> None: ...

class ListPartitionOptionsReply(_message.Message):
    __slots__ = ("options",)
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedCompositeFieldContainer[PartitionOption]
    def __init__(self, options: _Optional[_Iterable[_Union[PartitionOption, _Mapping]]] = ...) -> None: ...
