"""What all imitated switches have in common: configurations, running and saved; TLS and passwords; faults on demand.

A front is the management interface of one bridge: the bridge's ports follow what its API accepts. Each vendor's module
speaks the API by its public documents, with its errors and its ways to commit.
"""

from __future__ import annotations

import base64
import email.utils
import hmac
import json
import pickle
import re
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from weftlab.switches.bridge import Bridge, Vlans
from weftlab.switches.plan import SwitchPlan

PARKING = 4000
"""VLAN of hosts' ports that no pod has."""
USER, PASSWORD = "weft", "lab-switch-password"
MAX_BODY = 1 << 20
COUNTERS = tuple(
    f"{way}_{what}" for what in ("bytes", "packets", "errors", "dropped") for way in ("rx", "tx")
)


@dataclass
class Request:
    """A request, without its credentials."""

    method: str
    path: str
    body: Any
    raw: str

    @property
    def line(self) -> str:
        return f"{self.method} {self.path} {self.raw}"


@dataclass
class Answer:
    """An API's answer. `body`: None for an empty one."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Instead = Callable[[Request, Answer], Answer]


@dataclass
class Faults:
    """Faults on demand; each lasts until it is unset, unless it says "the next".

    Attributes:
        slow_commit: seconds that a commit takes.
        lose_commit: the next commit is answered as done, but isn't made.
        lose_answer: the next change is made, and its connection is closed instead of an answer.
        stale: readings show the state and the time of when this was set.
        fail_after: the next batch fails after this many of its parts.
        refuse_save: saving fails.
        down: no connection is answered.
        mute: the next request that matches (method, path and body; a regular expression) is handled, and its connection
            is closed instead of an answer.
        late: the next request that matches is kept, and its connection closed; it is handled when `arrive` is called.
        cut: no request that matches arrives; its connection is closed.
        instead: what is said in an answer's place, by another image or a proxy, to a request that was handled.
    """

    slow_commit: float = 0.0
    lose_commit: bool = False
    lose_answer: bool = False
    stale: bool = False
    fail_after: int | None = None
    refuse_save: bool = False
    down: bool = False
    mute: str = ""
    late: str = ""
    cut: str = ""
    instead: Instead = lambda _, answer: answer


class Front(ABC):
    """The management interface of one switch.

    Attributes:
        running, saved: its configurations, in the vendor's terms.
        requests: the last ones that were handled, in their order.
    """

    content_type = "application/json"
    commits_later = False
    """Whether a commit continues after its answer, so that the answer doesn't wait for it."""

    def __init__(
        self, plan: SwitchPlan, bridge: Bridge | None, links: frozenset[int], startup: Path | None = None
    ) -> None:
        """Args:
        bridge: None: nothing forwards.
        links: ports to other switches, at first trunks of nothing.
        startup: file of the saved configuration, which this process's successor starts with; None: none.
        """
        self.plan, self.faults = plan, Faults()
        self.heard: dict[str, tuple[str, str]] = {}  # by LLDP: port -> system name and port id
        self.counted: dict[str, dict[str, int]] = {}  # port -> counters that a test sets
        self.roce: dict[str, tuple[int, int, int]] = {}  # port -> pauses received and sent, marked frames
        self.unplugged: set[str] = set()  # ports whose links are down
        self.disabled: set[str] = set()  # by an administrator
        self._bridge, self._links, self._startup = bridge, links, startup
        self.lock = threading.RLock()
        kept = pickle.loads(startup.read_bytes()) if startup and startup.exists() else None
        self.running: Any = self.factory() if kept is None else kept
        self.saved: Any = deepcopy(self.running)
        self.changed = False  # by the last request
        self._old: tuple[Any, float] | None = None
        self.requests: deque[Request] = deque(maxlen=200)
        self._late: list[Request] = []
        self.follow()

    def statistics(self) -> dict[str, dict[str, int]]:
        """Port -> its counters under Open vSwitch's names: what has really passed, and what a test has set."""
        real = self._bridge.statistics() if self._bridge else {}
        return {
            name: {**dict.fromkeys(COUNTERS, 0), **real.get(number, {}), **self.counted.get(name, {})}
            for name, number in self.plan.by_name().items()
        }

    @abstractmethod
    def factory(self) -> Any:
        """Configuration as the lab brings switches up: hosts' ports in no VLAN, links as trunks."""
        ...

    @abstractmethod
    def forwarding(self) -> Mapping[int, Vlans]:
        """VLANs of each port by the running configuration."""
        ...

    @abstractmethod
    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        """One authenticated request."""
        ...

    def handled(self, request: Request) -> tuple[Answer, bool]:
        """The answer to a request, and whether it has changed the configuration."""
        parts = urlsplit(request.path)
        with self.lock:
            self.changed = False
            self.requests.append(request)
            answer = self.answer(request.method, parts.path, dict(parse_qsl(parts.query)), request.body)
            return self.faults.instead(request, answer), self.changed

    def cuts(self, request: Request) -> bool:
        """Whether a request never arrives."""
        return bool(self.faults.cut) and re.search(self.faults.cut, request.line) is not None

    def keeps(self, request: Request) -> bool:
        """Whether a request arrives later than its sender waits."""
        if not self.faults.late or not re.search(self.faults.late, request.line):
            return False
        self.faults.late = ""
        self._late.append(request)
        return True

    def arrive(self) -> None:
        """Handle the requests that were kept."""
        late, self._late = self._late, []
        for request in late:
            self.handled(request)

    def is_mute(self, request: Request, changed: bool) -> bool:
        """Whether the answer is lost."""
        if self.faults.lose_answer and changed:
            self.faults.lose_answer = False
            return True
        if self.faults.mute and re.search(self.faults.mute, request.line):
            self.faults.mute = ""
            return True
        return False

    def takes(self, media: str) -> Answer | None:
        """The refusal of a body of another type; None: the type is accepted."""
        return None

    def unauthorised(self) -> Answer:
        """401 without a dialect's own document."""
        return Answer(401, {"message": "Unauthorized"}, {"WWW-Authenticate": 'Basic realm="switch"'})

    def follow(self) -> None:
        """Make the bridge forward as the running configuration says."""
        if self._bridge is not None:
            self._bridge.apply(self.forwarding())

    def reading(self) -> Any:
        """The configuration that readings show."""
        return self._old[0] if self._old else self.running

    def freeze(self) -> None:
        """Answer readings with the present state from now on, whatever changes, as a stale cache does.

        Its time is before any reading of the last minute: clocks have whole seconds.
        """
        with self.lock:
            self._old = (deepcopy(self.running), time.time() - 60)

    def thaw(self) -> None:
        """Answer with the present state again, after `freeze`."""
        self._old = None

    def restart(self) -> None:
        """Power off and on: what was not saved is lost."""
        with self.lock:
            self.running = deepcopy(self.saved)
            self.forget_sessions()
            self.follow()

    @abstractmethod
    def forget_sessions(self) -> None:
        """Candidates that were not committed end with the switch."""

    def reset(self) -> None:
        """Back to the first state, without faults."""
        with self.lock:
            self.faults = Faults()
            self._old, self._late = None, []
            self.running = self.factory()
            self.saved = deepcopy(self.running)
            self.forget_sessions()
            self.follow()

    def save(self) -> bool:
        """Make the running configuration the start-up one; False if saving is made to fail."""
        if self.faults.refuse_save:
            return False
        self.saved = deepcopy(self.running)
        if self._startup is not None:
            new = self._startup.with_suffix(".new")
            new.write_bytes(pickle.dumps(self.saved))
            new.replace(self._startup)
        return True

    def take(self, candidate: Any) -> None:
        """Commit a configuration."""
        if self.faults.lose_commit:
            self.faults.lose_commit = False
            return
        self.running = candidate
        self.changed = True
        self.follow()

    @property
    def date(self) -> str:
        """`Date` of the answer: a cached one's while answers are frozen."""
        return email.utils.formatdate(self._old[1] if self._old else time.time(), usegmt=True)


