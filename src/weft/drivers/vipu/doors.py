"""The three gRPC doors, and what their refusals mean to weft.

Weft is on the gateways' network, as the controllers are: keys travel in the clear there, and no tenant reaches it
(docs/openvipu.md, "Isolation").
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc

from openvipu.proto import admin_pb2_grpc, agent_pb2_grpc, vipuuser_pb2_grpc
from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError
from weft.model.ipusite import ADMIN_PORT, USER_PORT, IpuMachine
from weft.planning.ipuinit import ADMIN_KEY, AGENT_KEY, TENANT_KEY, TENANT_USER, controller_id
from weft.ports.podkeys import PodKeys

TIMEOUT = 20.0
"""Seconds for one answer."""
LOOK = 3.0
"""Seconds for an answer that only reads."""

CONTROLLER = "the pod's V-IPU controller"
"""Who it is in errors, which tenants read too: where it is on the gateways' network is none of theirs."""
_AGENT_IS_AWAY = "can't be reached for"
"""What a controller says of an agent that doesn't answer: then it isn't the controller that can't be reached."""
_PASSING = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED}
)
_OPTIONS = (("grpc.enable_http_proxy", 0),)

Metadata = tuple[tuple[str, str], ...]


class NoAnswerError(UnknownError):
    """Nobody answers at the door at all."""


class MissingError(PermanentError):
    """What was asked for isn't there."""


class NoRoomError(PermanentError):
    """There are not enough free IPUs for it."""


@dataclass(frozen=True, slots=True)
class Door:
    """One open door: its stub, and how it is asked."""

    of: str
    stub: Any
    metadata: Metadata = ()

    def ask(self, asked: str, call: Callable[[Any], Any], request: Any, timeout: float = TIMEOUT) -> Any:
        """The reply. Raises `NoAnswerError`, `MissingError`, `NoRoomError`, or what else the refusal means."""
        try:
            return call(self.stub)(request, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise _meaning(asked, self.of, error) from error


@dataclass(frozen=True, slots=True)
class Doors:
    """Opens doors, with the papers for each."""

    keys: PodKeys

    @contextmanager
    def admin(self, pod_id: str, controller: str) -> Generator[Door]:
        """The administrators' door of a pod's controller."""
        papers = _user("admin", self.keys.key(pod_id, ADMIN_KEY))
        with _channel(controller, ADMIN_PORT) as link:
            yield Door(CONTROLLER, admin_pb2_grpc.AdminServiceStub(link), papers)

    @contextmanager
    def user(self, pod_id: str, controller: str, tenant: bool) -> Generator[Door]:
        """The users' door, as the tenant's user or as the administrator."""
        name, key = (TENANT_USER, TENANT_KEY) if tenant else ("admin", ADMIN_KEY)
        papers = _user(name, self.keys.key(pod_id, key))
        with _channel(controller, USER_PORT) as link:
            yield Door(CONTROLLER, vipuuser_pb2_grpc.UserServiceStub(link), papers)

    @contextmanager
    def agent(self, machine: IpuMachine, pod_id: str | None = None) -> Generator[Door]:
        """A machine's agent; with a pod, in the place of its controller."""
        papers: Metadata = ()
        if pod_id is not None:
            key = self.keys.key(pod_id, AGENT_KEY)
            papers = (("openvipu-controller", controller_id(pod_id)), ("openvipu-key", key))
        with _channel(str(machine.gw_address), machine.agent_port) as link:
            yield Door(f"V-IPU agent of {machine.name}", agent_pb2_grpc.AgentServiceStub(link), papers)


def _channel(host: str, port: int) -> grpc.Channel:
    return grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)


def _user(name: str, key: str) -> Metadata:
    return (("api-user-id", name), ("api-access-key", key))


def _meaning(asked: str, of: str, error: grpc.RpcError) -> OutsideError:
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    said = (error.details() if isinstance(error, grpc.Call) else str(error)) or code.name
    if code is grpc.StatusCode.UNAVAILABLE and _AGENT_IS_AWAY not in said:
        return NoAnswerError(asked, of, "nobody answers", delay=2.0)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED and _AGENT_IS_AWAY not in said:
        return NoAnswerError(asked, of, "no answer in time", delay=2.0)
    if code in _PASSING:
        return TemporaryError(asked, of, said)
    if code is grpc.StatusCode.NOT_FOUND:
        return MissingError(asked, of, said, "make it anew")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return NoRoomError(asked, of, said, "remove partitions")
    return PermanentError(asked, of, said, "look at the controller and its machines")
