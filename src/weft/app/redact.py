"""Answers and errors as the caller may see them: operators unchanged, everybody else by tables.

A verb that isn't in `TENANTS` answers only callers that the rule `details:show` names, whatever else the policy
allows. Of an answer, `weft.app.shown` decides what is shown, and of errors this module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from weft.app import tenanttext
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.shown import shown
from weft.app.verbs import TENANTS, Request
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NotFoundError,
    OutsideError,
    RefusedError,
    TemporaryError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.messages import OPERATORS

UNTOUCHED = frozenset(
    {
        "pods.watching",  # only wakes a wait, whose answer comes from another verb
        "events.watching",  # likewise
        "checks.reporter",  # what a node's own verbs answer is about what it has sent
        "checks.report",
        "checks.expected",
        "monitoring.targets",  # for operators and the holder of their token alone
        "monitoring.info",
        "monitoring.switches",
    }
)
"""Verbs that are passed on as they are."""
_FOUND = "pods.find"
"""Nothing in its answer is hidden from a caller who may see the pod."""


def redacted(verbs: Service, policy: Policy) -> Service:
    """The same verbs, with what the caller may not see taken out of answers and errors."""
    return cast(Service, _Redacted(verbs, policy))


class _Redacted:
    """Wraps every verb by its name, so that none can be forgotten."""

    def __init__(self, verbs: object, policy: Policy, part: str = "") -> None:
        self._verbs, self._policy, self._part = verbs, policy, part

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        found, named = getattr(self._verbs, name), f"{self._part}{name}"
        if not callable(found):
            return _Redacted(found, self._policy, f"{named}.")
        if named == "health":  # needs no token
            return lambda: shown(found())
        return found if named in UNTOUCHED else self._asked(named, found)

    def _asked(self, named: str, verb: Callable[..., object]) -> Callable[..., object]:
        def ask(request: Request, *given: Any, **more: Any) -> object:
            if self._policy.is_operator(request.caller):
                return verb(request, *given, **more)
            if named not in TENANTS:
                who = request.caller.user_name
                raise ForbiddenError(
                    f"{who} may not see what {named} answers: the rule details:show is for operators"
                )
            with _errors_shown():
                answer = verb(request, *given, **more)
                return answer if named == _FOUND else shown(answer)

        return ask


@contextmanager
def _errors_shown() -> Generator[None]:
    try:
        yield
    except WeftError as raised:
        raise error(raised) from raised


def error(value: WeftError) -> WeftError:
    """The same error without what tenants may not see."""
    match value:
        case RefusedError():
            return RefusedError(tenanttext.refusal(value.message), refusal=shown(value.refusal))
        case TemporaryError():
            return type(value)(*_outside(value), delay=value.delay)
        case OutsideError():
            return type(value)(*_outside(value))
        case InputErrors():
            return InputErrors([_input(one) for one in value.errors], value.more)
        case InputError():
            return _input(value)
        case ConflictError():
            return type(value)(tenanttext.conflict(value.message))
        case NotFoundError():
            return NotFoundError(tenanttext.absent(value.message))
        case ForbiddenError() | UnauthenticatedError():
            return value  # they only have facts about the caller
        case _:
            return WeftError(f"weft could not handle this request ({OPERATORS})")


def _input(value: InputError) -> InputError:
    return InputError(value.field, value.value, tenanttext.allowed(value.allowed))


def _outside(value: OutsideError) -> tuple[str, str, str, str]:
    return tenanttext.failure(value)
