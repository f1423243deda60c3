"""What the site needs in its clouds: planned, applied, and the way out of a removal that can't finish."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.documents import AbandonRequest
from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import ConflictError, InputError, NotFoundError
from weft.model.pod import PodState
from weft.model.siteplan import SitePlan, SiteStep
from weft.model.views import SiteResources
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.listing import After, part_of
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/resources")
SHOWN = 200
"""Resources and newest events on a page."""


@router.get("")
async def resources(visit: Visitor, after: After = None) -> Response:
    """State, resources and events of what was applied last."""
    try:
        found = await _resources(visit)
    except NotFoundError as none:
        return visit.page("site_resources.html", found=None, unread=str(none), may=visit.allowed)
    request = await visit.caller("GET", "/v1/site/events")
    _, events = await run_in_threadpool(visit.verbs.site.events, request)
    return visit.page(
        "site_resources.html",
        found=found,
        unread="",
        **part_of(found.resources, lambda one: (one.key,), after, SHOWN),
        events=events[::-1][:SHOWN],
        may=visit.allowed,
        stuck=found.state is PodState.RELEASING and "site:destroy" in visit.allowed,
    )


@router.get("/plan")
async def plan_page(visit: Visitor, adopt: Annotated[bool, Query()] = False) -> Response:
    """Page of what the active site needs in its clouds and lacks, with the form that applies exactly that."""
    plan = await _plan(visit, adopt)
    steps = [f"{one.action} {one.kind} {one.name} in {one.where}{_more(one)}" for one in plan.steps]
    does = (
        f"Site {plan.site}, generation {plan.generation}, needs {plan.resources} resources in its clouds.",
        *(steps[:SHOWN] or ["Nothing differs from what is there."]),
        *((f"and {len(steps) - SHOWN} further steps: weft site plan",) if len(steps) > SHOWN else ()),
        *(f"Note: {note}" for note in plan.notes),
    )
    blocked = [f"In the way: {one.what}" for one in plan.conflicts]
    further = len(blocked) - SHOWN
    warnings = (*blocked[:SHOWN], *((f"{further} further things are in the way",) if further > 0 else ()))
    may = "site:apply" in visit.allowed
    if plan.nothing or blocked:
        does = (*does, "Nothing is applied while something is in the way." if blocked else "")
    elif may:
        does = (*does, "It is applied in the background; the page of resources shows how far it is.")
    title = f"Plan of site {plan.site}" + (", adopting what is there" if adopt else "")
    hidden = {"seen": print_of(plan), "adopt": "true" if adopt else ""}
    return confirmation(
        visit,
        Confirmation(
            title,
            "/site/resources/apply",
            "/site/resources",
            "Apply",
            tuple(line for line in does if line),
            warnings,
            (),
            hidden,
            possible=may and not blocked,
        ),
    )


@router.post("/apply")
async def apply(visit: Visitor) -> Response:
    """Apply the plan, if it is still the one that was shown."""
    form = await visit.form()
    request = await visit.caller("POST", "/v1/site/apply")
    await run_in_threadpool(visit.verbs.permissions.check, request, "site:apply")
    adopt = form.get("adopt") == "true"

    def check(plan: SitePlan) -> None:
        check_unchanged(form, print_of(plan), f"the plan of site {plan.site}")

    await run_outside(visit.http, request, lambda: visit.verbs.site.apply(request, adopt, check), None)
    return visit.to("/site/resources")


def _more(step: SiteStep) -> str:
    """Details behind a step's name: what it is, and the fields that differ."""
    fields = "; ".join(f"{one.field}: {one.was} → {one.becomes}" for one in step.fields[:5])
    said = ", ".join(text for text in (step.what, fields) if text)
    return f": {said}" if said else ""


async def _plan(visit: Visit, adopt: bool) -> SitePlan:
    request = await visit.caller("GET", "/v1/site/plan")
    return await run_outside(visit.http, request, lambda: visit.verbs.site.plan(request, adopt), None)


@router.get("/abandon")
async def abandon_page(visit: Visitor) -> Response:
    """Page that says what abandoning the removal means."""
    found = await _resources(visit)
    require(visit, await visit.caller("POST", "/v1/site/abandon"), "site:destroy")
    if found.state is not PodState.RELEASING:
        raise ConflictError(
            f"what was applied of site {found.site} is {found.state}: nothing is being removed"
        )
    left = [f"{one.kind} {one.name}" for one in found.resources if one.state not in ("absent", "wanted")]
    does = (
        f"The removal can't finish: {found.reason}",
        "It ends as it is; its receipt is clean only if it did finish after all.",
        "What remains in the clouds is no longer weft's: remove it there.",
    )
    more = f", and {len(left) - 30} others" if len(left) > 30 else ""
    warnings = (f"Not seen gone: {', '.join(left[:30])}{more}",) if left else ()
    asked = (
        AskedField("reason", "Reason", 500),
        AskedField("name", "Type the site's name to confirm", 255, confirms=True),
    )
    title = f"Abandon the removal of site {found.site}'s resources"
    return confirmation(
        visit,
        Confirmation(
            title,
            "/site/resources/abandon",
            "/site/resources",
            "Abandon the removal",
            does,
            warnings,
            asked,
            {"seen": _seen(found)},
        ),
    )


@router.post("/abandon")
async def abandon(visit: Visitor) -> Response:
    """Abandon the removal."""
    form = await visit.form(lambda: abandon_page(visit))
    request = await visit.caller("POST", "/v1/site/abandon")
    await run_in_threadpool(visit.verbs.permissions.check, request, "site:destroy")
    found = await _resources(visit)
    check_unchanged(form, _seen(found), f"what was applied of site {found.site}")
    if form.get("name", "").strip() != found.site:
        raise InputError("name", form.get("name", "")[:64], f"{found.site}, to confirm")
    given = validate(AbandonRequest, {"reason": form.get("reason", "").strip()}, Positions())
    await run_in_threadpool(visit.verbs.site.abandon, request, given.reason)
    return visit.to("/site/resources")


async def _resources(visit: Visit) -> SiteResources:
    request = await visit.caller("GET", "/v1/site/resources")
    return await run_in_threadpool(visit.verbs.site.resources, request)


def _seen(found: SiteResources) -> str:
    return print_of(found.id, found.state, found.since.isoformat())
