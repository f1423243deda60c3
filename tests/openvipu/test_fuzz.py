"""Arbitrary input for every field of every request and every reader of text: an error with a sentence, and no harm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openvipu.agent.beacon import encode
from openvipu.controller.discovery import read_beacon
from openvipu.model.partition import Operation
from openvipu.proto import admin_pb2, agent_pb2, catalog_pb2, simulation_pb2, version_pb2, vipuuser_pb2
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, channel
from tests.helpers.amounts import SEED, examples
from tests.openvipu.vipuhouse import Controller, house, until

FILES = (vipuuser_pb2.DESCRIPTOR, catalog_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, agent_pb2.DESCRIPTOR)
METHODS = [
    method for file in FILES for service in file.services_by_name.values() for method in service.methods
]
CLEAR = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAVAILABLE,
}
SETTLED = (Operation.IDLE, Operation.FAILED)
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 8, 16, 17, 64, 2**16, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
NAMES = st.sampled_from(["c", "a", "p", "q", "ipum1", "ipum4", "x", "", "a b", "../x", "x" * 200]) | st.text(
    max_size=8
)
# hosts come from a list: nothing may be sent to a random address
HOSTS = st.sampled_from(["", "127.0.0.1", "::1", "bad host", "-", "[", "a/b"])


@cache
def messages(descriptor: Descriptor) -> st.SearchStrategy[Any]:
    """Any message of this type: each field is absent or has any value that can be encoded."""
    fields = {field.name: values(field) for field in descriptor.fields}
    kind = GetMessageClass(descriptor)
    return st.fixed_dictionaries({}, optional=fields).map(lambda given: kind(**given))


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.just({})
    if field.is_repeated:
        return st.lists(scalars(field), max_size=4)
    return scalars(field)


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(field.message_type)
    if field.enum_type is not None:
        return st.integers(-1, 7) | st.sampled_from([2**31 - 1, -(2**31)])
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_UINT32:
        return NUMBERS
    assert field.type == FieldDescriptor.TYPE_STRING
    return HOSTS if field.name == "host" else NAMES


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """One controller that gets all the arbitrary input."""
    with house(tmp_path_factory.mktemp("fuzz"), agent_timeout=2.0, queue_timeout=30.0) as controller:
        restore(controller)
        yield controller


def caller(
    controller: Controller, method: MethodDescriptor
) -> tuple[grpc.Channel, tuple[tuple[str, str], ...]]:
    """The channel at which the method is served, and the metadata that it requires."""
    if method.containing_service.full_name.startswith("openvipu.agent."):
        agent = controller.pod.agents["ipum2"]
        metadata = ((CONTROLLER_HEADER, "controller-a"), (CONTROLLER_KEY_HEADER, "key-of-controller-a"))
        return channel(f"{agent.host}:{agent.port}"), metadata
    port = controller.server.admin_port if "admin" in method.full_name else controller.server.user_port
    return channel(f"127.0.0.1:{port}"), ()


def restore(controller: Controller) -> None:
    """Remove partitions, and add again the agents and the cluster that the input removed."""
    for agent in controller.pod.agents.values():
        agent.binding.claim("controller-a", "key-of-controller-a")
    for id_ in list(controller.state.partitions):
        try:
            controller.remove(id_, force=True)
        except grpc.RpcError as error:  # a partition that a request was removing may be gone
            assert isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.NOT_FOUND
    until(lambda: not controller.state.partitions)
    controller.server.watch.poll()
    for id_ in list(controller.state.allocations):
        controller.admin.RemoveAllocation(admin_pb2.RemoveAllocationRequest(id=id_))
    for id_ in list(controller.state.clusters):
        controller.admin.RemoveCluster(admin_pb2.RemoveClusterRequest(id=id_))
    for id_ in list(controller.state.agents):
        controller.admin.RemoveAgent(admin_pb2.RemoveAgentRequest(id=id_, force=True))
    controller.add_agents()
    controller.add_cluster("c")
    controller.add_allocation("a", 8)
    controller.create_active("p", 4, allocation_id="a")


def settle(controller: Controller) -> Any:
    """The state once no partition is being worked on."""

    def settled() -> bool:
        return all(entry.operation in SETTLED for entry in controller.state.partitions.values())

    until(settled)
    return controller.state


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_arbitrary_request_is_answered_or_refused_in_a_sentence(
    target: Controller, method: MethodDescriptor
) -> None:
    """A refusal has one of the clear statuses and leaves the state unchanged."""
    whole = settle(target)
    link, metadata = caller(target, method)
    service = method.containing_service.full_name
    reply = GetMessageClass(method.output_type)
    send = link.unary_unary(
        f"/{service}/{method.name}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=reply.FromString,
    )

    @settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
    @given(messages(method.input_type))
    def throw(request: Any) -> None:
        before = settle(target)
        try:
            send(request, metadata=metadata, timeout=30)
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            assert error.code() in CLEAR, (error.code(), error.details(), request)
            assert error.details()
            assert "Traceback" not in error.details()
            assert settle(target) is before or method.name == "RunTest"

    try:
        with link:
            throw()
    finally:
        if settle(target) is not whole or service.startswith("openvipu.agent."):
            restore(target)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_bytes_that_do_not_parse_are_refused(target: Controller, method: MethodDescriptor) -> None:
    """INVALID_ARGUMENT with the method's name; the state is unchanged and the next good call is answered."""
    link, metadata = caller(target, method)
    service = method.containing_service.full_name
    before = settle(target)
    with link:
        send = link.unary_unary(f"/{service}/{method.name}")
        for junk in (b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x80" * 40):
            with pytest.raises(grpc.RpcError) as caught:
                send(junk, metadata=metadata, timeout=30)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert f"no request of /{service}/{method.name}" in caught.value.details()
    assert settle(target) is before
    assert target.versions.GetVersion(version_pb2.VersionRequest()).version


@settings(max_examples=examples(150))
@given(st.binary(max_size=600) | st.text(max_size=60).map(str.encode))
def test_arbitrary_datagram_is_ignored(datagram: bytes) -> None:
    """Random bytes are no beacon; a beacon is still read."""
    assert read_beacon(datagram, "lo") is None
    assert read_beacon(encode("127.0.0.1", 8080, "ipum1"), "lo") is not None


def test_every_served_method_is_fuzzed() -> None:
    """A method that was added changes this number; the simulation's service isn't counted."""
    assert len(METHODS) == 7 + 2 + 19 + 10
    assert "SimulationService" in simulation_pb2.DESCRIPTOR.services_by_name


@pytest.mark.nightly(reason="the other tests of each reader draw their input at random too, in one process")
@pytest.mark.parametrize("name", ["config", "state", "database", "beacon", "binding", "request", "setting"])
def test_coverage_guided_fuzzing_finds_nothing(name: str, tmp_path: Path) -> None:
    """A short run of each atheris target; longer ones are started by hand."""
    runs = examples({"database": 150}.get(name, 2000))
    command = [
        sys.executable,
        str(Path(__file__).with_name("fuzz_readers.py")),
        name,
        f"-runs={runs}",
        f"-seed={SEED + 1}",  # 0 would be a random seed
    ]
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # libFuzzer leaves its temporary files
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=3600, cwd=tmp_path, env=env, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "Done" in ended.stderr
