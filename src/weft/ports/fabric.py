"""Port: the fabric manager, as the verifier, the audit and the site check see it.

The partition resource itself goes through `ResourceDriver` (kind PARTITION) of the same driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from weft.model.fabric import (
    Capabilities,
    FabricStatus,
    ManagerFiles,
    ObservedFabric,
    Partition,
    PathProbe,
    PortTable,
)


class FabricReader(Protocol):
    """Everything here only reads. Raises `UnknownError` when no master can be asked."""

    @property
    def capabilities(self) -> Capabilities: ...

    def status(self) -> FabricStatus:
        """Every manager with its state; never raises for a manager that is down: that is its state."""
        ...

    def partitions(self) -> Mapping[int, Partition]:
        """P_Key (15 bits) -> partition as configured on the master, weft's and foreign ones, the default included."""
        ...

    def files(self) -> ManagerFiles:
        """What every manager is told, standbys included, and which of them can't be read."""
        ...

    def tables(self, port_guids: Sequence[int] | None = None) -> Mapping[int, PortTable]:
        """Port GUID -> tables read from the wire; None: every host port of the fabric."""
        ...

    def entries(self, port_guids: Sequence[int]) -> Mapping[int, int]:
        """Port GUID -> entries of its P_Key table; ports that can't be read are left out. Read rarely, remembered."""
        ...

    def paths(self, pairs: Sequence[tuple[int, int]]) -> Sequence[PathProbe]:
        """What the subnet administrator answers for each (source, destination) pair of port GUIDs."""
        ...

    def topology(self) -> ObservedFabric:
        """Nodes and cables as discovered now."""
        ...

    def level(self) -> ManagerFiles:
        """Bring every manager that can be reached to what weft wants; the one thing here that writes.

        It writes only where something differs, and gives what is read then. Nobody's order is needed for it: a standby
        that was away while partitions changed must not take over with what it was told before.
        """
        ...
