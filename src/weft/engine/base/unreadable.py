"""Rows that can't be read: they are set aside with their reason, and never guessed."""

from __future__ import annotations

import threading

from pydantic import ValidationError

from weft.model.errors import NewerError, PermanentError
from weft.model.messages import outside


class UnreadableError(PermanentError):
    """A stored row or document that this weft can't read, and must not guess. HTTP 502."""


class NewerRowError(UnreadableError, NewerError):
    """A row that this weft can't read and leaves to a newer one, which has worked with the database. HTTP 503."""


NEWER_WEFT = threading.Event()
"""Set while a newer weft than this process is known to have worked with its database."""


def unreadable(what: str, error: Exception) -> UnreadableError:
    """The error of a row that can't be read, with the places in it but no values, which may be anyone's."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        places = [f"{'.'.join(str(x) for x in e['loc']) or 'document'}: {e['msg']}" for e in found[:3]]
        seen = "; ".join(places) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")
    else:
        seen = f"{type(error).__name__}: {error}"
    if NEWER_WEFT.is_set():
        then = "a worker of the newer weft goes on with it; this process needs that version to read it"
        return NewerRowError(f"read {what}", "the database", outside.NEEDS_NEWER(found=seen[:500]), then)
    then = "an operator must correct the row or upgrade weft; everything of it stays held until then"
    return UnreadableError(f"read {what}", "the database", seen[:500], then)


READING = (ValidationError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a row raises if it isn't as weft writes it."""
