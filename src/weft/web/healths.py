"""The operators' page of health: how many nodes are well, in groups, and why others aren't."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.together import together
from weft.app.verbs import Request
from weft.model.views import HealthGroup, HealthValue
from weft.planning.kept import Latest
from weft.web.pages import fragment
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/health")
_TABLES = Latest[str](8)
SHOWN = 200
"""Nodes that the page shows; the rest are counted."""


@router.get("")
async def health(
    visit: Visitor,
    by: Annotated[HealthGroup, Query()] = "type",
    health: Annotated[HealthValue | None, Query()] = None,
) -> Response:
    """Counts by group, and nodes that aren't ok, or of one health."""
    request = await visit.caller("GET", "/v1/site/health")
    await visit.asker("GET", "/v1/site/health/nodes")

    async def read() -> str:
        return await run_in_threadpool(_table, visit, request, by, health)

    table = await together(visit.http, request, ("health", by, health), read)
    return visit.page("site_health.html", by=by, table=table)


def _table(visit: Visit, request: Request, by: HealthGroup, health: HealthValue | None) -> str:
    """The part of the page that is the same for all who may see it, kept until something changes."""
    found, nodes, number = visit.verbs.nodes.health_page(request, by, health, SHOWN)
    further = max(0, number - SHOWN)

    def write() -> str:
        given: dict[str, Any] = {"found": found, "health": health, "nodes": nodes, "further": further}
        return fragment(visit.http, "site_health_table.html", **given)

    return _TABLES.of((), (visit.base, health, found, nodes, further), write)
