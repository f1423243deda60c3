"""Signing in and out: password, second factor, application credential, choice of a project."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote, quote_plus

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from weft.api.bodies import KIB
from weft.model.errors import InputError, UnauthenticatedError, WeftError
from weft.ports.signin import NeedsPasscode, SignedIn, SignIn, TokenScope
from weft.web.guard import LARGEST_FORM, form_of
from weft.web.pages import PREFIX, base_of, page
from weft.web.sessions import Session, SessionContents
from weft.web.visits import (
    SignInFirst,
    at_keystone,
    book_of,
    local,
    session_of,
    with_session,
    without_session,
)

router = APIRouter()
SYSTEM = "system"
"""Value of the choice of the system instead of a project: no project's id, which has 32 hexadecimal digits."""
LARGEST_DRAFT = LARGEST_FORM - 28 * KIB
"""Bytes of an order's text as a form sends it; the rest is for user, password and others."""
log = logging.getLogger("weft.web")


@router.get("/sign-in")
async def sign_in_page(http: HttpRequest) -> Response:
    """Page with the forms for signing in."""
    return forms(http, {}, back=http.query_params.get("next", "/"), over="over" in http.query_params)


def forms(
    http: HttpRequest,
    given: Mapping[str, str],
    status: int = 200,
    back: str = "/",
    wrong: str = "",
    over: bool = False,
    draft: str = "",
) -> Response:
    """The page for signing in."""
    values = {"user": "", "domain": "Default", "credential": "", **given}
    insecure = not _keeps_cookies(http)
    return page(
        http,
        "sign_in.html",
        status=status,
        back=local(back),
        wrong=wrong,
        over=over,
        given=values,
        insecure=insecure,
        draft=draft if _is_kept(draft) else "",
        lost="" if _is_kept(draft) else draft,
        websso=bool(http.app.state.websso_url),
    )


def with_draft(http: HttpRequest, draft: str) -> Response:
    """The forms, which keep a text that was sent after the session had ended, and lead to its page."""
    back = f"{http.url.path.removeprefix(PREFIX)}?draft=true"
    return without_session(forms(http, {}, 401, back, over=True, draft=draft))


def _is_kept(draft: str) -> bool:
    """Whether a text fits into the form for signing in, beside the rest of it."""
    return len(quote_plus(draft)) <= LARGEST_DRAFT


def _keeps_cookies(http: HttpRequest) -> bool:
    """Whether a browser keeps a Secure cookie of this address: by HTTPS, or of this machine."""
    public = http.app.state.public_url
    if http.url.scheme == "https" or (public or "").startswith("https://"):
        return True
    host = http.url.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@router.post("/sign-in")
async def sign_in(http: HttpRequest) -> Response:
    """Begin a session by a password, or by an application credential."""
    form = await form_of(http, None)
    back, method = form.get("next", "/"), form.get("method", "password")
    draft = form.get("draft", "")
    shown = {name: form[name][:255] for name in ("user", "domain", "credential") if name in form}

    def ask(keystone: SignIn) -> SignedIn | NeedsPasscode:
        if method == "credential":
            return keystone.by_credential(form.get("credential", ""), form.get("secret", ""))
        return keystone.by_password(form.get("user", ""), form.get("domain", ""), form.get("password", ""))

    try:
        found = await at_keystone(http, ask)
    except UnauthenticatedError as error:
        return forms(http, shown, 401, back, str(error), draft=draft)
    before = await session_of(http)
    if isinstance(found, NeedsPasscode):
        first = SessionContents("passcode", found.receipt, found.user_id, draft=draft)
        session = await run_in_threadpool(book_of(http).begin, first, found.expires_at, before)
    else:
        session = await begin(http, found, before, draft)
    return _enter(http, session, back)


async def begin(http: HttpRequest, found: SignedIn, before: Session | None, draft: str) -> Session:
    """A session for a token: in its project, in the user's only project, or with the choice still to be made."""
    unscoped = "" if found.project_id or found.system else found.token
    if unscoped:
        scopes = await at_keystone(http, lambda keystone: keystone.scopes(unscoped))
        if len(scopes) == 1:
            only = scopes[0].project_id
            found = await at_keystone(http, lambda keystone: keystone.scoped(unscoped, only))
    return await run_in_threadpool(_keep, http, found, unscoped, before, draft)


def _keep(http: HttpRequest, found: SignedIn, unscoped: str, before: Session | None, draft: str) -> Session:
    contents = SessionContents(
        "in" if found.project_id or found.system else "scope",
        found.token,
        found.user_id,
        found.user_name,
        found.project_id,
        found.project_name,
        found.system,
        unscoped,
        draft,
    )
    return book_of(http).begin(contents, found.expires_at, before)


