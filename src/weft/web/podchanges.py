"""Changing a pod: its order as a form and as YAML, what a changed order would make different, and the change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from weft.api.threadshares import run_outside
from weft.app.orderfile import load_order
from weft.app.shown import shown
from weft.generate.planpicture import plan_picture
from weft.model.change import PodChange
from weft.model.errors import ConflictError, ForbiddenError, InputError, RefusedError, WeftError
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import Phase
from weft.model.views import PodView
from weft.web import orderforms
from weft.web.changes import pod_of
from weft.web.confirming import print_of
from weft.web.orders import Answered, refused
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/pods/{name}/change")
MOST_NAMES = 4000
"""Most characters of the field with the nodes that are removed."""


@router.get("")
async def change_page(visit: Visitor, name: str, draft: Annotated[bool, Query()] = False) -> Response:
    """The pod's order, to be changed; with `draft` the text that was sent when the session before had ended."""
    pod = await _pod(visit, name)
    text = visit.session.contents.draft if draft else ""
    if not text:
        document = orderforms.document_of(pod.order)
        return _page(visit, pod, orderforms.written(document), document, None)
    try:
        document = await run_in_threadpool(orderforms.read, text)
    except InputError as error:
        return _page(visit, pod, text, {}, refused(error, {}))
    return _page(visit, pod, text, document, None)


@router.post("")
async def change(visit: Visitor, name: str) -> Response:
    """Plan what the form says, or apply what was planned. By `do`: plan (the fields), plan-yaml (the text), apply."""
    form = await visit.form()
    do, text = form.get("do", "plan"), form.get("yaml", "")
    visit.http.state.draft = text
    pod = await _pod(visit, name)
    if do not in ("plan", "plan-yaml", "apply"):
        raise HTTPException(400, "unknown action")
    remove = form.get("remove", "")
    if len(remove) > MOST_NAMES:
        raise InputError("remove", remove[:64], f"at most {MOST_NAMES} characters")
    try:
        document = await run_in_threadpool(orderforms.read, text)
    except InputError as error:
        status = 400 if do == "apply" else 200
        return _page(visit, pod, text, {}, refused(error, {}), remove, status)
    if do == "plan":
        document = orderforms.filled(document, form)
        text = orderforms.written(document)
    if do == "apply":
        return await _apply(visit, pod, form, text, document)
    request = await visit.caller("POST", "/v1/pods/plan")

    def plan() -> Answered:
        try:
            plan = visit.verbs.pods.plan(request, _order(pod, text), remove.split())
            return Answered(plan, plan_picture(plan.placement, _difference(plan).nodes_added))
        except WeftError as error:
            return refused(error, document)

    return _page(visit, pod, text, document, await run_outside(visit.http, request, plan), remove)


async def _apply(
    visit: Visit, pod: PodView, form: dict[str, str], text: str, document: dict[str, Any]
) -> Response:
    """Apply the order, if it makes the difference that was shown, to the same generation."""
    remove = form.get("remove", "").split()
    request = await visit.caller("PUT", f"/v1/pods/{pod.id}")

    other = ConflictError(
        "it would change something else now: plan it again; if the plan stays the same, one of its nodes is in use, "
        "which plans know after some minutes. Nothing was changed"
    )
    differs = False

    def agreed(change: PodChange) -> None:
        nonlocal differs
        if form.get("change") != _seen(pod, change):
            differs = True
            raise other

    def work() -> Answered | None:
        order = _order(pod, text)
        try:
            visit.verbs.pods.apply(request, pod.id, order, remove, pod.generation, exists=True, agreed=agreed)
        except (InputError, RefusedError) as error:
            return refused(error, document)
        except ConflictError as error:
            raise (
                other if differs else error
            ) from None  # tenants aren't shown the sentence of an internal conflict
        return None

    answered = await run_outside(visit.http, request, work)
    if answered is not None:
        return _page(visit, pod, text, document, answered, " ".join(remove), answered.status)
    return visit.to(f"/pods/{pod.id}")


async def _pod(visit: Visit, name: str) -> PodView:
    """The pod, for those who may change it."""
    pod = await pod_of(visit, name)
    request = await visit.caller("GET", f"/v1/pods/{pod.id}")
    if not await run_in_threadpool(
        visit.verbs.permissions.allowed, request, ("pods:change",), pod.project_id
    ):
        raise ForbiddenError(f"{request.caller.user_name} may not do pods:change with pod {pod.name}")
    if pod.phase in (Phase.RELEASING, Phase.RELEASED):
        raise ConflictError(f"pod {pod.name} is {pod.state}: its order can't be changed any more")
    if pod.project_id != request.caller.project_id:  # plans are made for the caller's own project
        raise ConflictError(
            f"pod {pod.name} belongs to project {pod.project_id}: choose that project to change it here, "
            "or use weft pod apply"
        )
    return pod


def _order(pod: PodView, text: str) -> Order:
    """The order in a text. Raises `InputError` for one with another name, which may be that of another pod."""
    order = load_order(text, orderforms.NAME)
    if order.name != pod.name:
        raise InputError("name", order.name, f"{pod.name}: a pod's name can't be changed")
    return order


def _difference(plan: Plan) -> PodChange:
    if plan.change is None:
        raise ConflictError("the plan is one of a new pod: this one was released meanwhile")
    return plan.change


def _seen(pod: PodView, change: PodChange) -> str:
    """Print of a difference: its fields and nodes, which everyone is shown and the rest follows from. A waiting order's
    nodes don't count: they are chosen once it starts."""
    said = PodChange(generation=change.generation, fields=shown(change.fields))
    if pod.placed:
        nodes = {"nodes_added": change.nodes_added, "nodes_removed": change.nodes_removed}
        said = said.model_copy(update={**nodes, "spares_used": change.spares_used})
    return print_of(said)


def _page(
    visit: Visit,
    pod: PodView,
    text: str,
    document: dict[str, Any],
    answered: Answered | None,
    remove: str = "",
    status: int = 200,
) -> Response:
    difference = answered.plan.change if answered is not None and answered.plan is not None else None
    return visit.page(
        "change.html",
        status,
        pod=pod,
        fields=orderforms.FIELDS,
        given=orderforms.values(document),
        storage=orderforms.storage_rows(document),
        storage_fields=orderforms.STORAGE,
        yaml=text,
        remove=remove,
        answered=answered,
        difference=difference,
        seen=_seen(pod, difference) if difference is not None else "",
    )
