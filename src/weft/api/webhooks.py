"""/v1/webhooks: where a project has its pods' events sent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Request as HttpRequest
from pydantic import Field

from weft.api.asking import Asker, Backend, Named, check_parameters, may
from weft.api.bodies import SmallBody, answer, body_schema, document
from weft.api.conditions import Revised, generation_of
from weft.api.documents import WebhookList
from weft.api.paging import PageOf, page
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.errors import InputError
from weft.model.views import NewWebhook, WebhookRequest, WebhookTest, WebhookView

router = APIRouter(prefix="/v1", tags=["webhooks"])


def _may(rule: str) -> Any:
    """A dependency: the request of a caller. Unknown parameters are only reported to those who may do this with the
    webhook in the path.
    """

    def allowed(http: HttpRequest, request: Asker, verbs: Backend, name: Named) -> Request:
        try:
            check_parameters(http)
        except InputError:
            verbs.webhooks.check(request, rule, name)
            raise
        return request

    return Depends(allowed)


MayShow = Annotated[Request, _may("webhooks:list")]
MayChange = Annotated[Request, _may("webhooks:change")]


class WebhookPage(PageOf):
    """Which webhooks are wanted."""

    all_projects: bool = Field(default=False, description="Of all projects (operators).")


@router.get("/webhooks", response_model=WebhookList)
def webhooks(
    request: Annotated[Request, may("webhooks:list")],
    verbs: Backend,
    wanted: Annotated[WebhookPage, Query()],
) -> Response:
    """List webhooks by project and name, whether they are delivered, and why not, in pages."""
    hooks = verbs.webhooks.list(request, wanted.all_projects, wanted.marker, wanted.limit + 1)
    found, after = page(hooks, lambda one: (one.project_id, one.name), wanted)
    return answer(WebhookList(webhooks=found, next=after))


@router.post(
    "/webhooks",
    response_model=NewWebhook,
    responses={201: {"model": NewWebhook, "description": "Created; only this answer shows `secret`."}},
    openapi_extra=body_schema(WebhookRequest),
)
def make_webhook(
    request: Annotated[Request, may("webhooks:change")], verbs: Backend, body: SmallBody
) -> Response:
    """Send events of the project's pods to a URL from now on, signed as Standard Webhooks says.

    Each is sent at least once, in order, until the receiver answers 2xx; the `webhook-id` stays the same.
    """
    return _tagged(verbs.webhooks.make(request, document(WebhookRequest, body)), 201)


@router.get("/webhooks/{name}", response_model=WebhookView)
def show_webhook(request: MayShow, verbs: Backend, name: Named) -> Response:
    """Show a webhook, by name or id."""
    return _tagged(verbs.webhooks.show(request, name))


@router.delete("/webhooks/{name}", response_model=WebhookView)
def delete_webhook(request: MayChange, verbs: Backend, name: Named, if_match: Revised = None) -> Response:
    """Delete a webhook; the answer is its last state. 412 if it isn't of the revision in `If-Match`."""
    return answer(verbs.webhooks.delete(request, name, generation_of(if_match)))


@router.post("/webhooks/{name}/rotate", response_model=NewWebhook)
def rotate_webhook(request: MayChange, verbs: Backend, name: Named, if_match: Revised = None) -> Response:
    """Make a new secret; for a day, messages are also signed with the previous one. 412 as for DELETE."""
    return _tagged(verbs.webhooks.rotate(request, name, generation_of(if_match)))


@router.post("/webhooks/{name}/enable", response_model=WebhookView)
def enable_webhook(request: MayChange, verbs: Backend, name: Named, if_match: Revised = None) -> Response:
    """Resume at once, from the first undelivered event that is still kept. 412 as for DELETE."""
    return _tagged(verbs.webhooks.enable(request, name, generation_of(if_match)))


@router.post("/webhooks/{name}/test", response_model=WebhookTest)
@outside()
def test_webhook(request: MayChange, verbs: Backend, name: Named) -> Response:
    """Send a message of type `webhook.test` now; the answer says whether it was delivered, or why not."""
    return answer(verbs.webhooks.test(request, name))


def _tagged(hook: WebhookView, status: int = 200) -> Response:
    return answer(hook, status, generation=hook.revision)
