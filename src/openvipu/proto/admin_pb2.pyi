from openvipu.proto import vipuuser_pb2 as _vipuuser_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentSpec(_message.Message):
    __slots__ = ("host", "port")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class IpuInfo(_message.Message):
    __slots__ = ("number", "chip_id", "healthy", "partition_id")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CHIP_ID_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    number: int
    chip_id: str
    healthy: bool
    partition_id: str
    def __init__(self, number: _Optional[int] = ..., chip_id: _Optional[str] = ..., healthy: _Optional[bool] = ..., partition_id: _Optional[str] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("reachable", "serial", "product", "software_version", "gateway_version", "rnic_address", "ipus", "error", "exporter")
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RNIC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    IPUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EXPORTER_FIELD_NUMBER: _ClassVar[int]
    reachable: bool
    serial: str
    product: str
    software_version: str
    gateway_version: str
    rnic_address: str
    ipus: _containers.RepeatedCompositeFieldContainer[IpuInfo]
    error: str
    exporter: str
    def __init__(self, reachable: _Optional[bool] = ..., serial: _Optional[str] = ..., product: _Optional[str] = ..., software_version: _Optional[str] = ..., gateway_version: _Optional[str] = ..., rnic_address: _Optional[str] = ..., ipus: _Optional[_Iterable[_Union[IpuInfo, _Mapping]]] = ..., error: _Optional[str] = ..., exporter: _Optional[str] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("id", "spec", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: AgentSpec
    status: AgentStatus
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[AgentSpec, _Mapping]] = ..., status: _Optional[_Union[AgentStatus, _Mapping]] = ...) -> None: ...

class CreateAgentRequest(_message.Message):
    __slots__ = ("id", "spec")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: AgentSpec
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[AgentSpec, _Mapping]] = ...) -> None: ...

class CreateAgentReply(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: Agent
    def __init__(self, agent: _Optional[_Union[Agent, _Mapping]] = ...) -> None: ...

class GetAgentRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetAgentReply(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: Agent
    def __init__(self, agent: _Optional[_Union[Agent, _Mapping]] = ...) -> None: ...

class ListAgentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAgentsReply(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    def __init__(self, agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ...) -> None: ...

class RemoveAgentRequest(_message.Message):
    __slots__ = ("id", "force")
    ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    force: bool
    def __init__(self, id: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RemoveAgentReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiscoveredAgent(_message.Message):
    __slots__ = ("host", "port", "interface", "seconds_since_seen", "suggested_id", "agent_id")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_SINCE_SEEN_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    host: str
    port: int
    interface: str
    seconds_since_seen: int
    suggested_id: str
    agent_id: str
    def __init__(self, host: _Optional[str] = ..., port: _Optional[int] = ..., interface: _Optional[str] = ..., seconds_since_seen: _Optional[int] = ..., suggested_id: _Optional[str] = ..., agent_id: _Optional[str] = ...) -> None: ...

class DiscoverAgentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DiscoverAgentsReply(_message.Message):
    __slots__ = ("discovered",)
    DISCOVERED_FIELD_NUMBER: _ClassVar[int]
    discovered: _containers.RepeatedCompositeFieldContainer[DiscoveredAgent]
    def __init__(self, discovered: _Optional[_Iterable[_Union[DiscoveredAgent, _Mapping]]] = ...) -> None: ...

class ClusterSpec(_message.Message):
    __slots__ = ("topology", "cluster_topology", "num_ipulink_domains", "agent_ids")
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    NUM_IPULINK_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    topology: str
    cluster_topology: str
    num_ipulink_domains: int
    agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topology: _Optional[str] = ..., cluster_topology: _Optional[str] = ..., num_ipulink_domains: _Optional[int] = ..., agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("id", "spec")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: ClusterSpec
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[ClusterSpec, _Mapping]] = ...) -> None: ...

class CreateClusterRequest(_message.Message):
    __slots__ = ("id", "spec")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: ClusterSpec
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[ClusterSpec, _Mapping]] = ...) -> None: ...

