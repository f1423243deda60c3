"""For how long the release, or the change, of an owner held by a worker has been worked on."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from weft.engine.hold.fence import Fence
from weft.engine.hold.heldnotes import HeldNotes

COUNTED_EVERY = 15.0
"""Seconds of work on a release that are written together; a process that dies loses no more than that."""
BETWEEN_PROCESSES = 300.0
"""Most seconds between two processes' visits to a release that count as work on it; visits of one process are rarely
so far apart."""


class Work:
    """Counts the time of work, in the owner's row."""

    def __init__(self, fence: Fence, notes: HeldNotes) -> None:
        self._fence, self._notes = fence, notes

    @property
    def seconds(self) -> float:
        """Seconds for which its release, or change, has been worked on so far."""
        owner = self._fence.owner
        at = owner.worked_at
        return owner.worked + (max(0.0, (self._fence.at - at).total_seconds()) if at else 0.0)

    def count(self, by: str, on: bool) -> None:
        """Note how long it has been worked on, unless that was written a moment ago.

        The time since the last visit counts, unless the gate was closed at one of the two; between two processes no
        more than `BETWEEN_PROCESSES`: perhaps nothing was worked on.

        Args:
            by: this process.
            on: whether anything may be done now (`weft.engine.base.gate`).
        """
        fence, owner = self._fence, self._fence.owner
        by = f"{by}/{fence.database.losses}"  # time without a connection doesn't count as work
        since = owner.changed_at
        what = f"change/{since.timestamp()}" if fence.wanted == "present" and since else "release"
        known = owner.worked_by == f"{what} {by}" and owner.worked_at is not None
        recent = known and self.seconds - owner.worked < COUNTED_EVERY
        if recent if on else owner.worked_at is None:
            return
        worked, since = 0.0, owner.worked_at
        if owner.worked_by.partition(" ")[0] == what:
            most = inf if owner.worked_by == f"{what} {by}" else BETWEEN_PROCESSES
            passed = (fence.at - since).total_seconds() if on and since else 0.0
            worked = owner.worked + max(0.0, min(passed, most))
        at, by = fence.at if on else None, f"{what} {by}"
        fence.owner = replace(owner, worked=worked, worked_at=at, worked_by=by)
        self._notes.unwritten.worked = worked, at, by
