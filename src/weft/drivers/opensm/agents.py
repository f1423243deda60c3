"""The fabric agents, asked over mutual TLS; and all of them asked at once."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from weft.model.agentapi import (
    AgentPartitions,
    AgentProblem,
    AgentStatus,
    ChangeResult,
    PartitionsChange,
    Paths,
    PathsQuery,
    RepairQuery,
    RepairResult,
    Tables,
    TablesQuery,
)
from weft.model.errors import ConflictError, PermanentError, UnknownError, WeftError
from weft.model.fabric import ManagerState, ObservedFabric
from weft.model.site import FabricAgent, FabricManager

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 60.0

T = TypeVar("T")
D = TypeVar("D", bound=BaseModel)


class Agent(Protocol):
    """One fabric agent. Every call may raise `UnknownError`, `PermanentError`; `change` also `ConflictError`."""

    @property
    def name(self) -> str: ...

    def status(self) -> AgentStatus: ...

    def partitions(self) -> AgentPartitions: ...

    def change(self, change: PartitionsChange) -> ChangeResult: ...

    def tables(self, query: TablesQuery) -> Tables: ...

    def paths(self, query: PathsQuery) -> Paths: ...

    def repair(self, query: RepairQuery) -> RepairResult: ...

    def topology(self) -> ObservedFabric: ...


class HttpAgent:
    """A `weft fabric-agent`; connects at the first question and keeps the connection."""

    def __init__(self, agent: FabricAgent, manager: FabricManager) -> None:
        self._agent, self._manager = agent, manager
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._agent.name

    def close(self) -> None:
        with self._lock:
            if self._client:
                self._client.close()
                self._client = None

    def status(self) -> AgentStatus:
        status = self._ask("GET", "status", None, AgentStatus)
        if status.name != self.name:
            raise PermanentError(
                "ask for its state",
                self._who,
                f"it is agent {status.name!r}",
                "mend the agent's url in the site",
            )
        return status

    def partitions(self) -> AgentPartitions:
        return self._ask("GET", "partitions", None, AgentPartitions)

    def change(self, change: PartitionsChange) -> ChangeResult:
        return self._ask("PUT", "partitions", change, ChangeResult)

    def tables(self, query: TablesQuery) -> Tables:
        return self._ask("POST", "tables", query, Tables)

    def paths(self, query: PathsQuery) -> Paths:
        return self._ask("POST", "paths", query, Paths)

    def repair(self, query: RepairQuery) -> RepairResult:
        return self._ask("POST", "repair", query, RepairResult)

    def topology(self) -> ObservedFabric:
        return self._ask("GET", "topology", None, ObservedFabric)

    @property
    def _who(self) -> str:
        return f"fabric agent {self.name} at {self._agent.url}"

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                m = self._manager
                try:
                    context = ssl.create_default_context(cafile=m.ca)
                    if m.certificate:
                        context.load_cert_chain(m.certificate, m.key)
                except (OSError, ssl.SSLError) as error:
                    raise PermanentError(
                        "load the certificates",
                        f"{m.ca}, {m.certificate}, {m.key}",
                        str(error),
                        "make them with `weft fabric-agent certs` and name them in the site's fabric",
                    ) from error
                self._client = httpx.Client(
                    base_url=f"{self._agent.url.rstrip('/')}/v1/",
                    verify=context,
                    timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
                    trust_env=False,
                )
            return self._client

    def _ask(self, method: str, path: str, body: BaseModel | None, kind: type[D]) -> D:
        asked = f"{method} {path}"
        content = None if body is None else body.model_dump_json().encode()
        try:
            answer = self._connected().request(method, path, content=content)
        except httpx.HTTPError as error:
            said = f"{type(error).__name__}: {error}"
            raise UnknownError(asked, self._who, said, "start the agent, or the network to it") from error
        if answer.status_code != 200:
            raise self._error(asked, answer)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            raise PermanentError(
                asked,
                self._who,
                f"an answer of another version: {error.errors()[0]}",
                "upgrade the older of the two",
            ) from error

    def _error(self, asked: str, answer: httpx.Response) -> WeftError:
        try:
            detail = AgentProblem.model_validate_json(answer.content).detail
        except ValidationError:
            detail = f"status {answer.status_code}: {answer.text[:200]}"
        if answer.status_code == 409:
            return ConflictError(detail)
        if answer.status_code in (400, 403, 404, 422):
            return PermanentError(asked, self._who, detail, "mend that, then it goes on by itself")
        return UnknownError(asked, self._who, detail)


@dataclass(frozen=True, slots=True)
class Files:
    """The partition files of all managers as read just now: by agent, or why one could not be read."""

    read: Mapping[str, AgentPartitions]
    unread: Mapping[str, WeftError]


class Agents:
    """All agents of one fabric."""

    def __init__(self, fabric: str, agents: Sequence[Agent]) -> None:
        self._fabric = fabric
        self.all = tuple(agents)
        self._pool = ThreadPoolExecutor(
            max_workers=max(2, 4 * len(self.all)), thread_name_prefix="fabric-agent"
        )

    def each(
        self, ask: Callable[[Agent], T], agents: Sequence[Agent] | None = None
    ) -> dict[str, T | WeftError]:
        """Ask several at once; a `WeftError` is that agent's answer."""

        def one(agent: Agent) -> T | WeftError:
            try:
                return ask(agent)
            except WeftError as error:
                return error

        chosen = self.all if agents is None else tuple(agents)
        if len(chosen) == 1:
            return {chosen[0].name: one(chosen[0])}
        return dict(zip([a.name for a in chosen], self._pool.map(one, chosen), strict=True))

    def files(self) -> Files:
        answers = self.each(lambda agent: agent.partitions())
        return Files(
            {n: a for n, a in answers.items() if not isinstance(a, WeftError)},
            {n: a for n, a in answers.items() if isinstance(a, WeftError)},
        )

    def master(self, files: Files) -> Agent:
        """The agent beside the ruling manager. Raises `UnknownError` if there is not exactly one."""
        masters = [n for n, f in files.read.items() if f.state is ManagerState.MASTER]
        if len(masters) != 1:
            seen = [f"{n} is {f.state}" for n, f in files.read.items()]
            seen += [f"{n}: {e}" for n, e in files.unread.items()]
            raise UnknownError(
                "find the master",
                f"the subnet managers of {self._fabric}",
                f"{len(masters)} of them rule ({'; '.join(seen) or 'the site names no agent'})",
                "its state is unknown until exactly one does; start opensm and its agent",
            )
        return self.named(masters[0])

    def named(self, name: str) -> Agent:
        return next(a for a in self.all if a.name == name)
