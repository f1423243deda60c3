"""/v1/pods: plan, order, show, release."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi import Request as HttpRequest

from weft.api.asking import (
    Asker,
    Backend,
    Named,
    SmallBody,
    answer,
    body_schema,
    document,
    generation_of,
    may,
    may_with,
    plain_object,
)
from weft.api.documents import AbandonRequest, EventList, ExtendRequest, PodList
from weft.app.orderfile import load_order
from weft.app.verbs import Request
from weft.model.ids import Name as NodeName
from weft.model.ids import is_uuid
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.views import Applied, PodSearch, PodView

LONGEST_WAIT = 30.0
"""Maximum `wait` of a request for events, in seconds."""
WAITERS = 200
"""Requests that may wait at once, in threads of their own; further ones are answered without waiting."""

router = APIRouter(prefix="/v1/pods", tags=["pods"])
_order = body_schema(Order)
_NOBODY: list[str] = []


Remove = Annotated[
    list[NodeName],
    Query(description="Node to remove if the order asks for fewer; repeatable.", max_length=1000),
]
IfMatch = Annotated[
    str | None,
    Header(description="Expected generation of the pod, quoted, as in `ETag`. Default: any."),
]


def _may_apply(request: Asker, verbs: Backend, name: Named) -> Request:
    """By id it is about a pod that is there, by name perhaps about a new one."""
    if is_uuid(name):
        verbs.may(request, "pods:change", name)
    else:
        verbs.may(request, "pods:create")
    return request


@router.post("/plan", response_model=Plan, openapi_extra=_order)
def plan_pod(
    request: Annotated[Request, may("pods:plan")], verbs: Backend, body: SmallBody, remove: Remove = _NOBODY
) -> Response:
    """Plan an order without changing anything; for an existing pod, `change` has the difference."""
    return answer(verbs.plan_pod(request, load_order(plain_object(body)), remove))


@router.put(
    "/{name}",
    response_model=Applied,
    responses={
        202: {"model": Applied, "description": "Created or changed; the work continues in the background"}
    },
    openapi_extra=_order,
)
def apply_pod(
    request: Annotated[Request, Depends(_may_apply)],
    verbs: Backend,
    name: Named,
    body: SmallBody,
    remove: Remove = _NOBODY,
    if_match: IfMatch = None,
) -> Response:
    """Create the pod, or change it to match the order; what already matches is left alone."""
    order = load_order(plain_object(body))
    found = verbs.apply_pod(request, name, order, remove, generation_of(if_match))
    location = f"/v1/pods/{found.pod.id}" if found.outcome == "created" else None
    status = 200 if found.outcome == "unchanged" else 202
    return answer(found, status, location, found.pod.generation)


@router.post("", response_model=PodView, status_code=202, openapi_extra=_order)
def create_pod(request: Annotated[Request, may("pods:create")], verbs: Backend, body: SmallBody) -> Response:
    """Order a pod; creation continues in the background, follow its events."""
    pod = verbs.create_pod(request, load_order(plain_object(body)))
    return answer(pod, 202, f"/v1/pods/{pod.id}")


@router.get("", response_model=PodList)
def list_pods(
    request: Annotated[Request, may("pods:list")], verbs: Backend, search: Annotated[PodSearch, Query()]
) -> Response:
    """Live pods, and those released during the last day, by name, in pages."""
    pods = tuple(verbs.list_pods(request, search))
    return answer(PodList(pods=pods, next=pods[-1].marker if len(pods) == search.limit else None))


@router.get("/{name}", response_model=PodView)
def show_pod(request: Asker, verbs: Backend, name: Named) -> Response:
    """One pod, by name or id."""
    pod = verbs.show_pod(request, name)
    return answer(pod, generation=pod.generation)


@router.get("/{name}/events", response_model=EventList)
async def pod_events(
    request: Annotated[Request, may_with("pods:events")],
    verbs: Backend,
    http: HttpRequest,
    name: Named,
    after: Annotated[
        int, Query(ge=0, le=2**63 - 1, description="Only events with a higher sequence number.")
    ] = 0,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the first event.")
    ] = 0.0,
) -> Response:
    """What happened to a pod."""
    state = http.app.state
    waiters: CapacityLimiter | None = getattr(state, "waiters", None)
    if waiters is None:
        waiters = state.waiters = CapacityLimiter(WAITERS)
    room = wait > 0 and waiters.available_tokens > 0
    ask = partial(verbs.pod_events, request, name, after, wait if room else 0.0)
    events = await anyio.to_thread.run_sync(ask, limiter=waiters if room else None, abandon_on_cancel=True)
    return answer(EventList(events=tuple(events)))


@router.post("/{name}/release", response_model=PodView, status_code=202)
def release_pod(request: Asker, verbs: Backend, name: Named) -> Response:
    """Release a pod; idempotent."""
    return answer(verbs.release_pod(request, name), 202)


@router.post(
    "/{name}/extend", response_model=PodView, status_code=202, openapi_extra=body_schema(ExtendRequest)
)
def extend_pod(
    request: Annotated[Request, may_with("pods:extend")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Extend a pod's lease."""
    return answer(verbs.extend_pod(request, name, document(ExtendRequest, body).until), 202)


@router.post("/{name}/retry", response_model=PodView, status_code=202)
def retry_pod(request: Asker, verbs: Backend, name: Named) -> Response:
    """Resume a FAILED pod where it failed."""
    return answer(verbs.retry_pod(request, name), 202)


@router.post(
    "/{name}/abandon", response_model=PodView, status_code=202, openapi_extra=body_schema(AbandonRequest)
)
def abandon_pod(
    request: Annotated[Request, may_with("pods:abandon")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """End a release that can't finish: the receipt says so and is never clean. For operators."""
    return answer(verbs.abandon_pod(request, name, document(AbandonRequest, body).reason), 202)


@router.get("/{name}/receipt", response_model=SignedReceipt)
def pod_receipt(request: Asker, verbs: Backend, name: Named) -> Response:
    """The signed receipt of a released pod."""
    return answer(verbs.pod_receipt(request, name))
