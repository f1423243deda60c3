"""What a tenant reads of messages: the tenants' column of the table, or a general sentence where it has none.

Closed by default: plain text, and messages without a sentence for tenants, are hidden (`weft.model.messages`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from weft.model.errors import OutsideError
from weft.model.messages import Message, for_tenant, outside, withheld
from weft.model.messages.values import FIELD
from weft.model.pod import PodState

HIDDEN = "(hidden)"
_OWN_FIELDS = frozenset({"status", "cidr", "address", "gateway", "dhcp", "port_security", "others"})
"""Fields of resources whose values the tenant can also read in its own cloud."""
_VALUE = re.compile(r"[A-Za-z0-9._/-]{0,18}")
_STATES: Mapping[PodState, str] = {
    PodState.PENDING: "it is waiting",
    PodState.PLACED: "it is about to be created",
    PodState.WIRING: "something is not ready yet; weft keeps trying",
    PodState.BOOTING: "something is not ready yet; weft keeps trying",
    PodState.VERIFYING: "not everything was read back as desired yet",
    PodState.READY: "it serves, but not everything is set as the site wants it",
    PodState.DEGRADED: "not everything is as desired; weft keeps checking and repairs what it can",
    PodState.FAILED: "it can't be served as ordered",
    PodState.RELEASING: "not everything was seen gone yet; weft continues until it is",
}


def reason(text: str, state: PodState) -> str:
    """Why a pod is in its state."""
    if not text:
        return ""
    return for_tenant(text) or withheld.reason(what=_STATES.get(state))


def step(text: str, at_rest: bool) -> str:
    """Why a resource is in its state; empty if there is nothing to say, as for one at rest or proved gone."""
    return text and (for_tenant(text) or ("" if at_rest else withheld.reason()))


def event(text: str) -> Message:
    """An event's message. None is omitted: a client that waits for events would request it again and again."""
    return for_tenant(text) or withheld.EVENT()


def known(text: str) -> str:
    """What a tenant may read of a text; empty if that is nothing."""
    return for_tenant(text) or ""


def other(code: Callable[[], Message]) -> Callable[[str], str]:
    """A function that returns a text as a tenant may read it, or this message where it is hidden."""
    return lambda text: text and (for_tenant(text) or code())


why_not_in = other(withheld.reason)
refusal = other(withheld.REFUSAL)
conflict = other(withheld.CONFLICT)
allowed = other(withheld.ALLOWED)
absent = other(withheld.ABSENT)
health = other(withheld.HEALTH)


def failure(error: OutsideError) -> tuple[str, str, str, str]:
    """What was asked, of which service, its answer, and what happens next."""
    shown: Mapping[str, Any] = {}
    if known := for_tenant(error.message):
        shown = known.params
    names = ("asked", "of", "answer", "then")
    asked, of, answer, then = (
        cast(str, shown.get(name) or outside.FAILED.types[name].shown("")) for name in names
    )
    return asked, of, answer, then


def difference(field: str, wanted: str, observed: str) -> tuple[str, str, str]:
    """Field, wanted and observed value, these two only for fields that the tenant can see in its own cloud."""
    if not FIELD.valid(field):
        return HIDDEN, HIDDEN, HIDDEN
    if field in _OWN_FIELDS and _VALUE.fullmatch(wanted) and _VALUE.fullmatch(observed):
        return field, wanted, observed
    return field, HIDDEN, HIDDEN
