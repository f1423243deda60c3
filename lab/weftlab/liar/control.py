"""The liar's control API: JSON over HTTP on loopback.

GET    /lies            name -> what it does
GET    /rules           rules that are planted, each with `seen` (matches) and `sent` (lies sent)
POST   /rules           plant a rule (a JSON object, see `rules.Rule`); answers {"id": …}
DELETE /rules[/ID]      lift all, or one
GET    /calls?after=N   the latest calls
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from weftlab.liar.client import Liar
from weftlab.liar.lies import LIES
from weftlab.liar.proxy import POLL, Proxy, Route
from weftlab.liar.rules import Book, Rule

LONGEST = 65_536  # bytes of a rule


class Control(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, book: Book) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.book = book

    @property
    def url(self) -> str:
        """Base URL of the control."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running(routes: Sequence[Route], port: int = 0) -> Generator[tuple[Liar, tuple[Route, ...]]]:
    """A liar in this process, for the time of a block: its client, and its routes with their ports."""
    book = Book()
    proxy, control = Proxy(routes, book), Control(port, book)
    proxy.start()
    threading.Thread(target=control.serve_forever, args=(POLL,), name="control", daemon=True).start()
    try:
        yield Liar(control.url), proxy.routes
    finally:
        proxy.close()
        control.shutdown()
        control.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Control  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = 30.0

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/lies":
            self._say(200, {name: lie.says for name, lie in LIES.items()})
        elif parts.path == "/rules":
            self._say(200, self.server.book.rules())
        elif parts.path == "/calls":
            after = parse_qs(parts.query).get("after", ["0"])[0]
            self._say(200, self.server.book.calls(int(after) if after.isdecimal() else 0))
        else:
            self._nothing()

    def do_POST(self) -> None:
        if self.path != "/rules":
            return self._nothing()
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > LONGEST:
            return self._say(413, {"error": f"a rule has {LONGEST} bytes at most"})
        try:
            rule = Rule.model_validate_json(self.rfile.read(int(length)))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the rule"
            why = first["msg"].removeprefix("Value error, ")
            return self._say(400, {"error": f"{field}: {first['input']!r} is not allowed: {why}"})
        return self._say(201, {"id": self.server.book.plant(rule)})

    def do_DELETE(self) -> None:
        words = self.path.strip("/").split("/")
        if words == ["rules"]:
            self.server.book.lift()
            self._say(200, {})
        elif len(words) == 2 and words[0] == "rules" and words[1].isdecimal():
            there = self.server.book.lift(int(words[1]))
            self._say(200 if there else 404, {} if there else {"error": f"there is no rule {words[1]}"})
        else:
            self._nothing()

    def _nothing(self) -> None:
        self._say(404, {"error": "the liar has /lies, /rules and /calls"})

    def _say(self, status: int, value: object) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Nothing: rules are for people and tests, who see what they did."""
