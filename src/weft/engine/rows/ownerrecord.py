"""The row of an owner of any kind: what the loop, the audit and the sweep need of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from weft.engine.base.documents import message_text
from weft.engine.base.unreadable import READING, unreadable
from weft.model.owner import Owner, OwnerKind
from weft.model.pod import Condition, Conditions, Phase, PodState, summary
from weft.ports.resources import Scope


@dataclass(frozen=True, slots=True)
class Abandonment:
    """A request to end a release that can't finish, by an operator, or by weft after its limit.

    Attributes:
        own: weft requested it, not an operator: the release ends only while the gate is open.
        worked: `OwnerRecord.worked` at the request.
    """

    by: str
    reason: str
    at: datetime
    own: bool = False
    worked: float = 0.0


@dataclass(frozen=True, slots=True)
class TakenNumber:
    """A number that someone else uses, by which resource's answer; the fields of a `TakenError`."""

    asked: str
    of: str
    answer: str
    key: str


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """One owner's row; a pod's is a `PodRecord`.

    Attributes:
        site: whose mark its resources bear; None: it has nothing outside (an order that waits).
        reason: why it is in its state, in one sentence.
        since: since when it is in its state.
        late_until: until when a request may still take effect that a worker made which lost the owner or couldn't write
            down the outcome, or whose driver doesn't know it (`OutsideError.lands`); None: there is none.
        abandoned: the request to end its release as it is; None: there is none.
        worked: seconds for which its release, or its change, was worked on until `worked_at` (None: it isn't, the gate
            is closed); `worked_by` says which of them, and by which process.
        swept_at: when the sweep last looked for every single resource of it.
        watched_at: of a pod: when the occupants of its nodes were last read.
        taken: a number of it that someone else uses: everything is removed, and recreated with another number.
        generation: of what is wanted of it.
        retries: how often a person had it retried after it FAILED.
        ready_generation: the newest generation that was observed to be fulfilled, at `ready_at`; 0: none yet.
        changed_at: since when a change is under way; None: there is none.
    """

    id: UUID
    kind: OwnerKind
    site: str | None
    project_id: str
    name: str
    created_by: str
    created_at: datetime
    wanted: Literal["present", "absent"]
    phase: Phase
    conditions: Conditions
    reason: str
    since: datetime
    released_at: datetime | None
    failures: int
    woken: int
    token: int
    repair: bool
    late_until: datetime | None
    abandoned: Abandonment | None
    worked: float
    worked_at: datetime | None
    worked_by: str
    swept_at: datetime | None
    taken: TakenNumber | None
    watched_at: datetime | None
    generation: int
    retries: int
    ready_generation: int
    ready_at: datetime | None
    changed_at: datetime | None

    @property
    def owner(self) -> Owner:
        """Kind and id, as marks and rows name it."""
        return Owner(self.kind, str(self.id))

    @property
    def state(self) -> PodState:
        """Phase and conditions in one word."""
        return summary(self.phase, self.conditions)

    @property
    def scope(self) -> Scope:
        """The owner as drivers know it."""
        assert self.site is not None, "what has nothing outside is nothing to a driver"
        return Scope(self.site, self.owner, self.name, self.project_id)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> OwnerRecord:
        """From a row. Raises `UnreadableError`."""
        try:
            return cls(**owner_fields(row))
        except READING as error:
            raise unreadable(f"{row['kind']} {row['name']} ({row['id']})", error) from error


_AS_THEY_ARE = (
    "id", "kind", "site", "project_id", "name", "created_by", "created_at", "wanted", "since",
    "released_at", "failures", "woken", "token", "late_until", "swept_at", "watched_at", "generation", "retries",
    "ready_generation", "ready_at", "changed_at", "worked", "worked_at", "worked_by",
)  # fmt: skip


def owner_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row's columns as arguments of `OwnerRecord`. Raises the errors in `READING`."""
    said = ("by", "why", "at", "own", "worked")
    abandoned = Abandonment(*(row[f"abandoned_{name}"] for name in said))
    return {
        **{name: row[name] for name in _AS_THEY_ARE},
        "reason": message_text(row["reason"]),
        "repair": row["repair"],
        "phase": Phase(row["phase"]),
        "conditions": tuple(Condition.model_validate(c) for c in row["conditions"]),
        "abandoned": abandoned if row["abandoned_at"] else None,
        "taken": TakenNumber(**row["taken"]) if row["taken"] else None,
    }
