"""A real HTTP server on loopback in a thread, for tests that go through sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from weft.api.connections import configured


@contextmanager
def served(app: Any, certificate: tuple[Path, Path] | None = None) -> Generator[str]:
    """Serve an ASGI application; yields its address, `http://127.0.0.1:PORT`.

    Args:
        certificate: PEM files of a certificate and its key, for https.
    """
    listener = _listener()
    config = configured(app, certificate=certificate, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        scheme = "https" if certificate else "http"
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def _listener() -> socket.socket:
    """A listening socket with an explicit protocol; without it asyncio leaves TCP_NODELAY off (40 ms per request)."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + 60
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the test's HTTP server did not start")
        time.sleep(0.01)


def free_port() -> int:
    """A loopback port on which nothing listens at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
