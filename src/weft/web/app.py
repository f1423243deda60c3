"""The console as an application below the API: routes, errors and headers of its own, and the API's verbs.

It shares the state of the API's application: verbs, identity, waiting room, threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import cast

from fastapi import FastAPI, Response
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ExceptionHandler

from weft.engine.base.database import Database
from weft.engine.store.websessions import WebSessions
from weft.model.errors import ForbiddenError, UnauthenticatedError, WeftError
from weft.model.errortable import row_of, to_problem
from weft.ports.signin import SignIn
from weft.web import (
    alarms,
    audits,
    bandwidths,
    changes,
    checktokens,
    drains,
    events,
    explained,
    fabrics,
    healths,
    live,
    networks,
    nodeacts,
    nodes,
    orders,
    podchanges,
    podlinks,
    podmaps,
    pods,
    podways,
    receipts,
    search,
    signin,
    sitefiles,
    sitelinks,
    siteparts,
    sitepictures,
    sitepods,
    sitereceipts,
    siteresources,
    times,
    webhooks,
    websso,
)
from weft.web.guard import HEADERS, Guard, form_of
from weft.web.pages import PREFIX, base_of, error_page, page
from weft.web.sessions import COOKIE, SessionBook
from weft.web.visits import SessionsAsked, SignInFirst, book_of, sign_in_first
from weft.web.websso import check_address

LARGE_FORMS = 4
"""Most texts of sites that are read at the same time from people whose session has ended."""
_TEXTS = re.compile(f"{PREFIX}/(order|pods/[^/]+/change|site/file)")
"""Paths that the text of an order or a site is sent to: it is kept if the session has ended."""


def add_console(app: FastAPI, sign_in: SignIn, database: Database, websso_url: str | None = None) -> FastAPI:
    """Mount the console at `/ui` of the API's application; returns the console's own.

    Args:
        sign_in: Keystone.
        database: for sessions alone; everything else goes through the verbs.
        websso_url: Keystone's address of WebSSO as browsers reach it; None: there is none.

    Raises `InputError` for another address.
    """
    if websso_url:
        check_address(websso_url)
    app.state.websso_url = websso_url
    app.state.sign_in, app.state.sessions = sign_in, SessionBook(WebSessions(database))
    app.state.sessions_asked, app.state.large_forms = SessionsAsked(), LARGE_FORMS
    console = FastAPI(
        title="weft's console", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    console.state = app.state
    own = (events, networks, webhooks)
    site = (
        sitepods,
        nodes,
        nodeacts,
        drains,
        podways,
        audits,
        times,
        fabrics,
        healths,
        alarms,
        sitereceipts,
        siteresources,
        sitefiles,
        siteparts,
        checktokens,
        search,
        podmaps,
        sitelinks,
        sitepictures,
    )
    for part in (
        signin,
        websso,
        pods,
        live,
        orders,
        changes,
        podchanges,
        receipts,
        bandwidths,
        podlinks,
        *own,
        explained,
        *site,
    ):
        console.include_router(part.router)
    folder = Path(str(files("weft.web") / "static"))
    console.mount("/static", StaticFiles(directory=folder, follow_symlink=False))
    console.add_exception_handler(WeftError, cast(ExceptionHandler, _on_weft_error))
    console.add_exception_handler(HTTPException, cast(ExceptionHandler, _on_http_error))
    console.add_exception_handler(RequestValidationError, cast(ExceptionHandler, _on_bad_parameters))
    console.add_exception_handler(SignInFirst, cast(ExceptionHandler, _on_no_session))
    console.add_middleware(Guard, failed=_on_defect)
    app.add_api_route(PREFIX, _to_console, methods=["GET"], include_in_schema=False)
    app.mount(PREFIX, console)
    return console


async def _to_console(http: HttpRequest) -> Response:
    return RedirectResponse(f"{base_of(http)}/", 307, HEADERS)


async def _on_weft_error(http: HttpRequest, error: WeftError) -> Response:
    session = getattr(http.state, "session", None)
    if isinstance(error, UnauthenticatedError):  # the token has expired, or was revoked
        if session is not None:
            await run_in_threadpool(book_of(http).end, session)
        draft = getattr(http.state, "draft", "")
        return signin.with_draft(http, draft) if draft else sign_in_first(http, over=True)
    return await _form_again(http, error) or error_page(http, error, row_of(error).status, session)


async def _form_again(http: HttpRequest, error: WeftError) -> Response | None:
    """The form with what was typed and why it was refused; None if there is no such form, or no longer."""
    again = getattr(http.state, "again", None)
    if again is None or isinstance(error, ForbiddenError):
        return None
    http.state.again = None
    http.state.refused = to_problem(error, http.url.path, http.state.request_id)
    try:
        answer = cast(Response, await again())
    except WeftError:
        return None
    answer.status_code = row_of(error).status
    return answer


async def _on_no_session(http: HttpRequest, error: SignInFirst) -> Response:
    if http.method == "POST" and _TEXTS.fullmatch(http.url.path):
        try:
            form = await _sent_late(http)
        except HTTPException as wrong:
            return _on_http_error(http, wrong)
        if text := form.get("yaml") or form.get("text"):
            return signin.with_draft(http, text)
    return signin.other_stage(http) if error.session else sign_in_first(http, over=False)


async def _sent_late(http: HttpRequest) -> dict[str, str]:
    """The form of someone whose session has ended. A site is larger than other texts; as anyone can send this, only a
    few that large are read at once. Raises `HTTPException`."""
    state = http.app.state
    if not http.url.path.endswith("/site/file") or COOKIE not in http.cookies or state.large_forms <= 0:
        return await form_of(http, None)
    state.large_forms -= 1
    try:
        return await form_of(http, None, largest=sitefiles.LARGEST_FORM)
    finally:
        state.large_forms += 1


def _on_http_error(http: HttpRequest, error: HTTPException) -> Response:
    unknown = (
        error.status_code == 404 and error.detail == "Not Found"
    )  # Starlette's own, for paths without a route
    problem = {
        "title": _title(error.status_code),
        "detail": "The console has no page at this address." if unknown else error.detail,
        "code": "",
        "status": error.status_code,
    }
    return _plain(http, problem, error.status_code, dict(error.headers or {}))


def _title(status: int) -> str:
    return {403: "Not allowed", 404: "No such page", 405: "Not possible here"}.get(status, "Bad request")


def _on_bad_parameters(http: HttpRequest, error: RequestValidationError) -> Response:
    names = ", ".join(str(one["loc"][-1]) for one in error.errors())
    problem = {
        "title": "Bad request",
        "detail": f"not allowed in the address: {names}",
        "code": "",
        "status": 400,
    }
    return _plain(http, problem, 400)


def _on_defect(http: HttpRequest) -> Response:
    detail = f"internal error; see weft's log under {http.state.request_id}"
    return _plain(http, {"title": "weft failed", "detail": detail, "code": "", "status": 500}, 500)


def _plain(
    http: HttpRequest, problem: Mapping[str, object], status: int, headers: dict[str, str] | None = None
) -> Response:
    problem = {"request_id": http.state.request_id, **problem}
    return page(http, "error.html", getattr(http.state, "session", None), status, headers, problem=problem)
