"""Rows as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import ValidationError

from weft.engine.documents import read
from weft.model.errors import ConflictError, PermanentError
from weft.model.order import Order
from weft.model.owner import Owner
from weft.model.plan import Plan
from weft.model.pod import Condition, Conditions, Phase, PodState, summary
from weft.model.resources import AnyKind, Difference, Resource
from weft.ports.resources import Scope


class UnreadableError(PermanentError):
    """A stored row or document that this version can't read, and that must not be guessed. HTTP 502."""


def unreadable(what: str, error: Exception) -> UnreadableError:
    """The error of a row that can't be read, with the places in it but no values: they may be anybody's."""
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        places = [f"{'.'.join(str(x) for x in e['loc']) or 'document'}: {e['msg']}" for e in found[:3]]
        seen = "; ".join(places) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")
    else:
        seen = f"{type(error).__name__}: {error}"
    then = "an operator must correct the row or upgrade weft; everything of it stays held until then"
    return UnreadableError(f"read {what}", "the database", seen[:500], then)


READING = (ValidationError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a row raises that isn't as weft writes it."""


class RowState(StrEnum):
    """How far a resource is, as far as weft knows."""

    WANTED = "wanted"
    """Never asked for: nothing can be outside."""
    CREATING = "creating"
    """Asked for, or about to be: look by its name before asking again."""
    PENDING = "pending"
    """Accepted; not yet seen at rest."""
    SETTLED = "settled"
    """Seen at rest, or accepted where acceptance is all that its dependents need."""
    BROKEN = "broken"
    """Seen, and it won't come right by waiting."""
    DELETING = "deleting"
    """Removal asked for, not yet seen gone."""
    ABSENT = "absent"
    """Seen to be absent: the tombstone."""


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """One resource of a pod with what is known of it.

    Attributes:
        since: when it came into its state.
        asked: the outside took the request to remove it.
    """

    resource: Resource
    state: RowState
    outside_id: str | None
    reason: str
    differences: tuple[Difference, ...]
    facts: Mapping[str, Any]
    attempts: int
    started_at: datetime | None
    finished_at: datetime | None
    since: datetime | None = None
    asked: bool = False
    generation: int = 1
    expunged: int | None = None

    @property
    def is_nowhere(self) -> bool:
        """Never asked for, or seen gone: nothing of it is outside."""
        return self.state in (RowState.WANTED, RowState.ABSENT)

    @property
    def wanted(self) -> bool:
        """Whether the pod's newest generation wants it; what isn't wanted is taken away, and stays as its tombstone."""
        return self.expunged is None

    @property
    def key(self) -> str:
        return self.resource.key

    @property
    def kind(self) -> AnyKind:
        return self.resource.kind

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ResourceRecord:
        """Raises `UnreadableError`."""
        try:
            return cls._of(row)
        except READING as error:
            raise unreadable(f"resource {row['key']} of {row['owner_id']}", error) from error

    @classmethod
    def _of(cls, row: Mapping[str, Any]) -> ResourceRecord:
        return cls(
            resource=read(Resource, row["document"]),
            state=RowState(row["state"]),
            outside_id=row["outside_id"],
            reason=row["reason"],
            differences=tuple(Difference.model_validate(d) for d in row["differences"]),
            facts=row["facts"],
            attempts=row["attempts"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            since=row["since"],
            asked=row["asked"],
            generation=row["generation"],
            expunged=row["expunged"],
        )

    def after(self, change: Change, at: datetime) -> ResourceRecord:
        """As it is once a change of it was written at that time; what no visit asks for is left as it was."""
        return replace(
            self,
            state=change.state,
            outside_id=change.outside_id or self.outside_id,
            reason=change.reason,
            differences=change.differences,
            facts=change.facts or self.facts,
            attempts=change.attempts,
            since=(self.since or at) if change.state is self.state else at,
            asked=change.asked,
        )


@dataclass(frozen=True, slots=True)
class Abandonment:
    """An operator ends a release that doesn't come to an end."""

    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Taken:
    """What said that a number is in use by somebody else, as a `TakenError` has it."""

    asked: str
    of: str
    answer: str
    key: str


@dataclass(frozen=True, slots=True)
class FoundPod:
    """Which pod a name means, and whose it is."""

    id: UUID
    project_id: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod's row.

    Attributes:
        order: what was ordered, its key read.
        reason: why it is in its state, in one sentence.
        since: since when it is in its state.
        placed: the plan whose graph the loop makes true; None while the order waits.
        not_before: of an order that waits: when it may start.
        fixed: its start was promised with the order; others that wait stand in the queue.
        position: its place in the queue, from 1.
        expected_start: when it is expected to start.
        late_until: until when what a worker asked for that lost the pod may still come to be.
        abandoned: an operator's wish to end its release as it is; None: there is none.
        swept_at: when the sweep last looked for each single thing of it.
        watched_at: when it was last looked who is on its nodes.
        taken: a number of it is somebody else's: all that was made is taken away, and made again with another.
        generation: of order and plan.
        ready_generation: the newest that was seen to be true, at `ready_at`; 0: none yet.
        changed_at: since when what a change asked for is under way; None: nothing is.
        placed_at: when its nodes became its own; a lease's duration counts from then.
    """

    id: UUID
    project_id: str
    name: str
    created_by: str
    created_at: datetime
    order: Order
    placed: Plan | None
    wanted: Literal["present", "absent"]
    phase: Phase
    conditions: Conditions
    reason: str
    since: datetime
    placed_at: datetime | None
    lease_end: datetime | None
    released_at: datetime | None
    failures: int
    woken: int
    token: int
    repair: bool
    not_before: datetime | None
    fixed: bool
    position: int | None
    expected_start: datetime | None
    late_until: datetime | None
    abandoned: Abandonment | None
    swept_at: datetime | None
    taken: Taken | None
    watched_at: datetime | None
    generation: int
    ready_generation: int
    ready_at: datetime | None
    changed_at: datetime | None

    @property
    def state(self) -> PodState:
        """Phase and conditions in one word."""
        return summary(self.phase, self.conditions)

    @property
    def plan(self) -> Plan:
        """The plan. Raises `ConflictError` while the order waits: callers in the loop never see such a pod."""
        if self.placed is None:
            raise ConflictError(f"pod {self.name} has no nodes yet: {self.reason or 'it waits'}")
        return self.placed

    @property
    def scope(self) -> Scope:
        return Scope(self.plan.site, Owner.pod(self.id), self.name, self.project_id)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that work; `held` are these and the spares."""
        return tuple(dict.fromkeys(n.node for n in self.plan.placement.nodes))

    @property
    def spares(self) -> tuple[str, ...]:
        return tuple(n.node for n in self.plan.placement.spares)

    @property
    def held(self) -> tuple[str, ...]:
        return self.plan.placement.held

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> PodRecord:
        """Raises `UnreadableError`."""
        try:
            return cls._of(row)
        except READING as error:
            raise unreadable(f"pod {row['name']} ({row['id']})", error) from error

    @classmethod
    def _of(cls, row: Mapping[str, Any]) -> PodRecord:
        return cls(
            id=row["id"],
            project_id=row["project_id"],
            name=row["name"],
            created_by=row["created_by"],
            created_at=row["created_at"],
            order=read(Order, row["ordered"]),
            placed=read(Plan, row["plan"]) if row["plan"] is not None else None,
            wanted=row["wanted"],
            phase=Phase(row["phase"]),
            conditions=tuple(Condition.model_validate(c) for c in row["conditions"]),
            reason=row["reason"],
            since=row["since"],
            placed_at=row["placed_at"],
            lease_end=row["lease_end"],
            released_at=row["released_at"],
            failures=row["failures"],
            woken=row["woken"],
            token=row["token"],
            repair=row["mend"],
            not_before=row["not_before"],
            fixed=row["fixed"],
            position=row["position"],
            expected_start=row["expected_start"],
            late_until=row["late_until"],
            abandoned=(
                Abandonment(row["abandoned_by"], row["abandoned_why"], row["abandoned_at"])
                if row["abandoned_at"]
                else None
            ),
            swept_at=row["swept_at"],
            watched_at=row["watched_at"],
            taken=Taken(**row["taken"]) if row["taken"] else None,
            generation=row["generation"],
            ready_generation=row["ready_generation"],
            ready_at=row["ready_at"],
            changed_at=row["changed_at"],
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written of one resource; what is None stays."""

    key: str
    state: RowState
    outside_id: str | None = None
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    facts: Mapping[str, object] | None = None
    attempts: int = 0
    asked: bool = False


@dataclass(frozen=True, slots=True)
class StaleNumber:
    """A segment's number that a manager besides the active one may still be told of, and why."""

    fabric: str
    manager: str
    number: int
    reason: str
