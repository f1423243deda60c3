"""Operators' page of a part of nodes, by its serial number: where it was, and what failed of it."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.model.errors import NotFoundError
from weft.model.views import PartHistory
from weft.web.confirming import require
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/parts")


@router.get("")
async def part(visit: Visitor, serial: Annotated[str, Query(max_length=1000)] = "") -> Response:
    """A GPU by its serial number or UUID, or an adapter by its GUID."""
    serial = serial.strip()
    require(
        visit,
        await visit.caller("GET", f"/v1/parts/{quote(serial or '-', safe='')}/history"),
        "nodes:history",
    )
    found = await history_of(visit, serial) if serial else None
    missing = bool(serial) and found is None
    return visit.page("site_part.html", 404 if missing else 200, serial=serial, found=found, missing=missing)


async def history_of(visit: Visit, serial: str) -> PartHistory | None:
    """The history of a part; None if no node has reported a part with this number."""
    try:
        request = await visit.caller("GET", f"/v1/parts/{quote(checked(serial), safe='')}/history")
        return await run_in_threadpool(visit.verbs.nodes.part_history, request, serial)
    except NotFoundError:
        return None
