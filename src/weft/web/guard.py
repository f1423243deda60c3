"""Headers of every answer of the console, the page for unexpected errors, and the checks of forms."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request as HttpRequest
from fastapi import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.api.bodies import KIB, limited_body
from weft.web.sessions import Session

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would make browsers send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC, FOREVER = "/ui/static/", "public, max-age=31536000, immutable"
"""Files whose address changes with their bytes."""
LARGEST_FORM = 128 * KIB
"""An order has at most 48 KiB of user data, percent-encoded."""
MOST_FIELDS = 200
_log = logging.getLogger("weft.web")


class Guard:
    """ASGI middleware; see the module's docstring.

    Args:
        failed: the page for an unexpected error.
    """

    def __init__(self, app: ASGIApp, failed: Callable[[HttpRequest], Response]) -> None:
        self._app, self._failed = app, failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                kept = message["status"] == 200 and scope["path"].startswith(STATIC)
                headers["Cache-Control"] = FOREVER if kept else "no-store"
            await send(message)

        try:
            await self._app(scope, receive, send_guarded)
        except ClientDisconnect:
            raise
        except Exception:
            if begun:
                raise  # half of the answer is sent
            _log.exception("%s failed", scope["method"])
            await self._failed(HttpRequest(scope))(scope, receive, send_guarded)


def check_source(http: HttpRequest) -> None:
    """Raise `HTTPException` for a form of another site: browsers say where a request comes from."""
    site = http.headers.get("sec-fetch-site")
    origin = http.headers.get("origin")
    if site is not None:
        if site != "same-origin":
            raise HTTPException(403, "the form was sent by another site")
    elif origin is not None:
        public = urlsplit(http.app.state.public_url or "").netloc
        if urlsplit(origin).netloc not in (http.headers.get("host"), public):
            raise HTTPException(403, "the form was sent by another site")


async def form_of(
    http: HttpRequest,
    session: Session | None,
    check: Callable[[HttpRequest], None] = check_source,
    largest: int = LARGEST_FORM,
) -> dict[str, str]:
    """A form's fields. Raises `HTTPException` for one of another site or session, and one that is too large.

    Args:
        session: whose forms carry its token; None: before there is one.
        check: raises `HTTPException` for a form that a wrong site sent.
        largest: bytes.
    """
    check(http)
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(
            415, f"send the form as application/x-www-form-urlencoded, not as {kind[:60] or 'nothing'}"
        )
    body = await limited_body(http, largest)
    try:
        pairs = _pairs(body) if len(body) <= LARGEST_FORM else await run_in_threadpool(_pairs, body)
    except ValueError:
        raise HTTPException(400, f"not a form in UTF-8 with at most {MOST_FIELDS} fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise HTTPException(400, "a field of the form was sent twice")
    if any("\0" in value for value in fields.values()):
        raise HTTPException(400, "a field of the form has a NUL character")
    if session is not None:
        given = fields.get("csrf") or http.headers.get("x-csrf-token", "")
        if not secrets.compare_digest(given.encode(), session.csrf.encode()):
            raise HTTPException(403, "the form is of another session: load the page again")
    return fields


def _pairs(body: bytes) -> list[tuple[str, str]]:
    """Names and values of a form's fields. Raises `ValueError`."""
    return parse_qsl(
        body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS
    )
