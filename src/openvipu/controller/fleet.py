"""The agents of this controller, called one by one or all at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from openvipu.model.errors import Conflict, Forbidden, Refusal, Unavailable
from openvipu.model.site import Agent
from openvipu.model.state import Settings
from openvipu.proto import agent_pb2_grpc as pb_grpc
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, Tls, channel, words_of

AGENT_NAME = "openvipu-agent"
"""The name in the agents' certificate; agents are reached by address."""


CALLS_AT_ONCE = 128
"""Threads for calls to several agents. Blocking calls in threads take half the processor time of futures."""

LOOKS_AT_ONCE = 64
"""Threads for the poll, which waits behind no call that changes something: those may take long."""


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
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="fleet")
        self._looks = ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="look")
        self._links: dict[str, tuple[grpc.Channel, pb_grpc.AgentServiceStub]] = {}

    def call(self, agent: Agent, method: str, request: Any, timeout: float | None = None) -> Any:
        """The agent's reply, or a Refusal that says what was asked of whom."""
        stub = self._stub(agent)
        try:
            return getattr(stub, method)(request, timeout=timeout or self.timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _refusal(agent, method, error) from None

    def call_all(
        self,
        method: str,
        requests: Mapping[str, tuple[Agent, Any]],
        timeout: float | None = None,
        only_looks: bool = False,
    ) -> tuple[dict[str, Any], dict[str, Refusal]]:
        """Replies and refusals by agent id. All calls run at the same time."""
        pool = self._looks if only_looks else self._pool
        begun = {
            id_: pool.submit(self.call, agent, method, request, timeout)
            for id_, (agent, request) in requests.items()
        }
        replies: dict[str, Any] = {}
        refusals: dict[str, Refusal] = {}
        for id_, call in begun.items():
            try:
                replies[id_] = call.result()
            except Refusal as refusal:
                refusals[id_] = refusal
        return replies, refusals

    def forget(self, agents: Iterable[Agent]) -> None:
        """Close the channels of agents that are gone."""
        with self._lock:
            links = [self._links.pop(agent.target, None) for agent in agents]
        for link in links:
            if link:
                link[0].close()

    def close(self) -> None:
        for pool in (self._pool, self._looks):
            pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            links, self._links = self._links, {}
        for link in links.values():
            link[0].close()

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
    if code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED):
        return Unavailable(
            f"agent {agent.id} at {agent.target} can't be reached for {method}: no answer in time"
        )
    if code is grpc.StatusCode.UNAVAILABLE:
        return Unavailable(f"agent {agent.id} at {agent.target} can't be reached for {method}: {words}")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return Forbidden(f"agent {agent.id} at {agent.target} refused {method}: {words}")
    return Conflict(f"agent {agent.id}: {words}")
