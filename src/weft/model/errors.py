"""The error hierarchy; the retry policy *is* the hierarchy.

`InputError` and its kin are the caller's: they become exit code 2 or an HTTP 4xx and nothing was changed.
`TemporaryError` and `PermanentError` come from outside (cloud, fabric, database): they say what was asked,
of whom, and what to do next; the loop retries the first after `delay` and stops for the second.
"""

from __future__ import annotations

import math


class WeftError(Exception):
    """Base of everything that weft raises on purpose; `str()` is one sentence fit for a user."""


class InputError(WeftError):
    """A value somebody gave can't be taken. HTTP 400, exit code 2.

    Args:
        field: dotted name of the field (`nodes.count`, `hcas[3].guid`).
        value: what was given; None if nothing was, and something must be.
        allowed: what would have been right, as the end of a sentence.
        where: file and line (`site.yaml:12`), if it came from a file.
    """

    def __init__(self, field: str, value: object, allowed: str, where: str | None = None) -> None:
        self.field, self.value, self.allowed, self.where = field, value, allowed, where
        place = f"{where}: " if where else ""
        what = "nothing is given" if value is None else f"{value!r} is not allowed"
        super().__init__(f"{place}{field}: {what}: {allowed}")


class InputErrors(InputError):  # noqa: N818 - the plural says what it is
    """Several `InputError`s of one document, in the order of its lines; `str()` has one line each.

    Args:
        more: how many there are beside these; nobody reads thousands of them.
    """

    def __init__(self, errors: list[InputError], more: int = 0) -> None:
        first = errors[0]
        super().__init__(first.field, first.value, first.allowed, first.where)
        self.errors = errors
        self.more = more
        lines = [str(e) for e in errors]
        self.args = ("\n".join([*lines, f"… and {more} more"] if more else lines),)


class NotFoundError(WeftError):
    """There is no such thing, or the caller may not know that there is. HTTP 404, exit code 2."""


class ConflictError(WeftError):
    """It can't be done in the present state (name taken, wrong state, stale generation). HTTP 409, exit code 2."""


class UnauthenticatedError(WeftError):
    """No token, or one that is not valid any more. HTTP 401, exit code 2."""


class ForbiddenError(WeftError):
    """The caller's roles don't allow it. HTTP 403, exit code 2."""


class RefusedError(WeftError):
    """An order that can't be served as it stands: no room, over quota, not possible on this fabric. HTTP 422.

    `detail` is a JSON object that explains (filters, quota rows, the smallest change that would fit).
    """

    def __init__(self, message: str, detail: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.detail = detail or {}


class OutsideError(WeftError):
    """Something outside of weft failed.

    Args:
        asked: what was asked, e.g. `create port weft-1a2b-port-gpu01`.
        of: whom, e.g. `neutron at http://…` or `fabric agent sm1`.
        answer: what came back, in short.
        then: what happens or must be done next.
    """

    def __init__(self, asked: str, of: str, answer: str, then: str) -> None:
        self.asked, self.of, self.answer, self.then = asked, of, answer, then
        super().__init__(f"{asked} ({of}): {answer}; {then}")


LONGEST_DELAY = 3600.0
"""Seconds: what others say how long to wait is advice, and has a bound."""


class TemporaryError(OutsideError):
    """Worth trying again after `delay` seconds. HTTP 503, exit code 1.

    Args:
        delay: 0 to `LONGEST_DELAY`; what lies beyond is cut, what is no number is the default.
        alarming: a person must look, although it may pass by itself: weft isn't let in.
    """

    def __init__(
        self,
        asked: str,
        of: str,
        answer: str,
        then: str = "will be retried",
        delay: float = 5.0,
        alarming: bool = False,
    ):
        super().__init__(asked, of, answer, then)
        self.delay = 5.0 if math.isnan(delay) else min(max(delay, 0.0), LONGEST_DELAY)
        self.alarming = alarming


class UnknownError(TemporaryError):
    """The state of the outside can't be read. Unknown is not the same as fine: never take it for absent."""


class PermanentError(OutsideError):
    """Trying again won't help: `then` says what a person must change. HTTP 502, exit code 1."""


class NotYetError(TemporaryError):
    """Nothing is wrong: it comes up, or goes, by itself and is looked at again soon. No pod's reason tells of it."""


class TakenError(PermanentError):
    """A number that was allotted is in use outside by somebody else: another one helps.

    Args:
        key: the resource that can't be made with it.
    """

    def __init__(self, asked: str, of: str, answer: str, key: str) -> None:
        super().__init__(asked, of, answer, "free it there, or let the pod have another")
        self.key = key
