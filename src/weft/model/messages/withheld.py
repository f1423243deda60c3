"""What a tenant reads instead of a message that may reveal something about others."""

from __future__ import annotations

from weft.model.messages.message import OPERATORS, Code, Component, Message
from weft.model.messages.values import word

_OF_STATE = Code(
    "STATE_DETAILS_WITHHELD",
    Component.SERVICE,
    f"{{what}} ({OPERATORS})",
    True,
    "withheld",
    {"what": word("[a-z][a-z ,;']{1,90}")},
)
_PLAIN = Code("DETAILS_WITHHELD", Component.SERVICE, OPERATORS, True, "withheld")
EVENT = Code("EVENT_WITHHELD", Component.SERVICE, "operators see what happened", True, "withheld")
REFUSAL = Code(
    "REFUSAL_WITHHELD", Component.PLACEMENT, f"the order can't be served ({OPERATORS})", True, "withheld"
)
CONFLICT = Code(
    "CONFLICT_WITHHELD", Component.ORDER, f"not possible in the current state ({OPERATORS})", True, "withheld"
)
ALLOWED = Code("ALLOWED_WITHHELD", Component.ORDER, f"another value ({OPERATORS})", True, "withheld")
ABSENT = Code("NOT_FOUND", Component.ORDER, "not found", True, "withheld")
HEALTH = Code("NOT_OK", Component.SERVICE, "not ok", True, "withheld")


def reason(what: str | None = None) -> Message:
    """A reason that only operators see. Args: what: what tenants may read instead of it, such as a state."""
    return _OF_STATE(what=what) if what else _PLAIN()