class Server:
    """Fronts behind HTTPS, each on a port of its own on loopback.

    Args:
        certificate, key: PEM files for 127.0.0.1.
    """

    def __init__(self, front: Front, certificate: Path, key: Path, port: int = 0) -> None:
        self.front = front
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(front))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """TCP port on 127.0.0.1."""
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        """`https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def _serve(self) -> None:
            if front.faults.down:
                self.close_connection = True
                return
            length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
            raw = self.rfile.read(length)
            if not _signed_in(self.headers.get("Authorization", "")):
                self._say(front.unauthorised())
                return
            if raw and (refusal := front.takes(self.headers.get("Content-Type", ""))) is not None:
                self._say(refusal)
                return
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                self._say(Answer(400, {"message": "the body isn't JSON"}))
                return
            request = Request(self.command, self.path, body, raw.decode(errors="replace"))
            if front.cuts(request) or front.keeps(request):
                self.close_connection = True
                return
            answer, changed = front.handled(request)
            if front.is_mute(request, changed):
                self.close_connection = True
                return
            if changed and front.faults.slow_commit and not front.commits_later:
                time.sleep(front.faults.slow_commit)
            self._say(answer)

        def _say(self, answer: Answer) -> None:
            data = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response_only(answer.status)
            self.send_header("Date", front.date)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", front.content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Requests are not logged: they hold passwords."""

    return Handler


def _signed_in(header: str) -> bool:
    wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return hmac.compare_digest(header.encode(), f"Basic {wanted}".encode())
