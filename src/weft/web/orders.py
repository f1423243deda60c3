"""Ordering a pod: a form, the plan beside it, and refusals with what would fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from weft.api.threadshares import run_outside
from weft.app.orderfile import load_order
from weft.app.verbs import Request
from weft.generate.planpicture import plan_picture
from weft.model.errors import InputError, InputErrors, RefusedError, WeftError
from weft.model.errortable import row_of
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.planning.shapes.plantext import counts, notes
from weft.planning.shapes.resolve import shape_of
from weft.web import orderforms
from weft.web.visits import Visit, Visitor

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Answered:
    """What planning an order says: a plan, or why there is none.

    Attributes:
        picture: its nodes, as an element of the page.
        made: what would be created, as words; notes: what to know before ordering it, one sentence each.
        lines: of the error; code: of it.
        offers: sentence, and YAML of the order with the offer; empty YAML if it isn't a change of the order.
    """

    plan: Plan | None = None
    picture: str = ""
    made: str = ""
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    code: str = ""
    refusal: Refusal | None = None
    offers: tuple[tuple[str, str], ...] = ()
    status: int = 200


@router.get("/order")
async def order_page(visit: Visitor, draft: Annotated[bool, Query()] = False) -> Response:
    """An empty form; with `draft` the text that was sent when the session before had ended."""
    await visit.caller(
        "POST", "/v1/pods/plan"
    )  # for the menu; those who may not ask this have no use for the form
    text = visit.session.contents.draft if draft else ""
    if not text:
        return _page(visit, orderforms.EXAMPLE, {}, None)
    try:
        document = await run_in_threadpool(orderforms.read, text)
    except InputError as error:
        return _page(visit, text, {}, refused(error, {}))
    return _page(visit, text, document, None)


@router.get("/order/names")
async def order_names(visit: Visitor) -> Response:
    """Flavors and images that the project may use, as lists for the form's fields; asked for once the page is there."""
    request = await visit.caller("POST", "/v1/pods/plan")
    names = await run_outside(visit.http, request, lambda: visit.verbs.pods.order_names(request))
    return visit.page("order_names.html", names=names)


@router.post("/order")
async def order(visit: Visitor) -> Response:
    """Plan what the form says, or order what was planned. By `do`: plan (the fields), plan-yaml (the text), order."""
    form = await visit.form()
    do, text = form.get("do", "plan"), form.get("yaml", "")
    visit.http.state.draft = (
        text  # if Keystone says that the token has ended, it is kept for the next session
    )
    if do not in ("plan", "plan-yaml", "order"):
        raise HTTPException(400, "unknown action")
    request = await visit.caller("POST", "/v1/pods" if do == "order" else "/v1/pods/plan")
    try:
        document = await run_in_threadpool(orderforms.read, text)
    except InputError as error:
        return _page(visit, text, {}, refused(error, {}))
    if do == "plan":
        document = orderforms.filled(document, form)
        text = orderforms.written(document)
    if do == "order":
        return await _order(visit, request, text, document)
    answered = await run_outside(visit.http, request, lambda: _plan(visit, request, text, document))
    return _page(visit, text, document, answered)


async def _order(visit: Visit, request: Request, text: str, document: dict[str, Any]) -> Response:
    def create() -> str | Answered:
        try:
            return visit.verbs.pods.order(request, load_order(text, orderforms.NAME))
        except (InputError, RefusedError) as error:
            return refused(error, document)

    made = await run_outside(visit.http, request, create)
    if isinstance(made, Answered):
        return _page(visit, text, document, made, made.status)
    return visit.to(f"/pods/{made}")


def _plan(visit: Visit, request: Request, text: str, document: dict[str, Any]) -> Answered:
    try:
        plan = visit.verbs.pods.plan(request, load_order(text, orderforms.NAME))
    except WeftError as error:
        return refused(error, document)
    limits = " ".join(line.strip() for line in shape_of(plan.order).limits(plan))  # wrapped for terminals
    said = (*plan.limits, *([limits] if limits else ()), *notes(plan))
    return Answered(plan, plan_picture(plan.placement), counts(plan.graph.resources), said)


def refused(error: WeftError, document: dict[str, Any]) -> Answered:
    """Why an order can't be served, with the offers that would change that.

    Args:
        document: the order; empty if it couldn't be read.
    """
    several = error.errors if isinstance(error, InputErrors) else [error]
    refusal = error.refusal if isinstance(error, RefusedError) else None
    offers = [
        (offer.message, orderforms.applied(document, offer) if orderforms.applicable(offer) else "")
        for offer in (refusal.would_fit if refusal else ())
    ]
    return Answered(
        lines=tuple(str(one) for one in several[:20]),
        code=error.message.code,
        refusal=refusal,
        offers=tuple(offers),
        status=row_of(error).status,
    )


def _page(
    visit: Visit, text: str, document: dict[str, Any], answered: Answered | None, status: int = 200
) -> Response:
    given = orderforms.values(document)
    return visit.page(
        "order.html",
        status,
        fields=orderforms.FIELDS,
        given=given,
        storage=orderforms.storage_rows(document),
        storage_fields=orderforms.STORAGE,
        yaml=text,
        answered=answered,
    )
