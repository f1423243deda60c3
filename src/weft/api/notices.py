"""Notices of Neutron's driver `mlnx_sdn_assist` (networking-mlnx): answered at once, and taken as a wake-up.

    POST, PUT, DELETE  /mlnx/{domain}/Network|Port[/{id}]     202, the path of a job as a JSON string
    GET                /mlnx/{path of a job}                  {"Status": "Completed"}

The driver sends a whole port or network, which is ignored: it may be late, wrong, or not Neutron's last state. The job
is reported as completed at once, since the driver would otherwise send the notice again. A request with the token is
only answered 202 or 503: after any other answer the driver repeats it without a limit.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from weft.model.errors import InputError, UnauthenticatedError

PREFIX = "/mlnx"
LONGEST = 1 << 20
"""Most bytes of a notice that are read; the rest is cut off."""
SHORTEST_TOKEN = 16


def notices(token: str, notify: Callable[[], None]) -> APIRouter:
    """The routes.

    Args:
        token: `[sdn] token` of Neutron's configuration, which the driver sends raw after `Basic`.
        notify: notifies weft. Raises `TemporaryError` if it can't: the driver then sends the notice again.
    """
    router = APIRouter(prefix=PREFIX, include_in_schema=False)

    def check(http: HttpRequest) -> None:
        kind, _, given = http.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic" or not secrets.compare_digest(given.strip().encode(), token.encode()):
            raise UnauthenticatedError(
                "not the token of [sdn] in Neutron's configuration (weft serve --neutron-token)"
            )

    @router.api_route("/{path:path}", methods=["POST", "PUT", "DELETE"])
    async def notice(http: HttpRequest, path: str) -> JSONResponse:
        check(http)
        await _receive(http)
        await run_in_threadpool(notify)
        job = f"app/jobs/{secrets.token_hex(8)}"
        return JSONResponse(job, 202, {"Location": f"{PREFIX}/{job}"})

    @router.get("/{path:path}")
    async def job(http: HttpRequest, path: str) -> JSONResponse:
        check(http)
        return JSONResponse({"ID": path.rpartition("/")[2], "Status": "Completed", "Progress": 100})

    return router


async def _receive(http: HttpRequest) -> None:
    """Read the body to its end, so that the connection can be used again."""
    received = 0
    async for chunk in http.stream():
        received += len(chunk)
        if received > LONGEST:
            return


def read_token(file: Path, option: str) -> str:
    """Another program's token, from a file.

    Args:
        option: of `weft serve`, for errors.

    Raises `InputError` for a file that can't be read, that others may read, or whose token is too short.
    """
    try:
        mode, text = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it isn't text"
        raise InputError(option, str(file), f"a readable file with the token ({why})") from None
    if mode & 0o007:
        raise InputError(option, str(file), f"a file that others can't read (mode {mode & 0o777:o})")
    if len(text) < SHORTEST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        allowed = f"a file with one token of at least {SHORTEST_TOKEN} ASCII characters without spaces"
        raise InputError(option, str(file), allowed)
    return text
