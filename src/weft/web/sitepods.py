"""The list of all projects' pods, for operators."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.model.pod import PodState
from weft.web.pods import ROWS, search_of
from weft.web.visits import Visitor

router = APIRouter(prefix="/site")
Named = Annotated[str, Query(max_length=LONGEST_NAME)]


@router.get("/pods")
async def list_all(
    visit: Visitor,
    state: Annotated[str, Query(max_length=20)] = "",
    project: Named = "",
    name: Named = "",
    node: Named = "",
    server: Named = "",
    alarmed: Annotated[bool, Query()] = False,
    marker: Named = "",
) -> Response:
    """Pods of all projects, by name, in pages."""
    given = {"state": state, "project": project, "name": name, "node": node, "server": server}
    search = search_of({**given, "marker": marker}, all_projects=True, alarmed=alarmed)
    request = await visit.caller("GET", "/v1/pods")
    pods = await run_in_threadpool(visit.verbs.pods.list, request, search)
    query = {key: value for key, value in {**given, "alarmed": "true" if alarmed else ""}.items() if value}
    return visit.page(
        "site_pods.html",
        pods=pods,
        given=given,
        alarmed=alarmed,
        states=list(PodState),
        first=urlencode(query) if marker else None,
        following=urlencode({**query, "marker": pods[-1].marker}) if len(pods) == ROWS else None,
    )
