"""The agents of this controller, called one by one or all at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from openvipu.model.errors import Conflict, Forbidden, Refusal, Unavailable
from openvipu.model.site import Agent
from openvipu.model.state import Settings
from openvipu.proto import agent_pb2_grpc as pb_grpc
from openvipu.renewal import Renewal
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, channel, words_of
from openvipu.rpctls import Tls

AGENT_NAME = "openvipu-agent"
"""The name in the agents' certificate; agents are reached by address."""


CALLS_AT_ONCE = 128
"""Threads for calls to several agents. Blocking calls in threads take half the processor time of futures."""

LOOKS_AT_ONCE = 64
"""Threads for the poll, which waits behind no call that changes something: those may take long."""


CALLS_LAST = 3600.0
"""Seconds after which no call is under way in a replaced channel."""


class Fleet:
    """Channels to agents. Errors come back as sentences that begin with the agent's id."""

    def __init__(self, settings: Settings, tls: Tls | None = None, timeout: float = 30.0) -> None:
        self._metadata = (
            (CONTROLLER_HEADER, settings.controller_id),
            (CONTROLLER_KEY_HEADER, settings.agent_key),
        )
        self._renewal = Renewal(tls) if tls else None
        self._tls = tls
        self.timeout = timeout
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="fleet")
        self._looks = ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="look")
        self._links: dict[str, tuple[grpc.Channel, pb_grpc.AgentServiceStub]] = {}
        self._left: list[tuple[float, grpc.Channel]] = []
        """Channels whose TLS files were replaced since, and when each was: calls may be under way in them."""

    def call(self, agent: Agent, method: str, request: Any, timeout: float | None = None) -> Any:
        """The agent's reply, or a Refusal that names the agent and the call."""
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
            links = [link for link, _ in self._links.values()] + [link for _, link in self._left]
            self._links, self._left = {}, []
        for link in links:
            link.close()

    def _renew(self) -> None:
        """Replace all channels if the TLS files were replaced; close old ones after a while."""
        newest = self._renewal.newest() if self._renewal else None
        if newest is self._tls:
            return
        now = time.monotonic()
        over = [link for at, link in self._left if now - at >= CALLS_LAST]
        self._left = [(at, link) for at, link in self._left if now - at < CALLS_LAST]
        self._left += [(now, link) for link, _ in self._links.values()]
        self._tls, self._links = newest, {}
        for link in over:
            link.close()

    def _stub(self, agent: Agent) -> pb_grpc.AgentServiceStub:
        with self._lock:
            self._renew()
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
