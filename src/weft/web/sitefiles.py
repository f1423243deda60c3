"""The site file in the browser: the active site as text, what a changed one would change, and its activation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import yaml
from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException

from weft.api.bodies import KIB, MIB
from weft.api.threadshares import run_outside
from weft.app.service import Service
from weft.app.sitefile import assemble
from weft.app.verbs import Request
from weft.app.yamltext import read_yaml, without_nulls
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NotFoundError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.errortable import row_of
from weft.model.site import Site
from weft.model.sitefile import TABLES
from weft.model.views import SiteView
from weft.planning.site.check import canonical, hints
from weft.planning.site.differences import TableChange, site_differences
from weft.planning.site.parts import cut
from weft.web.confirming import print_of, require
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/file")
LARGEST = MIB
"""Bytes of the text: some 2,000 nodes."""
LARGEST_FORM = 3 * LARGEST + 64 * KIB
"""Largest form that sends it, percent-encoded."""
NAME = "site.yaml"
"""Name of the text in errors."""
SHOWN = 50
"""Errors, and names of a table, that the page shows; the rest are counted."""
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True)
class CheckedText:
    """What activating a text would do.

    Attributes:
        base: generation of the active site that it was compared with; 0: there is none.
        seen: identifies text and base.
    """

    site: str
    base: int
    changes: tuple[TableChange, ...]
    notes: tuple[str, ...]
    seen: str


@router.get("")
async def file_page(
    visit: Visitor, current: Annotated[bool, Query()] = False, draft: Annotated[bool, Query()] = False
) -> Response:
    """An empty text; with `current` the active site as one, with `draft` what was sent when the session before had
    ended.
    """
    request = await _may(visit)
    active = await _active(visit)
    text, lines = visit.session.contents.draft if draft else "", ()
    if current and active is not None:
        found = await run_outside(visit.http, request, lambda: _text(visit.verbs, request, active), None)
        text = found or ""
        if found is None:
            lines = (f"the active site is larger than {LARGEST >> 20} MiB: weft site show --json",)
    return _page(visit, active, text, lines=lines)


@router.post("")
async def check_or_activate(visit: Visitor) -> Response:
    """Check the text and show what it would change, or activate exactly what was shown, by the field `do`."""
    try:
        request = await _may(visit)  # before a form of this size is read
    except UnauthenticatedError:
        visit.http.state.draft = _sent(await visit.form(largest=LARGEST_FORM))
        raise
    form = await visit.form(largest=LARGEST_FORM)
    text, do = _sent(form), form.get("do", "check")
    visit.http.state.draft = text
    if do not in ("check", "activate"):
        raise HTTPException(400, "unknown action")
    active: SiteView | None = None
    try:
        active = await _active(visit)
        if do == "check":
            checked = await run_outside(
                visit.http, request, lambda: _check(visit.verbs, request, active, text), None
            )
            return _page(visit, active, text, checked)
        base = active.generation if active else 0
        if form.get("seen") != _seen(text, active):
            raise ConflictError(
                "the text, or the active site, has changed since it was checked: check it again. Nothing was changed"
            )
        await run_outside(visit.http, request, lambda: _activate(visit.verbs, request, text, base), None)
    except (ForbiddenError, UnauthenticatedError):
        raise
    except WeftError as error:  # browsers keep no text of a page that they may not store
        return _page(visit, active, text, lines=_lines(error), error=error)
    return visit.to("/site/file")


def _sent(form: Mapping[str, str]) -> str:
    return form.get("text", "").replace("\r\n", "\n")


async def _may(visit: Visit) -> Request:
    request = await visit.caller("PUT", "/v1/site")
    require(visit, request, "site:activate")
    return request


async def _active(visit: Visit) -> SiteView | None:
    request = await visit.caller("GET", "/v1/site")
    try:
        return await run_outside(visit.http, request, lambda: visit.verbs.site.show(request), None)
    except NotFoundError:
        return None


def _check(verbs: Service, request: Request, active: SiteView | None, text: str) -> CheckedText:
    """Compare a text with the active site. Raises `InputErrors` with everything that is wrong, with line numbers."""
    after = _site(text)
    # The active site isn't checked: what an earlier version accepted must not prevent its correction.
    before = canonical(Site.model_validate(_document(verbs, request, active))) if active else None
    base = active.generation if active else 0
    return CheckedText(after.name, base, site_differences(before, after), hints(after), _seen(text, active))


def _activate(verbs: Service, request: Request, text: str, base: int) -> None:
    made = cut(_site(text))
    for digest in verbs.site.missing_parts(request, tuple(made.parts)).missing:
        verbs.site.send_part(request, digest, made.parts[digest])
    verbs.site.activate(request, made.document, base)


def _site(text: str) -> Site:
    size = len(text.encode())
    if not text.strip() or size > LARGEST:
        allowed = f"a site file of at most {LARGEST >> 20} MiB; a larger one by weft site activate"
        raise InputError("text", f"{size} bytes" if text.strip() else "", allowed)
    data, where = read_yaml(text, NAME)
    included = [table for table in TABLES if _includes(data.get(table))]
    if included:
        allowed = "rows: a text in the browser can't include files; weft site activate reads them"
        raise InputErrors([InputError(t, "csv", allowed, where.by_path.get((t,), NAME)) for t in included])
    return assemble(data, where)


def _includes(table: object) -> bool:
    rows = cast(list[object], table) if isinstance(table, list) else [table]
    return any(isinstance(one, dict) and "csv" in one for one in rows)


def _document(verbs: Service, request: Request, active: SiteView) -> dict[str, Any]:
    """The active site with the rows of all its parts."""

    document = dict(active.document)
    for field, value in active.document.items():
        if (pieces := _pieces(verbs, request, field, value)) is not None:
            document[field] = [row for piece in pieces for row in piece]
    return document


def _pieces(verbs: Service, request: Request, field: str, value: object) -> Iterator[list[Any]] | None:
    """The rows of a table, as they are stored, a part at a time; None: it isn't in parts."""
    if field not in TABLES or not isinstance(value, Mapping):
        return None
    digests = cast(Mapping[str, list[str]], value)["parts"]
    return (json.loads(verbs.site.part(request, digest)) for digest in digests)


