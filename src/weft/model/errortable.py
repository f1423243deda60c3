"""Errors as problem documents (RFC 9457) and back: the ONE table of error classes, HTTP statuses and exit codes.

The HTTP API uses it to turn errors into documents, the client to turn documents back into the same errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NewerError,
    NotFoundError,
    OutsideError,
    PermanentError,
    PreconditionError,
    RefusedError,
    TemporaryError,
    UnauthenticatedError,
    UnknownError,
    WeftError,
    without_password,
)
from weft.model.messages import Code, Message, errors, message, outside, withheld

TYPE_PREFIX = "urn:weft:problem:"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How one class of errors is shown.

    Attributes:
        slug: end of the problem's `type`.
        status: HTTP status.
        title: short, the same for every error of the class (RFC 9457 §3.1.3).
        exit_code: of the command line: 2 caller's error, 1 failed or refused by state.
        code: of an error whose sentence has none of its own.
    """

    error: type[WeftError]
    slug: str
    status: int
    title: str
    exit_code: int
    code: Code


TABLE: tuple[ErrorRow, ...] = (  # subclasses first: the first matching row counts
    ErrorRow(InputError, "input", 400, "Invalid input", 2, errors.INVALID_INPUT),
    ErrorRow(UnauthenticatedError, "unauthenticated", 401, "Not signed in", 2, errors.UNAUTHENTICATED),
    ErrorRow(ForbiddenError, "forbidden", 403, "Not allowed", 2, errors.FORBIDDEN),
    ErrorRow(NotFoundError, "not-found", 404, "Not found", 2, withheld.ABSENT),
    ErrorRow(
        PreconditionError, "precondition", 412, "Not what the change is based on", 2, errors.PRECONDITION
    ),
    ErrorRow(ConflictError, "conflict", 409, "Not possible in the current state", 2, errors.CONFLICT),
    ErrorRow(RefusedError, "refused", 422, "The order can't be served", 1, errors.REFUSED),
    ErrorRow(UnknownError, "unknown", 503, "State can't be read", 1, outside.FAILED),
    ErrorRow(TemporaryError, "temporary", 503, "Temporary failure of an external service", 1, outside.FAILED),
    ErrorRow(NewerError, "newer", 503, "Written by a newer weft", 1, outside.FAILED),
    ErrorRow(PermanentError, "permanent", 502, "An external service failed", 1, outside.FAILED),
    ErrorRow(OutsideError, "outside", 502, "An external service failed", 1, outside.FAILED),
    ErrorRow(WeftError, "internal", 500, "weft failed", 1, errors.INTERNAL),
)
_BY_SLUG = {row.slug: row for row in TABLE}
_BY_STATUS = {
    400: "input",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    409: "conflict",
    412: "precondition",
}
_LONGEST_VALUE = 200
MOST_ERRORS = 100
"""Invalid values in one problem document; the others are counted as `more_errors`."""


def row_of(error: WeftError) -> ErrorRow:
    """The row of an error's class."""
    return next(row for row in TABLE if isinstance(error, row.error))


def exit_code(error: WeftError) -> int:
    """Exit code of the command line for an error."""
    return row_of(error).exit_code


def to_problem(error: WeftError, instance: str = "", request_id: str = "") -> dict[str, object]:
    """The problem document of an error, ready for JSON.

    Besides the members of RFC 9457: `code` and `params` of its sentence, or the code of its class; `request_id`; for
    invalid input `errors` (field, value, where, and allowed with its own code and params), the first `MOST_ERRORS` of
    them, with the number of others as `more_errors`; for a refused order `explanation`; for failures of external
    services `asked`, `of`, `answer`, `then`, and `retry_after` in seconds for temporary ones.
    """
    row = row_of(error)
    problem: dict[str, object] = {
        "type": TYPE_PREFIX + row.slug,
        "title": row.title,
        "status": row.status,
        "detail": str(error),
        "code": error.message.code or row.code.name,
        "params": error.message.fields(),
    }
    if instance:
        problem["instance"] = instance
    if request_id:
        problem["request_id"] = request_id
    if isinstance(error, InputError):
        several, more = (error.errors, error.more) if isinstance(error, InputErrors) else ([error], 0)
        shown = several[:MOST_ERRORS]
        problem["errors"] = [_input(e) for e in shown]
        lines = [sentence(e) for e in shown]
        if more := more + len(several) - len(shown):
            problem["more_errors"] = more
            lines.append(f"… and {more} more")
        problem["detail"] = "\n".join(lines)
    elif isinstance(error, RefusedError):
        problem["explanation"] = error.detail
    elif isinstance(error, OutsideError):
        problem |= {"asked": error.asked, "of": error.of, "answer": error.answer, "then": error.then}
        if isinstance(error, TemporaryError):
            problem["retry_after"] = max(1, math.ceil(error.delay))
    return problem


