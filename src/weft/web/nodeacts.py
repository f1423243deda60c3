"""What operators do about a node, each after a page that says what it will do: hold, accept, quarantine, clear it or
its reports, forget or judge its checks."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, get_args
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.documents import HoldRequest, QuarantineRequest
from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import ConflictError, ForbiddenError, InputError
from weft.model.hostchecks import Judged
from weft.model.views import CheckJudgement, DrainRequest, NodeView
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.nodes import node_of
from weft.web.sitenav import node_path
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/nodes/{name}")
What = Annotated[str, Query(max_length=200)]
Project = Annotated[str, Query(max_length=64)]
Check = Annotated[str, Query(max_length=80)]
PRINTABLE_200 = r"[^\x00-\x1f\x7f-\x9f]{1,200}"
_WITHOUT = AskedField(
    "without_test", "Why it is accepted without these tests; empty: they must pass first", 200, False
)
NO_ORDERS = "It gets no new orders from now on"


@router.get("/hold")
async def hold_page(visit: Visitor, name: str) -> Response:
    """Page that says what a hold does."""
    node = await _node(visit, name, "nodes:hold")
    does = (f"{NO_ORDERS}, until an operator accepts it for what it is held for.", *_pods_stay(node))
    asked = (AskedField("what", "What it must be accepted for, such as burn-in", 200),)
    return await _page(visit, node, "hold", f"Hold {name}", does, asked, await _promises(visit, node))


@router.post("/hold")
async def hold(visit: Visitor, name: str) -> Response:
    """Hold the node."""
    form = await _form(visit, name, lambda: hold_page(visit, name), breaks=True)
    what = validate(HoldRequest, {"what": form.get("what", "").strip()}, Positions()).what
    request = await visit.caller("PUT", f"/v1/nodes/{name}/hold")
    await run_in_threadpool(visit.verbs.nodes.hold, request, name, what)
    return _back(visit, name)


@router.get("/quarantine")
async def quarantine_page(visit: Visitor, name: str) -> Response:
    """Page that says what a quarantine does."""
    node = await _node(visit, name, "nodes:quarantine")
    does = (
        f"{NO_ORDERS}, until an operator clears it.",
        "The reason is shown wherever the node is refused.",
        *_pods_stay(node),
    )
    asked = (AskedField("reason", "Why it is taken out of service", 500),)
    return await _page(
        visit, node, "quarantine", f"Quarantine {name}", does, asked, await _promises(visit, node)
    )


@router.post("/quarantine")
async def quarantine(visit: Visitor, name: str) -> Response:
    """Quarantine the node."""
    form = await _form(visit, name, lambda: quarantine_page(visit, name), breaks=True)
    given = validate(QuarantineRequest, {"reason": form.get("reason", "").strip()}, Positions())
    request = await visit.caller("PUT", f"/v1/nodes/{name}/quarantine")
    await run_in_threadpool(visit.verbs.nodes.quarantine, request, name, given.reason)
    return _back(visit, name)


@router.get("/clear")
async def clear_page(visit: Visitor, name: str) -> Response:
    """Page that says what clearing a quarantine does, and why the node is in it."""
    node = await _node(visit, name, "nodes:quarantine")
    if node.state != "quarantined":
        raise ConflictError(f"node {name} is not in quarantine")
    does = (
        f"It is in quarantine: {node.reason}",
        "weft takes the operator's word that the cause is gone; it tests nothing now.",
        _afterwards(node, ()),
    )
    return await _page(visit, node, "clear", f"Clear the quarantine of {name}", does, why=node.reason)


@router.post("/clear")
async def clear(visit: Visitor, name: str) -> Response:
    """Clear the quarantine, if its causes are still those that were shown: another owner's is appended to the first."""
    node = await node_of(visit, name)
    await _form(visit, name, why=True)
    request = await visit.caller("DELETE", f"/v1/nodes/{name}/quarantine")
    await run_in_threadpool(visit.verbs.nodes.clear, request, name, node.quarantine_revision)
    return _back(visit, name)


@router.get("/accept")
async def accept_page(visit: Visitor, name: str, what: What = "") -> Response:
    """Page that says what accepting the node does. Args: what: the only hold that ends; empty: all end."""
    node = await _node(visit, name, "nodes:accept")
    ended = [hold.what for hold in node.holds if not what or hold.what == what]
    if not ended:
        raise ConflictError(f"node {name} isn't held" + (f" for {what}" if what else ""))
    ends = f"Ends the hold{'s' if len(ended) > 1 else ''} for: {'; '.join(ended)}"
    does = (
        ends,
        "weft takes the operator's word that the node is fine; it tests nothing now.",
        *_refused(node, ended),
        _afterwards(node, ended),
    )
    asked = (_WITHOUT,) if _refused(node, ended) and "nodes:accept_untested" in visit.allowed else ()
    return await _page(visit, node, "accept", f"Accept {name}", does, asked, what=what)


