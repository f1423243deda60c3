"""What a check found."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Status(str, Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It couldn't be read, or what was read wasn't understood."""
    SKIPPED = "skipped"
    """There is nothing to judge: no such hardware, or no expected value for what can't be wrong by itself."""


class Result(NamedTuple):
    """One check of one part of the machine."""

    code: str
    subject: str
    """The part: a PCI address, a port such as `mlx5_0/1`, or `host`."""
    status: Status
    reason: str
    source: str
    """The file or command that was read."""
    found: str | None = None
    expected: str | None = None
    nothing_expected: bool | None = None
    """Whether it was skipped for lack of an expected value, not because there was nothing to judge."""


class Found:
    """Makes the results of one code that come from one source."""

    def __init__(self, code: str, source: str) -> None:
        self.code = code
        self.source = source

    def ok(self, subject: str, reason: str, found: object = None, expected: object = None) -> Result:
        """A result: the part is as it should be."""
        return self._make(Status.OK, subject, reason, found, expected)

    def failed(self, subject: str, reason: str, found: object = None, expected: object = None) -> Result:
        """A result: the part is wrong."""
        return self._make(Status.FAILED, subject, reason, found, expected)

    def unknown(self, subject: str, reason: str, found: object = None, expected: object = None) -> Result:
        """A result: the part can't be judged."""
        return self._make(Status.UNKNOWN, subject, reason, found, expected)

    def skipped(self, subject: str, reason: str, found: object = None) -> Result:
        """A result: there is nothing to judge, whatever is expected."""
        return self._make(Status.SKIPPED, subject, reason, found, None)._replace(nothing_expected=False)

    def unexpected(self, subject: str, found: object = None, reason: str = "no expected value") -> Result:
        """A result: nothing is expected of the part, and it can't be wrong by itself."""
        return self._make(Status.SKIPPED, subject, reason, found, None)._replace(nothing_expected=True)

    def equal(self, subject: str, found: object, expected: object | None) -> Result:
        """Ok if both are equal, failed if they differ, skipped without an expected value."""
        if expected is None:
            return self.unexpected(subject, found)
        if found == expected:
            return self.ok(subject, "as expected", found, expected)
        return self.failed(subject, f"{_text(found)}, expected {_text(expected)}", found, expected)

    def _make(self, status: Status, subject: str, reason: str, found: object, expected: object) -> Result:
        was, wanted = (None if value is None else _text(value) for value in (found, expected))
        return Result(self.code, subject, status, reason, self.source, was, wanted)


def _text(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
