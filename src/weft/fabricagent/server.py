"""The agent's HTTPS door: mutual TLS, JSON, one thread a connection.

The standard library's server, because it shows the client's certificate to the handler (uvicorn doesn't), and because
seven routes need no framework. The handshake is done in the connection's thread with a time limit, so that a
client that says nothing holds nobody else up.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from weft.fabricagent.agent import Agent
from weft.fabricagent.config import AgentConfig
from weft.model.agentapi import AgentProblem, PartitionsChange, PathsQuery, RepairQuery, TablesQuery
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError, WeftError

log = logging.getLogger("weft.fabricagent")

IDLE_SECONDS = 120
"""A connection on which nothing is asked for so long is closed."""
MAX_BODY = 16 << 20

_STATUSES: tuple[tuple[type[WeftError], int], ...] = (
    (InputError, 400),
    (NotFoundError, 404),
    (ConflictError, 409),
    (RefusedError, 422),
    (WeftError, 503),
)


def server_context(config: AgentConfig) -> ssl.SSLContext:
    """TLS that asks for a client certificate of our authority.

    Raises:
        InputError: a file that can't be read or is no PEM.
    """
    tls = config.tls
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            "tls.certificate", f"{tls.certificate}, {tls.key}", f"a PEM pair ({error})"
        ) from error
    try:
        context.load_verify_locations(tls.ca)
    except (OSError, ssl.SSLError) as error:
        raise InputError("tls.ca", str(tls.ca), f"a PEM file ({error})") from error
    return context


class Server(ThreadingHTTPServer):
    """Listens at once; `serve_forever` answers until `shutdown`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, config: AgentConfig, agent: Agent) -> None:
        self.agent = agent
        self.clients = frozenset(config.tls.clients)
        self._context = server_context(config)
        try:
            super().__init__((config.listen.host, config.listen.port), Handler)
        except OSError as error:
            raise InputError("listen", f"{config.listen.host}:{config.listen.port}", str(error)) from error

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = self.socket.accept()
        plain.settimeout(IDLE_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or that has no certificate of ours, is a line in the log and no traceback."""
        log.warning("connection of %s ended", client_address, exc_info=log.isEnabledFor(logging.DEBUG))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "weft-fabric-agent"
    sys_version = ""
    wbufsize = -1  # one write, one packet

    @property
    def _door(self) -> Server:
        return cast(Server, self.server)

    def setup(self) -> None:
        self.request.do_handshake()
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        log.debug("%s %s", self.client_address[0], format % args)

    def _client(self) -> str | None:
        """Common name of the client's certificate."""
        certificate = self.request.getpeercert() or {}
        names = [value for rdn in certificate.get("subject", ()) for key, value in rdn if key == "commonName"]
        return names[0] if names else None

    def _answer(self, status: int, body: BaseModel) -> None:
        raw = body.model_dump_json().encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        self.wfile.flush()

    def _body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            raise InputError("body", f"{length} octets", f"at most {MAX_BODY} octets")
        return self.rfile.read(length)

    def _handle(self) -> None:
        try:
            body = self._body()
            client = self._client()
            if client not in self._door.clients:
                log.warning("refused %s, certificate of %r", self.client_address[0], client)
                self._answer(403, AgentProblem(detail=f"certificate of {client!r} is not one of tls.clients"))
                return
            route = ROUTES.get((self.command, self.path))
            if route is None:
                raise NotFoundError(f"there is no {self.command} {self.path} here")
            self._answer(200, route(self._door.agent, body))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(p) for p in first["loc"])
            self._answer(400, AgentProblem(detail=f"{field}: {first['msg']}"))
        except WeftError as error:
            status = next(code for kind, code in _STATUSES if isinstance(error, kind))
            self._answer(status, AgentProblem(detail=str(error)))
        except (OSError, ValueError) as error:
            log.exception("%s %s", self.command, self.path)
            self.close_connection = True
            self._answer(500, AgentProblem(detail=f"{type(error).__name__}: {error}"))

    do_GET = do_PUT = do_POST = _handle  # noqa: N815 (the base class's names)


def _change(agent: Agent, body: bytes) -> BaseModel:
    return agent.change(PartitionsChange.model_validate_json(body))


def _tables(agent: Agent, body: bytes) -> BaseModel:
    return agent.tables(TablesQuery.model_validate_json(body).port_guids)


def _paths(agent: Agent, body: bytes) -> BaseModel:
    return agent.paths(PathsQuery.model_validate_json(body).pairs)


def _repair(agent: Agent, body: bytes) -> BaseModel:
    return agent.repair(RepairQuery.model_validate_json(body))


ROUTES: dict[tuple[str, str], Callable[[Agent, bytes], BaseModel]] = {
    ("GET", "/v1/status"): lambda agent, _: agent.status(),
    ("GET", "/v1/partitions"): lambda agent, _: agent.partitions(),
    ("PUT", "/v1/partitions"): _change,
    ("POST", "/v1/tables"): _tables,
    ("POST", "/v1/paths"): _paths,
    ("POST", "/v1/repair"): _repair,
    ("GET", "/v1/topology"): lambda agent, _: agent.topology(),
}
