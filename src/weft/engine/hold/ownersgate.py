"""The gate (`weft.engine.base.gate`) for one owner held by a worker."""

from __future__ import annotations

from collections.abc import Collection

from weft.engine.base.epoch import note_epoch
from weft.engine.base.gate import ClosedError
from weft.engine.hold.fence import Fence
from weft.model.errors import ConflictError, TemporaryError
from weft.ports.witness import Witnesses


class OwnersGate:
    """Whether anything of the owner may be changed outside, and what the clouds must know before.

    Attributes:
        claims: how many claims its cloud had when it was claimed, its own included; None: not read.
    """

    claims: int | None = None

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def closed(self, clouds: Collection[str]) -> TemporaryError | None:
        """Why the owner's resources may not be changed outside; None: they may. Args: clouds: all of the site's."""
        return self._fence.closed(self._fence.places, clouds)

    def check_open(self, clouds: Collection[str]) -> None:
        """Call before anything of it is returned or signed: whatever a reading says, the database may be behind by
        now. Raises what `closed` returns."""
        if (closed := self.closed(clouds)) is not None:
            raise closed

    def note_epoch(self, facts: Witnesses, cloud: str) -> None:
        """Before anything is created outside for the owner, let the cloud know of its claim. Raises `ClosedError`."""
        fence = self._fence
        try:
            note_epoch(fence.database, facts, fence.owner.scope.site, cloud, self.claims)
        except ConflictError:
            raise ClosedError from None

    def note_end(self, clouds: Collection[str]) -> None:
        """Before anything is removed, let the clouds know of the release, as far as they answer now: its own, or all
        for an owner that has resources only on fabrics."""
        for cloud in sorted({*clouds}.intersection(self._fence.places or ()) or clouds):
            self._fence.database.gate.note(cloud, self.claims)
