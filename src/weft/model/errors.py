"""The error hierarchy; the retry policy *is* the hierarchy.

`InputError` and similar are the caller's: they become exit code 2 or an HTTP 4xx, and nothing was changed.
`TemporaryError` and `PermanentError` come from outside (cloud, fabric, database): they say what was asked,
of whom, and what happens next; the loop retries the first after `delay` and stops for the second.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.model.placement import Refusal

from weft.model.messages import Message, message, outside


class WeftError(Exception):
    """An internal error. Base of all errors that weft raises on purpose; `str()` is one sentence for operators."""

    @property
    def message(self) -> Message:
        """The sentence with its code and values, if it has them."""
        return message(self.args[0] if self.args else "")


LONGEST_VALUE = 300
"""Characters of a value that are shown in a sentence."""


class InputError(WeftError):
    """Invalid input. HTTP 400, exit code 2.

    Args:
        field: dotted name of the field (`nodes.count`, `hcas[3].guid`).
        value: what was given; None if a required value is missing.
        allowed: what would have been right, as the end of a sentence.
        where: file and line (`site.yaml:12`), if it came from a file.
    """

    def __init__(self, field: str, value: object, allowed: str, where: str | None = None) -> None:
        self.field, self.value, self.allowed, self.where = field, value, allowed, where
        place = f"{where}: " if where else ""
        what = "missing" if value is None else f"{_shown(value)} is not allowed"
        super().__init__(f"{place}{field}: {what}: {allowed}")


_USERINFO = re.compile(r"(://)[^\s'\"]{1,300}@")
_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&\s'\"]+", re.IGNORECASE)


def without_password(text: str) -> str:
    """The text without users and passwords in its URLs, also as a parameter of a database's; a message without any is
    returned unchanged."""
    if "://" not in text or not (_USERINFO.search(text) or _PARAMETER.search(text)):
        return text
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(r"\1***@", text))


def _shown(value: object) -> str:
    """The value's `repr`, truncated if long."""
    text = without_password(repr(value))
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({len(text)} characters)"


class InputErrors(InputError):  # noqa: N818 - the plural says what it is
    """The `InputError`s of one document, in the order of its lines; `str()` has one line each.

    Args:
        more: how many were left out.
    """

    def __init__(self, errors: list[InputError], more: int = 0) -> None:
        first = errors[0]
        super().__init__(first.field, first.value, first.allowed, first.where)
        self.errors = errors
        self.more = more
        lines = [str(e) for e in errors]
        self.args = ("\n".join([*lines, f"… and {more} more"] if more else lines),)


class NotFoundError(WeftError):
    """Not found, or not visible to the caller. HTTP 404, exit code 2."""


class ConflictError(WeftError):
    """Not possible in the current state (name taken, wrong state, stale generation). HTTP 409, exit code 2."""


class PreconditionError(ConflictError):
    """The request's condition doesn't hold: the generation is another one, or it exists already, or doesn't. HTTP 412,
    exit code 2."""


class UnauthenticatedError(WeftError):
    """No token, or an expired or invalid one. HTTP 401, exit code 2."""


class ForbiddenError(WeftError):
    """Not allowed by the caller's roles. HTTP 403, exit code 2."""


class RefusedError(WeftError):
    """An order that can't be served: no capacity, over quota, not possible on this fabric. HTTP 422.

    Attributes:
        refusal: filters, quotas, the smallest changes that would fit: a `weft.model.placement.Refusal`; None: the
            sentence is all, or the error was read from an answer.
        detail: the same as a JSON object.
    """

    def __init__(
        self, message: str, detail: dict[str, object] | None = None, refusal: Refusal | None = None
    ) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.detail = detail or ({} if refusal is None else refusal.model_dump(mode="json"))


class OutsideError(WeftError):
    """An external service failed.

    Args:
        asked: what was asked, e.g. `create port weft-1a2b-port-gpu01`.
        of: whom, e.g. `neutron at http://…` or `fabric agent sm1`.
        answer: the response, in short.
        then: what happens next, or must be done.

    Attributes:
        lands: seconds for which the request may still take effect unseen; 0: it can't, or every reading from now on
            shows it. Set by the driver that asked.
    """

    lands: float = 0.0

    def __init__(self, asked: str, of: str, answer: str, then: str) -> None:
        self.asked, self.of, self.answer, self.then = (without_password(t) for t in (asked, of, answer, then))
        super().__init__(outside.FAILED(asked=self.asked, of=self.of, answer=self.answer, then=self.then))


LONGEST_DELAY = 3600.0
"""Seconds: delays that others ask for are advice, and bounded."""


class TemporaryError(OutsideError):
    """A failure that may resolve itself; retry after `delay` (`retry_after`) seconds. HTTP 503, exit code 1.

    Args:
        delay: clamped to 0 to `LONGEST_DELAY`; NaN means the default.
        alarming: someone should look at it although it may resolve itself, such as denied access.
    """

    def __init__(
        self,
        asked: str,
        of: str,
        answer: str,
        then: str = outside.WILL_RETRY(),
        delay: float = 5.0,
        alarming: bool = False,
    ):
        super().__init__(asked, of, answer, then)
        self.delay = 5.0 if math.isnan(delay) else min(max(delay, 0.0), LONGEST_DELAY)
        self.alarming = alarming


class UnknownError(TemporaryError):
    """The state of an external service can't be read. Unknown is not healthy, and never means absent."""


class PermanentError(OutsideError):
    """Retrying won't help: `then` says what someone must change. HTTP 502, exit code 1."""


class OutdatedError(TemporaryError):
    """A newer weft has upgraded the database: this process is too old for it, others may not be. HTTP 503."""


class NewerError(PermanentError):
    """A newer weft that works on the same database wrote it, and only that can read it. HTTP 503, exit code 1."""


class NotYetError(TemporaryError):
    """Nothing is wrong: it appears or disappears by itself and is checked again soon. Never part of a pod's reason."""


class TakenError(PermanentError):
    """An allocated number is in use by someone else: another one is needed.

    Args:
        key: the resource that can't be created with it.
    """

    def __init__(self, asked: str, of: str, answer: str, key: str) -> None:
        super().__init__(asked, of, answer, "free it there, or let the pod use another one")
        self.key = key
