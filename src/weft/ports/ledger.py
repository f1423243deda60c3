"""Port: weft's own records of a fabric's segments, for the driver that configures them.

A manager's configuration can be lost: a file is replaced by configuration management, restored from a backup, or
emptied by mistake. So a driver never relies on it alone: before each change it asks the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.specs import SegmentSpec


class SegmentLedger(Protocol):
    """weft's records of the segments of one fabric; by default there are none.

    Every call may raise `TemporaryError`: then nothing is changed on the fabric.
    """

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        """Segments of live pods that were created and not requested to be deleted.

        Args:
            settled: only those that were seen on the fabric as they are desired now.
        """
        return {}

    def ever(self, mark: Mark) -> SegmentSpec | None:
        """A segment with every port that weft may have put into it, including those now withheld, and those of nodes
        that are being freed. None: only its desired members."""
        return None

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        """The marks on record, desired or not -> whether the segment has ended: seen gone after its release."""
        return {}

    def waiting(self) -> Sequence[str]:
        """A sentence for each manager that prevents numbers of released pods from being allocated."""
        return ()

    def record_event(self, owner: Owner, message: str) -> None:
        """Record an event of the owner about its segment."""
        return


class NoLedger(SegmentLedger):
    """An empty ledger, for tools and tests without a database: only managers' configurations are known."""
