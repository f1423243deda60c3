"""Operators' pages of links: who is on a cable of a fabric, and which pods disturb a pod."""

from __future__ import annotations

from typing import Annotated, cast, get_args

from fastapi import APIRouter, Query, Response

from weft.api.asking import LONGEST_NAME
from weft.api.threadshares import run_outside
from weft.model.errors import InputError, WeftError
from weft.model.errortable import row_of
from weft.model.linkreading import Pattern
from weft.web.pods import checked
from weft.web.visits import Visitor

router = APIRouter(prefix="/site")
PATTERNS: tuple[str, ...] = get_args(Pattern)
Name = Annotated[str, Query(max_length=LONGEST_NAME)]
Given = Annotated[str, Query(max_length=20)]


@router.get("/links")
async def link_page(visit: Visitor, link: Name = "", pattern: Given = "rail") -> Response:
    """Page of a cable, by one of its ends; the form alone without an end, or for one that can't be shown."""
    chosen, request = _pattern(pattern), await visit.caller("GET", "/v1/links")
    found, wrong, status = None, "", 200
    wanted = checked(link.strip())
    if wanted:
        try:
            found = await run_outside(
                visit.http, request, lambda: visit.verbs.fabrics.show_link(request, wanted, chosen)
            )
        except WeftError as error:
            status = row_of(error).status
            if status not in (400, 409):
                raise
            wrong = str(error)
    values = {"found": found, "wrong": wrong, "link": wanted, "pattern": chosen, "patterns": PATTERNS}
    return visit.page("site_link.html", status, **values)


@router.get("/pods/{name}/disturbers")
async def disturbers(visit: Visitor, name: str, pattern: Given = "rail") -> Response:
    """Page of the pods that share links between switches with a pod, and which of them explain congestion."""
    chosen, pod = _pattern(pattern), checked(name)
    request = await visit.caller("GET", "/v1/site/who-disturbs")
    found = await run_outside(
        visit.http, request, lambda: visit.verbs.fabrics.who_disturbs(request, pod, chosen)
    )
    names = {one.id: one.name for link in found.congested for one in link.pods}
    return visit.page("site_disturbers.html", found=found, names=names, pattern=chosen, patterns=PATTERNS)


def _pattern(given: str) -> Pattern:
    if given not in PATTERNS:
        raise InputError("pattern", given, f"one of: {', '.join(PATTERNS)}")
    return cast(Pattern, given)
