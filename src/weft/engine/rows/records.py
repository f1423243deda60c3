"""Rows of resources and pods as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from weft.engine.base.documents import message_text, read
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.rows.ownerrecord import OwnerRecord, owner_fields
from weft.model.errors import ConflictError
from weft.model.messages import orders
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.resources import AnyKind, Difference, Resource
from weft.model.versions import FIELD


class RowState(StrEnum):
    """How far a resource is in its life, as far as weft knows."""

    WANTED = "wanted"
    """Never requested: nothing can exist outside."""
    CREATING = "creating"
    """Requested, or about to be: look it up by name before requesting it again."""
    PENDING = "pending"
    """Accepted; not yet observed at rest."""
    SETTLED = "settled"
    """Observed at rest, or accepted where its dependents need no more."""
    BROKEN = "broken"
    """Observed, and won't recover by itself."""
    DELETING = "deleting"
    """Removal requested, not yet observed gone."""
    ABSENT = "absent"
    """Observed to be absent: the tombstone."""


@dataclass(frozen=True, slots=True)
class Former:
    """What a row described before the resource was recreated: its id outside, and its facts as last observed."""

    id: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceRecord:
    """One resource of an owner and what is known of it.

    Attributes:
        since: when it came into its state.
        asked: the service accepted the request to remove it.
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
        """Whether nothing of it is outside: it was never requested, or was observed gone."""
        return self.state in (RowState.WANTED, RowState.ABSENT)

    @property
    def wanted(self) -> bool:
        """Whether the newest generation wants it; what isn't wanted is removed, and its row stays as the tombstone."""
        return self.expunged is None

    @property
    def lost(self) -> bool:
        """Whether data that was created is gone, or won't recover by itself."""
        at_rest = (RowState.PENDING, RowState.SETTLED)
        return self.kind.row.data and self.outside_id is not None and self.state not in at_rest

    @property
    def key(self) -> str:
        return self.resource.key

    @property
    def kind(self) -> AnyKind:
        """The kind of its resource."""
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
            reason=message_text(row["reason"]),
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
        """One record for each: it was gone, as far as was observed, when the next one was created."""
        gone = replace(self, state=RowState.ABSENT, former=())
        return [replace(gone, outside_id=f.id, facts=f.facts) for f in self.former]

    def after(self, change: Change, at: datetime) -> ResourceRecord:
        """The record once `change` is written at that time; what a change doesn't set is kept."""
        former, facts = self.former, self.facts
        if self.outside_id and change.outside_id and change.outside_id != self.outside_id:
            former, facts = (*former, Former(self.outside_id, facts)), {}
        # Without `replace`, which takes five times as long: a visit calls this some fifty times.
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
        """The record, in its state since `at`."""
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
        placed: the plan whose graph the loop realizes; None while the order waits. While a worker holds the pod, the
            plan's graph has only the segments and gives no reasons for its nodes: the rest is in the rows
            (`weft.engine.hold.ownerclaims`).
        not_before: of an order that waits: when it may start.
        fixed: its start was booked with the order; other waiting orders are in the queue.
        position: its place in the queue, from 1.
        expected_start: when it is expected to start.
        placed_at: when its nodes were assigned; a lease's duration counts from then.
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
        """Its working nodes; `held` are these and the spares."""
        return tuple(dict.fromkeys(n.node for n in self.plan.placement.nodes))

    @property
    def spares(self) -> tuple[str, ...]:
        """Names of its spare nodes."""
        return tuple(n.node for n in self.plan.placement.spares)

    @property
    def held(self) -> tuple[str, ...]:
        """Names of all nodes that it holds, spares included."""
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
    # An order changed while it waited used to start with a plan of its first generation.
    return plan.model_copy(update={"generation": generation})


def _order(row: Mapping[str, Any], placed: Plan | None) -> Order:
    """The order; the plan's own object if it is the same."""
    if placed is not None:
        plan: Mapping[str, Any] = row["plan"]
        if {**plan["order"], **({FIELD: plan[FIELD]} if FIELD in plan else {})} == row["ordered"]:
            return placed.order
    return read(Order, row["ordered"])


@dataclass(frozen=True, slots=True)
class Change:
    """What to write of one resource; None keeps the value, except facts if `outside_id` changes."""

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
    """A segment's number that a manager besides the active one may still have, and why; `text` is for people."""

    fabric: str
    manager: str
    number: int
    reason: str
    text: str