def _enter(http: HttpRequest, session: Session, back: str) -> Response:
    query = f"?next={quote(local(back), safe='/')}"
    return with_session(RedirectResponse(f"{base_of(http)}/enter{query}", 303), session)


def other_stage(http: HttpRequest) -> Response:
    """Redirect to the page of the session's stage from an old page of another one."""
    own = http.url.path.removeprefix(PREFIX)
    if own in ("/passcode", "/project"):
        back = http.query_params.get("next", "/")
    else:
        back = own + (f"?{http.url.query}" if http.url.query else "")
    back = local(back) if http.method == "GET" else "/"
    return RedirectResponse(f"{base_of(http)}/enter?next={quote(back, safe='/')}", 303)


@router.get("/enter")
async def enter(http: HttpRequest) -> Response:
    """The first page with a new cookie: says so if the browser didn't keep it."""
    session = await session_of(http)
    back = local(http.query_params.get("next", "/"))
    if session is None:
        return page(http, "no_cookie.html", status=400)
    stage = session.contents.stage
    path = {"passcode": "/passcode", "scope": "/project"}.get(stage, "")
    query = f"?next={quote(back, safe='/')}"
    return RedirectResponse(base_of(http) + (f"{path}{query}" if path else back), 303)


@router.get("/passcode")
async def passcode_page(http: HttpRequest) -> Response:
    """The form for a one-time passcode."""
    session = await _in_stage(http, "passcode")
    return page(
        http, "passcode.html", session, back=local(http.query_params.get("next", "/")), wrong="", status=200
    )


@router.post("/passcode")
async def passcode(http: HttpRequest) -> Response:
    """Sign in with the second factor."""
    session = await _in_stage(http, "passcode")
    form = await form_of(http, session)
    back = form.get("next", "/")
    first = NeedsPasscode(session.contents.token, session.expires_at, session.contents.user_id)
    try:
        found = await at_keystone(
            http, lambda keystone: keystone.by_passcode(first, form.get("passcode", "").replace(" ", ""))
        )
    except UnauthenticatedError as error:
        return page(http, "passcode.html", session, 401, back=local(back), wrong=str(error))
    return _enter(http, await begin(http, found, session, session.contents.draft), back)


@router.get("/project")
async def project_page(http: HttpRequest) -> Response:
    """The projects to choose from."""
    session, scopes = await _choice(http)
    return page(
        http,
        "project.html",
        session,
        scopes=scopes,
        system=SYSTEM,
        back=local(http.query_params.get("next", "/")),
    )


@router.post("/project")
async def project(http: HttpRequest) -> Response:
    """Sign in to one of them; the session gets a new id."""
    session, scopes = await _choice(http)
    form = await form_of(http, session)
    chosen = form.get("project", "")
    wanted = None if chosen == SYSTEM else chosen
    if wanted not in [scope.project_id for scope in scopes]:
        raise InputError("project", chosen[:64], "one of the projects in the list")
    unscoped = session.contents.unscoped
    found = await at_keystone(http, lambda keystone: keystone.scoped(unscoped, wanted))
    made = await run_in_threadpool(_keep, http, found, unscoped, session, session.contents.draft)
    back = form.get("next", "/") if session.contents.stage == "scope" else "/"
    return _enter(http, made, back)


async def _choice(http: HttpRequest) -> tuple[Session, list[TokenScope]]:
    session = await session_of(http)
    if session is None or not session.contents.unscoped:
        raise SignInFirst(session)
    http.state.session = session
    return session, await at_keystone(http, lambda keystone: keystone.scopes(session.contents.unscoped))


async def _in_stage(http: HttpRequest, stage: str) -> Session:
    session = await session_of(http)
    if session is None or session.contents.stage != stage:
        raise SignInFirst(session)
    http.state.session = session
    return session


@router.post("/sign-out")
async def sign_out(http: HttpRequest) -> Response:
    """End the session, and its tokens; also if Keystone can't be asked."""
    session = await session_of(http)
    if session is not None:
        await form_of(http, session)
        await run_in_threadpool(book_of(http).end, session)
        contents = session.contents
        held = {contents.token, contents.unscoped} - {""} if contents.stage != "passcode" else set[str]()
        for token in held:
            try:
                await at_keystone(http, lambda keystone, token=token: keystone.end(token))
            except WeftError as error:
                log.warning("a token of %s stays valid until it expires: %s", contents.user_id, error)
    answer = RedirectResponse(f"{base_of(http)}/sign-in", 303)
    return without_session(answer)
