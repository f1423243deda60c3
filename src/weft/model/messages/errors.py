"""Codes of errors whose sentence has none of its own: one for each class."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, word

INVALID_INPUT = Code("INVALID_INPUT", Component.ORDER, "invalid input", True, "errors")
CONFLICT = Code("CONFLICT", Component.ORDER, "not possible in the current state", True, "errors")
PRECONDITION = Code(
    "PRECONDITION", Component.ORDER, "the state that the change is based on has changed", True, "errors"
)
REVISION_CHANGED = Code(
    "REVISION_CHANGED",
    Component.SERVICE,
    "{what} was changed in the meantime: its revision is {now}, not {given}; read it again, and repeat the request",
    True,
    "conflicts",
    {"what": word(r"[A-Za-z0-9 ._:,'-]{1,300}"), "now": COUNT, "given": COUNT},
)
FORBIDDEN = Code("FORBIDDEN", Component.SERVICE, "not allowed", True, "errors")
UNAUTHENTICATED = Code("UNAUTHENTICATED", Component.SERVICE, "not signed in", True, "errors")
REFUSED = Code("REFUSED", Component.PLACEMENT, "the order can't be served", True, "errors")
INTERNAL = Code("INTERNAL", Component.SERVICE, "weft failed", True, "errors")
