"""HTTP entry points: permission before the body, limits of connections, and errors as problem documents."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.paths import DOCS
from weft.api import connections
from weft.api.app import create_app
from weft.api.connections import BoundedProtocol
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

OPEN = {"/", "/v1", "/healthz", "/readyz", "/metrics"}
"""Paths that need no token."""


def operations() -> list[tuple[str, str]]:
    """Method and path of every operation that needs a token, from the published schema. tests/cli/test_pages.py
    compares that file with the program's schema, which would take each collecting process half a second."""
    schema = json.loads((DOCS / "schemas" / "openapi.json").read_text())
    return [
        (method.upper(), path)
        for path, each in schema["paths"].items()
        if path not in OPEN
        for method in each
    ]


@pytest.mark.parametrize(("method", "path"), operations())
def test_permission_is_checked_before_the_body_is_read(still_api: Client, method: str, path: str) -> None:
    """With garbage as body, name and parameters: 401 without a token, 403 or 404 without a role, and no word of
    what is wrong."""
    url = path.replace("{name}", "nix") + "?wait=x&limit=x&level=x&all_projects=x&after=x&duration=x"
    for headers, allowed in ((by(""), {401}), (by("roleless"), {403, 404})):
        for content, kind in (
            (b"{", "application/json"),
            (b"x", "text/plain"),
            (b"[" * 300_000, "application/json"),
        ):
            answer = still_api.request(
                method, url, content=content, headers={**headers, "Content-Type": kind}
            )
            assert answer.status_code in allowed, answer.text
            assert answer.headers["content-type"] == "application/problem+json"


class Counting:
    """An ASGI application that counts the bytes of the body which the inner one reads."""

    def __init__(self, app: Any) -> None:
        self.app, self.read = app, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted() -> Any:
            message = await receive()
            self.read += len(message.get("body", b""))
            return message

        await self.app(scope, counted, send)


def test_site_from_a_caller_without_permission_is_not_read(still_doors: DoorsHouse) -> None:
    """Not one byte of a body of 6 MiB; an operator's is read, and refused with 413."""
    counting = Counting(create_app(still_doors.service, FakeIdentity(tokens())))
    with served(counting) as url:
        body = b'{"name":"x","nodes":[' + b"{}," * (2 << 20) + b"{}]}"
        kind = {"Content-Type": "application/json"}
        for who in ("a-reader", "a-admin", "another-domains-admin", "system-reader"):
            answer = httpx.put(f"{url}/v1/site", content=body, headers={**by(who), **kind}, trust_env=False)
            assert answer.status_code == 403
        assert counting.read == 0
        answer = httpx.put(
            f"{url}/v1/site", content=body, headers={**by("operator"), **kind}, trust_env=False
        )
        assert (answer.status_code, "values" in answer.json()["detail"]) == (413, True)


def test_thousands_of_errors_are_counted_not_listed(still_api: Client) -> None:
    """The answer stays small, however many errors there are and however long their fields' names."""
    wrong: dict[str, object] = {f"field-{n}": n for n in range(4_000)}
    answer = still_api.post("/v1/pods", json=wrong)
    problem = answer.json()
    assert answer.status_code == 400 and len(answer.content) < 100_000
    assert (len(problem["errors"]), problem["more_errors"]) == (100, 3_902)
    assert problem["detail"].endswith("… and 3902 more")
    assert len(still_api.post("/v1/pods", json={"x" * 200_000: 1}).content) < 10_000


def test_duplicate_member_among_thousands_is_found(still_api: Client) -> None:
    """4,900 members before it don't hide it."""
    body = b"{" + b",".join(b'"f%d":1' % n for n in range(4_900)) + b',"f4899":1}'
    answer = still_api.post("/v1/pods", content=body, headers={"Content-Type": "application/json"})
    assert "'f4899' occurs twice" in answer.json()["detail"]


@dataclass
class Backend:
    """A server with short limits of time, and the sockets to it."""

    host: str
    port: int

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection((self.host, self.port), timeout=60)
        made.sendall(sent)
        return made


