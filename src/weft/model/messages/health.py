"""Messages about the health of weft's own parts; anyone may ask for them."""

from __future__ import annotations

from weft.model.messages.message import Code, Component, Message
from weft.model.messages.values import COUNT, TEXT

OK = Code("OK", Component.SERVICE, "ok", True, "health")
STARTING = Code("STARTING", Component.SERVICE, "starting", True, "health")
MANAGERS_SILENT = Code(
    "MANAGERS_SILENT",
    Component.FABRIC,
    "ok, but {silent} of {all} managers don't respond",
    True,
    "health",
    {"silent": COUNT, "all": COUNT},
)
MANAGER_SILENT = Code(
    "MANAGER_SILENT", Component.FABRIC, "unknown: its manager doesn't respond", True, "health"
)
DATABASE_BEHIND = Code(
    "DATABASE_BEHIND",
    Component.SERVICE,
    "none: the database was restored and isn't accepted yet (weft audit --accept)",
    True,
    "health",
)
NOTE_UNREAD = Code(
    "NOTE_UNREAD", Component.SERVICE, "unknown: a cloud's note of the database can't be read", True, "health"
)
CERTIFICATE_KEPT = Code(
    "CERTIFICATE_KEPT",
    Component.SERVICE,
    "new TLS files can't be used, those from before stay in use: {text}",
    None,
    "health",
    {"text": TEXT},
)
_LASTED = {"lasted": COUNT, "limit": COUNT, "trouble": TEXT}
NO_SIGN_OF_LIFE = Code(
    "NO_SIGN_OF_LIFE",
    Component.SERVICE,
    "no heartbeat for {lasted} s, more than {limit} s",
    True,
    "health",
    _LASTED,
)
NO_TURN = Code(
    "NO_TURN",
    Component.SERVICE,
    "no turn for {lasted} s, more than {limit} s[ ({trouble}; see the log)]",
    "no turn for {lasted} s, more than {limit} s",
    "health",
    _LASTED,
)


def is_well(said: str) -> bool:
    """Whether a part of weft works, by its message's code; threads say `ok` alone."""
    return said == "ok" or (isinstance(said, Message) and said.code == MANAGERS_SILENT.name)
