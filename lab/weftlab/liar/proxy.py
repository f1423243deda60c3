"""One listening port for each service. What isn't lied about is the service's own answer, with addresses changed.

Services name addresses of their own and of each other: Keystone's catalog, version documents, links to the next page,
Location. In all of them the real address is replaced by the liar's, so that a client that was led here stays here.
"""

from __future__ import annotations

import http.client
import socket
import struct
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weftlab.liar.lies import ELSEWHERE, LIES, login
from weftlab.liar.messages import Answer, Asked, Headers
from weftlab.liar.rules import Book

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection"})
POLL = 0.02  # seconds between a server's checks for its shutdown
TIMEOUT = 300.0  # seconds for the real service's answer
REMEMBERED = 4000  # answers that `stale` may repeat
LONGEST = 1 << 20  # bytes of one of them
TEXT = ("application/json", "text/", "application/problem+json")


@dataclass(frozen=True, slots=True)
class Route:
    """A service's name, the liar's port for it (0: any), and its real base address such as `http://127.0.0.1:21004`."""

    name: str
    port: int
    upstream: str

    @property
    def url(self) -> str:
        """Where clients reach the service through the liar."""
        return f"http://127.0.0.1:{self.port}"


class Memory:
    """What was last answered to each GET, for `stale`. Tokens aren't compared: a project's id is in the query."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, asked: Asked, answer: Answer) -> None:
        """Remember the last true answer of each path, if it isn't an error or too long."""
        if asked.method != "GET" or answer.status >= 500 or len(answer.body) > LONGEST:
            return
        with self._lock:
            self._answers[asked.service, asked.path] = answer
            self._answers.move_to_end((asked.service, asked.path))
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)

    def last(self, asked: Asked) -> Answer | None:
        """The last true answer of the path, or None."""
        with self._lock:
            return self._answers.get((asked.service, asked.path))


class Truth:
    """`Source` of one request."""

    def __init__(self, route: Route, addresses: Mapping[str, str], memory: Memory, asked: Asked) -> None:
        self._route, self._addresses, self._memory, self._asked = route, addresses, memory, asked
        self.answer: Answer | None = None

    def truth(self) -> Answer:
        try:
            answer = self._forwarded()
        except (OSError, http.client.HTTPException) as error:
            why = f"weft lab liar: no answer from {self._route.name} at {self._route.upstream}: {error}\n"
            return Answer(502, (("Content-Type", "text/plain"),), why.encode())
        self._memory.keep(self._asked, answer)
        self.answer = answer
        return answer

    def before(self) -> Answer | None:
        return self._memory.last(self._asked)

    def _forwarded(self) -> Answer:
        asked = self._asked
        host = self._route.upstream.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
        try:
            connection.putrequest(asked.method, asked.path, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers:
                # Host stays the liar's, so that the service makes links to it; bodies must be readable.
                if name.lower() not in HOP_BY_HOP | {"accept-encoding", "content-length"}:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(asked.body)))
            connection.putheader("Connection", "close")
            connection.endheaders(asked.body)
            answer = connection.getresponse()
            return self._translated(answer.status, tuple(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def _translated(self, status: int, headers: Headers, body: bytes) -> Answer:
        kept = tuple(
            (name, self._here(value))
            for name, value in headers
            if name.lower() not in HOP_BY_HOP | {"content-length"}
        )
        kind = {name.lower(): value for name, value in kept}.get("content-type", "")
        if kind.startswith(TEXT):
            body = self._here(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        return Answer(status, kept, body)

    def _here(self, text: str) -> str:
        for real, ours in self._addresses.items():
            text = text.replace(real, ours)
        return text


class Proxy:
    """All ports of the liar but the control's; `routes` has their numbers. Once started it answers in threads."""

    def __init__(self, routes: Sequence[Route], book: Book) -> None:
        addresses: dict[str, str] = {}
        memory = Memory()
        self._servers = [_Server(route, addresses, memory, book) for route in routes]
        self.routes = tuple(server.route for server in self._servers)
        addresses.update((route.upstream, route.url) for route in self.routes)

    def start(self) -> None:
        """Serve each route in a thread."""
        for server in self._servers:
            threading.Thread(
                target=server.serve_forever, args=(POLL,), name=server.route.name, daemon=True
            ).start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, route: Route, addresses: Mapping[str, str], memory: Memory, book: Book) -> None:
        super().__init__(("127.0.0.1", route.port), _Handler)
        self.route = replace(route, port=self.server_address[1])
        self.addresses, self.memory, self.book = addresses, memory, book

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has disconnected isn't reported."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    timeout = TIMEOUT

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = Asked(
            self.server.route.name,
            self.command,
            self.path,
            tuple(self.headers.items()),
            self.rfile.read(length) if length else b"",
        )
        answer, lie = self._decide(asked)
        self.server.book.note(asked, answer.status, lie)
        self._bring(answer)

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _decide(self, asked: Asked) -> tuple[Answer, str]:
        """The answer to send, and the name of the lie; empty: it is the truth."""
        if asked.path.startswith(ELSEWHERE):
            return login(), "elsewhere"
        server = self.server
        source = Truth(server.route, server.addresses, server.memory, asked)
        planted = server.book.chosen(asked)
        if planted is None:
            return source.truth(), ""
        answer = LIES[planted.rule.lie].tell(asked, source, planted.rule)
        if answer is not None:
            return answer, planted.rule.lie
        server.book.not_sent(planted)
        return source.answer or source.truth(), ""

    def _bring(self, answer: Answer) -> None:
        self.close_connection = True
        time.sleep(answer.wait)
        if answer.reset:
            # Closed with data that was never read or sent: the other side sees a reset, not an end (socket(7)).
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        bodyless = answer.status == 204 or answer.status == 304 or self.command == "HEAD"
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header(
                "Content-Length", str(len(answer.body) if answer.length is None else answer.length)
            )
        self.send_header("Connection", "close")
        self.end_headers()
        if not bodyless:
            self._send(answer.body[: answer.cut], answer.pace)

    def _send(self, body: bytes, pace: float) -> None:
        if not pace:
            self.wfile.write(body)
            return
        for byte in body:
            self.wfile.write(bytes((byte,)))
            self.wfile.flush()
            time.sleep(pace)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Calls are kept in the book."""
