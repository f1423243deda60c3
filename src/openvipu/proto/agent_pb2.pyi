from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ipu(_message.Message):
    __slots__ = ("number", "chip_id", "healthy", "fault", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHIP_ID_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    number: int
    chip_id: str
    healthy: bool
    fault: str
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, number: _Optional[int] = ..., chip_id: _Optional[str] = ..., healthy: _Optional[bool] = ..., fault: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("name", "peer_serial", "peer_port", "up")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_SERIAL_FIELD_NUMBER: _ClassVar[int]
    PEER_PORT_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    name: str
    peer_serial: str
    peer_port: str
    up: bool
    def __init__(self, name: _Optional[str] = ..., peer_serial: _Optional[str] = ..., peer_port: _Optional[str] = ..., up: _Optional[bool] = ...) -> None: ...

class Machine(_message.Message):
    __slots__ = ("serial", "name", "product", "software_version", "gateway_version", "rnic_address", "server_port", "rdma_port", "ipus", "ports", "exporter_port")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RNIC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SERVER_PORT_FIELD_NUMBER: _ClassVar[int]
    RDMA_PORT_FIELD_NUMBER: _ClassVar[int]
    IPUS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    EXPORTER_PORT_FIELD_NUMBER: _ClassVar[int]
    serial: str
    name: str
    product: str
    software_version: str
    gateway_version: str
    rnic_address: str
    server_port: int
    rdma_port: int
    ipus: _containers.RepeatedCompositeFieldContainer[Ipu]
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    exporter_port: int
    def __init__(self, serial: _Optional[str] = ..., name: _Optional[str] = ..., product: _Optional[str] = ..., software_version: _Optional[str] = ..., gateway_version: _Optional[str] = ..., rnic_address: _Optional[str] = ..., server_port: _Optional[int] = ..., rdma_port: _Optional[int] = ..., ipus: _Optional[_Iterable[_Union[Ipu, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ..., exporter_port: _Optional[int] = ...) -> None: ...

class IpuSetting(_message.Message):
    __slots__ = ("number", "routing_id", "segment_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ROUTING_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    routing_id: int
    segment_id: int
    def __init__(self, number: _Optional[int] = ..., routing_id: _Optional[int] = ..., segment_id: _Optional[int] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("partition_id", "generation", "ipus", "open_links", "gateway_peers", "sync_type", "routing_type")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    IPUS_FIELD_NUMBER: _ClassVar[int]
    OPEN_LINKS_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_PEERS_FIELD_NUMBER: _ClassVar[int]
    SYNC_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROUTING_TYPE_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    generation: int
    ipus: _containers.RepeatedCompositeFieldContainer[IpuSetting]
    open_links: _containers.RepeatedScalarFieldContainer[str]
    gateway_peers: _containers.RepeatedScalarFieldContainer[str]
    sync_type: int
    routing_type: int
    def __init__(self, partition_id: _Optional[str] = ..., generation: _Optional[int] = ..., ipus: _Optional[_Iterable[_Union[IpuSetting, _Mapping]]] = ..., open_links: _Optional[_Iterable[str]] = ..., gateway_peers: _Optional[_Iterable[str]] = ..., sync_type: _Optional[int] = ..., routing_type: _Optional[int] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClaimReply(_message.Message):
    __slots__ = ("machine",)
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    machine: Machine
    def __init__(self, machine: _Optional[_Union[Machine, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetOwnerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetOwnerReply(_message.Message):
    __slots__ = ("controller_id", "settings")
    CONTROLLER_ID_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    controller_id: str
    settings: int
    def __init__(self, controller_id: _Optional[str] = ..., settings: _Optional[int] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("machine",)
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    machine: Machine
    def __init__(self, machine: _Optional[_Union[Machine, _Mapping]] = ...) -> None: ...

class ConfigureRequest(_message.Message):
    __slots__ = ("setting",)
    SETTING_FIELD_NUMBER: _ClassVar[int]
    setting: Setting
    def __init__(self, setting: _Optional[_Union[Setting, _Mapping]] = ...) -> None: ...

class ConfigureReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TrainRequest(_message.Message):
    __slots__ = ("partition_id", "generation")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    generation: int
    def __init__(self, partition_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class TrainReply(_message.Message):
    __slots__ = ("failures",)
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, failures: _Optional[_Iterable[str]] = ...) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ("setting",)
    SETTING_FIELD_NUMBER: _ClassVar[int]
    setting: Setting
    def __init__(self, setting: _Optional[_Union[Setting, _Mapping]] = ...) -> None: ...

class ResetReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClearRequest(_message.Message):
    __slots__ = ("partition_id", "generation")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    generation: int
    def __init__(self, partition_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class ClearReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SettingStatus(_message.Message):
    __slots__ = ("partition_id", "generation", "failures")
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    partition_id: str
    generation: int
    failures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, partition_id: _Optional[str] = ..., generation: _Optional[int] = ..., failures: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusReply(_message.Message):
    __slots__ = ("serial", "ipus", "settings")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    IPUS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    serial: str
    ipus: _containers.RepeatedCompositeFieldContainer[Ipu]
    settings: _containers.RepeatedCompositeFieldContainer[SettingStatus]
    def __init__(self, serial: _Optional[str] = ..., ipus: _Optional[_Iterable[_Union[Ipu, _Mapping]]] = ..., settings: _Optional[_Iterable[_Union[SettingStatus, _Mapping]]] = ...) -> None: ...

class RunTestRequest(_message.Message):
    __slots__ = ("test", "ports")
    TEST_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    test: str
    ports: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, test: _Optional[str] = ..., ports: _Optional[_Iterable[str]] = ...) -> None: ...

class RunTestReply(_message.Message):
    __slots__ = ("failures",)
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, failures: _Optional[_Iterable[str]] = ...) -> None: ...
