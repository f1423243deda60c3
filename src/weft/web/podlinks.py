"""The links of a pod: a picture, and the same as a table. Tenants see with how many others they share each."""

from __future__ import annotations

from fastapi import APIRouter, Response

from weft.api.threadshares import run_outside
from weft.generate.linkpicture import link_picture, state_of
from weft.model.views import PodLinks
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/pods/{name}")


@router.get("/links")
async def links_page(visit: Visitor, name: str) -> Response:
    """Page of a pod's links; reads the fabric now, for at most as long as its driver waits."""
    found = await _links(visit, name)
    operator = found.reading is not None
    rows = [(link, state_of([link], operator)) for link in found.links]
    return visit.page("pod_links.html", found=found, rows=rows, operator=operator)


@router.get("/links.svg")
async def links_picture(visit: Visitor, name: str) -> Response:
    """The picture alone."""
    return Response(link_picture(await _links(visit, name)), 200, media_type="image/svg+xml")


async def _links(visit: Visit, name: str) -> PodLinks:
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}/links")
    return await run_outside(visit.http, request, lambda: visit.verbs.fabrics.pod_links(request, name))
