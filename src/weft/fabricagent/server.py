"""The agent's HTTPS server: mutual TLS, JSON, one thread per connection.

The standard library's server, because it passes the client's certificate to the handler (uvicorn doesn't), and because
eight routes need no framework. No client can block it: connections are limited, and each step of one
(handshake, headers, body, response) has a deadline, however slowly bytes arrive
(`weft.fabricagent.connection`).
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, cast

from pydantic import BaseModel, ValidationError

from weft.fabricagent.agent import Agent
from weft.fabricagent.config import Listen, Tls
from weft.fabricagent.connection import Connections, DeadlineReader, handshake
from weft.fabricagent.renewal import Renewal
from weft.fabricagent.servertls import server_context
from weft.model.agentapi import (
    NONCE_HEADER,
    PROTOCOL,
    PROTOCOL_HEADER,
    READ_AT_HEADER,
    AgentProblem,
    PartitionsChange,
    PathsQuery,
    RepairQuery,
    TablesQuery,
    other_protocol,
    version_of,
)
from weft.model.agentcertificates import IssuedCertificate
from weft.model.agentlinks import CountersQuery, PlainText, RoutesQuery
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError, WeftError
from weft.model.messages import health

log = logging.getLogger("weft.fabricagent")

MAX_BODY = 16 << 20

Routes = Mapping[tuple[str, str], Callable[[Any, bytes], BaseModel]]

SCRAPE = ("GET", "/metrics")
"""All that clients of `tls.scrapers` may ask for."""

_NONCE = re.compile(r"[0-9A-Za-z]{1,64}")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of connections; times in seconds, each for a whole step.

    Attributes:
        connections: maximum number at a time.
        idle: how long an authenticated client may be idle between requests.
        send: how long a part of the response may wait for the client.
    """

    connections: int = 128
    handshake: float = 5.0
    idle: float = 120.0
    headers: float = 10.0
    body: float = 20.0
    send: float = 30.0


_STATUSES: tuple[tuple[type[WeftError], int], ...] = (
    (InputError, 400),
    (NotFoundError, 404),
    (ConflictError, 409),
    (RefusedError, 422),
    (WeftError, 503),
)


class Listens(Protocol):
    """The settings that the server needs, of any sort of agent."""

    @property
    def listen(self) -> Listen:
        """Address and port."""
        ...

    @property
    def tls(self) -> Tls:
        """Certificates, and who may send requests."""
        ...


def _stamps(config: Listens) -> tuple[tuple[int, ...], ...]:
    """A fingerprint of each file, which changes when the file is replaced; empty: it can't be read."""
    stamps = list[tuple[int, ...]]()
    for path in (config.tls.ca, config.tls.certificate, config.tls.key):
        try:
            found = path.stat()
        except OSError:
            stamps.append(())
        else:
            stamps.append((found.st_mtime_ns, found.st_ino, found.st_size))
    return tuple(stamps)


