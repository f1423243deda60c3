"""A project's webhooks: list, make, test, rotate, enable, delete. A secret is on one answer, and nowhere else."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import ForbiddenError
from weft.model.views import NewWebhook, WebhookRequest, WebhookTest, WebhookView
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of
from weft.web.listing import After, part_of
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/webhooks")
SHOWN = 500
"""Webhooks on a page."""
_RULES = ("webhooks:change", "webhooks:manage", "webhooks:list_all_projects")


@router.get("")
async def list_webhooks(
    visit: Visitor, every: Annotated[bool, Query(alias="all")] = False, after: After = None
) -> Response:
    """The project's, or those of all projects."""
    request = await visit.caller("GET", "/v1/webhooks")
    hooks = await run_in_threadpool(visit.verbs.webhooks.list, request, every, after, SHOWN + 1)
    may = await _may(visit, request.caller.project_id)
    found = part_of(
        hooks, lambda one: (one.project_id, one.name), after, SHOWN, {"all": "true"} if every else {}
    )
    return visit.page("webhooks.html", **found, every=every, may=may)


@router.get("/new")
async def new_page(visit: Visitor) -> Response:
    """Form for a new webhook: which events are sent, and where."""
    request = await visit.caller("GET", "/v1/webhooks")
    if "webhooks:change" not in await _may(visit, request.caller.project_id):
        raise ForbiddenError(f"{request.caller.user_name} may not do webhooks:change")
    does = (
        "Events of the project's pods are sent there from now on, each at least once and in order, signed as Standard "
        "Webhooks says.",
        "The secret that verifies signatures is shown once, on the next page.",
    )
    asked = (
        AskedField("name", "Name", 63),
        AskedField("url", "URL, https", 2000),
        AskedField(
            "events",
            "Types of events, or beginnings of codes such as NODE_, separated by spaces; empty: all",
            1300,
            False,
        ),
    )
    asked_for = Confirmation("Make a webhook", "/webhooks/new", "/webhooks", "Make", does, (), asked)
    return confirmation(visit, asked_for)


@router.post("/new")
async def create(visit: Visitor) -> Response:
    """Create the webhook; only this answer has its secret."""
    form = await visit.form(lambda: new_page(visit))
    given = {
        "name": form.get("name", "").strip(),
        "url": form.get("url", "").strip(),
        "events": tuple(form.get("events", "").split()),
    }
    wanted = validate(WebhookRequest, given, Positions())
    request = await visit.caller("POST", "/v1/webhooks")
    return _secret(visit, await run_in_threadpool(visit.verbs.webhooks.make, request, wanted))


@router.get("/{name}")
async def show(visit: Visitor, name: str) -> Response:
    """One webhook, whether it is delivered, and what can be done with it."""
    hook = await _hook(visit, name)
    return await _shown(visit, hook)


@router.post("/{name}/test")
async def test(visit: Visitor, name: str) -> Response:
    """Send a test message now, and show the result."""
    await visit.form()
    request = await visit.caller("POST", f"/v1/webhooks/{checked(name)}/test")
    tested = await run_outside(visit.http, request, lambda: visit.verbs.webhooks.test(request, name))
    hook = await _hook(visit, name)
    return await _shown(visit, hook, tested)


@router.post("/{name}/enable")
async def enable(visit: Visitor, name: str) -> Response:
    """Enable the webhook: events are sent again, at once."""
    hook = await _form(visit, name)
    request = await visit.caller("POST", f"/v1/webhooks/{hook.id}/enable")
    await run_in_threadpool(visit.verbs.webhooks.enable, request, hook.id, hook.revision)
    return visit.to(f"/webhooks/{hook.id}")


@router.get("/{name}/rotate")
async def rotate_page(visit: Visitor, name: str) -> Response:
    """Page that says what rotating the secret does."""
    hook = await _hook(visit, name)
    if "webhooks:change" not in await _may(visit, hook.project_id):
        raise ForbiddenError("only members of its project may do webhooks:change with this webhook")
    does = (
        "It gets a new secret, which is shown once, on the next page.",
        "For a day messages are signed with the one before, too.",
    )
    return _page(visit, hook, "rotate", f"Rotate the secret of {hook.name}", does)


@router.post("/{name}/rotate")
async def rotate(visit: Visitor, name: str) -> Response:
    """Rotate the secret, unless that was done since the page was loaded: a form that is sent twice counts once."""
    hook = await _form(visit, name)
    request = await visit.caller("POST", f"/v1/webhooks/{hook.id}/rotate")
    return _secret(
        visit, await run_in_threadpool(visit.verbs.webhooks.rotate, request, hook.id, hook.revision)
    )


@router.get("/{name}/delete")
async def delete_page(visit: Visitor, name: str) -> Response:
    """Page that says what deleting the webhook ends."""
    hook = await _hook(visit, name)
    does = (f"Nothing is sent to {hook.url} any more.", f"{hook.delivered} events were delivered.")
    return _page(visit, hook, "delete", f"Delete webhook {hook.name}", does)


@router.post("/{name}/delete")
async def delete(visit: Visitor, name: str) -> Response:
    """Delete the webhook."""
    hook = await _form(visit, name)
    request = await visit.caller("DELETE", f"/v1/webhooks/{hook.id}")
    await run_in_threadpool(visit.verbs.webhooks.delete, request, hook.id, hook.revision)
    return visit.to("/webhooks")


async def _shown(visit: Visit, hook: WebhookView, tested: WebhookTest | None = None) -> Response:
    may = await _may(visit, hook.project_id)
    return visit.page("webhook.html", hook=hook, may=may, tested=tested, seen=_seen(hook))


async def _hook(visit: Visit, name: str) -> WebhookView:
    request = await visit.caller("GET", f"/v1/webhooks/{checked(name)}")
    return await run_in_threadpool(visit.verbs.webhooks.show, request, name)


async def _form(visit: Visit, name: str) -> WebhookView:
    """The webhook, if the form was made for it as it still is."""
    form = await visit.form()
    hook = await _hook(visit, name)
    check_unchanged(form, _seen(hook), f"webhook {hook.name}")
    return hook


def _seen(hook: WebhookView) -> str:
    return print_of(hook.id, str(hook.revision))


async def _may(visit: Visit, project: str | None) -> tuple[str, ...]:
    request = await visit.caller("GET", "/v1/webhooks")
    return await run_in_threadpool(visit.verbs.permissions.allowed, request, _RULES, project)


def _page(visit: Visit, hook: WebhookView, action: str, title: str, does: tuple[str, ...]) -> Response:
    own = f"/webhooks/{quote(hook.id, safe='')}"
    hidden = {"seen": _seen(hook)}
    return confirmation(visit, Confirmation(title, f"{own}/{action}", own, title, does, hidden=hidden))


def _secret(visit: Visit, hook: NewWebhook) -> Response:
    return visit.page("webhook_secret.html", hook=hook)
