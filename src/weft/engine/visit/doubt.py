"""Owners of a restored database that may have been released since the dump: others may have their numbers by now.

Once an operator has accepted the database, its word counts again; but a pod older than that, none of whose servers
exist, was most likely released after the dump. Fabrics that keep no marks can't say whose its number is now. So its
resources stay as they are: an operator abandons it, which keeps back what isn't seen clean.

A pod on which nothing was begun in the dump may have been built since, and released: resources with its mark are its
own, but without a server of it, a number that is in use is another's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from weft.engine.base.gate import CLOSED_DELAY
from weft.engine.hold.held import Held
from weft.engine.hold.heldpod import HeldPod
from weft.engine.proof.seen import seen_of
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import TemporaryError
from weft.model.kindrow import Home
from weft.model.specs import SegmentSpec

_GOING = (RowState.DELETING, RowState.ABSENT)


class DoubtError(TemporaryError):
    """The owner may have been released since the dump."""

    def __init__(
        self,
        why: str = "none of its servers is there, and the database was restored since it was placed: it may have been "
        "released after the dump, and its numbers may be another pod's",
        then: str = "end it with `weft pod release` and `weft pod abandon`",
    ) -> None:
        super().__init__("change anything of it", "weft's database", why, then, CLOSED_DELAY, alarming=True)


def doubt_of_numbers(held: Held, wanted: Collection[str]) -> DoubtError | None:
    """Why an owner without an order, and so without servers, may not own its number any more: the number has ports that
    neither its rows know nor are wanted, and weft has changed nothing of it since the restore.

    Args:
        wanted: ids of ports that are wanted in it now.
    """
    accepted = held.accepted
    if accepted is None or held.owner.created_at >= accepted:
        return None
    for record in held.resources():
        spec = record.resource.spec
        if not isinstance(spec, SegmentSpec) or spec.shared or record.state is RowState.ABSENT:
            continue
        if record.since is not None and record.since >= accepted:
            continue
        seen = held.world.fabric(record.resource.where).snapshot()
        known = spec.ports.union(wanted, *(m.physical for m in spec.members))
        if others := sorted(seen.ports_in.get(spec.number, frozenset()) - known):
            return DoubtError(
                f"the database was restored since it was made, and {spec.named} has ports in it that it never had "
                f"({', '.join(others[:3])}): its number may be another owner's",
                "remove them from it if no owner has it; weft continues by itself once they are gone",
            )
    return None


def doubt(held: HeldPod) -> DoubtError | None:
    """Why the pod may have been released after the dump; None: it is known to exist, or was placed after the restore.

    Raises `UnknownError` if the cloud can't be asked. It is asked until weft has worked on the pod since the restore,
    which its rows, or the time when its nodes were watched, show.
    """
    accepted, pod = held.accepted, held.pod
    if accepted is None or pod.placed_at is None or pod.placed_at >= accepted:
        return None
    if pod.watched_at is not None and pod.watched_at >= accepted:
        return None
    records = held.resources()
    if any(r.state in _GOING and r.since is not None and r.since >= accepted for r in records):
        return None
    servers = [r for r in records if r.kind.row.on_host and r.outside_id]
    if any(_there(held, servers)):
        return None
    if servers or any(_is_begun(r, accepted) for r in records):
        return (
            DoubtError()
        )  # a pod without servers in the dump may have got them, and been released, after it
    return _not_begun(held, records)


def _is_begun(record: ResourceRecord, accepted: datetime) -> bool:
    """Whether it was requested before the restore; a row without that time counts."""
    if record.state is RowState.WANTED:
        return False
    return record.started_at is None or record.started_at < accepted


def _not_begun(held: HeldPod, records: Sequence[ResourceRecord]) -> DoubtError | None:
    """Note what exists by its mark as requested, as after a lost answer."""
    there = list(_there(held, [r for r in records if r.kind.row.home is not Home.FABRIC]))
    segments = [(r, s) for r in records if isinstance(s := r.resource.spec, SegmentSpec)]
    lives = any(r.kind.row.on_host for r in there)
    if lives:
        there += [record for record, _ in segments]
    for record, segment in segments if not lives else ():
        seen = held.world.fabric(record.resource.where).snapshot()
        if segment.number in seen.segments or seen.ports_in.get(segment.number):
            return DoubtError()
    unknown = [r for r in there if r.state is RowState.WANTED]
    said = [("step", f"{r.resource.name} was made after the dump", r.key) for r in unknown]
    held.note([Change(r.key, RowState.CREATING, attempts=r.attempts) for r in unknown], said)
    held.nodes.withhold({}, None)  # sets when its nodes were watched: this isn't checked again
    return None


def _there(held: HeldPod, records: Sequence[ResourceRecord]) -> Iterator[ResourceRecord]:
    """The records whose resources exist, by their ids, or by their marks if no id is known."""
    for where, kind in sorted({(r.resource.where, r.kind) for r in records}):
        batch = [r for r in records if (r.resource.where, r.kind) == (where, kind)]
        ids = {r.key: r.outside_id for r in batch if r.outside_id}
        found = held.world.driver(where).find(held.owner.scope, [r.resource for r in batch], ids)
        seen = seen_of(found, batch)
        yield from (r for r in batch if seen[r.key].there)
