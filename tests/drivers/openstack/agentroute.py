"""The route between Ironic and the agent on a booted machine, which are in different network namespaces.

The machine's agent reaches Ironic's API at an address in its own VLAN, and Ironic reaches the agent at a port of
this host: each heartbeat names that port instead of the agent's own address, as behind a NAT.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

API_PORT, AGENT_PORT = 6385, 9999
_CLONE_NEWNET = 0x40000000
T = TypeVar("T")


def within(space: str | Path, make: Callable[[], T]) -> T:
    """Call a function in a network namespace. What it returns, such as a socket, stays there."""
    made: list[T] = []

    def run() -> None:
        with Path(space).open("rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        made.append(make())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return made[0]


class _Server(ThreadingHTTPServer):
    """Passes requests on.

    Args:
        listener: its socket.
        connect: opens the connection that requests are passed to.
        callback: URL that replaces the agent's own in heartbeats; None: they are unchanged.
    """

    daemon_threads = True

    def __init__(
        self, listener: socket.socket, connect: Callable[[], socket.socket], callback: str | None = None
    ) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.connect, self.callback = listener, connect, callback


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.callback is not None and "/v1/heartbeat/" in self.path:
            body = json.dumps({**json.loads(body), "callback_url": self.server.callback}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if version := self.headers.get("X-OpenStack-Ironic-API-Version"):
            headers["X-OpenStack-Ironic-API-Version"] = version
        connection = http.client.HTTPConnection("agent", timeout=60)
        connection.sock = self.server.connect()
        try:
            # busybox reads a CGI program's path with a slash at its end as a folder
            path = self.path.replace("/?", "?")
            connection.request(self.command, path, body or None, headers)
            answer = connection.getresponse()
            answered = answer.read()
        finally:
            connection.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answered)))
        self.end_headers()
        self.wfile.write(answered)

    do_GET = do_POST = _pass_on  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@contextmanager
def agent_route(space: str | Path, here: str, machine: str, ironic: str) -> Iterator[None]:
    """Connect a machine's agent and Ironic while the context lasts.

    Args:
        space: network namespace in the machine's VLAN.
        here: this host's address there.
        machine: the machine's own address.
        ironic: URL of Ironic's API.
    """
    place = urlsplit(ironic)
    listener = within(space, partial(socket.create_server, (here, API_PORT)))
    outer = socket.create_server(("127.0.0.1", 0))
    callback = f"http://127.0.0.1:{outer.getsockname()[1]}/cgi-bin/agent"

    def to_ironic() -> socket.socket:
        return socket.create_connection((place.hostname, place.port), timeout=60)

    def to_agent() -> socket.socket:
        return within(space, partial(socket.create_connection, (machine, AGENT_PORT), timeout=60))

    with ExitStack() as undo:
        for server in (_Server(listener, to_ironic, callback), _Server(outer, to_agent)):
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            undo.callback(thread.join)
            undo.callback(server.server_close)
            undo.callback(server.shutdown)
        yield