@router.post("/accept")
async def accept(visit: Visitor, name: str) -> Response:
    """Accept the node: only holds that the page showed end, not one that was added since."""
    form = await visit.form(lambda: accept_page(visit, name, form.get("what", "")))
    node = await node_of(visit, name)
    check_unchanged(form, _seen(node), f"node {name}")
    ended = [hold for hold in node.holds if form.get("what", "") in ("", hold.what)]
    without = form.get("without_test", "").strip() or None
    if without and not re.fullmatch(PRINTABLE_200, without):
        raise InputError("without_test", without[:64], "at most 200 characters in one line")
    request = await visit.caller("DELETE", f"/v1/nodes/{name}/hold")
    refused: ConflictError | None = None
    for hold in ended:
        accept = partial(visit.verbs.nodes.accept, without_test=without, revision=hold.revision)
        try:
            await run_in_threadpool(accept, request, name, hold.what)
        except (
            ConflictError
        ) as error:  # its tests haven't passed; the others end all the same, as the page said
            refused = refused or error
    if refused is not None:
        raise refused
    return _back(visit, name)


@router.get("/clear-report")
async def clear_report_page(visit: Visitor, name: str, project: Project = "") -> Response:
    """Page that says what clearing a node's reports does. Args: project: only its report; empty: all."""
    node = await _node(visit, name, "nodes:clear_report")
    reports = [one for one in node.reports if project in ("", one.project_id)]
    if not reports:
        raise ConflictError(f"node {name} isn't reported" + (f" by project {project}" if project else ""))
    does = (
        *(
            f"Project {one.project_id} reported it in pod {one.pod}, by {one.reported_by}: {one.reason}"
            for one in reports
        ),
        "Orders of these projects may get the node again. weft tests nothing now.",
    )
    hidden = {"seen": print_of(*reports), **({"project": project} if project else {})}
    own, title = node_path(name), f"Clear the reports of {name}"
    return confirmation(visit, Confirmation(title, f"{own}/clear-report", own, title, does, hidden=hidden))


@router.post("/clear-report")
async def clear_report(visit: Visitor, name: str) -> Response:
    """Clear the reports, if they are still those that were shown."""
    form = await visit.form()
    node, project = await _node(visit, name, "nodes:clear_report"), form.get("project", "")
    reports = [one for one in node.reports if project in ("", one.project_id)]
    check_unchanged(form, print_of(*reports), f"what projects report of node {name}")
    request = await visit.caller("DELETE", f"/v1/nodes/{name}/reports")
    await run_in_threadpool(visit.verbs.nodes.clear_report, request, name, project or None)
    return _back(visit, name)


@router.get("/forget-checks")
async def forget_checks_page(visit: Visitor, name: str) -> Response:
    """Page that says what forgetting the node's own checks does."""
    node = await _node(visit, name, "nodes:forget_checks")
    if node.checked_at is None:
        raise ConflictError(f"node {name} hasn't reported checks")
    does = (
        *(f"Failed: {one.code} of {one.subject} since {one.since.isoformat()}" for one in node.failed_checks),
        "What its checks reported is forgotten, as if it had never reported; the next report counts again.",
        "weft tests nothing now.",
    )
    return await _page(visit, node, "forget-checks", f"Forget the checks of {name}", does)


@router.post("/forget-checks")
async def forget_checks(visit: Visitor, name: str) -> Response:
    """Forget the checks, if they are still those that were shown."""
    await _form(visit, name)
    request = await visit.caller("DELETE", f"/v1/nodes/{name}/checks")
    await run_in_threadpool(visit.verbs.checks.forget, request, name)
    return _back(visit, name)


@router.get("/judge-check")
async def judge_check_page(visit: Visitor, name: str, check: Check = "") -> Response:
    """Page with the judgements of a check that fails on this node, and the nodes it fails on: all are judged."""
    await _node(visit, name, "nodes:judge_checks")
    nodes = await _failing(visit, check)
    if name not in nodes:
        raise ConflictError(f"check {check} doesn't fail on node {name}")
    does = (
        f"{check} fails on {len(nodes)} node{'s' if len(nodes) > 1 else ''}: {', '.join(nodes)}.",
        "real: all of them are kept from orders as the site says of this check, however many they are.",
        "mistake: it keeps none of them from orders, and none is replaced because of it, until a result judges it "
        "otherwise.",
        "open: weft decides again, by how many nodes it began to fail on within a day.",
    )
    asked = (AskedField("judged", "What it is", 10, choices=get_args(Judged)),)
    hidden, own = {"seen": print_of(check, *nodes), "check": check}, node_path(name)
    title = f"Judge {check}"
    return confirmation(visit, Confirmation(title, f"{own}/judge-check", own, title, does, (), asked, hidden))


