"""Rows as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from weft.engine.documents import heard, read
from weft.engine.ownerrecord import OwnerRecord, owner_fields
from weft.engine.unreadable import READING, unreadable
from weft.model.errors import ConflictError
from weft.model.messages import orders
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.resources import AnyKind, Difference, Resource
from weft.model.versions import FIELD


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
class Former:
    """What a row stood for before it was made anew: its id outside, and its facts as last seen."""

    id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """One resource of a pod with what is known of it.

    Attributes:
        since: when it came into its state.
        asked: the outside took the request to remove it.
        former: its predecessors, the oldest first.
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
    former: tuple[Former, ...] = ()

    @property
    def is_nowhere(self) -> bool:
        """Never asked for, or seen gone: nothing of it is outside."""
        return self.state in (RowState.WANTED, RowState.ABSENT)

    @property
    def wanted(self) -> bool:
        """Whether the pod's newest generation wants it; what isn't wanted is taken away, and stays as its tombstone."""
        return self.expunged is None

    @property
    def lost(self) -> bool:
        """Of data that was made: it isn't there any more, or won't come right by waiting."""
        at_rest = (RowState.PENDING, RowState.SETTLED)
        return self.kind.row.data and self.outside_id is not None and self.state not in at_rest

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
            reason=heard(row["reason"]),
            differences=tuple(Difference.model_validate(d) for d in row["differences"]),
            facts=row["facts"],
            attempts=row["attempts"],
            started_at=row["started_at"],
            finished_at=row["finished_at"],
            since=row["since"],
            asked=row["asked"],
            generation=row["generation"],
            expunged=row["expunged"],
            former=tuple(Former(f["id"], f["facts"]) for f in row["former"]),
        )

    @property
    def predecessors(self) -> list[ResourceRecord]:
        """A record of each: it was gone, as far as was seen, when the next one was made."""
        gone = replace(self, state=RowState.ABSENT, former=())
        return [replace(gone, outside_id=f.id, facts=f.facts) for f in self.former]

    def after(self, change: Change, at: datetime) -> ResourceRecord:
        """As it is once a change of it was written at that time; what no visit asks for is left as it was."""
        former, facts = self.former, self.facts
        if self.outside_id and change.outside_id and change.outside_id != self.outside_id:
            former, facts = (*former, Former(self.outside_id, facts)), {}
        # Without `replace`, which takes five times as long: a visit does it some fifty times.
        return ResourceRecord(
            self.resource,
            change.state,
            change.outside_id or self.outside_id,
            change.reason,
            change.differences,
            change.facts or facts,
            change.attempts,
            self.started_at or at,
            self.finished_at,
            (self.since or at) if change.state is self.state else at,
            change.asked,
            self.generation,
            self.expunged,
            former,
        )

    def moved(self, at: datetime) -> ResourceRecord:
        """The same, in its state since then."""
        return ResourceRecord(
            self.resource,
            self.state,
            self.outside_id,
            self.reason,
            self.differences,
            self.facts,
            self.attempts,
            self.started_at,
            self.finished_at,
            at,
            self.asked,
            self.generation,
            self.expunged,
            self.former,
        )


@dataclass(frozen=True, slots=True)
class PodRecord(OwnerRecord):
    """One pod's row.

    Attributes:
        order: what was ordered, its key read.
        placed: the plan whose graph the loop makes true; None while the order waits. In a worker's hands its graph has
            only the segments, and nothing says why it got its nodes: the rest is in the rows (`weft.engine.takes`).
        not_before: of an order that waits: when it may start.
        fixed: its start was booked with the order; others that wait stand in the queue.
        position: its place in the queue, from 1.
        expected_start: when it is expected to start.
        placed_at: when its nodes became its own; a lease's duration counts from then.
    """

    order: Order
    placed: Plan | None
    placed_at: datetime | None
    lease_end: datetime | None
    not_before: datetime | None
    fixed: bool
    position: int | None
    expected_start: datetime | None

    @property
    def plan(self) -> Plan:
        """The plan. Raises `ConflictError` while the order waits: callers in the loop never see such a pod."""
        if self.placed is None:
            raise ConflictError(orders.NO_NODES_YET(pod=self.name, why=self.reason or "it waits"))
        return self.placed

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
            placed = _plan(row) if row["plan"] is not None else None
            return cls(
                **owner_fields(row),
                order=_order(row, placed),
                placed=placed,
                placed_at=row["placed_at"],
                lease_end=row["lease_end"],
                not_before=row["not_before"],
                fixed=row["fixed"],
                position=row["position"],
                expected_start=row["expected_start"],
            )
        except READING as error:
            raise unreadable(f"pod {row['name']} ({row['id']})", error) from error


def _plan(row: Mapping[str, Any]) -> Plan:
    plan, generation = read(Plan, row["plan"]), row["generation"]
    if plan.generation == generation:
        return plan
    # An order that was changed while it waited used to start with a plan of its first generation.
    return plan.model_copy(update={"generation": generation})


def _order(row: Mapping[str, Any], placed: Plan | None) -> Order:
    """Read once, if its plan has the same."""
    if placed is not None:
        plan: Mapping[str, Any] = row["plan"]
        if {**plan["order"], **({FIELD: plan[FIELD]} if FIELD in plan else {})} == row["ordered"]:
            return placed.order
    return read(Order, row["ordered"])


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written of one resource; what is None stays, but for facts of another id than `outside_id`."""

    key: str
    state: RowState
    outside_id: str | None = None
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    facts: Mapping[str, object] | None = None
    attempts: int = 0
    asked: bool = False
    former: tuple[Former, ...] | None = None


@dataclass(frozen=True, slots=True)
class StaleNumber:
    """A segment's number that a manager besides the active one may still be told of, and why; `text` is for people."""

    fabric: str
    manager: str
    number: int
    reason: str
    text: str
