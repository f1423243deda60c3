"""The helper: one process for a whole run, which keeps tokens, and what steps leave to later ones.

A client sends one line of JSON (`{"suite": …, "step": …}`) over a Unix socket and reads the step's object, as the
suites do from a command.
"""

from __future__ import annotations

import json
import socketserver
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from weftacceptance.cloud import Cloud
from weftacceptance.inside import Inside
from weftacceptance.logins import Logins
from weftacceptance.steps import Run, take


class Helper:
    """Answers steps while it is used as a context.

    Attributes:
        answers: (suite, step) -> the step's last answer.
    """

    def __init__(
        self, cloud: Cloud, socket: Path, logins: Logins | None = None, inside: Inside | None = None
    ) -> None:
        self._cloud, self._logins, self._inside, self._runs = cloud, logins, inside, dict[str, Run]()
        self.answers: dict[tuple[str, str], dict[str, Any]] = {}
        helper = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                line = self.rfile.readline(64 * 1024)
                answer = helper.answer(json.loads(line))
                with suppress(BrokenPipeError):  # the suite has ended the step already
                    self.wfile.write(json.dumps(answer, default=str).encode() + b"\n")

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        self._server = Server(str(socket), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Runs one step; the object that the suite reads."""
        suite = str(asked["suite"])
        run = self._runs.setdefault(suite, Run(self._cloud, suite, self._logins, self._inside))
        found = take(run, str(asked["step"]))
        self.answers[suite, str(asked["step"])] = found
        return found

    def __enter__(self) -> Helper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
