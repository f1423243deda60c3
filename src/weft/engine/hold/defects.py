"""Defects of weft in one step of a visit: reported like errors from outside, so that they stop neither the other steps
nor what ends a release in time."""

from __future__ import annotations

import logging

from weft.engine.hold.fence import LostError
from weft.model.errors import TemporaryError, WeftError
from weft.model.messages import outside

log = logging.getLogger(__name__)


class DefectError(TemporaryError):
    """An exception that was not expected. It may pass, as with an answer of another shape."""

    def __init__(self, error: Exception) -> None:
        super().__init__("go on", "weft", said(error), "report it with the log", alarming=True)


def said(error: Exception) -> str:
    """The error as a message."""
    return outside.DEFECT(name=type(error).__name__, text=str(error)[:200])


def known(error: BaseException) -> WeftError:
    """The error if weft raised it on purpose; otherwise logs it and returns a `DefectError`. Raises errors that end the
    visit.
    """
    if isinstance(error, WeftError):
        return error
    if not isinstance(error, Exception) or isinstance(error, LostError):
        raise error
    log.error("defect in weft", exc_info=error)
    return DefectError(error)
