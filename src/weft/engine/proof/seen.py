"""What observations mean for rows: what was seen, what stays, and what is left alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from weft.engine.proof.traffic import carried
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import UnknownError
from weft.model.messages import pods, problems, same
from weft.model.receipt import ReceiptItem
from weft.model.resources import Difference, Observed, Resource, Status
from weft.model.specs import ShareSpec, VolumeSpec


def observed_change(record: ResourceRecord, seen: Observed, at: datetime | None = None) -> Change:
    """What an observation means for a row. Absent means: to be created (again).

    Args:
        at: now, if what was requested a moment ago may still be on its way (`Observed.on_its_way`).
    """
    if not seen.there:
        return Change(record.key, RowState.CREATING, reason=pods.RESOURCE_MISSING(), attempts=record.attempts)
    states = {
        Status.SETTLED: RowState.SETTLED,
        Status.PENDING: RowState.PENDING,
        Status.BROKEN: RowState.BROKEN,
    }
    state = RowState.PENDING if seen.differences else states[seen.status]
    reason = seen.reason or _differ(seen.differences)
    facts = carried(record, seen.facts)
    differences = () if at is not None and _on_its_way(record, seen, at) else seen.differences
    return Change(record.key, state, seen.id, reason, differences, facts, record.attempts)


def _on_its_way(record: ResourceRecord, seen: Observed, at: datetime) -> bool:
    """Whether what differs was requested lately: a row with differences hasn't been requested since they were seen."""
    under_way = record.state in (RowState.CREATING, RowState.PENDING) and not record.differences
    return under_way and (at - (record.since or at)).total_seconds() < seen.on_its_way


def _differ(differences: Sequence[Difference]) -> str:
    said = [problems.FIELD_DIFFERS(field=d.field, observed=d.observed, wanted=d.wanted) for d in differences]
    return problems.SEVERAL(problems=said) if len(said) > 1 else said[0] if said else ""


def differs(record: ResourceRecord, change: Change) -> bool:
    """Whether a change would alter the row."""
    return (record.state, record.outside_id, record.differences) != (
        change.state,
        change.outside_id or record.outside_id,
        change.differences,
    ) or not same(record.reason, change.reason)


def seen_of(seen: Mapping[str, Observed], batch: Sequence[ResourceRecord]) -> Mapping[str, Observed]:
    """The answer of `find`, if it covers the whole batch. Raises `UnknownError`: a missing answer isn't absence."""
    missing = [r for r in batch if r.key not in seen]
    if missing:
        names = ", ".join(r.resource.name for r in missing[:3])
        raise UnknownError(f"look for {names}", missing[0].resource.where, "the driver returned no result")
    return seen


def left_alone(records: Collection[ResourceRecord]) -> list[Change]:
    """Lost data of an owner that has served, and what serves only that data: nothing is requested for it, and every
    observation reports it again.

    Neither a change nor an operator's repair replaces it: data in an error status may be complete, and an empty
    replacement would hide the loss.
    """
    lost = {r.key for r in records if r.lost}
    alone = [
        r
        for r in records
        if r.key in lost
        or (r.state is not RowState.SETTLED and r.kind.row.detachable and lost & set(r.resource.needs))
    ]
    return [Change(r.key, RowState.SETTLED, reason=r.reason, attempts=r.attempts) for r in alone]


def as_left(record: ResourceRecord, records: Iterable[ResourceRecord]) -> Resource:
    """The resource as it is released: data that was never made accessible holds nothing, and is deleted although its
    order keeps it.

    Args:
        records: all of its owner.
    """
    resource, spec = record.resource, record.resource.spec
    if not (isinstance(spec, ShareSpec | VolumeSpec) and spec.stays):
        return resource
    if any(r.started_at is not None for r in records if record.key in r.resource.needs):
        return resource
    return resource.model_copy(update={"spec": spec.model_copy(update={"kept_as": None})})


def kept_item(record: ResourceRecord, seen: Observed, at: datetime) -> ReceiptItem:
    """The receipt's item for something that stays."""
    where = f"{record.resource.where}: {seen.reason}"
    return ReceiptItem(
        plane=str(record.kind), subject=f"{seen.name} {seen.id}", result="kept", seen=where, at=at
    )