def from_problem(status: int, problem: Mapping[str, object]) -> WeftError:
    """The error of a problem document; for a document that isn't weft's, the nearest class."""
    slug = str(problem.get("type", "")).removeprefix(TYPE_PREFIX)
    row = _BY_SLUG.get(slug) or _BY_SLUG[_BY_STATUS.get(status, "internal")]
    text = str(problem.get("detail") or problem.get("title") or f"HTTP {status}")
    detail = text if problem.get("code") == row.code.name else _said(text, problem)
    if row.error is InputError:
        return _read_input(problem, detail)
    if row.error is RefusedError:
        explanation = problem.get("explanation")
        known = isinstance(explanation, dict)
        return RefusedError(detail, cast(dict[str, object], explanation) if known else None)
    if issubclass(row.error, OutsideError):
        return _read_outside(row.error, problem, detail)
    return row.error(detail)


def _said(text: str, fields: Mapping[str, object]) -> Message:
    """A sentence with the code and values that stand beside it."""
    return Message.read({"code": fields.get("code"), "params": fields.get("params"), "message": text})


def _input(error: InputError) -> dict[str, object]:
    allowed = message(error.allowed)
    return {
        "field": _cut(error.field),
        "value": None if error.value is None else shorten(error.value),
        "allowed": str(error.allowed),
        "where": error.where,
        "code": allowed.code,
        "params": allowed.fields(),
    }


def sentence(error: WeftError) -> str:
    """The error's sentence, with overlong values truncated."""
    if not isinstance(error, InputError) or isinstance(error, InputErrors):
        return str(error)
    shown = None if error.value is None else Shown(shorten(error.value))
    return str(InputError(_cut(error.field), shown, error.allowed, error.where))


def shorten(value: object) -> str:
    """`repr` of a value, truncated to a readable length and safe in any encoding."""
    return _cut(without_password(value.text if isinstance(value, Shown) else repr(value)))


def _cut(text: str) -> str:
    if len(text) > _LONGEST_VALUE:
        text = f"{text[:_LONGEST_VALUE]}… ({len(text)} characters)"
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Shown:
    """A value known only as text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _read_input(problem: Mapping[str, object], detail: str) -> InputError:
    found: list[InputError] = []
    rows = problem.get("errors")
    for row in cast(list[Any], rows) if isinstance(rows, list) else []:
        if isinstance(row, dict):
            row = cast(dict[str, Any], row)
            where = row.get("where")
            found.append(
                InputError(
                    str(row.get("field", "")),
                    None if row.get("value") is None else Shown(str(row["value"])),
                    _said(str(row.get("allowed", detail)), row),
                    str(where) if where else None,
                )
            )
    if not found:
        return InputError("request", Shown("what was sent"), detail)
    more = problem.get("more_errors")
    left = more if isinstance(more, int) else 0
    return found[0] if len(found) == 1 and not left else InputErrors(found, left)


def _read_outside(error: type[OutsideError], problem: Mapping[str, object], detail: str) -> OutsideError:
    params = _said(detail, problem).params
    asked, of, answer, then = (_part(key, problem, params) for key in ("asked", "of", "answer", "then"))
    if not asked:
        asked, of, answer, then = "answer the request", "weft", detail, outside.TRY_LATER()
    if issubclass(error, TemporaryError):
        delay = problem.get("retry_after")
        return error(asked, of, answer, then, float(delay) if isinstance(delay, int | float) else 5.0)
    return error(asked, of, answer, then)


def _part(key: str, problem: Mapping[str, object], params: Mapping[str, object]) -> str:
    """One part of a failure, with its code and values if they are there."""
    text, known = str(problem.get(key, "")), params.get(key)
    return known if isinstance(known, Message) and known == text else text
