"""The plain HTTP servers (metrics, exporters, the proxy): few connections at a time, each for a few seconds."""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONNECTIONS = 16
"""Maximum connections; further ones are closed immediately."""

SECONDS = 20.0
"""Seconds that a connection may last, whatever is sent on it."""


class WebServer(ThreadingHTTPServer):
    """A thread for each of few connections; without authentication, so none may stay."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], seconds: float = SECONDS
    ) -> None:
        """OSError if the address can't be listened on."""
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._seconds = seconds
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        ends = threading.Timer(self._seconds, _hang_up, (request,))
        ends.daemon = True
        ends.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            ends.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not an error."""


def serve_in_thread(server: WebServer, name: str) -> None:
    """Serve in a thread until ``shutdown`` and ``server_close``."""
    threading.Thread(target=server.serve_forever, name=name, daemon=True).start()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
