"""Signing in by Keystone's WebSSO: the browser signs in at the identity provider, and Keystone's page posts its token.

https://docs.openstack.org/keystone/latest/admin/federation/configure_federation.html, "Configuring Horizon as a WebSSO
Frontend", and "WebSSO Experience" of the Identity API's extension OS-FEDERATION.

The post comes from another site, so the session's cookie isn't sent with it. It counts only in a browser that began
here (a cookie of ten minutes that other sites can't set), from Keystone's own origin, with a token of this Keystone
that has no project yet. The token is in that post alone: in no address, log, page or cookie.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from weft.model.errors import InputError, UnauthenticatedError
from weft.web.guard import form_of
from weft.web.pages import base_of, page
from weft.web.signin import begin, forms
from weft.web.visits import at_keystone, local, with_session

router = APIRouter(prefix="/sso")
COOKIE = "__Host-weft-sso"
SECONDS = 600
"""Seconds that signing in at the identity provider may take."""
_VALUE = re.compile(r"[A-Za-z0-9_-]{43}\.([A-Za-z0-9_-]{0,1400})")


def check_address(url: str) -> None:
    """Raise `InputError` unless it is the address of a WebSSO of Keystone, as browsers reach it."""
    parts = urlsplit(url)
    good = (
        "/OS-FEDERATION/" in parts.path and "websso" in parts.path and not parts.query and not parts.fragment
    )
    if not good or not url.isprintable() or " " in url or not _origin_of(url):
        allowed = "Keystone's address of WebSSO, such as https://keystone.example/v3/auth/OS-FEDERATION/websso/openid"
        raise InputError("websso_url", url[:200], allowed)


@router.get("/start")
async def start(http: HttpRequest, next: str = "/") -> Response:  # noqa: A002 - the parameter's name in addresses
    """Redirect to the identity provider, through Keystone. Only the console's own page can begin here."""
    address = _address(http)
    if http.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return RedirectResponse(f"{base_of(http)}/sign-in", 303)
    answer = RedirectResponse(f"{address}?origin={quote(_origin(http), safe='')}", 303)
    back = base64.urlsafe_b64encode(local(next).encode()).rstrip(b"=").decode()
    answer.set_cookie(
        COOKIE,
        f"{secrets.token_urlsafe(32)}.{back if len(back) <= 1400 else ''}",
        max_age=SECONDS,
        path="/",
        secure=True,
        httponly=True,
        samesite="none",  # Keystone's post comes from another site
    )
    return answer


@router.post("")
async def posted(http: HttpRequest) -> Response:
    """Begin a session for the token that Keystone posts, or show the forms with the reason why not."""
    address = _address(http)
    form = await form_of(http, None, _check_keystone(address))
    began = _VALUE.fullmatch(http.cookies.get(COOKIE, ""))
    if began is None:
        wrong = "This browser didn't begin to sign in here, or took too long: begin again."
        return _ended(forms(http, {}, 403, wrong=wrong))
    token = form.get("token", "")
    try:
        found = await at_keystone(http, lambda keystone: keystone.by_token(token))
        session = await begin(http, found, None, "")
    except UnauthenticatedError as error:
        return _ended(forms(http, {}, 401, wrong=str(error)))
    # A page of our own continues: browsers differ in which cookies follow a redirect that another site's post began.
    to = f"{base_of(http)}/enter?next={quote(_back(began[1]), safe='/')}"
    return _ended(with_session(page(http, "signed_in.html", to=to), session))


def _address(http: HttpRequest) -> str:
    address = http.app.state.websso_url
    if not address:
        raise HTTPException(404, "this weft has no second way to sign in")
    return str(address)


def _origin(http: HttpRequest) -> str:
    """The console's address that Keystone posts to, one of its trusted dashboards; it compares hosts in lower case."""
    public = http.app.state.public_url
    own = (
        f"{str(public).rstrip('/')}/ui" if public else f"{http.url.scheme}://{http.url.netloc}{base_of(http)}"
    )
    return f"{own}/sso"


def _origin_of(url: str) -> str:
    """The origin as browsers write it: in lower case, without the scheme's own port. Empty: no web server's."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        return ""
    own = {"http": 80, "https": 443}.get(parts.scheme)
    if own is None or not parts.hostname or "@" in parts.netloc:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, own) else "")


def _check_keystone(address: str) -> Callable[[HttpRequest], None]:
    keystone = _origin_of(address)

    def check(http: HttpRequest) -> None:
        """Raise `HTTPException` unless a page of Keystone sent the form: browsers say so, scripts can't."""
        if http.headers.get("origin", "").lower() != keystone:
            raise HTTPException(403, "the form wasn't sent by Keystone")

    return check


def _back(text: str) -> str:
    try:
        return local(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() or "/")
    except ValueError:
        return "/"


def _ended(answer: Response) -> Response:
    """Remove the cookie: a sign-in that was begun counts once."""
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="none")
    return answer
