"""Hostile callers: requests that never arrive, streams that never end, connections that send nothing."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from openvipu import rpc
from openvipu.proto import agent_pb2, agent_pb2_grpc, version_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.receiving import ReceivingCalls
from openvipu.web import CONNECTIONS, WebServer, serve_in_thread
from tests.openvipu.vipuhouse import LONGEST_WAIT, Controller, house, refused, until

SOON = 60.0
"""Seconds within which other callers must be answered, on a busy machine."""


class Never:
    """Requests that don't arrive until it is closed."""

    def __init__(self) -> None:
        self._done = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        self._done.wait(10 * LONGEST_WAIT)
        return iter(())

    def close(self) -> None:
        self._done.set()


def stranger(target: str) -> grpc.Channel:
    """A connection of its own: by default the channels of one process share one."""
    return grpc.insecure_channel(target, options=(("grpc.use_local_subchannel_pool", 1),))


def half_calls(link: grpc.Channel, method: str, number: int, never: Never) -> list[grpc.Future]:
    """Calls whose headers are sent and whose requests aren't."""
    call = link.stream_unary(method)

    def requests() -> Iterator[bytes]:
        yield from never

    return [call.future(requests()) for _ in range(number)]


@pytest.mark.parametrize("door", ["user", "agent"])
def test_calls_whose_requests_never_arrive_delay_no_other_caller(pod16: Controller, door: str) -> None:
    """With three hundred of them the next caller is served, at the user API and at an agent."""
    agent = pod16.pod.agents["ipum1"]
    if door == "user":
        target, method = f"127.0.0.1:{pod16.server.user_port}", "/virmgrpc.UserService/ListPartitions"
    else:
        target, method = f"{agent.host}:{agent.port}", "/openvipu.agent.v1.AgentService/GetOwner"
    never = Never()
    with stranger(target) as link, stranger(target) as other, stranger(target) as third:
        calls = half_calls(link, method, 100, never) + half_calls(other, method, 100, never)
        calls += half_calls(third, method, 100, never)
        until(lambda: any(call.done() for call in calls))
        if door == "user":
            assert not pod16.users.ListPartitions(pb.ListPartitionsRequest(), timeout=SOON).partitions
        else:
            with stranger(target) as mine:
                stub = agent_pb2_grpc.AgentServiceStub(mine)
                assert stub.GetOwner(agent_pb2.GetOwnerRequest(), timeout=SOON).controller_id
        never.close()
        for call in calls:
            call.cancel()


def test_request_that_takes_too_long_is_cancelled() -> None:
    """A call that sends no request is cancelled after its time limit, even if no other call arrives."""

    class Context:
        def __init__(self) -> None:
            self.cancelled = threading.Event()

        def peer(self) -> str:
            return "ipv4:127.0.0.1:1"

        def cancel(self) -> None:
            self.cancelled.set()

    slow, quick, receiving = Context(), Context(), ReceivingCalls(patience=0.2)
    with receiving.place(quick):
        pass
    with receiving.place(slow):
        assert slow.cancelled.wait(LONGEST_WAIT)
    assert not quick.cancelled.is_set()


def test_reflection_streams_delay_no_other_caller(pod16: Controller) -> None:
    """Two hundred of them are open."""
    never = Never()

    def requests() -> Iterator[reflection_pb2.ServerReflectionRequest]:
        yield from never  # pyright: ignore[reportReturnType]

    target = f"127.0.0.1:{pod16.server.user_port}"
    with stranger(target) as a, stranger(target) as b:
        streams = [
            reflection_pb2_grpc.ServerReflectionStub(link).ServerReflectionInfo(requests())
            for link in (a, b)
            for _ in range(100)
        ]
        for _ in range(20):
            assert pod16.versions.GetVersion(version_pb2.VersionRequest(), timeout=SOON).version
        never.close()
        for stream in streams:
            stream.cancel()


def test_requests_and_error_texts_are_limited_in_size(pod16: Controller) -> None:
    """A request of a megabyte is refused; an error doesn't repeat a name of a hundred kilobytes."""
    huge = pb.GetPartitionStatusRequest(partition_id="x" * (1 << 20))
    code, _ = refused(lambda: pod16.users.GetPartitionStatus(huge))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    long = pb.GetPartitionStatusRequest(partition_id="x" * 100_000)
    code, words = refused(lambda: pod16.users.GetPartitionStatus(long))
    assert code is grpc.StatusCode.NOT_FOUND
    assert len(words) < 2 * rpc.LONGEST_WORDS
    many = pb.ListIPUAttributesRequest(agents=["ipum1"] * 30_000)
    assert len(pod16.users.ListIPUAttributes(many, timeout=SOON).entries) == 1


def test_silent_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server closes a connection that sends nothing for 10 s (here 0.5 s)."""
    patience = "grpc.server_handshake_timeout_ms"
    assert dict(rpc.BOUNDS)[patience] == 10_000
    monkeypatch.setattr(rpc, "BOUNDS", tuple({**dict(rpc.BOUNDS), patience: 500}.items()))
    with (
        house(tmp_path) as controller,
        socket.create_connection(("127.0.0.1", controller.server.user_port)) as silent,
    ):
        silent.settimeout(LONGEST_WAIT / 2)
        while silent.recv(4096):
            pass


def test_http_server_closes_silent_connections_and_still_serves_a_page() -> None:
    """After their time limit; those beyond the limit of connections at once."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Log nothing."""

    server = WebServer(("127.0.0.1", 0), Page, seconds=1.0)
    serve_in_thread(server, "page")
    try:
        address = server.server_address[:2]
        silent = [socket.create_connection(address, timeout=LONGEST_WAIT / 2) for _ in range(3 * CONNECTIONS)]
        for connection in silent:
            try:
                assert connection.recv(1) == b""
            except ConnectionResetError:
                continue
            finally:
                connection.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{address[1]}/", timeout=LONGEST_WAIT) as page:
            assert page.read() == b"ok"
    finally:
        server.shutdown()
        server.server_close()
