"""The operators' page of health: how many nodes are well, in groups, and why others aren't."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.model.views import HealthGroup, HealthValue, NodeHealth, SiteHealth
from weft.web.together import together
from weft.web.visits import Visitor

router = APIRouter(prefix="/site/health")
SHOWN = 200
"""Nodes on the page; of the others the number."""


@router.get("")
async def health(
    visit: Visitor,
    by: Annotated[HealthGroup, Query()] = "type",
    health: Annotated[HealthValue | None, Query()] = None,
) -> Response:
    """Counts by group, and nodes that aren't ok, or of one health."""
    request = await visit.caller("GET", "/v1/site/health")
    await visit.caller("GET", "/v1/site/health/nodes")

    async def read() -> tuple[SiteHealth, list[NodeHealth], int]:
        return await run_in_threadpool(visit.verbs.health_page, request, by, health, SHOWN)

    found, nodes, number = await together(visit.http, request, ("health", by, health), read)
    return visit.page(
        "site_health.html", found=found, health=health, nodes=nodes, further=max(0, number - SHOWN)
    )
