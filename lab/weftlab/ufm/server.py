"""UFM's HTTPS: one address for each node of the pair; only the active one listens."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from weftlab.ufm.messages import Request, Response, Silence
from weftlab.ufm.ufm import Ufm

LONGEST = 16 << 20  # bytes of a body
POLL = 0.02


@dataclass(frozen=True, slots=True)
class UfmNode:
    """A node of the pair."""

    name: str
    host: str
    port: int


def context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS; with an authority of clients, a certificate is asked for and not demanded."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate, key)
    if client_ca is not None:
        made.load_verify_locations(client_ca)
        made.verify_mode = ssl.CERT_OPTIONAL
    return made


class NodeListener(ThreadingHTTPServer):
    """The listener of one node. `close` also ends what is connected."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, node: UfmNode, tls: ssl.SSLContext | None, ufm: Ufm) -> None:
        self.ufm, self._tls = ufm, tls
        self._open: set[socket.socket] = set()
        super().__init__((node.host, node.port), _Handler)
        threading.Thread(target=self.serve_forever, args=(POLL,), name=node.name, daemon=True).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = self.socket.accept()
        plain.settimeout(60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is None:
            return plain, address
        return self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects isn't reported."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def _handle(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > LONGEST:
            self.close_connection = True
            return self._say(Response(413, "Request Entity Too Large"))
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(int(length)),
            self._certificate(),
        )
        try:
            self._say(cast(NodeListener, self.server).ufm.handle(request))
        except Silence:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.request.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 (the base class's names)

    def _certificate(self) -> str:
        """Common name of the client's certificate."""
        if not isinstance(self.request, ssl.SSLSocket):
            return ""
        subject = (self.request.getpeercert() or {}).get("subject", ())
        names = [v for rdn in cast(Any, subject) for k, v in rdn if k == "commonName"]
        return names[0] if names else ""

    def _say(self, answer: Response) -> None:
        raw = answer.raw()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        kind = "text/html" if isinstance(answer.body, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Nothing: `Ufm.calls` has them."""


class Cluster:
    """The pair: one UFM, whose REST is at the active node's address.

    Args:
        tls: none: plain HTTP.
    """

    def __init__(self, ufm: Ufm, nodes: Sequence[UfmNode], tls: ssl.SSLContext | None) -> None:
        self.ufm, self.nodes, self._tls = ufm, tuple(nodes), tls
        self._lock = threading.Lock()
        self.active = self.nodes[0].name
        self._door: NodeListener | None = NodeListener(self.nodes[0], tls, ufm)

    def failover(self) -> str:
        """The next node takes over; its name."""
        with self._lock:
            self._close()
            names = [n.name for n in self.nodes]
            node = self.nodes[(names.index(self.active) + 1) % len(names)]
            self.ufm.failover()
            self.active, self._door = node.name, NodeListener(node, self._tls, self.ufm)
            return node.name

    def stop(self) -> None:
        """UFM is stopped: connections are refused. OpenSM keeps running."""
        with self._lock:
            self._close()

    def start(self) -> None:
        """Listen at the active node's address."""
        with self._lock:
            if self._door is None:
                node = next(n for n in self.nodes if n.name == self.active)
                self.ufm.restart()
                self._door = NodeListener(node, self._tls, self.ufm)

    def _close(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
