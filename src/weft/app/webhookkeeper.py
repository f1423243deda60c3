"""Sends events of pods to projects' webhooks, signed as Standard Webhooks says.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

What is sent is what a reader of the project sees in its events. Nothing is sent while the gate is closed: a copy of the
database that was restored elsewhere, or isn't accepted yet, would report to tenants what isn't so. A webhook whose
position is from before a restore gets one message that says so (`events.reset`), and continues with what is new.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from weft.app.shown import shown
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.store.store import Store
from weft.engine.watch.eventstream import EventStream, Position
from weft.engine.watch.webhooks import DISABLED_AFTER, LEAST_FAILURES, Webhook, WebhookRows
from weft.model.errors import ConflictError, InputError, WeftError
from weft.model.messages import pods, webhooks
from weft.model.messages.documents import coded
from weft.model.site import Site
from weft.model.views import ProjectEvent
from weft.ports.receivers import Receivers, UndeliveredError

log = logging.getLogger(__name__)

THREADS = 32
"""Deliveries of one process at a time; they wait for receivers."""
EVERY = 1.0
LIMIT = 120.0
LONGEST = 60.0
"""Seconds for which a webhook is sent to in one go; others wait for a thread meanwhile."""
PAGE = 100


class WebhookKeeper(Periodic):
    """The thread that sends. Any number may run: the database decides which one sends for a webhook."""

    def __init__(
        self,
        store: Store,
        site: Callable[[], Site],
        receivers: Receivers,
        pulse: Pulse | None = None,
        every: float = EVERY,
    ) -> None:
        self._store, self._site, self._receivers, self._every = store, site, receivers, every
        self._hooks, self._stream = WebhookRows(store), EventStream(store.database)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="webhooks")
        self._busy: set[Any] = set()
        super().__init__("webhooks", self.tend, pulse, LIMIT, first=every)

    def stop(self, timeout: float = 5.0) -> None:
        """Stop sending. A delivery under way isn't waited for: it is repeated if its result wasn't written."""
        super().stop(timeout)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def tend(self) -> float:
        """Begin deliveries that are due."""
        if (closed := self._store.database.gate.closed(())) is not None:
            log.warning("webhooks aren't sent: %s", closed)
            return 10.0
        self._busy = {one for one in self._busy if not one.done()}
        free = THREADS - len(self._busy)
        for hook in self._hooks.claim(free) if free else ():
            self._busy.add(self._pool.submit(self._deliver, hook))
        return self._every

    def wait(self) -> None:
        """Wait until the deliveries under way have ended."""
        for one in list(self._busy):
            one.result()

    def _deliver(self, hook: Webhook) -> None:
        try:
            self._send_all(hook)
        except UndeliveredError as error:
            self._note_failure(hook, error.args[0])
        except WeftError as error:
            log.warning("webhook %s: %s", hook.id, error)  # its hold ends, and another worker tries
        except Exception:
            log.exception("webhook %s: defect in weft", hook.id)

    def _send_all(self, hook: Webhook) -> None:
        """Send a webhook's events in order. Raises `UndeliveredError` for the first that isn't delivered."""
        until, position = time.monotonic() + LONGEST, hook.position
        while time.monotonic() < until and not self.stopped.is_set():
            try:
                page = self._stream.page(hook.project_id, position, PAGE)
            except ConflictError:
                position = self._reset(hook)
                continue
            if page.removed:
                said = coded("message", pods.EVENTS_REMOVED())
                self._send(
                    hook,
                    f"evt_{position}_removed",
                    payload("events.removed", self._store.database.now(), said),
                )
                if not page.events:  # nothing is left that would carry the position on
                    position = Position.read(page.position)
            for event in page.events:
                position, wanted = Position.read(event.position), self._wanted(hook, event)
                if wanted is not None:
                    self._send(hook, f"evt_{position}", wanted)
                    if not self._hooks.advance(hook, position, 1):
                        return
                if time.monotonic() > until:
                    break
            if not self._hooks.advance(hook, position, 0):
                return
            if not page.more:
                break
        self._hooks.release(hook)

    def _reset(self, hook: Webhook) -> Position:
        """Send that the database was restored, and return the newest event's position: earlier ones are skipped."""
        position = Position.read(self._stream.newest(hook.project_id, 1).position)
        said = coded("message", pods.EVENTS_RESET())
        self._send(hook, f"evt_{position.mark}", payload("events.reset", self._store.database.now(), said))
        self._hooks.advance(hook, position, 1)
        return position

    @staticmethod
    def _wanted(hook: Webhook, event: ProjectEvent) -> bytes | None:
        """The message for an event; None: the webhook's filter excludes it. The filter sees the event as a tenant
        does, so that it can't reveal what is hidden."""
        seen = shown(event)
        if hook.events and not any(seen.type == one or seen.code.startswith(one) for one in hook.events):
            return None
        return payload(f"pod.{seen.type}", seen.at, seen.model_dump(mode="json"))

    def _send(self, hook: Webhook, id_: str, body: bytes) -> None:
        """Send one message. Raises `UndeliveredError` unless the receiver accepts it."""
        if (closed := self._store.database.gate.closed(())) is not None:
            raise closed
        status = deliver(self._receivers, self._hooks, hook, id_, body, self._site())
        if problem := why_failed(status):
            raise UndeliveredError(problem)

    def _note_failure(self, hook: Webhook, reason: str) -> None:
        now = self._store.database.now()
        current = next((h for h in self._hooks.list(hook.project_id) if h.id == hook.id), None)
        if current is None:
            return
        since, disable = current.failing_since or now, ""
        if reason == webhooks.RECEIVER_GONE():
            disable = reason
        elif now - since >= DISABLED_AFTER and current.failures + 1 >= LEAST_FAILURES:
            hours = round((now - since).total_seconds() / 3600)
            disable = webhooks.WEBHOOK_FAILED(hours=hours, why=reason)
        self._hooks.fail(hook, current.failures, reason, disable)
        if disable:
            log.warning("webhook %s of project %s is disabled: %s", hook.name, hook.project_id, disable)


