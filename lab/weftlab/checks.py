"""Readiness checks: each queries the service itself and returns None, or why it is not ready."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Sequence
from pathlib import Path

from weftlab.service import Check

SECONDS = 5.0
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"  # protocol header of AMQP 0-9-1, section 4.2.2


def answers_http(port: int, path: str = "/") -> Check:
    """Ready once it answers anything but a 5xx: uwsgi listens before the application is loaded, and answers 500."""

    def check() -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return f"no answer on port {port}: {error}"
        finally:
            connection.close()
        return None if status < 500 else f"answers {status} on port {port}"

    return check


def answers_tcp(host: str, port: int) -> Check:
    """Ready once the port accepts connections."""

    def check() -> str | None:
        try:
            socket.create_connection((host, port), timeout=SECONDS).close()
        except OSError as error:
            return f"no answer at {host}:{port}: {error}"
        return None

    return check


def accepts(path: Path) -> Check:
    """Ready once a process accepts connections on a unix socket; its file alone may be left over."""

    def check() -> str | None:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(SECONDS)
                link.connect(str(path))
        except OSError as error:
            return f"no answer on {path}: {error}"
        return None

    return check


def greets(path: Path) -> Check:
    """Ready once MariaDB sends its greeting on a unix socket, which it does unasked."""

    def check() -> str | None:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(SECONDS)
                link.connect(str(path))
                return None if link.recv(5) else f"closed the connection on {path}"
        except OSError as error:
            return f"no answer on {path}: {error}"

    return check


def speaks_amqp(port: int) -> Check:
    """Ready once RabbitMQ answers the protocol header with Connection.Start, as it does when open for clients."""

    def check() -> str | None:
        try:
            with socket.create_connection(("127.0.0.1", port), SECONDS) as link:
                link.sendall(AMQP_HEADER)
                return None if link.recv(8) else f"closed the connection on port {port}"
        except OSError as error:
            return f"no answer on port {port}: {error}"

    return check


def listens(port: int) -> Check:
    """Ready once a connection to the port of 127.0.0.1 is accepted within `SECONDS`."""

    def check() -> str | None:
        try:
            socket.create_connection(("127.0.0.1", port), SECONDS).close()
        except OSError as error:
            return f"no answer on port {port}: {error}"
        return None

    return check


def file_is_there(path: Path, meaning: str) -> Check:
    """Ready once the file exists; until then `meaning` is the reason."""
    return lambda: None if path.exists() else meaning


def all_of(checks: Sequence[Check]) -> Check:
    """Ready once all are; the first one that isn't gives the reason."""

    def check() -> str | None:
        return next((why for why in (c() for c in checks) if why is not None), None)

    return check
