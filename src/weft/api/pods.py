"""/v1/pods: plan, order, show, release."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool

from weft.api.asking import Asker, Backend, Named, check_parameters, may, may_with, path_name
from weft.api.bodies import SmallBody, answer, body_schema, document, plain_object
from weft.api.conditions import existence_of, generation_of
from weft.api.documents import (
    AbandonRequest,
    ActionRequest,
    ExtendRequest,
    PodList,
    ReplaceRequest,
    ReportRequest,
)
from weft.api.podwaits import Until, Wait, WaitAim, aim_of, when_there
from weft.api.threadshares import outside, run_outside
from weft.api.topology import TOPOLOGY_FORMATS, TOPOLOGY_SCHEMA, UNCHANGED, topology_answer
from weft.app.orderfile import load_order
from weft.app.verbs import Request
from weft.model.errors import InputError, PreconditionError
from weft.model.ids import ServerName
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.receipt import ReceiptKey, SignedReceipt
from weft.model.views import ActionView, Applied, ConsoleView, PodSearch, PodView, ReportView


async def server_name(server: Annotated[str, Path(description="Name of its node, or of the server.")]) -> str:
    """The server in the path. Raises `NotFoundError` for an impossible name."""
    return await path_name(server)


Served = Annotated[str, Depends(server_name)]

router = APIRouter(prefix="/v1/pods", tags=["pods"])
receipts = APIRouter(prefix="/v1", tags=["receipts"])


_order = body_schema(Order)
_NOBODY: list[str] = []


Remove = Annotated[
    list[ServerName],
    Query(
        description="Node to remove if the order asks for fewer, or server on a shared node by name; repeatable.",
        max_length=1000,
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        description="Expected generation of the pod, quoted, as in `ETag`; `*`: only change the pod, never create one. "
        "Default: either."
    ),
]


IfNoneMatch = Annotated[
    str | None, Header(description="`*`: only create the pod, never change one. Default: either.")
]


IdempotencyKey = Annotated[
    str | None,
    Header(
        description="The client's own name for this order, such as a UUID. Sent again with the same order within a "
        "day, it is answered with the same pod. 1 to 255 visible ASCII characters."
    ),
]


def _key_of(text: str | None) -> str:
    """The client's name of an order; empty: none was given. Raises `InputError`."""
    key = "" if text is None else text.strip()
    if text is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise InputError("Idempotency-Key", text, "1 to 255 visible ASCII characters, such as a UUID")
    return key


def _may_apply(http: HttpRequest, request: Asker, verbs: Backend, name: Named) -> Request:
    """Check permission: an id names an existing pod, a name may be a new one's."""
    verbs.pods.may_apply(request, name)
    check_parameters(http)
    return request


def _accepted(pod: PodView) -> Response:
    return answer(pod, 202, generation=pod.generation)


@router.post("/plan", response_model=Plan, openapi_extra=_order)
@outside()
def plan_pod(
    request: Annotated[Request, may("pods:plan")], verbs: Backend, body: SmallBody, remove: Remove = _NOBODY
) -> Response:
    """Plan an order without changing anything; for an existing pod, `change` has the difference."""
    return answer(verbs.pods.plan(request, load_order(plain_object(body)), remove))


