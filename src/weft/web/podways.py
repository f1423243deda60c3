"""Ways out for a pod that is stuck, each after a page that says what it will do: retry, reboot a server
or open its console, replace or report a node, abandon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import get_args
from urllib.parse import urlsplit

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.api.documents import AbandonRequest, ActionRequest, ReplaceRequest, ReportRequest
from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.change import PodChange
from weft.model.errors import ConflictError, ForbiddenError, InputError
from weft.model.plan import Plan
from weft.model.pod import Phase, PodState
from weft.model.views import PodView
from weft.planning.shapes.resolve import shape_of
from weft.ports.servers import Action
from weft.web.changes import pod_of
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/pods/{name}")
ACTIONS: tuple[str, ...] = get_args(Action)
SHOWN = 30
"""Resources that a page shows; the rest are counted."""


@router.get("/retry")
async def retry_page(visit: Visitor, name: str) -> Response:
    """Page that says what a retry does."""
    pod = await _pod(visit, name, "pods:retry")
    if pod.state is not PodState.FAILED or pod.phase in (Phase.RELEASING, Phase.RELEASED):
        raise ConflictError(
            f"pod {pod.name} is {pod.state}: only a FAILED one that isn't released is retried"
        )
    does = (
        f"The pod FAILED: {pod.reason}",
        "It goes on where it failed, with all attempts again. What works of it stays as it is.",
        "It fails again unless the cause is gone.",
    )
    return _page(visit, pod, "retry", f"Retry pod {pod.name}", "Retry", does)


@router.post("/retry")
async def retry(visit: Visitor, name: str) -> Response:
    """Retry the pod."""
    pod, _ = await _form(visit, name)
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/retry")
    await run_in_threadpool(visit.verbs.pods.retry, request, pod.id)
    return visit.to(f"/pods/{pod.id}")


@router.get("/abandon")
async def abandon_page(visit: Visitor, name: str) -> Response:
    """Page that says what abandoning a pod's release means."""
    pod = await _pod(visit, name, "pods:abandon")
    if pod.phase is not Phase.RELEASING:
        raise ConflictError(f"pod {pod.name} is {pod.state}: only a release that can't finish is abandoned")
    left = [f"{one.kind} {one.name}" for one in pod.resources if one.state not in ("absent", "wanted")]
    does = (
        f"The release can't finish: {pod.reason}",
        "It ends once what is in its way has failed three times in a row, or twice and for five minutes.",
        "Nodes that weren't seen clean stay in quarantine; a P_Key or VLAN that may still be in use isn't reused.",
        "The sweep goes on looking for what remains. This can't be undone.",
    )
    warnings = ("The receipt will never be clean. It names you and the reason, and the project can read it.",)
    if left:
        more = f", and {len(left) - SHOWN} others" if len(left) > SHOWN else ""
        warnings = (*warnings, f"Not seen gone: {', '.join(left[:SHOWN])}{more}")
    asked = (
        AskedField("reason", "Reason, which the project can read", 500),
        AskedField("name", "Type the pod's name to confirm", 255, confirms=True),
    )
    title = f"Abandon the release of pod {pod.name}"
    return _page(visit, pod, "abandon", title, "Abandon the release", does, warnings, asked)


@router.post("/abandon")
async def abandon(visit: Visitor, name: str) -> Response:
    """Abandon the pod's release."""
    pod, form = await _form(visit, name, lambda: abandon_page(visit, name))
    if form.get("name", "").strip() != pod.name:
        raise InputError("name", form.get("name", "")[:64], f"{pod.name}, to confirm")
    given = validate(AbandonRequest, {"reason": form.get("reason", "").strip()}, Positions())
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/abandon")
    await run_in_threadpool(visit.verbs.pods.abandon, request, pod.id, given.reason)
    return visit.to(f"/pods/{pod.id}")


@router.get("/replace")
async def replace_page(visit: Visitor, name: str) -> Response:
    """Form for the node to replace, and the node that takes its place."""
    pod = await _pod(visit, name, "pods:replace")
    if not pod.placed or pod.phase in (Phase.RELEASING, Phase.RELEASED):
        raise ConflictError(f"pod {pod.name} is {pod.state}: it has no nodes that could be replaced")
    does = (
        "The pod's spare, or the nearest free node, takes the place of one node; the other servers go on.",
        "Nothing is changed yet: the next page says what would be.",
    )
    request = await visit.caller("GET", f"/v1/pods/{pod.id}")
    if shape_of(pod.order).shares_nodes:
        does = ("A server on another node takes the place of one; the other servers go on.", does[1])
        asked = (AskedField("node", "Server that goes", 255),)
    else:
        asked = (AskedField("node", "Node that goes", 255, choices=tuple(one.node for one in pod.placed)),)
    if visit.verbs.permissions.allowed(request, ("pods:choose_node",), pod.project_id):
        asked = (*asked, AskedField("with", "Node that comes; empty: weft chooses", 255, required=False))
    return _page(visit, pod, "replace/plan", f"Replace a node of pod {pod.name}", "Continue", does, (), asked)


