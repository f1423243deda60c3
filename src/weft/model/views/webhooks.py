"""Webhooks as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Revision
from weft.model.messages.documents import Coded, Sentence

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
EventPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]{1,64}$")]


class WebhookRequest(Document):
    """A webhook to be created."""

    name: str = Field(pattern=_NAME, description="Its name in the project.")
    url: str = Field(
        min_length=10,
        max_length=2000,
        pattern=r"^https://[\x21-\x7e]+$",
        description="Where events are sent: https, without user and fragment.",
    )
    events: tuple[EventPattern, ...] = Field(
        default=(),
        max_length=20,
        description="Types of events (state, error …) and beginnings of codes (NODE_) that are sent. Default: all.",
    )


class WebhookView(Coded):
    """A webhook; its secret is shown only when it is created."""

    sentence: ClassVar[str] = "reason"

    id: str
    project_id: str
    name: str
    url: str
    events: tuple[str, ...] = ()
    state: Literal["active", "failing", "disabled"] = Field(
        description="failing: the last attempt failed, it is tried again; disabled: nothing is sent."
    )
    reason: Sentence = Field(default="", description="Why it fails, or is disabled.")
    created_by: str
    created_at: datetime
    failing_since: datetime | None = None
    next_at: datetime | None = Field(default=None, description="When it is tried again, if it fails.")
    delivered: int = Field(default=0, description="Events that were delivered.")
    delivered_at: datetime | None = None
    old_secret_until: datetime | None = Field(
        default=None, description="Until when the secret from before the last rotation signs, too."
    )
    revision: Revision


class NewWebhook(WebhookView):
    """A webhook with its new secret."""

    secret: str = Field(description="Verifies signatures; shown only once.")


class WebhookTest(Coded):
    """The result of sending a test message."""

    sentence: ClassVar[str] = "reason"

    delivered: bool
    status: int | None = Field(default=None, description="Of the receiver's answer; null: there was none.")
    reason: Sentence = ""
    seconds: float
