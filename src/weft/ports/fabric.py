"""Port: a fabric with its manager. Segments are resources that its driver makes; what it sees of them is evidence.

The engine weighs evidence: it knows numbers, ports by their ids, and nodes. What a port's table is, how a number is
written, who is asked and on which planes a segment can be seen is the driver's.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from weft.model.fabric import Capabilities, Check, Clean, FabricStatus, ObservedFabric, Snapshot, Told, Usage
from weft.model.mark import Mark
from weft.model.resources import Observed, SegmentSpec
from weft.ports.resources import ResourceDriver


class FabricDriver(ResourceDriver, Protocol):
    """One fabric. `ResourceDriver`'s own are segments (kind SEGMENT); what follows only reads.

    Raises `UnknownError` when nobody who rules can be asked, or when a reading can't be believed.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def status(self) -> FabricStatus:
        """Every manager with its state; never raises for a manager that is down: that is its state."""
        ...

    def told(self) -> Told:
        """What every manager is told, standbys included, and which of them can't be read."""
        ...

    def usage(self) -> Usage:
        """Numbers that can't be given out, and ports with little room."""
        ...

    def snapshot(self, max_age: float = 0.0) -> Snapshot:
        """A reading of the whole fabric that began at most so many seconds ago, and after this process's last change.

        0: it began after this question. Those who ask at the same time share one reading; a failed one is unknown for
        everybody who waited for it.
        """
        ...

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        """What `find` would say of a segment, by a snapshot of this driver's."""
        ...

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> Check:
        """Whether exactly the members are in the segment, on every plane that the fabric has."""
        ...

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        """What is left of a segment that was taken away; its members are all that were ever in it."""
        ...

    def topology(self) -> ObservedFabric:
        """Nodes and cables as discovered now."""
        ...


@runtime_checkable
class KeepsStandbys(Protocol):
    """A fabric whose managers are told each on its own: one that was away must not take over with what it knew."""

    def level(self) -> Told:
        """Bring every manager that can be reached to what weft wants, and give what is read then.

        It writes only where something differs. Nobody's order is needed for it.
        """
        ...
