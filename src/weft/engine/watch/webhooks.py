"""Webhooks in the database: each has a position in the stream of its project's events, and a worker holds it to send.

Nothing is kept in memory, and what is to be sent is nowhere but in the events: any number of workers may send, an event
is delivered at least once, and those of a webhook in order. A worker writes under the token of its hold, so that one
that was late changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID, uuid4

from weft.engine.base.database import Tx
from weft.engine.base.documents import message_json, message_text
from weft.engine.rows.basis import check_revision
from weft.engine.store.store import Store
from weft.engine.watch.eventstream import EventStream, Position
from weft.model.errors import ConflictError, NotFoundError
from weft.model.messages import webhooks as messages
from weft.model.views import WebhookRequest

HOLD = timedelta(seconds=90)
"""How long a worker holds a webhook after its last write: longer than an attempt takes."""
SHARE = 4
"""Most webhooks of a project that are sent at once, so that its slow receivers take no threads from others."""
OLD_VALID = timedelta(days=1)
"""How long the secret from before a rotation signs, too."""
DELAYS = (5, 30, 120, 600, 1800, 3600)
"""Seconds until the next attempt after each failure in a row; the last one repeats."""
DISABLED_AFTER = timedelta(hours=24)
"""How long deliveries fail, without one that succeeds, before a webhook is disabled."""
LEAST_FAILURES = 10
"""Least failures before it is disabled: a day in which weft was off, or its gate closed, doesn't count as failures."""
SECRET_BYTES = 32
TEST_PAUSE = timedelta(seconds=2)
"""Shortest time between test messages of a project's webhooks."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's row.

    Attributes:
        position: the last event that was sent, or left out.
        token: of the hold it was claimed under.
    """

    id: UUID
    project_id: str
    name: str
    url: str
    events: tuple[str, ...]
    created_by: str
    created_at: datetime
    secret_number: int
    old_until: datetime | None
    position: Position
    disabled_at: datetime | None
    reason: str
    failures: int
    failing_since: datetime | None
    delivered: int
    delivered_at: datetime | None
    next_at: datetime
    token: int
    revision: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row."""
        plain: dict[str, Any] = {name: row[name] for name in cls.__slots__ if name in row}
        position = Position(row["mark"], row["life"], int(row["xact"]), row["sequence"])
        given: dict[str, Any] = {
            "events": tuple(row["events"]),
            "reason": message_text(row["reason"]),
            "position": position,
        }
        return cls(**{**plain, **given})


class WebhookRows:
    """Reads and writes the rows, for verbs and for workers."""

    def __init__(self, store: Store) -> None:
        self._store, self._database = store, store.database

    # -- verbs ---------------------------------------------------------------------------------------------------

    def make(self, project: str, by: str, given: WebhookRequest, most: int) -> tuple[Webhook, bytes]:
        """Create a webhook, which begins after the newest event; returns it and its secret. Raises `ConflictError`."""
        position = Position.read(EventStream(self._database).newest(project, 1).position)
        id_ = uuid4()
        with self._database.transaction() as tx:
            tx.rows("lock_webhooks", project_id=project)
            row = tx.row(
                "insert_webhook",
                id=id_,
                project_id=project,
                name=given.name,
                url=given.url,
                events=list(given.events),
                created_by=by,
                mark=position.mark,
                most=most,
                **position.values,
            )
            if row is not None:
                secret = self._store.secrets.of_in(
                    tx, _secret_name(id_, 1), secrets.token_bytes(SECRET_BYTES)
                )
                return Webhook.of(row), secret
            taken = tx.row("webhook", project_id=project, name=given.name)
        raise ConflictError(
            messages.WEBHOOK_EXISTS(name=given.name) if taken else messages.TOO_MANY_WEBHOOKS(most=most)
        )

    def list(self, project: str | None, after: str | None = None, limit: int | None = None) -> list[Webhook]:
        """Webhooks of a project, or all, by project and name as bytes.

        Args:
            after: only those that sort after this PROJECT/NAME.
            limit: None: all of them.
        """
        rows = self._database.rows("webhooks", project_id=project, after=after, limit=limit)
        return [Webhook.of(row) for row in rows]

    def find(self, name: str, project: str | None) -> Webhook:
        """A webhook by name or id in a project, or by id in any (None). Raises `NotFoundError`."""
        with self._database.statement() as tx:
            row = (
                tx.row("webhook_by_id", id=name)
                if project is None
                else tx.row("webhook", project_id=project, name=name)
            )
        if row is None:
            raise NotFoundError(messages.WEBHOOK_NOT_FOUND(name=name))
        return Webhook.of(row)

    def delete(self, hook: Webhook, revision: int | None = None) -> None:
        """Delete a webhook and its secrets. Args: revision: `PreconditionError` unless it has this one; also below."""
        with self._database.transaction() as tx:
            _check_revision(tx, hook, revision)
            tx.run("delete_webhook", id=hook.id)
            tx.run("delete_webhook_secrets", id=hook.id)

    def rotate(self, hook: Webhook, revision: int | None = None) -> tuple[Webhook, bytes]:
        """Give it a new secret; the one before also signs for `OLD_VALID`, earlier ones no longer."""
        number = hook.secret_number + 1
        with self._database.transaction() as tx:
            _check_revision(tx, hook, revision)
            row = tx.row("rotate_webhook", id=hook.id, number=number, valid=OLD_VALID)
            if row is None:
                raise ConflictError(messages.WEBHOOK_ROTATED(name=hook.name))
            tx.run("delete_old_webhook_secrets", id=hook.id, number=number - 1)
            secret = self._store.secrets.of_in(
                tx, _secret_name(hook.id, number), secrets.token_bytes(SECRET_BYTES)
            )
        return Webhook.of(row), secret

    def enable(self, hook: Webhook, revision: int | None = None) -> Webhook:
        """Send again, from the first event on that wasn't delivered."""
        with self._database.transaction() as tx:
            _check_revision(tx, hook, revision)
            row = tx.row("enable_webhook", id=hook.id)
        if row is None:
            raise NotFoundError(messages.WEBHOOK_NOT_FOUND(name=hook.name))
        return Webhook.of(row)

    def begin_test(self, hook: Webhook) -> None:
        """Record a test message. Raises `ConflictError` if the project had one sent within `TEST_PAUSE`."""
        with self._database.transaction() as tx:
            tx.rows("lock_webhooks", project_id=hook.project_id)
            begun = tx.row("begin_webhook_test", id=hook.id, project_id=hook.project_id, pause=TEST_PAUSE)
        if begun is None:
            raise ConflictError(messages.WEBHOOK_TESTED(seconds=round(TEST_PAUSE.total_seconds())))

    def secrets(self, hook: Webhook) -> list[bytes]:
        """The secrets that sign, the newest first. Raises `InputError` if one can't be decrypted."""
        numbers = [hook.secret_number]
        if hook.old_until is not None and self._database.now() < hook.old_until:
            numbers.append(hook.secret_number - 1)
        found = [self._store.secrets.known(_secret_name(hook.id, number)) for number in numbers]
        return [secret for secret in found if secret is not None]

    # -- workers -------------------------------------------------------------------------------------------------

    def claim(self, limit: int) -> list[Webhook]:
        """Claim webhooks that are to be sent now."""
        rows = self._database.rows("claim_webhooks", limit=limit, share=SHARE, hold=HOLD)
        return [Webhook.of(row) for row in rows]

    def advance(self, hook: Webhook, position: Position, sent: int) -> bool:
        """Note what was sent or left out up to a position; False: the hold is over."""
        row = self._database.row(
            "advance_webhook",
            id=hook.id,
            token=hook.token,
            mark=position.mark,
            sent=sent,
            hold=HOLD,
            **position.values,
        )
        return row is not None

    def release(self, hook: Webhook) -> None:
        """Hand it back: all that there was is sent."""
        self._database.run("release_webhook", id=hook.id, token=hook.token)

    def fail(self, hook: Webhook, failures: int, reason: str, disable: str = "") -> None:
        """Record a failed attempt.

        Args:
            failures: in a row before this one.
            disable: why nothing is sent any more; empty: it is tried again.
        """
        delay = DELAYS[min(failures, len(DELAYS) - 1)]
        self._database.row(
            "fail_webhook",
            id=hook.id,
            token=hook.token,
            reason=message_json(disable or reason),
            delay=timedelta(seconds=delay),
            disable=bool(disable),
        )


def _check_revision(tx: Tx, hook: Webhook, revision: int | None) -> None:
    row = tx.row("lock_webhook", id=hook.id)
    if row is not None:
        check_revision(f"webhook {hook.name}", row["revision"], revision)


def _secret_name(id_: UUID, number: int) -> str:
    return f"webhook/{id_}/{number}"
