"""Servers of the shipped programs with their threads: callers without a key delay no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from openvipu import receiving, rpc
from openvipu.agent.binding import Binding
from openvipu.agent.main import THREADS, hardware
from openvipu.proto import agent_pb2, agent_pb2_grpc, version_pb2, version_pb2_grpc
from openvipu.proxy import length_of
from tests.openvipu.test_hostile import SOON, Never, half_calls, stranger
from tests.openvipu.test_leftovers import serving
from tests.openvipu.test_programs import ports, program, run, server
from tests.openvipu.vipuhouse import until


@pytest.mark.parametrize(
    "method", ["/openvipu.agent.v1.AgentService/GetOwner", "/grpc.health.v1.Health/Check"]
)
def test_shipped_agent_answers_while_requests_never_arrive(method: str) -> None:
    """There are more such calls than the program has threads."""
    never = Never()
    with program("openvipu-agent", "--address", "127.0.0.1:0", "--no-exporter") as (_, line):
        target = f"127.0.0.1:{line.split()[-1]}"
        with stranger(target) as one, stranger(target) as two, stranger(target) as mine:
            calls = half_calls(one, method, THREADS - 30, never) + half_calls(
                two, method, THREADS - 30, never
            )
            until(lambda: any(call.done() for call in calls))
            stub = agent_pb2_grpc.AgentServiceStub(mine)
            for _ in range(3):
                assert not stub.GetOwner(agent_pb2.GetOwnerRequest(), timeout=SOON).controller_id
            never.close()
            for call in calls:
                call.cancel()


def test_streams_without_a_key_do_not_block_a_secure_controller(tmp_path: Path) -> None:
    """More streams of reflection and health than the server serves calls are refused, and other calls are served."""
    state = tmp_path / "state"
    assert run("openvipu-server", "--state", str(state), "--init", "--secure").returncode == 0
    never = Never()

    def requests() -> Iterator[Any]:
        yield from never

    with program(*server(state)) as (_, line), ExitStack() as stack:
        target = f"127.0.0.1:{ports(line)[0]}"
        streams: list[Any] = []
        for _ in range(rpc.CALLS_AT_ONCE // 100 + 1):
            link = stack.enter_context(stranger(target))
            seen = reflection_pb2_grpc.ServerReflectionStub(link).ServerReflectionInfo
            watched = health_pb2_grpc.HealthStub(link).Watch
            streams += [seen(requests()) for _ in range(50)]
            streams += [watched(health_pb2.HealthCheckRequest()) for _ in range(50)]
        assert {stream.code() for stream in streams} == {grpc.StatusCode.UNIMPLEMENTED}
        with stranger(target) as mine:
            stub = version_pb2_grpc.VersionServiceStub(mine)
            assert stub.GetVersion(version_pb2.VersionRequest(), timeout=SOON).version
            healthy = health_pb2_grpc.HealthStub(mine).Check(health_pb2.HealthCheckRequest(), timeout=SOON)
            assert healthy.status == health_pb2.HealthCheckResponse.SERVING
        never.close()


@pytest.mark.parametrize("threads", [4, 8, 64, 128])
def test_calls_waiting_for_requests_leave_threads_free(threads: int) -> None:
    """One host may have no more of these places than all hosts."""
    made = receiving.ReceivingCalls(threads)
    places, share = made._places, made._share  # pyright: ignore[reportPrivateUsage]
    assert share <= places < threads


def test_agent_answers_its_owner_without_asking_the_hardware_each_time() -> None:
    """The hardware is asked once, not at each request."""
    machine = hardware("simulated", "gw1", "127.0.0.1")
    asked: list[int] = []
    real = machine.status

    def counted() -> Any:
        asked.append(1)
        return real()

    machine.status = counted  # type: ignore[method-assign]
    with serving(machine, Binding()) as agent:
        asked.clear()
        for _ in range(5):
            assert agent.GetOwner(agent_pb2.GetOwnerRequest(), timeout=SOON).settings == 0
        assert len(asked) == 1


@pytest.mark.parametrize("length", ["0000000019999999999", "1" * 300, "-1", "x", ""])
def test_invalid_content_length_is_refused(length: str) -> None:
    """A long number is judged by all its digits, not by the first nine."""
    assert length_of(length) is None
