"""A proxy before a real service that can lose answers: the request arrives, its answer doesn't."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Cutter:
    """Forwards to one base URL. `lose(method, path)` loses the answer of the next matching request.

    Attributes:
        seen: method and path of each request that arrived.
        refuse: status that is answered for the next `refusals` requests, which aren't forwarded.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.seen: list[tuple[str, str]] = []
        self.refusals: list[int] = []
        self._lost: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def lose(self, method: str, path: str) -> None:
        with self._lock:
            self._lost.append((method, path))

    def take_lost(self, method: str, path: str) -> bool:
        with self._lock:
            self.seen.append((method, path))
            for lost in self._lost:
                if lost[0] == method and path.split("?")[0].endswith(lost[1]):
                    self._lost.remove(lost)
                    return True
        return False

    def take_refusal(self) -> int | None:
        with self._lock:
            return self.refusals.pop(0) if self.refusals else None

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> http.client.HTTPResponse:
        assert self.upstream.hostname
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=300)
        connection.request(method, self.upstream.path.rstrip("/") + path, body or None, headers)
        return connection.getresponse()


@contextmanager
def cutter(upstream: str) -> Iterator[tuple[Cutter, str]]:
    """A proxy on loopback and its URL."""
    state = Cutter(upstream)

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            lost = state.take_lost(self.command, self.path)
            refusal = state.take_refusal()
            if refusal is not None:
                self.send_response(refusal)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
            answer = state.forward(self.command, self.path, headers, body)
            content = answer.read()
            if lost:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
