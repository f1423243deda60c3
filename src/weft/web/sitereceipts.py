"""Receipts of all projects, for operators: of pods that were released during the last day, and by name or id."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.web.pods import ROWS, search_of
from weft.web.visits import Visitor

router = APIRouter(prefix="/site")
Text = Annotated[str, Query(max_length=LONGEST_NAME)]


@router.get("/receipts")
async def receipts(visit: Visitor, pod: Text = "", project: Text = "", marker: Text = "") -> Response:
    """The list, in pages; with `pod` the receipt of that one."""
    if pod.strip():
        return visit.to(f"/pods/{quote(pod.strip(), safe='')}/receipt")
    search = search_of({"state": "RELEASED", "project": project, "marker": marker}, all_projects=True)
    request = await visit.caller("GET", "/v1/pods")
    pods = await run_in_threadpool(visit.verbs.pods.list, request, search)
    query = {"project": project} if project else {}
    return visit.page(
        "site_receipts.html",
        pods=pods,
        project=project,
        first=urlencode(query) if marker else None,
        following=urlencode({**query, "marker": pods[-1].marker}) if len(pods) == ROWS else None,
    )