def deliver(
    receivers: Receivers, hooks: WebhookRows, hook: Webhook, id_: str, body: bytes, site: Site
) -> int:
    """Send one message; the status of the answer. Raises `UndeliveredError`."""
    try:
        secrets = hooks.secrets(hook)
    except InputError as error:
        log.error("webhook %s: %s", hook.id, error)
        secrets = []
    if not secrets:
        raise UndeliveredError(webhooks.SECRET_UNREADABLE())
    at = int(datetime.now(UTC).timestamp())  # receivers compare it with their own clocks
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "weft-webhooks",
        "webhook-id": id_,
        "webhook-timestamp": str(at),
        "webhook-signature": signatures(secrets, id_, at, body),
    }
    return receivers.post(hook.url, headers, body, site.webhooks)


def why_failed(status: int) -> str:
    """Why an answer with this status means that the message wasn't delivered; empty: it was."""
    if 200 <= status < 300:
        return ""
    if status == 410:
        return webhooks.RECEIVER_GONE()
    return (webhooks.RECEIVER_REDIRECTS if 300 <= status < 400 else webhooks.RECEIVER_STATUS)(status=status)


def signatures(secrets: Sequence[bytes], id_: str, at: int, body: bytes) -> str:
    """`webhook-signature`: one for each secret that is valid."""
    signed = f"{id_}.{at}.".encode() + body
    made = (base64.b64encode(hmac.new(s, signed, hashlib.sha256).digest()).decode() for s in secrets)
    return " ".join(f"v1,{one}" for one in made)


def payload(type_: str, at: datetime, data: object) -> bytes:
    """The body of a message."""
    document = {"type": type_, "timestamp": at.isoformat(), "data": data}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
