"""Reports a document to weft, with the node's token; by Python's standard library alone.

Certificates are verified, redirects aren't followed, and no proxy is used: the token goes to the one address that was
given. Plain HTTP is for this machine alone.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable, NamedTuple
from urllib.parse import urlsplit

from weftcheck import VERSION

ATTEMPTS = 4
PAUSES = (2.0, 8.0, 30.0)
"""Seconds between two attempts, if weft doesn't say how long to wait."""
LONGEST_PAUSE = 60.0
TIMEOUT = 30.0
"""Seconds for one attempt, however the answer trickles."""
ANSWER_LIMIT = 1024 * 1024
_LOCAL = ("127.0.0.1", "::1", "localhost")


class UsageError(Exception):
    """weft can't be asked with these arguments: one sentence, before anything is checked."""


class ReportError(Exception):
    """The report or request didn't reach weft, or was refused: one sentence."""


class Address(NamedTuple):
    """Where weft takes a node's reports."""

    text: str
    secure: bool
    host: str
    port: int | None
    path: str


class Answer(NamedTuple):
    """weft's answer."""

    status: int
    body: bytes
    after: float | None
    """Seconds to wait before another attempt, if weft says so."""


def address(text: str) -> Address:
    """An address such as `https://weft.example:8787/v1/nodes/gpu01/checks`. Raises UsageError."""
    allowed = f"{text!r}: allowed is https://HOST[:PORT]/v1/nodes/NODE/checks"
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > 1000:
        raise UsageError(allowed)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError(allowed) from None
    if (
        parts.scheme not in ("http", "https")
        or not host
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise UsageError(allowed)
    if not re.search(r"/v1/nodes/[^/]+/checks/?\Z", parts.path):
        raise UsageError(allowed)
    if parts.scheme == "http" and host not in _LOCAL:
        raise UsageError(f"{text!r}: the token isn't sent by plain HTTP; use https://")
    return Address(text, parts.scheme == "https", host, port, parts.path.rstrip("/"))


def token(path: Path) -> str:
    """The token in a file that its owner alone may read. Raises UsageError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(1025)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from None
    if stat.S_ISREG(mode) and stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{path}: others may read it; chmod 600")
    text = data.decode("ascii", "replace").strip()
    if not re.fullmatch(r"[A-Za-z0-9_-]{20,200}", text):
        raise UsageError(f"{path}: isn't a token of `weft node check-token`")
    return text


def trust(path: Path | None) -> ssl.SSLContext:
    """Certificates are verified against this file, or the system's. Raises UsageError."""
    try:
        return ssl.create_default_context(cafile=None if path is None else str(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no certificates can be read of it: {error}") from None


class Weft:
    """weft, at one address, with one node's token. `sleep` is for tests."""

    def __init__(
        self,
        where: Address,
        secret: str,
        context: ssl.SSLContext,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._where = where
        self._secret = secret
        self._context = context
        self._sleep = sleep

    def report(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a document; returns what weft says of the node. Raises ReportError."""
        return _object(self._ask("POST", "", json.dumps(document).encode()))

    def expected(self) -> bytes:
        """The file of expected values that weft has for the node. Raises ReportError."""
        body = self._ask("GET", "/expected")
        _object(body)
        return body

    def _ask(self, method: str, more: str, body: bytes | None = None) -> bytes:
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                answer = _in_time(lambda: self._once(method, self._where.path + more, body))
            except ReportError:
                if last:
                    raise
                self._sleep(PAUSES[attempt])
                continue
            if answer.status in (200, 201):
                return answer.body
            if answer.status < 500 or last:
                raise ReportError(f"weft at {self._where.host} says {answer.status}: {_detail(answer.body)}")
            self._sleep(min(LONGEST_PAUSE, PAUSES[attempt] if answer.after is None else answer.after))
        raise AssertionError  # the last attempt returned or raised

    def _once(self, method: str, path: str, body: bytes | None) -> Answer:
        where = self._where
        try:
            if where.secure:
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    where.host, where.port, timeout=TIMEOUT, context=self._context
                )
            else:
                connection = http.client.HTTPConnection(where.host, where.port, timeout=TIMEOUT)
            headers = {"Authorization": f"Bearer {self._secret}", "User-Agent": f"weft-check/{VERSION}"}
            if body is not None:
                headers["Content-Type"] = "application/json"
            try:
                connection.request(method, path, body, headers)
                response = connection.getresponse()
                after = response.getheader("Retry-After", "")
                seconds = float(after) if after.isdigit() and len(after) < 6 else None
                return Answer(response.status, response.read(ANSWER_LIMIT), seconds)
            finally:
                connection.close()
        except TimeoutError:
            raise ReportError(f"weft didn't answer within {TIMEOUT:g} s") from None
        except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: no name of a host
            raise ReportError(
                f"weft at {where.host} can't be asked: {type(error).__name__}: {error}"
            ) from None


def _in_time(work: Callable[[], Answer]) -> Answer:
    """Run in a thread for at most `TIMEOUT`: a socket's time-out restarts with every byte and doesn't cover names."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # raised in the caller's thread
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if not found:
        raise ReportError(f"weft didn't answer within {TIMEOUT:g} s")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ReportError("what answered isn't weft: it sent no JSON object")
    return value


def _detail(body: bytes) -> str:
    try:
        said = _object(body).get("detail")
    except ReportError:
        said = None
    text = said if isinstance(said, str) else "nothing that weft says"
    return "".join(c if c.isprintable() else " " for c in text[:500])
