"""The shipped proxy ("front") for Neutron's controllers answers within the driver's 10 s, whatever state weft is
in."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from weftlab.environment import install_packages, program
from weftlab.layout import free_ports
from weftlab.mlnx import FRONT_PACKAGES, front_text

pytestmark = pytest.mark.fabric
GIVES_UP = 10.0
"""Seconds after which the driver stops waiting for an answer."""


@contextmanager
def front(folder: Path, weft: int) -> Iterator[str]:
    install_packages(FRONT_PACKAGES, print)
    port, file = free_ports(), folder / "haproxy.cfg"
    file.write_text(front_text(port, weft))
    running = subprocess.Popen([program("haproxy") or "haproxy", "-db", "-f", str(file)], stderr=sys.stderr)
    url = f"http://127.0.0.1:{port}/mlnx/cloudx/Port"
    try:
        for _ in range(600):
            try:
                httpx.get(url, timeout=GIVES_UP)
                break
            except httpx.ConnectError:
                assert running.poll() is None
        yield url
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(30)


@contextmanager
def weft(release: threading.Event | None = None) -> Iterator[int]:
    """A server that answers 202, at once or when `release` is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if release is not None:
                release.wait(60)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(202)
            self.end_headers()
            self.wfile.write(self.headers["Authorization"].encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        if release is not None:
            release.set()
        server.shutdown()
        server.server_close()


def post(url: str) -> httpx.Response:
    return httpx.post(url, content=b"{}", headers={"Authorization": "Basic token"}, timeout=GIVES_UP)


def test_refused_connection_to_weft_is_503(tmp_path: Path) -> None:
    with weft() as gone:
        pass
    with front(tmp_path, gone) as url:
        assert post(url).status_code == 503


def test_silent_weft_is_504(tmp_path: Path) -> None:
    with weft(threading.Event()) as slow, front(tmp_path, slow) as url:
        assert post(url).status_code == 504


def test_answer_of_weft_is_passed_on(tmp_path: Path) -> None:
    with weft() as there, front(tmp_path, there) as url:
        answer = post(url)
    assert (answer.status_code, answer.text) == (202, "Basic token")
