"""Messages about links of a fabric: who uses them, and what isn't known of them."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import word

_ENGINE = word(r"[\w-]{1,40}")

ROUTING_ENGINE = Code(
    "ROUTING_ENGINE",
    Component.FABRIC,
    "routing engine {configured} is configured, and {used} is in force: it doesn't fit the fabric, and OpenSM went on "
    "with another one without an error; see opensm's log, and correct routing_engine",
    None,
    "links",
    {"configured": _ENGINE, "used": _ENGINE},
)