@router.post("/replace/plan")
async def replace_plan(visit: Visitor, name: str) -> Response:
    """Page that says what the replacement would do."""
    pod, form = await _form(visit, name, lambda: replace_page(visit, name))
    wanted = _replacement(form)
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/replace/plan")
    plan = await run_outside(
        visit.http, request, lambda: visit.verbs.pods.plan_replacement(request, pod.id, wanted.asked)
    )
    change = _change(plan)
    came = ", ".join(change.coming) or "a node"
    shared = shape_of(plan.order).shares_nodes
    gone = wanted.node if shared else ", ".join(change.nodes_removed)
    does = (
        f"{gone} goes: its server and everything on its own disks.",
        f"{came} comes, with a server of {'another name and other addresses' if shared else 'the same name'}.",
        *(() if shared else ("The node that goes is held until an operator accepts it.",)),
        *(f"{one.kind} {one.name} is removed" for one in change.removed[:SHOWN]),
    )
    hidden = {"node": wanted.node, "with": wanted.by or "", "comes": " ".join(change.coming)}
    title = f"Replace {wanted.node} in pod {pod.name}"
    own = f"/pods/{pod.id}"
    warnings = ("What is on the own disks of the node that goes is lost.",)
    form_of = Confirmation(title, f"{own}/replace", own, "Replace", does, warnings, (), hidden | _seen(pod))
    return confirmation(visit, form_of)


@router.post("/replace")
async def replace(visit: Visitor, name: str) -> Response:
    """Replace the node, if the node that takes its place is still the one that was shown."""
    pod, form = await _form(visit, name, lambda: replace_page(visit, name))
    wanted, comes = _replacement(form), form.get("comes", "").split()
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/replace")
    replace_node = partial(visit.verbs.pods.replace_node, generation=pod.generation, comes=comes)
    await run_outside(visit.http, request, lambda: replace_node(request, pod.id, wanted.asked))
    return visit.to(f"/pods/{pod.id}")


@router.get("/servers/act")
async def act_page(visit: Visitor, name: str) -> Response:
    """Form for the server to reboot, and how."""
    pod = await _pod(visit, name, "pods:operate")
    if not pod.servers:
        raise ConflictError(f"pod {pod.name} is {pod.state}: it has no servers")
    does = (
        "reboot: its operating system is asked. reset: power off and on. rescue: a rescue system is booted. "
        "unrescue: its own disk is booted again.",
        "The pod may be DEGRADED meanwhile. The other servers go on.",
    )
    asked = (
        AskedField("server", "Server", 255, choices=tuple(one.name for one in pod.servers)),
        AskedField("action", "What is done", 20, choices=ACTIONS),
    )
    title = f"Reboot a server of pod {pod.name}"
    warnings = ("What the server does now is interrupted.",)
    return _page(visit, pod, "servers/act", title, "Do it", does, warnings, asked)


@router.post("/servers/act")
async def act(visit: Visitor, name: str) -> Response:
    """Ask the cloud to reboot the server; only this answer has a rescue system's password."""
    pod, form = await _form(visit, name, lambda: act_page(visit, name))
    given = validate(ActionRequest, {"action": form.get("action", "")}, Positions())
    _, meant = _server(pod, form)
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/servers/{meant}/action")
    done = await run_outside(
        visit.http, request, lambda: visit.verbs.pods.act_on_server(request, pod.id, meant, given.action)
    )
    if done.password:
        return visit.page("rescued.html", pod=pod, done=done)
    return visit.to(f"/pods/{pod.id}")


@router.get("/servers/console")
async def console_page(visit: Visitor, name: str) -> Response:
    """Form for the server whose console is to be opened."""
    pod = await _pod(visit, name, "pods:console")
    if not pod.servers:
        raise ConflictError(f"pod {pod.name} is {pod.state}: it has no servers")
    does = (
        "The cloud is asked for an address that opens the server's console, of its screen or its serial port.",
        "The pod's events name you and the server.",
    )
    warnings = ("All who have the address can use the console until its token expires.",)
    asked = (AskedField("server", "Server", 255, choices=tuple(one.name for one in pod.servers)),)
    title = f"Open a console of pod {pod.name}"
    return _page(visit, pod, "servers/console", title, "Ask for the address", does, warnings, asked)


