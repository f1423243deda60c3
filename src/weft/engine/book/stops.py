"""Why operators keep a node from new orders; pods that are there stay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from weft.engine.rows.stoprows import Drain, Hold, Report
from weft.model.messages.values import MINUTE


class OpenCheck(NamedTuple):
    """A check that failed or is unknown, since when, and what operators say of it."""

    code: str
    subject: str
    status: str
    since: datetime
    judged: str = "open"


@dataclass(frozen=True, slots=True)
class LastReport:
    """What a node's own checks reported last.

    Attributes:
        at: when the report came.
        status: of the last document.
        expected: digest of the values that it was checked against.
        problems: what failed first, and what is unknown; also what failed before and wasn't judged again.
    """

    at: datetime
    status: str
    expected: str | None
    problems: tuple[OpenCheck, ...] = ()

    @property
    def failed(self) -> tuple[OpenCheck, ...]:
        """The problems that failed."""
        return tuple(one for one in self.problems if one.status == "failed")


@dataclass(frozen=True, slots=True)
class Stops:
    """Why one node gets no new orders.

    Attributes:
        holds: the oldest first.
        drain: None: it isn't drained.
        checks: what the node reported of itself; None: nothing.
    """

    holds: tuple[Hold, ...] = ()
    drain: Drain | None = None
    reports: tuple[Report, ...] = ()
    checks: LastReport | None = None

    @property
    def why_held(self) -> str:
        """What it is held for, in one sentence; empty if it isn't held."""
        return f"held for {'; '.join(map(_held_for, self.holds))}" if self.holds else ""

    @property
    def why_drained(self) -> str:
        """Why it is drained, in one sentence; empty if it isn't."""
        if self.drain is None:
            return ""
        until, reason = self.drain.until_at, self.drain.reason or self.drain.public
        by = f" by {until.astimezone(UTC).strftime(MINUTE)}" if until else ""
        return f"drained{by}" + (f": {reason}" if reason else "")


def _held_for(hold: Hold) -> str:
    failed = hold.failed_tests
    return f"{hold.what} ({', '.join(failed)} didn't pass)" if failed else hold.what


NO_STOPS = Stops()
