"""Around every request: its id, the log line, metrics, and the last handler for unexpected errors."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.api.metrics import Metrics
from weft.model.errors import WeftError
from weft.model.errortable import to_problem
from weft.model.logtext import REQUEST_ID

HEADER = b"x-openstack-request-id"
_GIVEN = re.compile(r"req-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
LONGEST_PATH = 300
"""Maximum length of a path in the log."""
_log = logging.getLogger("weft.api")

_LINE = "%s %s %s %d ms user=%s project=%s from=%s global=%s"
LINES = "%(asctime)s %(levelname)s %(name)s [%(request_id)s]: %(message)s"
"""A line of the server's log as text."""


class Edge:
    """ASGI middleware; see the module's docstring.

    Every response has its own id in `X-OpenStack-Request-ID`; an id sent by the client (OpenStack's global
    request id) is logged next to it, so that one order can be traced through all services.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req-{uuid.uuid4()}"
        scope.setdefault("state", {})["request_id"] = request_id
        token = REQUEST_ID.set(request_id)
        started = time.perf_counter()
        status = 0
        noted = False

        def note() -> None:
            nonlocal noted
            if not noted:
                noted = True
                self._note(scope, status, time.perf_counter() - started)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (HEADER, request_id.encode())]
            elif not message.get("more_body", False):
                note()  # before the response ends: log and metrics have it once the client has it
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, send_with_id)
        except ClientDisconnect:
            pass  # the client is gone; `note` records an unfinished response
        except Exception:
            _log.exception("%s %s failed", scope["method"], _path(scope))
            if status:
                raise  # half of the response is sent: only closing the connection shows it to the client
            await _send_failure(scope, send_with_id, request_id)
        finally:
            note()  # the response was cut off
            REQUEST_ID.reset(token)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = getattr(scope.get("route"), "path", "")
        route = (
            scope.get("root_path", "") + route if route else "(none)"
        )  # the console's are below its prefix
        self._metrics.answered(method, route, status, seconds)
        caller = scope.get("state", {}).get("caller")
        client = scope.get("client")
        known = {
            "method": method,
            "path": _path(scope),
            "status": status or "cut off",
            "ms": round(seconds * 1000),
            "user": caller.user_id if caller else "-",
            "project": (caller.project_id or "-") if caller else "-",
            "client": client[0] if client else "-",
            "global_request_id": _global_id(scope),
        }
        level = logging.DEBUG if scope["path"] in _QUIET or _polls(scope, status) else logging.INFO
        more = {name: value for name, value in known.items() if value != "-"}
        _log.log(level, _LINE, *known.values(), extra=more)


def _polls(scope: Scope, status: int) -> bool:
    """Whether a client polls: a GET that was answered after a wait, or that found nothing new."""
    waits = any(part.startswith(b"wait=") for part in scope["query_string"].split(b"&"))
    return scope["method"] in ("GET", "HEAD") and (status == 304 or (waits and status == 200))


def _path(scope: Scope) -> str:
    """The path for a log line, encoded into one word so that a client can't inject lines or fields."""
    return quote(scope["path"], safe="/:@!$&'()*+,;=~", errors="backslashreplace")[:LONGEST_PATH]


def _global_id(scope: Scope) -> str:
    given = next((value.decode("latin-1") for key, value in scope["headers"] if key == HEADER), "")
    return given if _GIVEN.match(given) else "-"


async def _send_failure(scope: Scope, send: Any, request_id: str) -> None:
    error = WeftError(f"internal error; see weft's log under {request_id}")
    body = json.dumps(to_problem(error, scope["path"], request_id)).encode()
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
