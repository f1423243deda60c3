"""The three gRPC channels, and what their errors mean to weft.

Keys are sent only in TLS: a controller is verified against its pod's own CA, an agent against the CA in the
site file. Without TLS they are sent only if the site allows it (`gateway.keys_in_clear`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from openvipu.proto import admin_pb2_grpc, agent_pb2_grpc, vipuuser_pb2_grpc
from weft.generate import podtls
from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError
from weft.model.messages import outside
from weft.model.site import ADMIN_PORT, USER_PORT, IpuGatewayNetwork, IpuMachine
from weft.planning.shapes.ipu.init import ADMIN_KEY, AGENT_KEY, TENANT_KEY, TENANT_USER, controller_id
from weft.ports.podkeys import PodKeys

TIMEOUT = 20.0
"""Timeout of a change, in seconds."""
READ_TIMEOUT = 3.0
"""Timeout of a read, in seconds."""
_AT_ONCE = 0.5
"""Seconds for a channel to say that it is connected."""

CONTROLLER = "the pod's V-IPU controller"
"""Name of a controller in errors. Tenants read these too, and must not see its address on the gateways' network."""
_AGENT_IS_AWAY = "can't be reached for"
"""A controller's message about an agent that doesn't answer: it shows that the controller itself is reachable."""
_PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.ABORTED,
        # cloud-init or another worker has just created it: the next visit compares it
        grpc.StatusCode.ALREADY_EXISTS,
    }
)
_OPTIONS = (("grpc.enable_http_proxy", 0),)
AGENT_NAME = "openvipu-agent"
"""The name in agents' certificates (docs/openvipu.md, "Isolation")."""

_HANDSHAKE = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate was not issued by the expected CA",
    "WRONG_VERSION_NUMBER": "it answers without TLS, so no key was sent",
}
"""OpenSSL's reason for a failed handshake -> its meaning."""

Metadata = tuple[tuple[str, str], ...]


class NoAnswerError(UnknownError):
    """Nothing answers at that address."""


class SlowError(UnknownError):
    """The server exists but didn't answer in time: whether it did what was asked isn't known."""


class MissingError(PermanentError):
    """The requested object doesn't exist."""


class NoRoomError(PermanentError):
    """There are not enough free IPUs."""


@dataclass(frozen=True, slots=True)
class Channel:
    """An open channel: its stub and its credentials."""

    of: str
    stub: Any
    link: grpc.Channel
    metadata: Metadata = ()

    def ask(self, asked: str, call: Callable[[Any], Any], request: Any, timeout: float = TIMEOUT) -> Any:
        """The reply. Raises one of the errors above, or another by its meaning."""
        try:
            return call(self.stub)(request, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            if _code(error) is grpc.StatusCode.DEADLINE_EXCEEDED and _is_connected(self.link):
                raise SlowError(asked, self.of, outside.NO_ANSWER(), delay=2.0) from error
            raise _meaning(asked, self.of, error) from error


@dataclass(frozen=True, slots=True)
class At:
    """Where a pod's controller is on the gateways' network, and whether it has TLS."""

    address: str
    tls: bool


@dataclass(frozen=True, slots=True)
class Channels:
    """Opens gRPC channels with credentials."""

    keys: PodKeys
    gateway: IpuGatewayNetwork

    @contextmanager
    def admin(self, pod_id: str, controller: At) -> Generator[Channel]:
        """The admin API of a pod's controller. Raises `NoAnswerError` rather than send keys in clear text."""
        credentials = _user("admin", self.keys.key(pod_id, ADMIN_KEY))
        with self._controller(pod_id, controller, ADMIN_PORT) as link:
            yield Channel(CONTROLLER, admin_pb2_grpc.AdminServiceStub(link), link, credentials)

    @contextmanager
    def user(self, pod_id: str, controller: At, tenant: bool) -> Generator[Channel]:
        """The user API of a pod's controller, as the tenant's user or as the administrator. Raises the same errors as
        `admin`."""
        name, key = (TENANT_USER, TENANT_KEY) if tenant else ("admin", ADMIN_KEY)
        credentials = _user(name, self.keys.key(pod_id, key))
        with self._controller(pod_id, controller, USER_PORT) as link:
            yield Channel(CONTROLLER, vipuuser_pb2_grpc.UserServiceStub(link), link, credentials)

    @contextmanager
    def agent(self, machine: IpuMachine, pod_id: str | None = None) -> Generator[Channel]:
        """A machine's agent. With a pod, it is asked on behalf of the pod's controller, with that one's key, and so
        never in clear text."""
        of = f"V-IPU agent of {machine.name}"
        credentials: Metadata = ()
        if pod_id is not None:
            if self.gateway.agents_ca is None:
                self._allow_clear(of, "agents_ca")
            key = self.keys.key(pod_id, AGENT_KEY)
            credentials = (("openvipu-controller", controller_id(pod_id)), ("openvipu-key", key))
        authority = self.gateway.agents_ca.encode() if self.gateway.agents_ca else None
        with _channel(str(machine.gw_address), machine.agent_port, authority, AGENT_NAME) as link:
            yield Channel(of, agent_pb2_grpc.AgentServiceStub(link), link, credentials)

    def _controller(self, pod_id: str, controller: At, port: int) -> grpc.Channel:
        if not controller.tls:
            self._allow_clear(CONTROLLER, "TLS")
            return _channel(controller.address, port)
        return _channel(controller.address, port, podtls.authority(self.keys, pod_id), podtls.SERVER_NAME)

    def _allow_clear(self, of: str, lacking: str) -> None:
        if not self.gateway.keys_in_clear:
            what = f"there is no {lacking}, and the site doesn't allow keys in clear text (gateway.keys_in_clear)"
            raise NoAnswerError("send it a key", of, what, delay=60.0)


def _channel(host: str, port: int, authority: bytes | None = None, name: str = "") -> grpc.Channel:
    """A channel; with a CA (PEM) only to a server that has a certificate of it for that name."""
    target = f"{host}:{port}"
    if authority is None:
        return grpc.insecure_channel(target, options=_OPTIONS)
    options = (*_OPTIONS, ("grpc.ssl_target_name_override", name))
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(authority), options=options)


def _user(name: str, key: str) -> Metadata:
    return (("api-user-id", name), ("api-access-key", key))


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    return error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN


def _is_connected(link: grpc.Channel) -> bool:
    """Whether the channel is connected and authenticated: an absent server isn't a slow one."""
    try:
        grpc.channel_ready_future(link).result(timeout=_AT_ONCE)
    except grpc.FutureTimeoutError:
        return False
    return True


def _meaning(asked: str, of: str, error: grpc.RpcError) -> OutsideError:
    code = _code(error)
    said = (error.details() if isinstance(error, grpc.Call) else str(error)) or code.name
    if code is grpc.StatusCode.UNAVAILABLE and _AGENT_IS_AWAY not in said:
        what = next((words for mark, words in _HANDSHAKE.items() if mark in said), "nothing answers")
        return NoAnswerError(asked, of, what, delay=2.0)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return NoAnswerError(asked, of, outside.NO_ANSWER(), delay=2.0)
    if code in _PASSING:
        return TemporaryError(asked, of, said)
    if code is grpc.StatusCode.NOT_FOUND:
        return MissingError(asked, of, said, "recreate it")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return NoRoomError(asked, of, said, "remove partitions")
    return PermanentError(asked, of, said, "check the controller and its machines")
