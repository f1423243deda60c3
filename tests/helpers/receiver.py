"""A receiver of webhooks: a real HTTPS server on loopback, which can misbehave as a tenant's might."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.certificates import own_certificate


@dataclass
class Receiver:
    """How it answers each path, and the messages that it got."""

    port: int
    context: ssl.SSLContext
    answers: dict[str, str] = field(default_factory=dict[str, str])
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list[Any])
    connections: int = 0

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def messages(self, path: str = "/") -> list[dict[str, Any]]:
        return [json.loads(body) for at, _, body in self.got if at == path]

    def serve(self, link: ssl.SSLSocket) -> None:
        with suppress(OSError), link:
            link.settimeout(10)
            link.do_handshake()
            data = b""
            while b"\r\n\r\n" not in data:
                data += link.recv(65536) or _gone()
            head, _, body = data.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
            while len(body) < int(headers["content-length"]):
                body += link.recv(65536) or _gone()
            path = lines[0].split()[1]
            self.got.append((path, headers, body))
            self._answer(link, self.answers.get(path, "200"))

    @staticmethod
    def _answer(link: ssl.SSLSocket, how: str) -> None:
        if how == "drop":
            return
        if how == "hang":
            time.sleep(20)
        elif how == "trickle":
            link.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            for _ in range(200):
                link.sendall(b"x")
                time.sleep(0.1)
        elif how == "huge":
            link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
            for _ in range(10_000):
                link.sendall(b"x" * 65536)
        elif how == "noise":
            link.sendall(b"\x00\xff" * 5000 + b"\r\n\r\n")
        elif how == "headers":
            link.sendall(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n")
        else:
            location = b"Location: https://localhost/elsewhere\r\n" if how.startswith("3") else b""
            link.sendall(b"HTTP/1.1 %b X\r\n%bContent-Length: 0\r\n\r\n" % (how.encode(), location))


def _gone() -> bytes:
    raise ConnectionError("the sender has gone")


@contextmanager
def receiver(folder: Path, name: str = "localhost") -> Generator[Receiver]:
    """A receiver for the block.

    Args:
        name: in its certificate, which `context` trusts.
    """
    certificate, key = own_certificate(folder, name)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = Receiver(server.getsockname()[1], trusting)

        def run() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = server.accept()
                    made.connections += 1
                    link = own.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                    threading.Thread(target=made.serve, args=[link], daemon=True).start()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
