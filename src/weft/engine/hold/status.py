"""Phase and conditions of an owner held by a worker, as its row has them and as a visit has decided since."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from psycopg.types.json import Jsonb

from weft.engine.base.documents import message_json
from weft.engine.base.postgres import FIRST
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.model.messages import same
from weft.model.pod import (
    DECIDES,
    Aspect,
    Cause,
    Condition,
    Phase,
    PodState,
    Truth,
    changed,
    check_transition,
    find,
    summary,
    why,
)

_NOW = FIRST
"""`since` of a condition that is about to be written: the database sets the time."""


class News(NamedTuple):
    """What is new of one aspect of an owner."""

    aspect: Aspect
    status: Truth
    cause: Cause
    message: str = ""


class OwnerStatus:
    """Phase and conditions of an owner; reads and writes no rows.

    Attributes:
        reason: why it is in its state.
        since: when it came into that state.
    """

    def __init__(self, owner: OwnerRecord) -> None:
        self.phase, self.conditions = owner.phase, owner.conditions
        self.reason, self.since = owner.reason, owner.since

    @property
    def state(self) -> PodState:
        """The state that people see, of phase and conditions."""
        return summary(self.phase, self.conditions)

    def back_to(self, before: OwnerStatus) -> None:
        """Restore the values of an earlier copy."""
        self.phase, self.conditions = before.phase, before.conditions
        self.reason, self.since = before.reason, before.since

    def differs(self, news: Iterable[News], phase: Phase, without: Collection[Aspect]) -> bool:
        """Whether any of this is new."""
        dropped = any(find(self.conditions, a) for a in without)
        return dropped or any(map(self._is_news, news)) or phase is not self.phase

    def _is_news(self, news: News) -> bool:
        known = find(self.conditions, news.aspect)
        if known is None or (known.status, known.reason) != (news.status, news.cause):
            return True
        return not same(known.message, news.message)

    def become(
        self, news: Iterable[News], phase: Phase, without: Collection[Aspect], at: datetime
    ) -> PodState:
        """Take all of this over; returns the state until then."""
        check_transition(self.phase, phase)
        before = self.state
        made = (
            Condition(type=n.aspect, status=n.status, reason=n.cause, message=n.message, since=_NOW)
            for n in news
        )
        self.conditions = changed(self.conditions, *made, without=without)
        self.phase, self.reason = phase, why(phase, self.conditions)
        if self.state is not before:
            self.since = at
        return before

    def explained(self, message: str, cause: Cause) -> News:
        """The news that the owner makes no progress; one that was READY isn't known to be so any more."""
        aspect = Aspect.READY if self.state is PodState.FAILED else DECIDES[self.state]
        known = find(self.conditions, aspect)
        status = "unknown" if self.state is PodState.READY else known.status if known else "false"
        return News(aspect, status, cause, message)

    def values(self) -> dict[str, object]:
        """Parameters of `write_held` and `release_held`."""
        stored = [
            c.model_dump(mode="json") | ({"since": None} if c.since == _NOW else {}) for c in self.conditions
        ]
        return {
            "phase": self.phase,
            "state": self.state,
            "reason": message_json(self.reason),
            "conditions": Jsonb(stored),
        }

    def written(self, at: datetime) -> None:
        """Record that the conditions were written: new ones get the database's time."""
        self.conditions = tuple(
            c.model_copy(update={"since": at}) if c.since == _NOW else c for c in self.conditions
        )


UNCHANGED = {"phase": "", "state": "", "reason": Jsonb(""), "conditions": Jsonb([])}
"""Stands for `OwnerStatus.values` where nothing is new."""