@router.post("/servers/console")
async def console(visit: Visitor, name: str) -> Response:
    """Ask the cloud for the console's address; only this answer has it."""
    pod, form = await _form(visit, name, lambda: console_page(visit, name))
    server, meant = _server(pod, form)
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/servers/{meant}/console")
    found = await run_outside(visit.http, request, lambda: visit.verbs.pods.console(request, pod.id, meant))
    opens = urlsplit(found.url).scheme in ("http", "https")  # a serial one is for programs: ws, wss
    return visit.page("console_url.html", pod=pod, server=server, console=found, opens=opens)


@router.get("/report")
async def report_page(visit: Visitor, name: str) -> Response:
    """Form for the faulty node, and what is wrong with it."""
    pod = await _pod(visit, name, "pods:report")
    if not pod.placed or pod.phase is Phase.RELEASED:
        raise ConflictError(f"pod {pod.name} is {pod.state}: it has no nodes that could be reported")
    does = (
        "No further order of the project gets the node until an operator clears the report; others may get it.",
        "The pod keeps it, unless its order has on_failure: replace.",
    )
    asked = (
        AskedField("node", "Node", 255, choices=tuple(one.node for one in pod.placed)),
        AskedField("reason", "What is wrong with it, for operators", 500),
    )
    return _page(visit, pod, "report", f"Report a node of pod {pod.name}", "Report", does, (), asked)


@router.post("/report")
async def report(visit: Visitor, name: str) -> Response:
    """Report the node."""
    pod, form = await _form(visit, name, lambda: report_page(visit, name))
    texts = {"node": form.get("node", ""), "reason": form.get("reason", "").strip()}
    given = validate(ReportRequest, texts, Positions())
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/report")
    await run_in_threadpool(visit.verbs.pods.report_node, request, pod.id, given.node, given.reason)
    return visit.to(f"/pods/{pod.id}")


def _server(pod: PodView, form: dict[str, str]) -> tuple[str, str]:
    """The server that was chosen, and what verbs call it: by its node, if that has no other of the pod."""
    server = form.get("server", "")
    if server not in [one.name for one in pod.servers]:
        raise InputError("server", server[:64], "a server of the pod")
    node = next(one.node for one in pod.servers if one.name == server)
    several = sum(one.node == node for one in pod.servers) > 1
    return server, server if several else node


def _replacement(form: dict[str, str]) -> ReplaceRequest:
    given = {"node": form.get("node", ""), "with": form.get("with", "").strip() or None}
    return validate(ReplaceRequest, given, Positions())


def _change(plan: Plan) -> PodChange:
    if plan.change is None:
        raise ConflictError("the plan has no difference: look at the pod again")
    return plan.change


async def _pod(visit: Visit, name: str, rule: str) -> PodView:
    """The pod, for those who may do this with it; a page that only asks isn't logged."""
    pod = await pod_of(visit, name)
    request = await visit.caller("GET", f"/v1/pods/{pod.id}")
    if not await run_in_threadpool(visit.verbs.permissions.allowed, request, (rule,), pod.project_id):
        raise ForbiddenError(f"{request.caller.user_name} may not do {rule} with pod {pod.name}")
    return pod


async def _form(
    visit: Visit, name: str, again: Callable[[], Awaitable[Response]] | None = None
) -> tuple[PodView, dict[str, str]]:
    """The pod, and the fields of a form that was made for it as it still is.

    Args:
        again: gives the form's page again, if something is typed there.
    """
    form = await visit.form(again)
    pod = await pod_of(visit, name)
    check_unchanged(form, _seen(pod)["seen"], f"pod {pod.name}")
    return pod, form


def _seen(pod: PodView) -> dict[str, str]:
    """What pages showed of the pod: its state, since when, and its generation."""
    return {"seen": print_of(pod.id, pod.state, pod.phase, pod.since.isoformat(), str(pod.generation))}


def _page(
    visit: Visit,
    pod: PodView,
    action: str,
    title: str,
    button: str,
    does: tuple[str, ...],
    warnings: tuple[str, ...] = (),
    asked: tuple[AskedField, ...] = (),
) -> Response:
    own = f"/pods/{pod.id}"
    return confirmation(
        visit, Confirmation(title, f"{own}/{action}", own, button, does, warnings, asked, _seen(pod))
    )
