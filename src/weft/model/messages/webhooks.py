"""Messages about webhooks: why an event wasn't delivered, and why nothing is sent any more."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, Code, Component
from weft.model.messages.values import COUNT, word

_NAME = word(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_WHY = word(r"[a-z ]{1,80}")

RECEIVER_STATUS = Code(
    "RECEIVER_STATUS",
    Component.SERVICE,
    "the receiver answered HTTP {status}, not 2xx",
    True,
    "webhooks",
    {"status": COUNT},
)
RECEIVER_REDIRECTS = Code(
    "RECEIVER_REDIRECTS",
    Component.SERVICE,
    "the receiver answered HTTP {status}: redirects aren't followed; give the URL that it redirects to",
    True,
    "webhooks",
    {"status": COUNT},
)
RECEIVER_REFUSED = Code(
    "RECEIVER_REFUSED",
    Component.SERVICE,
    "the URL's host has no address that webhooks may be sent to: a public one, or in a network that the site allows",
    True,
    "webhooks",
)
RECEIVER_UNREACHABLE = Code(
    "RECEIVER_UNREACHABLE",
    Component.SERVICE,
    "the receiver can't be reached: {why}",
    True,
    "webhooks",
    {"why": _WHY},
)
RECEIVER_LATE = Code(
    "RECEIVER_LATE",
    Component.SERVICE,
    "the receiver didn't answer within {limit} s",
    True,
    "webhooks",
    {"limit": COUNT},
)
RECEIVER_GONE = Code(
    "RECEIVER_GONE",
    Component.SERVICE,
    "the receiver answered HTTP 410: it wants no more; nothing is sent until the webhook is enabled again",
    True,
    "webhooks",
)
WEBHOOK_FAILED = Code(
    "WEBHOOK_FAILED",
    Component.SERVICE,
    "nothing was delivered for {hours} h ({why}): nothing is sent until the webhook is enabled again",
    True,
    "webhooks",
    {"hours": COUNT, "why": MESSAGE},
)
SECRET_UNREADABLE = Code(
    "SECRET_UNREADABLE",
    Component.SERVICE,
    "the webhook's secret can't be decrypted: weft's host lacks the key",
    "nothing can be signed now; weft tries again",
    "webhooks",
)
WEBHOOK_NOT_FOUND = Code(
    "WEBHOOK_NOT_FOUND",
    Component.SERVICE,
    "there is no webhook '{name}' in this project",
    True,
    "webhooks",
    {"name": word(r"[^\s'\"\\]{1,80}")},
)
WEBHOOK_EXISTS = Code(
    "WEBHOOK_EXISTS",
    Component.SERVICE,
    "name: webhook '{name}' already exists; delete it first or use another name",
    True,
    "webhooks",
    {"name": _NAME},
)
TOO_MANY_WEBHOOKS = Code(
    "TOO_MANY_WEBHOOKS",
    Component.SERVICE,
    "the project has {most} webhooks, as many as the site allows: delete one first",
    True,
    "webhooks",
    {"most": COUNT},
)
WEBHOOK_ROTATED = Code(
    "WEBHOOK_ROTATED",
    Component.SERVICE,
    "webhook '{name}' got another secret meanwhile: rotate it again if that one isn't known",
    True,
    "webhooks",
    {"name": _NAME},
)
WEBHOOK_TESTED = Code(
    "WEBHOOK_TESTED",
    Component.SERVICE,
    "a webhook of the project was tried within the last {seconds} s: try again",
    True,
    "webhooks",
    {"seconds": COUNT},
)
