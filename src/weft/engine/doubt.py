"""Pods of a restored database that may have been released since the dump: their numbers may be other pods' by now.

Once an operator has accepted the database, its word counts again; but a pod that it has from before, and of whose
servers none is there, was most likely released after the dump. Fabrics that keep no marks can't say whose its
number is now. So nothing of it is changed: an operator abandons it, which keeps back what isn't seen clean.
"""

from __future__ import annotations

from weft.engine.gate import CLOSED_DELAY
from weft.engine.heldpod import HeldPod
from weft.engine.records import RowState
from weft.engine.seen import seen_of
from weft.model.errors import TemporaryError

_GOING = (RowState.DELETING, RowState.ABSENT)


class DoubtError(TemporaryError):
    """It may have been released since the dump."""

    def __init__(self) -> None:
        super().__init__(
            "change anything of it",
            "weft's database",
            "none of its servers is there, and the database was restored since it was placed: it may have been "
            "released after the dump, and its numbers may be another pod's",
            "end it with `weft pod release` and `weft pod abandon`",
            CLOSED_DELAY,
            alarming=True,
        )


def doubt(held: HeldPod) -> DoubtError | None:
    """None: it is known to be there still, or it came after the restore.

    Raises `UnknownError` if the cloud can't be asked. It is asked until weft has worked on the pod since the restore:
    its rows say that, and when its nodes were looked at.
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
    for where in sorted({r.resource.where for r in servers}):
        batch = [r for r in servers if r.resource.where == where]
        ids = {r.key: r.outside_id for r in batch if r.outside_id}
        found = held.world.driver(where).find(held.owner.scope, [r.resource for r in batch], ids)
        if any(one.there for one in seen_of(found, batch).values()):
            return None
    # One that had no server yet may have got it, and been released, after the dump.
    return DoubtError() if servers or any(r.state is not RowState.WANTED for r in records) else None