@pytest.fixture
def door(still_doors: DoorsHouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setattr(BoundedProtocol, "head_seconds", 0.4)
    monkeypatch.setattr(BoundedProtocol, "most", 40)
    with served(create_app(still_doors.service, FakeIdentity(tokens()))) as url:
        parts = httpx.URL(url)
        yield Backend(parts.host, parts.port or 0)


def closed(one: socket.socket) -> bool:
    """Whether the other side closes the connection without an answer."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /v1/pods HTTP/1.1\r\nHost: x\r\n", b"GET"])
def test_connection_without_a_request_is_closed(door: Backend, sent: bytes) -> None:
    """Silent and half-sent connections, also 20 at once."""
    waiting = [door.connect(sent) for _ in range(20)]
    assert all(closed(one) for one in waiting)


def test_connection_with_trickling_headers_is_closed(door: Backend) -> None:
    """A byte now and then doesn't start the time limit again."""
    one = door.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ")
    ends = time.monotonic() + 60
    with pytest.raises(OSError):
        while time.monotonic() < ends:
            one.sendall(b"a")
            time.sleep(0.05)


def test_unfinished_second_request_is_closed(door: Backend) -> None:
    """A kept-alive connection that begins a second request and doesn't end it is closed too."""
    one = door.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200" in one.recv(4096)
    one.sendall(b"GET /hea")
    while data := one.recv(4096):
        assert b"200" not in data


def test_oldest_silent_connection_is_closed_when_there_are_too_many(door: Backend) -> None:
    """Connections with requests are served, however many silent ones there are."""
    silent = [door.connect() for _ in range(60)]
    answer = httpx.get(f"http://{door.host}:{door.port}/healthz", trust_env=False)
    assert answer.text == "ok\n"
    assert all(closed(one) for one in silent)


def test_missing_body_times_out(still_doors: DoorsHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """408, so that neither a thread nor a connection is kept."""
    from weft.api import bodies

    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    head = "POST /v1/pods HTTP/1.1\r\nHost: x\r\nX-Auth-Token: a-member\r\nContent-Type: application/json\r\n"
    with served(create_app(still_doors.service, FakeIdentity(tokens()))) as url:
        parts = httpx.URL(url)
        one = Backend(parts.host, parts.port or 0).connect(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b" 408 " in one.recv(4096)


def test_disconnected_client_is_not_reported_as_an_error(
    still_doors: DoorsHouse, caplog: pytest.LogCaptureFixture
) -> None:
    """The client goes in the middle of its body: one line in the log, no traceback, no 500 in the metrics."""
    head = "POST /v1/pods HTTP/1.1\r\nHost: x\r\nX-Auth-Token: a-member\r\nContent-Type: application/json\r\n"
    with (
        caplog.at_level(logging.INFO, "weft.api"),
        served(create_app(still_doors.service, FakeIdentity(tokens()))) as url,
    ):
        parts = httpx.URL(url)
        one = Backend(parts.host, parts.port or 0).connect(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        one.close()
        deadline = time.monotonic() + 60
        while "cut off" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.02)
        metrics = httpx.get(f"{url}/metrics", trust_env=False).text
    assert "cut off" in caplog.text
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert 'status="500"' not in metrics


def test_invalid_http_gets_a_problem_document(door: Backend) -> None:
    """Also bytes that aren't HTTP at all; never plain text."""
    one = door.connect(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    answer = b"".join(iter(lambda: one.recv(4096), b""))
    assert b" 400 " in answer and b"application/problem+json" in answer
    json.loads(answer.partition(b"\r\n\r\n")[2])


def test_request_with_any_path_is_logged_as_one_line(
    still_api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the path decodes to, it stays one word of one line."""
    with caplog.at_level(logging.INFO, "weft.api"):
        still_api.get("/v1/pods/x%0a2026-01-01%20INFO%20weft.api%20user=root%1b%5b31m%e2%80%a8%c3%a4")
    (line,) = [r.getMessage() for r in caplog.records if r.name == "weft.api"]
    assert "\n" not in line and "\x1b" not in line and "\u2028" not in line
    assert line.split()[1].startswith("/v1/pods/x") and "user=root" in line.split()[1]
    assert line.count(" user=") == 1


def test_shipped_server_has_limits_enabled() -> None:
    """`weft serve` and the tests configure uvicorn by the same function."""
    config = connections.configured(None)
    assert config.http is BoundedProtocol and config.h11_max_incomplete_event_size


def test_declared_errors_match_sent_ones(still_api: Client) -> None:
    """The schema declares problem+json for every error of every operation, and no error of FastAPI's own."""
    schema = still_api.get("/openapi.json").json()
    for operations in schema["paths"].values():
        for operation in operations.values():
            assert list(operation["responses"]["default"]["content"]) == ["application/problem+json"]
            assert "HTTPValidationError" not in str(operation)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/pods", "GET, POST"),
        ("POST", "/v1/nodes/gpu01/quarantine", "DELETE, PUT"),
        ("PATCH", "/v1/audit", "GET, POST"),
        ("POST", "/v1/pods/x/receipt", "GET"),
        ("POST", "/v1/", "GET"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_wrong_method_is_answered_with_allowed_ones(
    still_api: Client, method: str, path: str, allowed: str
) -> None:
    """The `Allow` header has all methods of the address, also where it has several routes."""
    answer = still_api.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("duration=1x", "such as 90m, 12h or 7d"),
        ("duration=9999999d", "at most 36500d"),
        ("level=x", "'leaf'"),
    ],
)
def test_invalid_parameters_are_described_in_words(still_api: Client, query: str, says: str) -> None:
    """No regular expression is shown, and no limit of size leads to a 500."""
    answer = still_api.get(f"/v1/capacity?{query}")
    assert answer.status_code == 400 and says in answer.json()["detail"]
    assert "^" not in answer.json()["detail"]


def test_invalid_time_is_answered_with_the_format(api: Client) -> None:
    """Not with a minimum length."""
    api.post("/v1/pods", json={**ORDER, "lease": {"duration": "1h"}})
    answer = api.post("/v1/pods/train/extend", json={"until": "tomorrow"})
    assert answer.status_code == 400 and "such as 2027-01-31T18:00:00Z" in answer.json()["detail"]