class Server(ThreadingHTTPServer):
    """Listens immediately; `serve_forever` handles requests until `shutdown`.

    Args:
        agent: passed to the routes' functions.
        routes: method and path -> function of agent and request body; by default those of the fabric agent.
        scrapers: common names of clients that may ask for `SCRAPE` alone.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self,
        config: Listens,
        agent: Any,
        limits: ConnectionLimits = ConnectionLimits(),
        routes: Routes | None = None,
        scrapers: Collection[str] = (),
    ) -> None:
        self.agent, self.limits = agent, limits
        self.routes: Routes = {
            **(ROUTES if routes is None else routes),
            **_renewal_routes(Renewal(config.tls)),
        }
        self.clients = frozenset(config.tls.clients)
        self.scrapers = frozenset(scrapers)
        self._config = config
        self._made_of, self._said = _stamps(config), ""
        self._context = server_context(config.tls)
        self._connections = Connections(limits.connections)
        try:
            found = socket.getaddrinfo(
                config.listen.host, config.listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            # A literal has one family; a name with both is served by IPv4.
            families = [family for family, *_ in found]
            self.address_family = socket.AF_INET if socket.AF_INET in families else families[0]
            super().__init__((config.listen.host, config.listen.port), Handler)
        except OSError as error:
            raise InputError("listen", f"{config.listen.host}:{config.listen.port}", str(error)) from error

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = self.socket.accept()
        plain.settimeout(self.limits.handshake)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            wrapped = self._newest().wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):
            plain.close()  # closed again before it was handled
            raise
        return wrapped, address

    def _newest(self) -> ssl.SSLContext:
        """The context; recreated when the certificates were replaced, so that renewal needs no restart."""
        made_of = _stamps(self._config)
        if made_of != self._made_of:
            try:
                self._context = server_context(self._config.tls)
                self._made_of, self._said = made_of, ""
                log.info("the certificates were replaced and have been reloaded")
            except InputError as error:
                # Tried again for the next connection: it may be an owner or a mode, which no fingerprint shows.
                if str(error) != self._said:
                    self._said = str(error)
                    log.error("%s", health.CERTIFICATE_KEPT(text=str(error)))
        return self._context

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._connections.enter(request)

    def met(self, connection: socket.socket) -> None:
        """The client has authenticated."""
        self._connections.met(connection)

    def shutdown_request(self, request: Any) -> None:
        self._connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects, or has no valid certificate, is logged in one line without a traceback."""
        log.warning("connection of %s ended", client_address, exc_info=log.isEnabledFor(logging.DEBUG))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "weft-fabric-agent"
    sys_version = ""
    wbufsize = -1  # one write, one packet

    @property
    def _https(self) -> Server:
        return cast(Server, self.server)

    def setup(self) -> None:
        handshake(self.request, self._https.limits.handshake)
        self._https.met(self.request)
        super().setup()
        self._reader = DeadlineReader(self.request)
        self.rfile = self._input = self._reader.buffered()
        self._nonce = ""

    def handle_one_request(self) -> None:
        """Wait for a request within the idle limit; once it begins, its headers have a deadline."""
        self._nonce = ""
        try:
            self._reader.within(self._https.limits.idle)
            if not self._input.peek(1):
                self.close_connection = True
                return
            self._reader.within(self._https.limits.headers)
        except OSError:
            self.close_connection = True
            return
        super().handle_one_request()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        log.debug("%s %s", self.client_address[0], format % args)

    def _client(self) -> str | None:
        """Common name of the client's certificate."""
        certificate = self.request.getpeercert() or {}
        names = [value for rdn in certificate.get("subject", ()) for key, value in rdn if key == "commonName"]
        return names[0] if names else None

    def _answer(self, status: int, body: BaseModel) -> None:
        plain = isinstance(body, PlainText)
        raw = (body.text if plain else body.model_dump_json()).encode()
        self.send_response(status)
        self.send_header("Content-Type", body.media_type if plain else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header(READ_AT_HEADER, self._asked_at.isoformat())
        self.send_header(PROTOCOL_HEADER, str(self._speaks))
        if self._nonce:
            self.send_header(NONCE_HEADER, self._nonce)
        self.request.settimeout(self._https.limits.send)
        self.end_headers()
        self.wfile.write(raw)
        self.wfile.flush()

    def _body(self) -> bytes:
        given = self.headers.get("Content-Length") or "0"
        if not given.isascii() or not given.isdecimal() or len(given) > 12 or int(given) > MAX_BODY:
            self.close_connection = True
            raise InputError("body", f"Content-Length {given[:20]}", f"at most {MAX_BODY} octets")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise InputError("body", "Transfer-Encoding", "a body with Content-Length")
        self._reader.within(self._https.limits.body)
        return self.rfile.read(int(given))

    def _handle(self) -> None:
        self._asked_at = datetime.now(UTC)
        self._speaks = version_of(self.headers.get(PROTOCOL_HEADER)) or PROTOCOL
        nonce = self.headers.get(NONCE_HEADER) or ""
        self._nonce = nonce if _NONCE.fullmatch(nonce) else ""
        try:
            client = self._client()
            if client not in self._https.clients and not (
                client in self._https.scrapers and (self.command, self.path) == SCRAPE
            ):
                log.warning("refused %s, certificate of %r", self.client_address[0], client)
                self.close_connection = True  # its body is not even read
                self._answer(403, AgentProblem(detail=f"certificate of {client!r} is not one of tls.clients"))
                return
            body = self._body()
            if why := other_protocol(self.headers.get(PROTOCOL_HEADER), "weft", "the agent"):
                self._answer(426, AgentProblem(detail=why))
                return
            route = self._https.routes.get((self.command, self.path))
            if route is None:
                raise NotFoundError(f"there is no {self.command} {self.path} here")
            self._answer(200, route(self._https.agent, body))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(p) for p in first["loc"])
            self._answer(400, AgentProblem(detail=f"{field}: {first['msg']}"))
        except WeftError as error:
            status = next(code for kind, code in _STATUSES if isinstance(error, kind))
            self._answer(status, AgentProblem(detail=str(error)))
        except TimeoutError:
            log.warning("%s of %s did not arrive completely in time", self.path, self.client_address[0])
            self.close_connection = True
        except (OSError, ValueError) as error:
            log.exception("%s %s", self.command, self.path)
            self.close_connection = True
            self._answer(500, AgentProblem(detail=f"{type(error).__name__}: {error}"))

    do_GET = do_PUT = do_POST = _handle  # noqa: N815 (the base class's names)


def _renewal_routes(renewal: Renewal) -> Routes:
    """The routes for renewing certificates, which every sort of agent has."""

    def install(_: Any, body: bytes) -> BaseModel:
        return renewal.install(IssuedCertificate.model_validate_json(body))

    return {
        ("POST", "/v1/certificate/request"): lambda _, __: renewal.request(),
        ("PUT", "/v1/certificate"): install,
    }


def _change(agent: Agent, body: bytes) -> BaseModel:
    return agent.change(PartitionsChange.model_validate_json(body))


def _tables(agent: Agent, body: bytes) -> BaseModel:
    return agent.tables(TablesQuery.model_validate_json(body).port_guids)


def _paths(agent: Agent, body: bytes) -> BaseModel:
    return agent.paths(PathsQuery.model_validate_json(body).pairs)


def _routes(agent: Agent, body: bytes) -> BaseModel:
    return agent.routes(RoutesQuery.model_validate_json(body))


def _counters(agent: Agent, body: bytes) -> BaseModel:
    return agent.counters(CountersQuery.model_validate_json(body))


def _repair(agent: Agent, body: bytes) -> BaseModel:
    return agent.repair(RepairQuery.model_validate_json(body))


ROUTES: Routes = {
    ("GET", "/v1/status"): lambda agent, _: agent.status(),
    ("GET", "/v1/partitions"): lambda agent, _: agent.partitions(),
    ("PUT", "/v1/partitions"): _change,
    ("POST", "/v1/tables"): _tables,
    ("POST", "/v1/paths"): _paths,
    ("POST", "/v1/routes"): _routes,
    ("POST", "/v1/counters"): _counters,
    ("POST", "/v1/repair"): _repair,
    ("GET", "/v1/options"): lambda agent, _: agent.options(),
    ("GET", "/v1/topology"): lambda agent, _: agent.topology(),
    SCRAPE: lambda agent, _: agent.metrics(),
}
