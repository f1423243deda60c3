"""Pages from templates: what is written in them is escaped, and a missing value is an error."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from typing import Any, cast

from fastapi import Request as HttpRequest
from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from weft.api.etags import is_known
from weft.model.errors import WeftError
from weft.model.errortable import to_problem
from weft.web.problems import has_page
from weft.web.sessions import Session
from weft.web.sitenav import own_pages, site_menu

PREFIX = "/ui"


def base_of(http: HttpRequest) -> str:
    """Path of the console as the browser sees it: a proxy may have put another one in front."""
    return str(http.app.state.prefix).rstrip("/") + PREFIX


def page(
    http: HttpRequest,
    template: str,
    session: Session | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> Response:
    """A template's page for a browser."""
    return Response(fragment(http, template, session, **values), status, headers, "text/html; charset=utf-8")


@dataclass(frozen=True, slots=True)
class Kept:
    """A document that is sent unchanged to everyone who may have it: it is written, compressed and tagged once.

    Attributes:
        tag: weak, as the bytes depend on the encoding.
        packed: the body, compressed (gzip).
    """

    body: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, text: str, kind: str) -> Kept:
        """A text with its compressed form and tag, computed once."""
        body = text.encode()
        digest = blake2b(body, digest_size=16).hexdigest()
        return cls(body, gzip.compress(body, 5, mtime=0), kind, f'W/"{digest}"')

    def answer(self, http: HttpRequest) -> Response:
        """The document, or 304 if the request has its tag. Browsers don't store it: see `Guard`."""
        headers = {"ETag": self.tag, "Vary": "Accept-Encoding, Cookie"}
        given = ",".join(http.headers.getlist("if-none-match"))
        if is_known(self.tag.encode(), given.encode()):
            return Response(None, 304, headers)
        if _takes_gzip(http.headers.get("accept-encoding", "")):
            return Response(self.packed, 200, headers | {"Content-Encoding": "gzip"}, self.kind)
        return Response(self.body, 200, headers, self.kind)


def _takes_gzip(given: str) -> bool:
    """Whether `Accept-Encoding` names it, and not with `q=0`."""
    for one in given.split(","):
        name, _, weight = one.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def fragment(http: HttpRequest, template: str, session: Session | None = None, **values: Any) -> str:
    """A template as text, for a part of a page."""
    common = {
        "base": base_of(http),
        "session": session,
        "who": session.contents if session else None,
        "csrf": session.csrf if session else "",
        "place": http.url.path,
        "own_pages": own_pages(getattr(http.state, "own", ())),
        "site_menu": site_menu(getattr(http.state, "allowed", ())),
    }
    return environment().get_template(template).render(common | values)


def error_page(
    http: HttpRequest,
    error: WeftError,
    status: int,
    session: Session | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The problem that the API would answer, as a page."""
    problem = to_problem(error, http.url.path, http.state.request_id)
    return page(http, "error.html", session, status, headers, problem=problem)


@cache
def environment() -> Environment:
    """The templates of this process."""
    made = Environment(
        loader=PackageLoader("weft.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"time": _time, "iso": _iso}
    cast(dict[str, Any], made.globals).update(static=static, has_page=has_page)
    return made


@cache
def static(name: str) -> str:
    """Path below the console of a file that browsers may keep: its name changes with its bytes."""
    content = (files("weft.web") / "static" / name).read_bytes()
    return f"/static/{name}?{sha256(content).hexdigest()[:12]}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
