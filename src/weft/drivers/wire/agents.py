"""A fabric agent, queried over mutual TLS: next to a subnet manager, or on any host of the fabric."""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from weft.drivers.bounded import read_body
from weft.drivers.wire.tlsfiles import Certificates, RenewedTls, pair_problem
from weft.generate.certificates import expiry_problems
from weft.model.agentapi import (
    NONCE_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    AgentOptions,
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
    other_protocol,
    version_of,
)
from weft.model.agentlinks import Counters, CountersQuery, Routes, RoutesQuery
from weft.model.errors import ConflictError, PermanentError, UnknownError, WeftError
from weft.model.observedfabric import ObservedFabric
from weft.model.site import FabricAgent, FabricManager

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 60.0
FILE_SECONDS = 10.0
"""Timeout of `status` and `partitions`, which read little from the fabric."""
SILENT_SECONDS = 15.0
"""Seconds during which an agent that timed out isn't asked again, since every reading of the fabric queries it."""
MAX_ANSWER = 256 << 20

D = TypeVar("D", bound=BaseModel)


class NoSuchCallError(PermanentError):
    """The agent doesn't know the call: it is older than weft."""


class RemoteFabricAgent(Protocol):
    """One fabric agent. Every call may raise `UnknownError`, `PermanentError`; `change` also `ConflictError`."""

    @property
    def name(self) -> str:
        """Its name in the site."""
        ...

    def status(self) -> AgentStatus:
        """State of its subnet manager, and what is wrong with its file and log."""
        ...

    def partitions(self) -> AgentPartitions:
        """The partition file: weft's section, what else it defines, and its digests."""
        ...

    def change(self, change: PartitionsChange) -> ChangeResult:
        """Replace partitions of the file, if it has the expected digest. Raises `ConflictError`."""
        ...

    def tables(self, query: TablesQuery) -> Tables:
        """P_Key tables of ports, read from the ports themselves."""
        ...

    def paths(self, query: PathsQuery) -> Paths:
        """Whether packets pass between pairs of ports."""
        ...

    def repair(self, query: RepairQuery) -> RepairResult:
        """Restore tables of ports that differ from what the manager believes it has set."""
        ...

    def topology(self) -> ObservedFabric:
        """Nodes, ports and links that a discovery of the fabric finds."""
        ...

    def options(self) -> AgentOptions:
        """The manager's options, from its file."""
        ...

    def routes(self, query: RoutesQuery) -> Routes:
        """Forwarding tables of switches; those whose digest the query has are left out."""
        ...

    def counters(self, query: CountersQuery) -> Counters:
        """What ports have sent and received between the last two readings."""
        ...


LOWER_SECONDS = 60.0
"""Seconds for which an older agent is asked in its own version before the newest one is tried again."""


class Address(Protocol):
    """An agent as the site has it."""

    @property
    def name(self) -> str:
        """Its name in the site."""
        ...

    @property
    def url(self) -> str:
        """`https://HOST:PORT`."""
        ...


