"""Conditions of a change: the headers `If-Match` and `If-None-Match` (RFC 9110 §13.1)."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Header

from weft.model.errors import InputError, PreconditionError

_TAG = re.compile(r'(W/)?(")?([0-9]{1,9})(?:-[0-9a-f]{32})?(?(2)")')


def generation_of(if_match: str | None) -> int | None:
    """The generation in an `If-Match` header (RFC 9110 §13.1.1), as `ETag` gave it; None: any.

    The tag of a document that was read has a digest after the generation. It is ignored: the order must be unchanged,
    not the pod's state.

    Raises `InputError`, and `PreconditionError` for a weak tag, which never matches: RFC 9110 compares strongly.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise InputError("If-Match", if_match, 'the generation that was changed, such as "3"')
    if found[1]:
        raise PreconditionError(f"{if_match.strip()} is a weak tag: send the strong one that `ETag` gave")
    return int(found[3])


Revised = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="Revision that this is based on, quoted, or the `ETag` of its document. Default: any.",
    ),
]


def existence_of(what: str, if_match: str | None, if_none_match: str | None) -> bool | None:
    """Whether the object must exist (`If-Match: *`) or must not (`If-None-Match: *`); None: either (RFC 9110 §13.1)."""
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise InputError("If-None-Match", if_none_match, f"*, which only creates a {what}, without If-Match")
    if if_none_match is not None:
        return False
    return True if if_match is not None and if_match.strip() == "*" else None
