from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Fault(_message.Message):
    __slots__ = ("kind", "machine", "unit", "seconds")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    machine: str
    unit: str
    seconds: float
    def __init__(self, kind: _Optional[str] = ..., machine: _Optional[str] = ..., unit: _Optional[str] = ..., seconds: _Optional[float] = ...) -> None: ...

class PlantRequest(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: Fault
    def __init__(self, fault: _Optional[_Union[Fault, _Mapping]] = ...) -> None: ...

class PlantReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealRequest(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: Fault
    def __init__(self, fault: _Optional[_Union[Fault, _Mapping]] = ...) -> None: ...

class HealReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultsReply(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class ProbeRequest(_message.Message):
    __slots__ = ("from_machine", "from_ipu", "to_machine", "to_ipu")
    FROM_MACHINE_FIELD_NUMBER: _ClassVar[int]
    FROM_IPU_FIELD_NUMBER: _ClassVar[int]
    TO_MACHINE_FIELD_NUMBER: _ClassVar[int]
    TO_IPU_FIELD_NUMBER: _ClassVar[int]
    from_machine: str
    from_ipu: int
    to_machine: str
    to_ipu: int
    def __init__(self, from_machine: _Optional[str] = ..., from_ipu: _Optional[int] = ..., to_machine: _Optional[str] = ..., to_ipu: _Optional[int] = ...) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("delivered", "hops")
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    delivered: bool
    hops: int
    def __init__(self, delivered: _Optional[bool] = ..., hops: _Optional[int] = ...) -> None: ...
