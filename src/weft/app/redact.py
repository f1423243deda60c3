"""Answers and errors as the caller may see them: operators unchanged, everybody else by tables.

A verb that isn't in `TENANTS` answers only callers that the rule `details:show` names, whatever else the policy
allows. Of an answer, `weft.app.shown` decides what is shown, and of errors this module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast
from uuid import UUID

from weft.app import tenanttext
from weft.app.checkverbs import Reporter
from weft.app.monitoringverbs import Scraper
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.shown import shown
from weft.app.verbs import TENANTS, Request
from weft.engine.rows.shownrecords import FoundPod
from weft.engine.watch.lookout import PodCallback
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
from weft.model.views import CheckReceipt, EventSearch, Health
from weft.planning.site.monitoring import Targets


def redacted(verbs: Service, policy: Policy) -> Service:
    """The same verbs, with what the caller may not see taken out of answers and errors."""
    return cast(Service, _Redacted(verbs, policy))


class _Redacted:
    """Wraps every verb by its name, so that none can be forgotten."""

    def __init__(self, verbs: Service, policy: Policy) -> None:
        self._verbs = verbs
        self._policy = policy

    def health(self) -> Health:
        """Needs no token."""
        return shown(self._verbs.health())

    def find_pod(self, request: Request, rule: str, name: str) -> FoundPod:
        """Nothing in it is hidden from a caller who may see the pod."""
        if self._policy.is_operator(request.caller):
            return self._verbs.find_pod(request, rule, name)
        with _errors_shown():
            return self._verbs.find_pod(request, rule, name)

    def watching(self, pod_id: UUID, seen: PodCallback) -> AbstractContextManager[None]:
        """Not redacted: it only wakes a wait, whose answer comes from another verb."""
        return self._verbs.watching(pod_id, seen)

    def watching_events(
        self, request: Request, search: EventSearch, position: str, seen: Callable[[], None]
    ) -> AbstractContextManager[None]:
        """See `watching`."""
        return self._verbs.watching_events(request, search, position, seen)

    def reporter(self, token: str, node: str, address: str, request_id: str, agent: str) -> Reporter:
        """A node's own verbs aren't redacted: what they answer is about what it has sent."""
        return self._verbs.reporter(token, node, address, request_id, agent)

    def report_checks(self, reporter: Reporter, given: dict[str, object]) -> CheckReceipt:
        """See `reporter`."""
        return self._verbs.report_checks(reporter, given)

    def expected_of_node(self, reporter: Reporter) -> bytes:
        """See `reporter`."""
        return self._verbs.expected_of_node(reporter)

    def monitoring_targets(self, scraper: Scraper, job: str) -> Targets:
        """For operators and the holder of their token alone."""
        return self._verbs.monitoring_targets(scraper, job)

    def monitoring_info(self, scraper: Scraper) -> bytes:
        """See `monitoring_targets`."""
        return self._verbs.monitoring_info(scraper)

    def monitoring_switches(self, scraper: Scraper) -> bytes:
        """See `monitoring_targets`."""
        return self._verbs.monitoring_switches(scraper)

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)
        verb = cast(Callable[..., object], getattr(self._verbs, name))

        def ask(request: Request, *given: Any, **named: Any) -> object:
            if self._policy.is_operator(request.caller):
                return verb(request, *given, **named)
            if name not in TENANTS:
                who = request.caller.user_name
                raise ForbiddenError(
                    f"{who} may not see what {name} answers: the rule details:show is for operators"
                )
            with _errors_shown():
                return shown(verb(request, *given, **named))

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
            return value  # they only tell callers about themselves
        case _:
            return WeftError(f"weft could not handle this request ({OPERATORS})")


def _input(value: InputError) -> InputError:
    return InputError(value.field, value.value, tenanttext.allowed(value.allowed))


def _outside(value: OutsideError) -> tuple[str, str, str, str]:
    return tenanttext.failure(value)