class CreateClusterReply(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class GetClusterRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetClusterReply(_message.Message):
    __slots__ = ("cluster",)
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ...) -> None: ...

class ListClustersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClustersReply(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ...) -> None: ...

class RemoveClusterRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveClusterReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TestClusterRequest(_message.Message):
    __slots__ = ("id", "tests")
    ID_FIELD_NUMBER: _ClassVar[int]
    TESTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    tests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., tests: _Optional[_Iterable[str]] = ...) -> None: ...

class TestResult(_message.Message):
    __slots__ = ("test_type", "duration_seconds", "passed", "total", "summary", "failures")
    TEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    test_type: str
    duration_seconds: float
    passed: int
    total: int
    summary: str
    failures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, test_type: _Optional[str] = ..., duration_seconds: _Optional[float] = ..., passed: _Optional[int] = ..., total: _Optional[int] = ..., summary: _Optional[str] = ..., failures: _Optional[_Iterable[str]] = ...) -> None: ...

class TestClusterReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TestResult]
    def __init__(self, results: _Optional[_Iterable[_Union[TestResult, _Mapping]]] = ...) -> None: ...

class CreateAllocationRequest(_message.Message):
    __slots__ = ("id", "cluster_id", "size", "agent_ids")
    ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    cluster_id: str
    size: int
    agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., cluster_id: _Optional[str] = ..., size: _Optional[int] = ..., agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateAllocationReply(_message.Message):
    __slots__ = ("allocation",)
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    allocation: _vipuuser_pb2.Allocation
    def __init__(self, allocation: _Optional[_Union[_vipuuser_pb2.Allocation, _Mapping]] = ...) -> None: ...

class ListAllocationOptionsReply(_message.Message):
    __slots__ = ("options",)
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedCompositeFieldContainer[_vipuuser_pb2.Allocation]
    def __init__(self, options: _Optional[_Iterable[_Union[_vipuuser_pb2.Allocation, _Mapping]]] = ...) -> None: ...

class GetAllocationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetAllocationReply(_message.Message):
    __slots__ = ("allocation",)
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    allocation: _vipuuser_pb2.Allocation
    def __init__(self, allocation: _Optional[_Union[_vipuuser_pb2.Allocation, _Mapping]] = ...) -> None: ...

class ListAllocationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListAllocationsReply(_message.Message):
    __slots__ = ("allocations",)
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    allocations: _containers.RepeatedCompositeFieldContainer[_vipuuser_pb2.Allocation]
    def __init__(self, allocations: _Optional[_Iterable[_Union[_vipuuser_pb2.Allocation, _Mapping]]] = ...) -> None: ...

class RemoveAllocationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveAllocationReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class User(_message.Message):
    __slots__ = ("id", "allocation_ids", "admin")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    admin: bool
    def __init__(self, id: _Optional[str] = ..., allocation_ids: _Optional[_Iterable[str]] = ..., admin: _Optional[bool] = ...) -> None: ...

class CreateUserRequest(_message.Message):
    __slots__ = ("id", "allocation_ids", "admin", "access_key")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    ACCESS_KEY_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    admin: bool
    access_key: str
    def __init__(self, id: _Optional[str] = ..., allocation_ids: _Optional[_Iterable[str]] = ..., admin: _Optional[bool] = ..., access_key: _Optional[str] = ...) -> None: ...

class CreateUserReply(_message.Message):
    __slots__ = ("user", "access_key", "user_port")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACCESS_KEY_FIELD_NUMBER: _ClassVar[int]
    USER_PORT_FIELD_NUMBER: _ClassVar[int]
    user: User
    access_key: str
    user_port: int
    def __init__(self, user: _Optional[_Union[User, _Mapping]] = ..., access_key: _Optional[str] = ..., user_port: _Optional[int] = ...) -> None: ...

class UpdateUserRequest(_message.Message):
    __slots__ = ("id", "allocation_ids")
    ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_IDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    allocation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., allocation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class UpdateUserReply(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: User
    def __init__(self, user: _Optional[_Union[User, _Mapping]] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersReply(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...

class RemoveUserRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RemoveUserReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
