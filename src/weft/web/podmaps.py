"""A pod's map for operators: from its order to the ports of leaf switches, wanted beside seen, with ages."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.web.pods import checked
from weft.web.visits import Visitor

router = APIRouter(prefix="/site/pods/{name}")


@router.get("/map")
async def pod_map(visit: Visitor, name: str) -> Response:
    """Page with a pod's map; reads the fabric now, for at most as long as its driver waits."""
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}/map")
    found = await run_outside(visit.http, request, lambda: visit.verbs.pods.map(request, name))
    pod = None
    if not found.ports:  # without a fabric the map still has nodes and servers
        again = await visit.caller("GET", f"/v1/pods/{found.id}")
        pod = await run_in_threadpool(visit.verbs.pods.show, again, found.id)
    differ = sum(port.differs for port in found.ports)
    return visit.page("site_map.html", found=found, differ=differ, pod=pod)
