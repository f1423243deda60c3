"""A request for a page: its session, and the caller for the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

from fastapi import Depends, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from weft.api.asking import address_of, asker_as, neighbourhood
from weft.api.threadshares import READ_SECONDS, ThreadShares
from weft.api.together import SharedReadings
from weft.app.service import Service
from weft.app.verbs import Request
from weft.ports.signin import SignIn
from weft.web.guard import LARGEST_FORM, form_of
from weft.web.pages import PREFIX, base_of, page
from weft.web.sessions import COOKIE, Session, SessionBook
from weft.web.sitenav import OWN_RULES, SITE_RULES

_T = TypeVar("_T")
LONGEST_NEXT = 500


class SessionsAsked:
    """Whether streams' sessions are still valid: one query of the database for all that ask at the same time."""

    def __init__(self) -> None:
        self._together = SharedReadings()
        self._waiting: set[str] = set()

    async def goes_on(self, book: SessionBook, session: Session) -> bool:
        """Whether a session is still valid, by one query for all that ask at the same time."""
        self._waiting.add(session.key)
        return session.key in await self._together.read(book, partial(self._look, book))

    async def _look(self, book: SessionBook) -> frozenset[str]:
        asked, self._waiting = self._waiting, set()
        return await run_in_threadpool(book.still_there, asked)


class SignInFirst(Exception):  # noqa: N818 - not an error: the answer is the page for signing in
    """The page needs a session, and the request has none, or one that has ended.

    Args:
        session: one in another stage of signing in, or beyond it.
    """

    def __init__(self, session: Session | None = None) -> None:
        super().__init__()
        self.session = session


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of someone who is signed in."""

    http: HttpRequest
    session: Session

    @property
    def verbs(self) -> Service:
        """The verbs, redacted for tenants as the API's are."""
        return cast(Service, self.http.app.state.verbs)

    @property
    def base(self) -> str:
        """Path of the console, behind a proxy's prefix."""
        return base_of(self.http)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Which of `SITE_RULES` the caller may do; known after `caller`."""
        return cast(tuple[str, ...], self.http.state.allowed)

    async def caller(self, method: str, path: str) -> Request:
        """The caller, by its token now.

        Args:
            method, path: of the API's request that does the same.
        """
        request = await self.asker(method, path)
        self.http.state.allowed = await run_in_threadpool(self.verbs.permissions.allowed, request, SITE_RULES)
        project = request.caller.project_id
        self.http.state.own = await run_in_threadpool(
            self.verbs.permissions.allowed, request, OWN_RULES, project or ""
        )
        return request

    async def asker(self, method: str, path: str, before: Request | None = None) -> Request:
        """The caller, for answers without links to other pages. Args: before: see `asker_as`."""
        return await asker_as(self.http, self.session.contents.token, method, path, before)

    async def goes_on(self) -> bool:
        """Whether the session hasn't ended; streams that ask at the same time share one query."""
        asked = cast(SessionsAsked, self.http.app.state.sessions_asked)
        return await asked.goes_on(book_of(self.http), self.session)

    async def form(
        self, again: Callable[[], Awaitable[Response]] | None = None, largest: int = LARGEST_FORM
    ) -> dict[str, str]:
        """The fields of a form of this session. Raises `HTTPException`.

        Args:
            again: gives the form's page again, for the answer if what was typed is refused later.
            largest: bytes of it.
        """
        fields = await form_of(self.http, self.session, largest=largest)
        if again is not None:
            self.http.state.typed, self.http.state.again = fields, again
        return fields

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """The page of a template, with the session's user and project."""
        return page(self.http, template, self.session, status, **values)

    def to(self, path: str) -> Response:
        """Go to another page of the console."""
        return RedirectResponse(self.base + path, 303)


def book_of(http: HttpRequest) -> SessionBook:
    """The sessions of this weft."""
    return cast(SessionBook, http.app.state.sessions)


async def session_of(http: HttpRequest) -> Session | None:
    """The session of the request's cookie."""
    key = http.cookies.get(COOKIE, "")
    return await run_in_threadpool(book_of(http).find, key) if key else None


async def visit_of(http: HttpRequest) -> Visit:
    """A dependency of pages for those who are signed in. Raises `SignInFirst`."""
    session = await session_of(http)
    if session is None or session.contents.stage != "in":
        raise SignInFirst(session)
    http.state.session = session
    return Visit(http, session)


Visitor = Annotated[Visit, Depends(visit_of)]


async def at_keystone(http: HttpRequest, ask: Callable[[SignIn], _T]) -> _T:
    """Ask Keystone for a user who isn't signed in yet, in the share of threads that strangers at its address have."""
    strangers = cast(ThreadShares, http.app.state.strangers)
    work = partial(ask, cast(SignIn, http.app.state.sign_in))
    return await strangers.run(neighbourhood(address_of(http)), work, READ_SECONDS)


def with_session(answer: Response, session: Session) -> Response:
    """The answer, with the session's cookie, which ends with the browser."""
    answer.set_cookie(COOKIE, session.key, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def without_session(answer: Response) -> Response:
    """The answer, which removes the cookie."""
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def sign_in_first(http: HttpRequest, over: bool) -> Response:
    """Redirect to the page for signing in, which leads back. Args: over: a session has ended."""
    back = http.url.path + (f"?{http.url.query}" if http.url.query else "")
    back = back.removeprefix(PREFIX) if http.method == "GET" else "/"
    query = f"next={quote(local(back), safe='/')}" + ("&over=1" if over else "")
    return without_session(RedirectResponse(f"{base_of(http)}/sign-in?{query}", 303))


def local(path: str) -> str:
    """A path below the console; `/` for anything else."""
    parts = urlsplit(path) if len(path) <= LONGEST_NEXT and path.isprintable() else None
    fine = parts and not parts.scheme and not parts.netloc and "\\" not in path
    return path if fine and path.startswith("/") and not path.startswith("//") else "/"