@router.put(
    "/{name}",
    response_model=Applied,
    responses={
        202: {"model": Applied, "description": "Created or changed; the work continues in the background"}
    },
    openapi_extra=_order,
)
@outside()
def apply_pod(
    request: Annotated[Request, Depends(_may_apply)],
    verbs: Backend,
    name: Named,
    body: SmallBody,
    remove: Remove = _NOBODY,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Create the pod, or change it to match the order; what already matches is left alone."""
    order = load_order(plain_object(body))
    exists = existence_of("pod", if_match, if_none_match)
    found = verbs.pods.apply(request, name, order, remove, generation_of(if_match), exists)
    location = f"/v1/pods/{found.pod.id}" if found.outcome == "created" else None
    status = 200 if found.outcome == "unchanged" else 202
    return answer(found, status, location, found.pod.generation)


@router.post("", response_model=PodView, status_code=202, openapi_extra=_order)
async def create_pod(
    http: HttpRequest,
    request: Annotated[Request, may("pods:create")],
    verbs: Backend,
    body: SmallBody,
    until: Until = None,
    wait: Wait = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Order a pod; creation continues in the background: follow its events, or wait with `until` and `wait`.

    The pod is ordered even if the client closes the connection while it waits.
    """
    aim, key = aim_of(until, wait), _key_of(idempotency_key)

    def create() -> Response | UUID:
        order = load_order(plain_object(body))
        if aim:
            return UUID(verbs.pods.order(request, order, key))
        pod = verbs.pods.create(request, order, key)
        return answer(pod, 202, f"/v1/pods/{pod.id}", pod.generation)

    made = await run_outside(http, request, create)
    return await when_there(http, request, verbs, made, aim, 202, f"/v1/pods/{made}", done=True)


@router.get("", response_model=PodList)
def list_pods(
    request: Annotated[Request, may("pods:list")], verbs: Backend, search: Annotated[PodSearch, Query()]
) -> Response:
    """Live pods, and those released during the last day, by name, in pages."""
    pods = tuple(verbs.pods.list(request, search))
    return answer(PodList(pods=pods, next=pods[-1].marker if len(pods) == search.limit else None))


@router.get("/{name}", response_model=PodView)
async def show_pod(
    http: HttpRequest, request: Asker, verbs: Backend, name: Named, until: Until = None, wait: Wait = None
) -> Response:
    """One pod, by name or id; with `until` and `wait`, once it is in a state."""
    aim: WaitAim | None = None

    def look() -> Response | UUID:
        """The pod if no wait is needed, else its id."""
        nonlocal aim
        found = name
        if until is not None or wait is not None:
            pod = verbs.pods.find(request, "pods:show", name)
            aim, found = aim_of(until, wait), str(pod.id)
            if aim and not aim.over(pod):
                return pod.id
        shown = verbs.pods.show(request, found)
        check_parameters(http)
        return answer(shown, generation=shown.generation)

    return await when_there(http, request, verbs, await run_in_threadpool(look), aim)


@router.post("/{name}/release", response_model=PodView, status_code=202)
async def release_pod(
    http: HttpRequest,
    request: Asker,
    verbs: Backend,
    name: Named,
    until: Until = None,
    wait: Wait = None,
    if_match: IfMatch = None,
) -> Response:
    """Release a pod; idempotent. With `until=RELEASED` and `wait`, the answer comes once its receipt exists."""
    aim: WaitAim | None = None
    generation: int | None = None

    def release() -> Response | UUID:
        nonlocal aim, generation
        try:
            aim, generation = aim_of(until, wait), generation_of(if_match)
            check_parameters(http)
        except (InputError, PreconditionError):
            verbs.permissions.check(
                request, "pods:release", name
            )  # errors are shown only to callers who may release it
            raise
        if aim:
            return UUID(verbs.pods.begin_release(request, name, generation))
        return _accepted(verbs.pods.release(request, name, generation))

    return await when_there(http, request, verbs, await run_in_threadpool(release), aim, 202, done=True)


@router.post(
    "/{name}/extend", response_model=PodView, status_code=202, openapi_extra=body_schema(ExtendRequest)
)
def extend_pod(
    request: Annotated[Request, may_with("pods:extend")],
    verbs: Backend,
    name: Named,
    body: SmallBody,
    if_match: IfMatch = None,
) -> Response:
    """Extend a pod's lease."""
    until, generation = document(ExtendRequest, body).until, generation_of(if_match)
    return _accepted(verbs.pods.extend(request, name, until, generation))


@router.post(
    "/{name}/replace", response_model=Applied, status_code=202, openapi_extra=body_schema(ReplaceRequest)
)
@outside()
def replace_node(
    request: Annotated[Request, may_with("pods:replace")],
    verbs: Backend,
    name: Named,
    body: SmallBody,
    if_match: IfMatch = None,
) -> Response:
    """Replace a node by the pod's spare, or by the nearest free node; the other servers go on."""
    asked = document(ReplaceRequest, body).asked
    found = verbs.pods.replace_node(request, name, asked, generation_of(if_match))
    return answer(found, 202, generation=found.pod.generation)


@router.post("/{name}/report", response_model=ReportView, openapi_extra=body_schema(ReportRequest))
def report_node(
    request: Annotated[Request, may_with("pods:report")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Report a node as faulty: the project's next orders avoid it until an operator clears the report."""
    asked = document(ReportRequest, body)
    return answer(verbs.pods.report_node(request, name, asked.node, asked.reason))


@router.post("/{name}/replace/plan", response_model=Plan, openapi_extra=body_schema(ReplaceRequest))
@outside()
def plan_replacement(
    request: Annotated[Request, may_with("pods:plan")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Plan the replacement of a node without changing anything; `change` has the difference."""
    return answer(verbs.pods.plan_replacement(request, name, document(ReplaceRequest, body).asked))


@router.post("/{name}/retry", response_model=PodView, status_code=202)
def retry_pod(request: Annotated[Request, may_with("pods:retry")], verbs: Backend, name: Named) -> Response:
    """Resume a FAILED pod where it failed."""
    return _accepted(verbs.pods.retry(request, name))


@router.post(
    "/{name}/abandon", response_model=PodView, status_code=202, openapi_extra=body_schema(AbandonRequest)
)
def abandon_pod(
    request: Annotated[Request, may_with("pods:abandon")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """End a release that can't finish: the receipt says so and is never clean. For operators."""
    return _accepted(verbs.pods.abandon(request, name, document(AbandonRequest, body).reason))


@router.post(
    "/{name}/servers/{server}/action",
    response_model=ActionView,
    status_code=202,
    openapi_extra=body_schema(ActionRequest),
)
@outside()
def act_on_server(
    request: Annotated[Request, may_with("pods:operate")],
    verbs: Backend,
    name: Named,
    server: Served,
    body: SmallBody,
) -> Response:
    """Reboot a server, or boot it into a rescue system."""
    return answer(verbs.pods.act_on_server(request, name, server, document(ActionRequest, body).action), 202)


@router.post("/{name}/servers/{server}/console", response_model=ConsoleView)
@outside()
def pod_console(
    request: Annotated[Request, may_with("pods:console")], verbs: Backend, name: Named, server: Served
) -> Response:
    """A console of a server: serial for bare metal, graphical for virtual machines."""
    return answer(verbs.pods.console(request, name, server))


@router.get("/{name}/topology", response_class=Response, responses={200: TOPOLOGY_SCHEMA, 304: UNCHANGED})
def pod_topology(
    request: Annotated[Request, may_with("pods:topology")],
    verbs: Backend,
    name: Named,
    format_: Annotated[str, Query(alias="format", max_length=40, description=TOPOLOGY_FORMATS)] = "json",
    if_none_match: Annotated[str | None, Header(description="`ETag` of an earlier answer.")] = None,
) -> Response:
    """The places of a pod's servers as a file for Slurm, Kubernetes, MPI, NCCL and others."""
    return topology_answer(verbs.pods.topology(request, name, format_), if_none_match)


@router.get("/{name}/receipt", response_model=SignedReceipt)
def pod_receipt(
    request: Annotated[Request, may_with("pods:receipt")], verbs: Backend, name: Named
) -> Response:
    """The signed receipt of a released pod."""
    return answer(verbs.pods.receipt(request, name))


@receipts.get("/receipt-key", response_model=ReceiptKey)
def receipt_key(request: Annotated[Request, may("receipts:key")], verbs: Backend) -> Response:
    """The public key that this site's receipts are signed with."""
    return answer(verbs.receipt_key(request))
