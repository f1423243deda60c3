"""Keys of a pod's controller and agents are sent over TLS to the right server, or not at all."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import grpc
import pytest

from openvipu.controller import authority
from openvipu.controller.fleet import Fleet
from openvipu.controller.inventory import NO_MACHINE
from openvipu.model.errors import Unavailable
from openvipu.model.site import Agent
from openvipu.model.state import Settings
from openvipu.proto import admin_pb2, agent_pb2
from openvipu.renewal import server_credentials
from openvipu.rpc import Tls
from weft.drivers.vipu.channels import At, Channels, NoAnswerError, SlowError, _meaning
from weft.generate import podtls
from weft.model.errors import TemporaryError, UnknownError
from weft.model.podkeys import TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY, TLS_SEED
from weft.model.site import ADMIN_PORT, IpuGatewayNetwork, IpuMachine

POD, OTHER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


class PlainKeys:
    """Keys that differ for each pod and name, and can be found in recorded traffic."""

    def key(self, pod_id: str, name: str) -> str:
        return f"secret-{pod_id}.{name}"


KEYS = PlainKeys()


class Listener:
    """Accepts gRPC calls on loopback, answers each with nothing, and keeps their metadata."""

    def __init__(self, tls: Tls | None, at: str = "127.0.0.1:0", slow: float = 0.0) -> None:
        self.shown: list[tuple[str, Any]] = []
        self._slow = slow
        self._server = grpc.server(ThreadPoolExecutor(4), handlers=[self._handler()])
        credentials = server_credentials(tls) if tls else None
        self.port = (
            self._server.add_secure_port(at, credentials)
            if credentials
            else self._server.add_insecure_port(at)
        )

    def _handler(self) -> grpc.GenericRpcHandler:
        def answer(_: Any, context: grpc.ServicerContext) -> bytes:
            self.shown += [(str(key), value) for key, value in context.invocation_metadata()]
            time.sleep(self._slow)
            return b""

        class Everything(grpc.GenericRpcHandler):
            def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler[Any, Any]:
                return grpc.unary_unary_rpc_method_handler(answer)

        return Everything()

    @property
    def keys(self) -> list[str]:
        return [value for _, value in self.shown if "secret-" in str(value)]

    def __enter__(self) -> Listener:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()


def controllers_tls(pod_id: str) -> Tls:
    """The certificate of this pod's controller, as in its user data."""
    files = podtls._files(KEYS.key(pod_id, TLS_SEED))
    return Tls(files[TLS_AUTHORITY], files[TLS_CERTIFICATE], files[TLS_KEY], mutual=False)


def gateway(**changes: Any) -> IpuGatewayNetwork:
    return IpuGatewayNetwork(
        network="ipu-gw",
        physical_network="physnet",
        vlan=13,
        addresses=IPv4Network("127.0.0.0/8"),
        controllers=IPv4Network("127.0.250.0/24"),
        managed_from=IPv4Network("127.0.0.1/32"),
        **changes,
    )


def machine(port: int) -> IpuMachine:
    return IpuMachine(
        name="ipum1",
        ipu_pod="pod1",
        position=1,
        rnic_mac="0c:42:a1:00:00:01",
        rnic_address=IPv4Address("10.5.1.1"),
        rnic_switch="tor",
        rnic_port=1,
        bmc_mac="0c:42:a1:00:00:02",
        bmc_address=IPv4Address("10.1.1.1"),
        gw_mac="0c:42:a1:00:00:03",
        gw_address=IPv4Address("127.0.0.1"),
        agent_port=port,
    )


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The agents' certificates of two sites."""
    folders = tmp_path_factory.mktemp("ours") / "tls", tmp_path_factory.mktemp("theirs") / "tls"
    for folder in folders:
        authority.create(folder, [])
    return folders


ADDRESS = f"127.{120 + os.getpid() % 100}.7.1"
"""The controller's address, used by this process only, since its ports are fixed."""
DOOR = f"{ADDRESS}:{ADMIN_PORT}"
CONTROLLER = At(ADDRESS, tls=True)


def list_users(channels: Channels, at: At) -> None:
    with channels.admin(POD, at) as channel:
        channel.ask("list users", lambda stub: stub.ListUsers, admin_pb2.ListUsersRequest(), 5.0)


def test_keys_are_sent_only_over_the_controllers_tls() -> None:
    """Not to another pod's controller, to one without TLS, or to a server that only accepts connections."""
    channels = Channels(KEYS, gateway())
    with Listener(controllers_tls(POD), DOOR) as right:
        list_users(channels, CONTROLLER)
        assert right.keys == [KEYS.key(POD, "vipu-admin-key")]
    with Listener(controllers_tls(OTHER), DOOR) as wrong:
        with pytest.raises(NoAnswerError, match="its certificate was not issued by the expected CA"):
            list_users(channels, CONTROLLER)
        assert not wrong.shown
    with Listener(None, DOOR) as plain:
        with pytest.raises(NoAnswerError, match="it answers without TLS, so no key was sent"):
            list_users(channels, CONTROLLER)
        assert not plain.shown
    with _spy() as heard:
        with pytest.raises(NoAnswerError):
            list_users(channels, CONTROLLER)
        assert heard and b"secret-" not in b"".join(heard)