class AgentClient:
    """An agent of any sort; connects with the first request and keeps the connection.

    Each request carries a nonce, and a response only counts if it carries the same: one that was cached on the way, or
    that belongs to an earlier request, says nothing about the current state of the fabric.
    """

    sort = "fabric agent"
    """This sort of agent, as named in errors."""
    most = MAX_ANSWER
    """Most bytes of an answer."""

    def __init__(self, agent: Address, files: Certificates) -> None:
        self._agent, self._files = agent, files
        self._client: httpx.Client | None = None
        self._tls = RenewedTls(
            files, "make them with `weft fabric-agent certs` and name them in the site's fabric"
        )
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._silent: tuple[float, str] | None = None
        self._speaks = PROTOCOL, 0.0

    @property
    def name(self) -> str:
        return self._agent.name

    def close(self) -> None:
        with self._lock:
            if self._client:
                self._client.close()
                self._client = None

    @property
    def _who(self) -> str:
        return f"{self.sort} {self.name} at {self._agent.url}"

    def _connected(self) -> httpx.Client:
        """The client; recreated when the certificates were replaced, so that renewal needs no restart."""
        context = self._tls.newest()
        with self._lock:
            if self._client is None or context is not self._context:
                # The old one isn't closed here: another thread may be in the middle of a request.
                self._context = context
                self._client = httpx.Client(
                    base_url=f"{self._agent.url.rstrip('/')}/v1/", verify=context, trust_env=False
                )
            return self._client

    def _ask(
        self, method: str, path: str, body: BaseModel | None, kind: type[D], seconds: float = ANSWER_SECONDS
    ) -> D:
        asked = f"{method} {path}"
        self._check_silence(asked)
        nonce = secrets.token_hex(16)
        try:
            status, headers, content = self._exchange(method, path, body, nonce, seconds)
            if status == 426 and self._lower(headers, nonce):
                status, headers, content = self._exchange(method, path, body, nonce, seconds)
        except httpx.TimeoutException as error:
            said = f"{type(error).__name__}: {error}"
            self._silent = time.monotonic(), said
            raise UnknownError(asked, self._who, said, "start the agent, or the network to it") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"{type(error).__name__}: {error}"
            raise UnknownError(asked, self._who, said, "start the agent, or the network to it") from error
        self._silent = None
        if status != 200:
            raise self._error(asked, status, content)
        if headers.get(NONCE_HEADER) != nonce:
            said = "an answer to a different request, or one from a cache in between"
            raise UnknownError(
                asked, self._who, said, "upgrade the agent; remove proxies between it and weft"
            )
        if why := other_protocol(headers.get(PROTOCOL_HEADER), "the agent", "weft"):
            raise UnknownError(asked, self._who, why, "nothing on the fabric is changed until then")
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            said = f"an answer of an unexpected form: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}"
            raise UnknownError(asked, self._who, said, "upgrade the older of agent and weft") from error

    def _lower(self, headers: httpx.Headers, nonce: str) -> bool:
        """After an answer that refuses the protocol's version: whether the agent speaks an earlier one, which is used
        from now on."""
        theirs = version_of(headers.get(PROTOCOL_HEADER))
        if theirs is None or theirs >= self._speaks[0] or headers.get(NONCE_HEADER) != nonce:
            return False
        self._speaks = theirs, time.monotonic()
        return True

    def _version(self) -> int:
        """The version of the protocol for the next request: after a while the newest again, since the agent may
        have been upgraded."""
        if self._speaks[0] != PROTOCOL and time.monotonic() - self._speaks[1] >= LOWER_SECONDS:
            self._speaks = PROTOCOL, 0.0
        return self._speaks[0]

    def _check_silence(self, asked: str) -> None:
        if self._silent is not None and time.monotonic() - self._silent[0] < SILENT_SECONDS:
            raise UnknownError(
                asked, self._who, f"it gave no answer a moment ago ({self._silent[1]})", "check the agent"
            )

    def _exchange(
        self, method: str, path: str, body: BaseModel | None, nonce: str, seconds: float
    ) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body; complete within `seconds`, and at most `most` bytes."""
        end = time.monotonic() + seconds
        with self._connected().stream(
            method,
            path,
            content=None if body is None else body.model_dump_json().encode(),
            headers={NONCE_HEADER: nonce, PROTOCOL_HEADER: str(self._version())},
            timeout=httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)),
        ) as answer:
            self._met(answer)
            return answer.status_code, answer.headers, read_body(answer, self.most, end)

    def _met(self, answer: httpx.Response) -> None:
        """Called when an answer has begun; its connection can be inspected."""

    def _error(self, asked: str, status: int, content: bytes) -> WeftError:
        try:
            detail = AgentProblem.model_validate_json(content).detail
        except ValidationError:
            # Not the agent's own response: a page from a proxy proves nothing.
            said = f"status {status}: {content[:200].decode(errors='replace')}"
            return UnknownError(asked, self._who, said)
        if status == 409:
            return ConflictError(detail)
        if status == 404:
            return NoSuchCallError(asked, self._who, detail, "upgrade the agent")
        if status in (400, 403, 422):
            return PermanentError(asked, self._who, detail, "correct that; it then resumes on its own")
        return UnknownError(asked, self._who, detail)


class HttpAgent(AgentClient):
    """A `weft fabric-agent`."""

    def __init__(
        self, agent: FabricAgent, manager: FabricManager, file_seconds: float = FILE_SECONDS
    ) -> None:
        super().__init__(agent, manager)
        self._file_seconds = file_seconds

    def status(self) -> AgentStatus:
        status = self._ask("GET", "status", None, AgentStatus, self._file_seconds)
        if status.name != self.name:
            raise PermanentError(
                "ask for its state",
                self._who,
                f"it is agent {status.name!r}",
                "correct the agent's url in the site",
            )
        return status

    def partitions(self) -> AgentPartitions:
        return self._ask("GET", "partitions", None, AgentPartitions, self._file_seconds)

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

    def options(self) -> AgentOptions:
        return self._ask("GET", "options", None, AgentOptions, self._file_seconds)

    def routes(self, query: RoutesQuery) -> Routes:
        return self._ask("POST", "routes", query, Routes)

    def counters(self, query: CountersQuery) -> Counters:
        return self._ask("POST", "counters", query, Counters)


def certificate_problems(files: Certificates, now: datetime, must_be_there: bool = True) -> list[str]:
    """Problems with weft's own certificates, while there is time to renew them.

    Args:
        must_be_there: False on other hosts than weft's, where they may be missing.
    """
    problems: list[str] = []
    for path in (files.certificate, files.ca):
        if path is None:
            continue
        try:
            problems += expiry_problems(Path(path).read_bytes(), path, now)
        except OSError as error:
            if must_be_there:
                problems.append(f"certificate {path} can't be read: {error}")
    if not problems and (problem := pair_problem(files)):
        problems.append(problem)
    return problems
