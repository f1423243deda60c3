"""The verbs about webhooks: a project's members make them, operators see and end them."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from contextlib import nullcontext

from weft.app.desk import Desk
from weft.app.policyrules import CHANGES
from weft.app.verbs import Request
from weft.app.webhookkeeper import deliver, payload, why_failed
from weft.drivers.receivers import HttpsReceivers, why_not
from weft.engine.watch.webhooks import Webhook, WebhookRows
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.views import NewWebhook, WebhookRequest, WebhookTest, WebhookView
from weft.ports.receivers import Receivers, UndeliveredError


class WebhookVerbs:
    """See `weft.app.verbs`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.receivers: Receivers = HttpsReceivers()

    def check(self, request: Request, rule: str, name: str) -> None:
        """Raise what a verb with this rule would raise for a caller who may not do it with this webhook."""
        with self._desk.refusals(request, rule, name) if rule in CHANGES else nullcontext():
            self._hook(request, rule, name)

    def list(
        self, request: Request, all_projects: bool = False, after: str | None = None, limit: int | None = None
    ) -> Sequence[WebhookView]:
        """Webhooks by project and name. Args: after: only those after this PROJECT/NAME; limit: None: all."""
        if all_projects:
            self._desk.policy.check("webhooks:list_all_projects", request.caller)
        project = None if all_projects else self._desk.project(request, "webhooks:list")
        return [_view(hook) for hook in self._hooks().list(project, after, limit)]

    def show(self, request: Request, name: str) -> WebhookView:
        """A webhook by name or id. Raises `NotFoundError`."""
        return _view(self._hook(request, "webhooks:list", name))

    def make(self, request: Request, given: WebhookRequest) -> NewWebhook:
        """Create a webhook, which gets events from now on. Raises `ConflictError`, and `InputError` for its URL."""
        with self._desk.logged(request, "webhook create", given.name):
            project = self._desk.project(request, "webhooks:change")
            policy = self._desk.store.site().site.webhooks
            if why := why_not(given.url, policy):
                raise InputError("url", given.url, instead("must be {what}", what=why))
            return _new(*self._hooks().make(project, request.caller.user_name, given, policy.most))

    def delete(self, request: Request, name: str, revision: int | None = None) -> WebhookView:
        """Delete a webhook, and return it as it was.

        Args:
            revision: `PreconditionError` unless the webhook has this one; also below.
        """
        with self._desk.logged(request, "webhook delete", name):
            hook = self._hook(request, "webhooks:change", name)
            self._hooks().delete(hook, revision)
            return _view(hook)

    def rotate(self, request: Request, name: str, revision: int | None = None) -> NewWebhook:
        """Give a webhook a new secret. For a day, messages are signed with the former one, too."""
        with self._desk.logged(request, "webhook rotate", name):
            self._desk.policy.check("webhooks:change", request.caller, request.caller.project_id)
            return _new(*self._hooks().rotate(self._hook(request, "webhooks:change", name), revision))

    def enable(self, request: Request, name: str, revision: int | None = None) -> WebhookView:
        """Resume sending, from the first event that wasn't delivered and is still kept."""
        with self._desk.logged(request, "webhook enable", name):
            return _view(self._hooks().enable(self._hook(request, "webhooks:change", name), revision))

    def test(self, request: Request, name: str) -> WebhookTest:
        """Send a message of type `webhook.test` now, whatever state it is in. Nothing of the answer's body is shown."""
        with self._desk.logged(request, "webhook test", name):
            hook = self._hook(request, "webhooks:change", name)
            if (closed := self._desk.store.database.gate.closed(())) is not None:
                raise closed
            self._hooks().begin_test(hook)
            began, status, reason = time.monotonic(), None, ""
            now = self._desk.store.database.now()
            body = payload("webhook.test", now, {"webhook": hook.name})
            try:
                site = self._desk.store.site().site
                id_ = f"test_{hook.id.hex}_{now.timestamp():.6f}"
                status = deliver(self.receivers, self._hooks(), hook, id_, body, site)
                reason = why_failed(status)
            except UndeliveredError as error:
                reason = error.args[0]
            seconds = round(time.monotonic() - began, 3)
            return WebhookTest(delivered=not reason, status=status, reason=reason, seconds=seconds)

    def _hook(self, request: Request, rule: str, name: str) -> Webhook:
        """A webhook of the caller's project by name or id; for operators, one of any project by id."""
        caller = request.caller
        anywhere = "webhooks:list_all_projects" if rule == "webhooks:list" else "webhooks:manage"
        if self._desk.policy.allows(anywhere, caller):
            hooks = self._hooks()
            own = [h for h in hooks.list(caller.project_id) if h.name == name] if caller.project_id else []
            return own[0] if own else hooks.find(name, None)
        return self._hooks().find(name, self._desk.project(request, rule))

    def _hooks(self) -> WebhookRows:
        return WebhookRows(self._desk.store)


def _view(hook: Webhook) -> WebhookView:
    fails = hook.failing_since is not None
    return WebhookView(
        id=str(hook.id),
        project_id=hook.project_id,
        name=hook.name,
        url=hook.url,
        events=hook.events,
        state="disabled" if hook.disabled_at is not None else "failing" if fails else "active",
        reason=hook.reason,
        created_by=hook.created_by,
        created_at=hook.created_at,
        failing_since=hook.failing_since,
        next_at=hook.next_at if fails and hook.disabled_at is None else None,
        delivered=hook.delivered,
        delivered_at=hook.delivered_at,
        old_secret_until=hook.old_until,
        revision=hook.revision,
    )


def _new(hook: Webhook, secret: bytes) -> NewWebhook:
    text = f"whsec_{base64.b64encode(secret).decode()}"
    return NewWebhook.model_validate({**dict(_view(hook)), "secret": text})
