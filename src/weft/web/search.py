"""One box for names, ids, GUIDs, addresses, P_Keys and VLANs; users find only what they may see."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.threadshares import run_outside
from weft.model.errors import ForbiddenError, InputError
from weft.model.views import PartHistory, SearchResult
from weft.web.sitenav import DETAILS
from weft.web.siteparts import history_of
from weft.web.visits import Visit, Visitor

router = APIRouter()


@router.get("/search")
async def search(visit: Visitor, q: Annotated[str, Query(max_length=1000)] = "") -> Response:
    """Page of everything that has exactly this value."""
    request = await visit.caller("GET", "/v1/search")
    found: SearchResult | None = None
    wrong = ""
    if q.strip():
        try:
            found = await run_outside(visit.http, request, lambda: visit.verbs.search(request, q))
        except InputError as error:
            wrong = str(error)
    wide = DETAILS in visit.allowed
    part = await _part(visit, q.strip()) if found and wide and "nodes:history" in visit.allowed else None
    shown = {"q": q, "found": found, "part": part, "wrong": wrong, "wide": wide}
    return visit.page("search.html", 400 if wrong else 200, **shown)


async def _part(visit: Visit, serial: str) -> PartHistory | None:
    """The history of a part; None if there is none, or if an application credential's access rules don't allow it."""
    try:
        return await history_of(visit, serial)
    except ForbiddenError:
        return None
