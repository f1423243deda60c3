"""Rows that can't be read: they are set aside with their reason, and never guessed."""

from __future__ import annotations

from pydantic import ValidationError

from weft.model.errors import PermanentError


class UnreadableError(PermanentError):
    """A stored row or document that this weft can't read, and must not guess. HTTP 502."""


def unreadable(what: str, error: Exception) -> UnreadableError:
    """The error of a row that can't be read, with the places in it but no values, which may be anyone's."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        places = [f"{'.'.join(str(x) for x in e['loc']) or 'document'}: {e['msg']}" for e in found[:3]]
        seen = "; ".join(places) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")
    else:
        seen = f"{type(error).__name__}: {error}"
    then = "an operator must correct the row or upgrade weft; everything of it stays held until then"
    return UnreadableError(f"read {what}", "the database", seen[:500], then)


READING = (ValidationError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a row raises if it isn't as weft writes it."""