@router.post("/judge-check")
async def judge_check(visit: Visitor, name: str) -> Response:
    """Judge the check, if it still fails on the nodes that were shown."""
    form = await visit.form(lambda: judge_check_page(visit, name, form.get("check", "")))
    check = form.get("check", "")
    request = await visit.caller("PUT", f"/v1/checks/{quote(check, safe='')}/judgement")
    check_unchanged(form, print_of(check, *await _failing(visit, check)), f"where {check} fails")
    judged = validate(CheckJudgement, {"judged": form.get("judged", "")}, Positions()).judged
    await run_in_threadpool(visit.verbs.checks.judge, request, check, judged)
    return _back(visit, name)


async def _failing(visit: Visit, check: str) -> list[str]:
    """Nodes on which this check fails and counts."""
    request = await visit.caller("GET", "/v1/nodes")
    nodes = await run_outside(visit.http, request, lambda: visit.verbs.nodes.list(request))
    return sorted(node.name for node in nodes if any(one.code == check for one in node.failed_checks))


async def _node(visit: Visit, name: str, rule: str) -> NodeView:
    """The node, for those who may do this with it."""
    node = await node_of(visit, name)
    require(visit, await visit.caller("GET", f"/v1/nodes/{name}"), rule)
    return node


async def _form(
    visit: Visit,
    name: str,
    again: Callable[[], Awaitable[Response]] | None = None,
    breaks: bool = False,
    why: bool = False,
) -> dict[str, str]:
    """The fields of a form that was made for the node as it still is.

    Args:
        again: gives the form's page again, if something is typed there.
        breaks: it showed promises that the change breaks.
        why: the page showed the reasons of the node's state.
    """
    form = await visit.form(again)
    node = await node_of(visit, name)
    broken = await _promises(visit, node) if breaks else ()
    check_unchanged(form, _seen(node, node.reason if why else "", broken), f"node {name}")
    return form


def _seen(node: NodeView, why: str = "", broken: tuple[str, ...] = ()) -> str:
    """What a page showed, without what changes by itself, such as whether its host answers, or what projects report."""
    state = node.state if node.state == "quarantined" else "free"
    parts = node.model_copy(update={"reason": why, "state": state, "reports": ()})
    return print_of(parts, *broken)


def _pods_stay(node: NodeView) -> tuple[str, ...]:
    if node.pod:
        return (
            f"Pod {node.pod} of project {node.project_id} has the node and keeps it; it counts once it is released.",
        )
    return ("No pod has the node whole; servers of pods that share it go on.",)


def _refused(node: NodeView, ended: list[str]) -> list[str]:
    """Which holds don't end yet, since tests of the site haven't passed."""
    return [
        f"Not the hold for {hold.what}: {', '.join(tests)} must pass first, or accept the node without, and say "
        "why."
        for hold in node.holds
        if hold.what in ended and hold.why  # holds of weft itself
        if (tests := [one.test for one in hold.tests if one.status != "passed"])
    ]


def _afterwards(node: NodeView, accepted: tuple[str, ...] | list[str]) -> str:
    """What keeps the node from new orders after the act, as a sentence."""
    left = [f"the hold for {hold.what}" for hold in node.holds if hold.what not in accepted]
    left += ["the drain"] if node.drain else []
    left += ["the quarantine"] if accepted and node.state == "quarantined" else []
    left += [f"pod {node.pod}, until it is released"] if node.pod else []
    if left:
        return f"It gets no new orders even then, because of {', '.join(left)}."
    return "Then new orders may get it at once, if the cloud can use its host."


async def _promises(visit: Visit, node: NodeView) -> tuple[str, ...]:
    """Reservations and bookings that can't be kept without the node."""
    if "nodes:drain" not in visit.allowed:
        return ()
    try:
        request = await visit.caller("POST", "/v1/drains")
    except ForbiddenError:  # the access rules of an application credential may allow the hold alone
        return ("Which reservations and bookings it breaks is not known to this session.",)
    wanted = DrainRequest(target=f"node:{node.name}", plan=True)
    found = await run_in_threadpool(visit.verbs.nodes.drain, request, wanted)
    return tuple(f"Can't be kept without this node: {one}" for one in found.broken)


async def _page(
    visit: Visit,
    node: NodeView,
    action: str,
    title: str,
    does: tuple[str, ...],
    asked: tuple[AskedField, ...] = (),
    warnings: tuple[str, ...] = (),
    what: str = "",
    why: str = "",
) -> Response:
    """The page before an act. Args: warnings: promises that it breaks. what: the only hold that ends. why: reasons of
    the node's state that are shown.
    """
    own = node_path(node.name)
    hidden = {"seen": _seen(node, why, warnings), **({"what": what} if what else {})}
    return confirmation(
        visit, Confirmation(title, f"{own}/{action}", own, title, does, warnings, asked, hidden)
    )


def _back(visit: Visit, name: str) -> Response:
    return visit.to(node_path(name))
