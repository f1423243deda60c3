"""Draining nodes, racks and leaves: first a form, then what it concerns and breaks, then the drain."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.app.explain import validate
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.model.errors import ConflictError, InputError
from weft.model.messages import maintenance
from weft.model.views import DrainRequest, DrainResult, DrainView
from weft.web.confirming import (
    AskedField,
    Confirmation,
    check_unchanged,
    confirmation,
    print_of,
    require,
)
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site")
Target = Annotated[str, Query(max_length=255)]
SHOWN = 50
"""Names that a page shows; the rest are counted."""
_STOPS = "/site/stops"


@router.get("/drain")
async def drain_page(visit: Visitor, target: Target = "") -> Response:
    """Form for what is to be drained, by when, and why."""
    require(visit, await visit.caller("POST", "/v1/drains"), "nodes:drain")
    does = (
        "The nodes get no new orders from now on. Pods there stay until the time by which they should be empty.",
        "Nothing is drained yet: the next page says which nodes, pods and promises it concerns.",
    )
    return confirmation(
        visit, Confirmation("Drain nodes", "/site/drain/plan", _STOPS, "Continue", does, (), _fields(target))
    )


def _fields(target: str) -> tuple[AskedField, ...]:
    return (
        AskedField(
            "target", "Node, rack or leaf; node:, rack: or leaf: before a name of several", 255, True, target
        ),
        AskedField("by", "When they should be empty, such as 2027-01-31T18:00Z; may be empty", 40, False),
        AskedField(
            "wait",
            "Leave pods there alone at that time: nothing is replaced or released",
            3,
            value="no",
            choices=("no", "yes"),
        ),
        AskedField("reason", "Reason, for operators; may be empty", 500, False),
        AskedField("public", "What the projects with pods there read; may be empty", 200, False),
    )


@router.post("/drain/plan")
async def plan(visit: Visitor) -> Response:
    """Page that shows which nodes, pods and promises the drain concerns."""
    form = await visit.form(lambda: drain_page(visit))
    wanted = _wanted(form)
    request = await visit.caller("POST", "/v1/drains")
    require(visit, request, "nodes:drain")
    found = await _planned(visit, request, wanted)
    does = (
        f"{_named(list(found.nodes))}: no new orders from now on. {_released(found)}",
        *([f"To be empty by {wanted.by.isoformat()}: {_then(wanted)}"] if wanted.by else []),
        *([f"Reason, for operators: {wanted.reason}"] if wanted.reason else []),
        *([f"Projects with pods there read: {wanted.public}"] if wanted.public else []),
        *(
            f"Pod {one.pod} of project {one.project_id} has {_named(list(one.nodes))}{one.then and f'; {one.then}'}."
            for one in found.pods[:SHOWN]
        ),
        *([f"{len(found.pods) - SHOWN} further pods have some of them."] if len(found.pods) > SHOWN else []),
        *([] if found.pods else ["No pod is on them."]),
    )
    warnings = tuple(f"Will be broken: {one}" for one in found.broken)
    hidden = {name: form.get(name, "").strip() for name in ("target", "by", "wait", "reason", "public")}
    hidden["seen"] = print_of(found)
    title = f"Drain {wanted.target}"
    button = "Drain, and break these promises" if found.broken else "Drain"
    return confirmation(visit, Confirmation(title, "/site/drain", _STOPS, button, does, warnings, (), hidden))


@router.post("/drain")
async def drain(visit: Visitor) -> Response:
    """Drain what was planned, if it still concerns and breaks what the page showed."""
    form = await visit.form(lambda: drain_page(visit))
    wanted = _wanted(form)
    request = await visit.caller("POST", "/v1/drains")
    require(visit, request, "nodes:drain")
    found = await _planned(visit, request, wanted)
    check_unchanged(form, print_of(found), f"what a drain of {wanted.target} concerns")
    wanted = wanted.model_copy(update={"break_promises": bool(found.broken)})
    await run_in_threadpool(visit.verbs.nodes.drain, request, wanted)
    return visit.to(_STOPS)


@router.get("/undrain")
async def undrain_page(visit: Visitor, target: Target) -> Response:
    """Page that says what ending a drain does."""
    request = await visit.caller("DELETE", f"/v1/drains/{target}")
    require(visit, request, "nodes:drain")
    drains = await _drains_of(visit, target)
    more = f"{len(drains) - SHOWN} further nodes are drained there."
    does = (
        *(
            f"{one.node}, drained by {one.drained_by}: {one.reason or one.public or 'no reason was given'}."
            for one in drains[:SHOWN]
        ),
        *([more] if len(drains) > SHOWN else []),
        "New orders may get these nodes again, unless holds, quarantine or pods keep them.",
        "Projects with pods there read that the maintenance is over.",
    )
    hidden = {"target": target, "seen": print_of(*drains)}
    return confirmation(
        visit,
        Confirmation(
            f"End the drain of {target}", "/site/undrain", _STOPS, "End the drain", does, (), (), hidden
        ),
    )


@router.post("/undrain")
async def undrain(visit: Visitor) -> Response:
    """End the drain."""
    form = await visit.form()
    target = form.get("target", "")
    if not 1 <= len(target) <= 255:
        raise InputError("target", target[:64], "a node, rack or leaf")
    drains = await _drains_of(visit, target)
    check_unchanged(form, print_of(*drains), f"the drain of {target}")
    newest = max(one.revision for one in drains)
    request = await visit.caller("DELETE", f"/v1/drains/{target}")
    await run_in_threadpool(visit.verbs.nodes.undrain, request, target, newest)
    return visit.to(_STOPS)


async def _drains_of(visit: Visit, target: str) -> list[DrainView]:
    """The drains that end with the one of this node, rack or leaf. Raises `ConflictError` if there is none."""
    request = await visit.caller("GET", "/v1/drains")
    drains = await run_in_threadpool(visit.verbs.nodes.drains, request)
    found = [one for one in drains if one.node == target]  # also one that left the site
    if not found:
        place = validate(DrainRequest, {"target": target}, Positions())
        nodes = frozenset((await _planned(visit, request, place)).nodes)
        found = [one for one in drains if one.node in nodes]
    if not found:
        raise ConflictError(f"no node of {target} is drained")
    return found


def _wanted(form: dict[str, str]) -> DrainRequest:
    given: dict[str, Any] = {name: form.get(name, "").strip() for name in ("target", "reason", "public")}
    wait = form.get("wait") or "no"
    if wait not in ("no", "yes"):
        raise InputError("wait", wait[:64], "yes or no")
    given |= {"by": form.get("by", "").strip() or None, "wait": wait == "yes"}
    return validate(DrainRequest, given, Positions())


def _then(wanted: DrainRequest) -> str:
    if wanted.wait:
        return "pods that are still there are left alone, and an alarm names them."
    return (
        "then weft releases pods with on_drain: release, and replaces them in pods with on_failure: replace."
    )


def _released(found: DrainResult) -> str:
    names = [one.pod for one in found.pods if one.code == maintenance.DRAIN_RELEASES.name]
    if not names:
        return "Nothing is released by itself."
    return (
        f"{len(names)} {'pod is' if len(names) == 1 else 'pods are'} released at the time: {_named(names)}."
    )


async def _planned(visit: Visit, request: Request, wanted: DrainRequest) -> DrainResult:
    asked = wanted.model_copy(update={"plan": True})
    return await run_in_threadpool(visit.verbs.nodes.drain, request, asked)


def _named(names: list[str]) -> str:
    more = f", and {len(names) - SHOWN} others" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
