"""The agents of this controller, called one by one or all at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import grpc

from openvipu.model.errors import Conflict, Forbidden, Refusal, Unavailable
from openvipu.model.site import Agent
from openvipu.model.state import Settings
from openvipu.proto import agent_pb2_grpc as pb_grpc
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, Tls, channel, words_of

AGENT_NAME = "openvipu-agent"
"""The name in the agents' certificate; agents are reached by address."""


class Fleet:
    """Channels to agents. Errors come back as sentences that begin with the agent's id."""

    def __init__(self, settings: Settings, tls: Tls | None = None, timeout: float = 30.0) -> None:
        self._metadata = (
            (CONTROLLER_HEADER, settings.controller_id),
            (CONTROLLER_KEY_HEADER, settings.agent_key),
        )
        self._tls = tls
        self.timeout = timeout
        self._lock = threading.Lock()
        self._links: dict[str, tuple[grpc.Channel, pb_grpc.AgentServiceStub]] = {}

    def call(self, agent: Agent, method: str, request: Any, timeout: float | None = None) -> Any:
        """The agent's reply, or a Refusal that says what was asked of whom."""
        try:
            return self._begin(agent, method, request, timeout).result()
        except grpc.RpcError as error:
            raise _refusal(agent, method, error) from None

    def call_all(
        self, method: str, requests: Mapping[str, tuple[Agent, Any]], timeout: float | None = None
    ) -> tuple[dict[str, Any], dict[str, Refusal]]:
        """Replies and refusals by agent id. All calls run at the same time."""
        begun = {
            id_: (agent, self._begin(agent, method, request, timeout))
            for id_, (agent, request) in requests.items()
        }
        replies: dict[str, Any] = {}
        refusals: dict[str, Refusal] = {}
        for id_, (agent, call) in begun.items():
            try:
                replies[id_] = call.result()
            except grpc.RpcError as error:
                refusals[id_] = _refusal(agent, method, error)
        return replies, refusals

    def forget(self, agents: Iterable[Agent]) -> None:
        """Close the channels of agents that are gone."""
        with self._lock:
            links = [self._links.pop(agent.target, None) for agent in agents]
        for link in links:
            if link:
                link[0].close()

    def close(self) -> None:
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link[0].close()

    def _begin(self, agent: Agent, method: str, request: Any, timeout: float | None) -> Any:
        call = getattr(self._stub(agent), method)
        return call.future(request, timeout=timeout or self.timeout, metadata=self._metadata)

    def _stub(self, agent: Agent) -> pb_grpc.AgentServiceStub:
        with self._lock:
            link = self._links.get(agent.target)
            if link is None:
                made = channel(agent.target, self._tls, AGENT_NAME)
                link = made, pb_grpc.AgentServiceStub(made)
                self._links[agent.target] = link
            return link[1]


def _refusal(agent: Agent, method: str, error: grpc.RpcError) -> Refusal:
    words = words_of(error)
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unavailable(f"agent {agent.id} at {agent.target} didn't answer {method} in time")
    if code is grpc.StatusCode.UNAVAILABLE:
        return Unavailable(f"agent {agent.id} at {agent.target} can't be reached for {method}: {words}")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return Forbidden(f"agent {agent.id} at {agent.target} refused {method}: {words}")
    return Conflict(f"agent {agent.id}: {words}")
