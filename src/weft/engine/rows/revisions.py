"""What a change is based on: the revision of its row, from one sequence for all."""

from __future__ import annotations

from weft.model.errors import PreconditionError
from weft.model.messages.errors import REVISION_CHANGED


def check_revision(what: str, now: int, given: int | None) -> None:
    """Raise `PreconditionError` unless it is of the revision that was given; None: any will do.

    Args:
        what: that is changed, for the error.
        now: the revision of its row, which is locked.
    """
    if given not in (None, now):
        raise PreconditionError(REVISION_CHANGED(what=what, now=now, given=given))