@contextmanager
def _spy() -> Iterator[list[bytes]]:
    """Accept every connection, answer nothing, and keep the bytes."""
    heard: list[bytes] = []
    with socket.create_server((ADDRESS, ADMIN_PORT)) as listener:

        def accept() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                with caller:
                    caller.settimeout(1.0)
                    try:
                        while data := caller.recv(65536):
                            heard.append(data)
                    except OSError:
                        continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield heard
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def test_slow_controller_is_not_reported_gone() -> None:
    """A server that showed its certificate is the controller; one that only accepts the connection may be anything."""
    channels = Channels(KEYS, gateway())
    for there, error in (
        (Listener(controllers_tls(POD), DOOR, slow=1.0), SlowError),
        (_spy(), NoAnswerError),
    ):
        with there, channels.admin(POD, CONTROLLER) as channel, pytest.raises(error, match="in time"):
            channel.ask("list users", lambda stub: stub.ListUsers, admin_pb2.ListUsersRequest(), 0.3)


def test_silent_agent_does_not_count_as_silent_controller() -> None:
    """The controller answers in time that an agent doesn't: an error of that resource only."""
    agent = Agent("ipum1", "127.0.0.1", 0, NO_MACHINE)
    fleet = Fleet(Settings("red", "key"), timeout=0.3)
    refusals: list[Unavailable] = []
    with Listener(None, slow=1.0) as slow:
        for port in (slow.port, 1):
            with pytest.raises(Unavailable) as refused:
                fleet.call(replace(agent, port=port), "Release", agent_pb2.ReleaseRequest())
            refusals.append(refused.value)
    fleet.close()

    class Said(grpc.RpcError, grpc.Call):
        code = lambda _: grpc.StatusCode.UNAVAILABLE  # noqa: E731
        details = lambda self: str(self.args[0])  # noqa: E731

    Said.__abstractmethods__ = frozenset()
    for refusal in refusals:
        error = _meaning("release", "the controller", Said(refusal))
        assert isinstance(error, TemporaryError) and not isinstance(error, UnknownError), error


def test_controller_without_tls_must_be_allowed_by_the_site() -> None:
    """A pod from before TLS gets keys only if the site has keys_in_clear; else there is no connection."""
    with Listener(None, DOOR) as plain:
        old = At(ADDRESS, tls=False)
        with pytest.raises(
            NoAnswerError, match=r"the site doesn't allow keys in clear text \(gateway.keys_in_clear\)"
        ):
            list_users(Channels(KEYS, gateway()), old)
        assert not plain.shown
        list_users(Channels(KEYS, gateway(keys_in_clear=True)), old)
        assert plain.keys == [KEYS.key(POD, "vipu-admin-key")]


def release(channels: Channels, port: int) -> None:
    with channels.agent(machine(port), POD) as channel:
        channel.ask("release", lambda stub: stub.Release, agent_pb2.ReleaseRequest(), 5.0)


def test_keys_are_sent_to_agents_only_over_the_sites_tls(credentials: tuple[Path, Path]) -> None:
    """Not to an impostor, nor to an agent without TLS unless the site allows it."""
    ours, theirs = credentials
    verifying = Channels(KEYS, gateway(agents_ca=(ours / "ca.crt").read_text()))
    with Listener(Tls.read(ours, "agent", mutual=False)) as agent:
        release(verifying, agent.port)
        assert agent.keys == [KEYS.key(POD, "vipu-agent-key")]
    for tls in (Tls.read(theirs, "agent", mutual=False), Tls.read(ours, "user", mutual=False), None):
        with Listener(tls) as impostor:
            with pytest.raises(NoAnswerError):
                release(verifying, impostor.port)
            # nor is it believed which controller it is bound to
            with pytest.raises(NoAnswerError), verifying.agent(machine(impostor.port)) as channel:
                channel.ask("look", lambda stub: stub.GetOwner, agent_pb2.GetOwnerRequest(), 5.0)
            assert not impostor.shown
    with Listener(None) as plain:
        with pytest.raises(NoAnswerError, match="there is no agents_ca"):
            release(Channels(KEYS, gateway()), plain.port)
        assert not plain.shown
        release(Channels(KEYS, gateway(keys_in_clear=True)), plain.port)
        assert plain.keys == [KEYS.key(POD, "vipu-agent-key")]


def test_same_seed_gives_the_same_keys() -> None:
    """Certificates that another worker makes later still verify the running controller."""
    first, second = (podtls._files("seed") for _ in range(2))
    assert first[TLS_KEY] == second[TLS_KEY]
    assert podtls._files("another")[TLS_KEY] != first[TLS_KEY]
    tls = Tls(first[TLS_AUTHORITY], first[TLS_CERTIFICATE], first[TLS_KEY], mutual=False)
    with Listener(tls) as server:
        credentials = grpc.ssl_channel_credentials(second[TLS_AUTHORITY])
        options = (("grpc.ssl_target_name_override", podtls.SERVER_NAME),)
        with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, options=options) as link:
            assert link.unary_unary("/a/b")(b"", timeout=60) == b""