def _text(verbs: Service, request: Request, active: SiteView) -> str | None:
    """The active site as YAML; None: it is larger than `LARGEST`, and only that much is read and written."""
    written, size = list[str](), 0
    for field, value in active.document.items():
        pieces = _pieces(verbs, request, field, value)
        for text in _written(field, [value] if pieces is None else pieces):
            size += len(text.encode())
            if size > LARGEST:
                return None
            written.append(text)
    return "".join(written)


def _written(field: str, pieces: Iterable[Any]) -> Iterator[str]:
    """A field of the document as YAML, without what is empty. Args: pieces: of its list, or its only value."""
    for number, piece in enumerate(pieces):
        value = without_nulls(piece)
        if value not in ({}, [], (), None):
            text = str(
                yaml.dump({field: value}, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=120)
            )
            yield text if number == 0 else text.partition("\n")[2]


def _seen(text: str, active: SiteView | None) -> str:
    """Print of a text and the active site, with its time: a restored database may reuse a generation's number."""
    return print_of(text, f"{active.generation} {active.activated_at.isoformat()}" if active else "0")


def _lines(error: WeftError) -> tuple[str, ...]:
    several = error.errors if isinstance(error, InputErrors) else [error]
    more = len(several) - SHOWN + (error.more if isinstance(error, InputErrors) else 0)
    return (*map(str, several[:SHOWN]), *((f"… and {more} more",) if more > 0 else ()))


def _page(
    visit: Visit,
    active: SiteView | None,
    text: str,
    checked: CheckedText | None = None,
    lines: tuple[str, ...] = (),
    error: WeftError | None = None,
) -> Response:
    return visit.page(
        "site_file.html",
        row_of(error).status if error else 200,
        active=active,
        text=text,
        checked=checked,
        lines=lines,
        code=error.message.code if error else "",
        most=LARGEST,
        shown=SHOWN,
        may=visit.allowed,
    )
