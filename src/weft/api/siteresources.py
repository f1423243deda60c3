"""What the site needs in its clouds: plan, apply, destroy."""

from __future__ import annotations

from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool

from weft.api.asking import Backend, asker_again, may
from weft.api.bodies import SmallBody, answer, body_schema, document
from weft.api.documents import AbandonRequest, ApplySiteRequest, EventList, SiteResourcesPage
from weft.api.paging import PageOf, paged
from weft.api.threadshares import outside
from weft.api.waiting import GATHER, LONGEST_WAIT, room_of
from weft.app.verbs import Request
from weft.model.receipt import SignedReceipt
from weft.model.siteplan import SitePlan
from weft.model.views import SiteResources

router = APIRouter(prefix="/v1/site", tags=["operator"])


@router.get("/plan", response_model=SitePlan)
@outside(None)
def plan_site(
    request: Annotated[Request, may("site:plan")],
    verbs: Backend,
    adopt: Annotated[
        bool, Query(description="Adopt existing resources, matched by VLAN, CIDR, MAC address or name.")
    ] = False,
) -> Response:
    """Compare what the active site needs in its clouds with what is there; changes nothing."""
    return answer(verbs.site.plan(request, adopt))


@router.post("/apply", response_model=SitePlan, status_code=202, openapi_extra=body_schema(ApplySiteRequest))
@outside(None)
def apply_site(request: Annotated[Request, may("site:apply")], verbs: Backend, body: SmallBody) -> Response:
    """Apply what the active site needs, in the background. The answer is the plan; 409 if something prevents it."""
    return answer(verbs.site.apply(request, document(ApplySiteRequest, body).adopt), 202)


@router.get("/resources", response_model=SiteResourcesPage)
def site_resources(
    request: Annotated[Request, may("site:plan")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """What was last applied, and its state; the resources by key, in pages."""
    found = verbs.site.resources(request)
    return answer(paged(SiteResourcesPage, found, "resources", lambda one: (one.key,), wanted))


@router.get("/events", response_model=EventList)
async def site_events(
    http: HttpRequest,
    request: Annotated[Request, may("site:plan")],
    verbs: Backend,
    after: Annotated[int, Query(ge=0, description="Only events with a higher sequence number.")] = 0,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the first.")] = 0.0,
) -> Response:
    """What happened to the site's resources; with `wait`, once there is an event after `after`."""
    ends = anyio.current_time() + wait
    owner, found = await run_in_threadpool(verbs.site.events, request, after)
    if wait and not found:
        await room_of(http).wait(http, verbs, owner, lambda now: now.last_event > after, wait)
        await anyio.sleep(max(0.0, min(GATHER, ends - anyio.current_time())))
        request = await asker_again(http, request)
        _, found = await run_in_threadpool(verbs.site.events, request, after)
    return answer(EventList.of(found))


@router.post("/destroy", response_model=SiteResources, status_code=202)
@outside(None)
def destroy_site(request: Annotated[Request, may("site:destroy")], verbs: Backend) -> Response:
    """Remove everything that was applied, in the background; ends with a signed receipt."""
    return answer(verbs.site.destroy(request), 202)


@router.post(
    "/abandon", response_model=SiteResources, status_code=202, openapi_extra=body_schema(AbandonRequest)
)
def abandon_site(
    request: Annotated[Request, may("site:destroy")], verbs: Backend, body: SmallBody
) -> Response:
    """End a removal that can't finish; its receipt is clean only if it did finish after all."""
    return answer(verbs.site.abandon(request, document(AbandonRequest, body).reason), 202)


@router.get("/receipt", response_model=SignedReceipt)
def site_receipt(request: Annotated[Request, may("site:plan")], verbs: Backend) -> Response:
    """The signed receipt of what was last destroyed."""
    return answer(verbs.site.receipt(request))
