"""Codes of errors whose sentence has none of its own: one for each class."""

from __future__ import annotations

from weft.model.messages.message import Code, Part

INVALID_INPUT = Code("INVALID_INPUT", Part.ORDER, "invalid input", True, "errors")
CONFLICT = Code("CONFLICT", Part.ORDER, "not possible in the current state", True, "errors")
FORBIDDEN = Code("FORBIDDEN", Part.SERVICE, "not allowed", True, "errors")
UNAUTHENTICATED = Code("UNAUTHENTICATED", Part.SERVICE, "not signed in", True, "errors")
REFUSED = Code("REFUSED", Part.PLACEMENT, "the order can't be served", True, "errors")
INTERNAL = Code("INTERNAL", Part.SERVICE, "weft failed", True, "errors")
